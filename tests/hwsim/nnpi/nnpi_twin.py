"""Plain-Python twin of the NNP-I kernels: the same rules in the obvious way, straight from the workload.

Nothing here is shared with the kernels: sizes are rescaled again, liveness is recounted at every step, and
the DMA's buffer is a list of [op, bytes] instead of two positions. Only the order of float operations is the
same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hwsim.nnpi.chip import Chip
from workloads.workload import Op, Workload

MASK = 2**64 - 1


def bits(key: int, counter: int) -> int:
    z = (key + (counter + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(key: int, counter: int) -> float:
    return (bits(key, counter) >> 11) / 2**53


def normal(key: int, counter: int) -> float:
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * counter + 1))


@dataclass
class Tensor:
    size: int
    first: int
    last: int


class Twin:
    """One workload on one chip."""

    def __init__(self, workload: Workload, chip: Chip) -> None:
        self.workload, self.chip = workload, chip
        self.names = [m.name for m in chip.memories]
        self.capacity = [m.capacity_bytes - m.reserved_bytes for m in chip.memories]
        self.bandwidth = [m.bandwidth_Bps for m in chip.memories]
        self.position = {op.name: i for i, op in enumerate(workload.ops)}
        last = len(workload.ops) - 1
        self.weights, self.activations = [], []
        for i, op in enumerate(workload.ops):
            readers = [
                j for j, other in enumerate(workload.ops) if any(e.source == op.name for e in other.inputs)
            ]
            self.weights.append(Tensor(self.weight_size(op.weight_bytes), 0, last))
            self.activations.append(Tensor(self.activation_size(op.output_bytes), i, max([i, *readers])))

    def weight_size(self, size: int) -> int:
        ratio = Fraction(self.chip.element_bytes.weight) / Fraction(self.workload.element_bytes.weight)
        return math.ceil(size * ratio)

    def activation_size(self, size: int) -> int:
        ratio = Fraction(self.chip.element_bytes.activation) / Fraction(
            self.workload.element_bytes.activation
        )
        return math.ceil(size * ratio)

    def traffic_factor(self, op: Op) -> Fraction:
        return Fraction(self.chip.factors.traffic.get(op.kind, 1.0))

    def read_size(self, op: Op) -> int:
        ratio = Fraction(self.chip.element_bytes.weight) / Fraction(self.workload.element_bytes.weight)
        return op.steps * math.ceil(op.weight_read_bytes * ratio * self.traffic_factor(op))

    def moved_activation(self, producer: Op, size: int) -> int:
        ratio = Fraction(self.chip.element_bytes.activation) / Fraction(
            self.workload.element_bytes.activation
        )
        return math.ceil(size * ratio * self.traffic_factor(producer))

    def canonical(self, mapping: list[list[int]]) -> list[list[int]]:
        return [
            [w if self.weights[i].size else -1, a if self.activations[i].size else -1]
            for i, (w, a) in enumerate(mapping)
        ]

    def held(self, placed: list[tuple[Tensor, int]], memory: int, step: int) -> int:
        return sum(t.size for t, m in placed if m == memory and t.first <= step <= t.last)

    def rectify(self, mapping: list[list[int]]) -> tuple[list[list[int]], float]:
        """The map that runs, and epsilon: try memories from the proposed one down until every step fits."""
        placed: list[tuple[Tensor, int]] = []
        out, moved, total = [], 0, 0
        for i, choices in enumerate(mapping):
            row = []
            for tensor, choice in zip((self.weights[i], self.activations[i]), choices, strict=True):
                at = choice
                while at > 0 and any(
                    self.held(placed, at, step) + tensor.size > self.capacity[at]
                    for step in range(tensor.first, tensor.last + 1)
                ):
                    at -= 1
                if at >= 0:
                    placed.append((tensor, at))
                    total += tensor.size
                    moved += tensor.size if at != choice else 0
                row.append(at)
            out.append(row)
        return out, moved / max(total, 1)

    def compute(self, op: Op) -> float:
        if op.latency_s is not None:
            return op.latency_s
        c = self.chip.compute
        mac = 0.0
        if op.gemm is not None:
            g = op.gemm
            tiles = g.groups * math.ceil(g.rows / c.mac_rows) * math.ceil(g.cols / c.mac_cols)
            mac = math.ceil(tiles / c.ices) * math.ceil(g.reduction / c.mac_depth) / c.clock_Hz
        factor = self.chip.factors.compute.get(op.kind, 1.0)
        return max(mac * factor, op.vector_ops / (c.ices * c.dsp_lanes * c.clock_Hz) * factor)

    def streams(self, mapping: list[list[int]], i: int) -> bool:
        """The DMA can fetch this weight: it lies in the slowest memory and is read whole."""
        return (
            mapping[i][0] == 0
            and self.weight_size(self.workload.ops[i].weight_read_bytes) >= self.weights[i].size
        )

    def durations(self, mapping: list[list[int]]) -> list[float]:
        """Noise-free seconds of each op."""
        effects = self.chip.effects
        into = self.names.index(self.chip.prefetch.into)
        via = self.names.index(self.chip.prefetch.via)
        levels = range(len(self.capacity))
        launch = self.chip.overhead.launch_s if effects.overhead else 0.0
        placed = [
            (t, m)
            for i, (w, a) in enumerate(mapping)
            for t, m in ((self.weights[i], w), (self.activations[i], a))
            if m >= 0
        ]
        buffer: list[list[int]] = []  # [op, bytes], oldest first
        durations = []
        for i, op in enumerate(self.workload.ops):
            free = self.capacity[into] - self.held(placed, into, i)
            excess = sum(b for _, b in buffer) - free
            while excess > 0:
                give_up = min(excess, buffer[-1][1])
                buffer[-1][1] -= give_up
                excess -= give_up
                if buffer[-1][1] == 0:
                    buffer.pop()

            traffic = [0.0 for _ in levels]
            started = [0 for _ in levels]
            weight, home = mapping[i]
            ready = sum(b for j, b in buffer if j == i)
            if weight >= 0:
                passes = self.weight_size(op.weight_read_bytes) // self.weights[i].size * op.steps
                from_buffer = ready * (passes * float(self.traffic_factor(op)))
                traffic[into] += from_buffer
                traffic[weight] += self.read_size(op) - from_buffer
                started[weight] += op.steps if op.weight_read_bytes else 0
            write = self.moved_activation(op, op.output_bytes)
            for e in op.inputs:
                producer = self.position[e.source]
                source = mapping[producer][1]
                size = self.moved_activation(self.workload.ops[producer], e.read_bytes)
                if effects.moves and op.kind in ("reshape", "concat", "split") and source == home:
                    write -= size
                elif source >= 0:
                    traffic[source] += size
                    started[source] += 1 if size else 0
            if home >= 0:
                traffic[home] += max(write, 0)
                started[home] += 1
            if effects.moves:
                traffic[0] += self.activation_size(op.external_bytes)
                if op.is_output and home > 0:
                    traffic[0] += self.moved_activation(op, op.output_bytes)
            if effects.cross:
                traffic[via] += traffic[0]

            took = [
                traffic[m] * (1.0 / self.bandwidth[m]) + started[m] * self.chip.memories[m].access_s
                for m in levels
            ]
            others = 0.0
            for each in took:
                others += each
            others -= max(took)
            transfers = max(took) + self.chip.waiting.shared * others
            compute = self.compute(op)
            duration = launch + (max(compute, transfers) + self.chip.waiting.serial * min(compute, transfers))
            durations.append(duration)

            if effects.prefetch:
                idle = [duration * self.bandwidth[0] - traffic[0]]
                if effects.contention:
                    idle.append(duration * self.bandwidth[into] - traffic[into])
                    if effects.cross:
                        idle.append(duration * self.bandwidth[via] - traffic[via])
                budget = max(0, int(min(idle)))
                for j in range(i + 1, len(self.workload.ops)):
                    if self.streams(mapping, j):
                        room = free - sum(b for _, b in buffer)
                        have = sum(b for k, b in buffer if k == j)
                        amount = min(budget, room, self.weights[j].size - have)
                        if amount > 0:
                            buffer.append([j, amount])
                            budget -= amount
            buffer = [[j, b] for j, b in buffer if j != i]
        return durations

    def noise(self, key: int) -> float:
        """The factor on an inference."""
        if not self.chip.effects.noise:
            return 1.0
        sigma = self.chip.noise.sigma
        return math.exp(sigma * normal(bits(key, 0x6E6F697365), 0) - 0.5 * sigma * sigma)

    def latency(self, mapping: list[list[int]], key: int = 0) -> float:
        total = 0.0
        for duration in self.durations(mapping):
            total += duration
        return total * self.noise(key)

    def profile(self, mapping: list[list[int]], key: int, spread: float) -> list[float]:
        """Seconds of each op as a profiler with that noise has them."""
        own = bits(key, 0x70726F66696C65)
        factors = [
            math.exp(spread * normal(own, i) - 0.5 * spread * spread) if spread else 1.0
            for i in range(len(mapping))
        ]
        times = self.durations(mapping)
        return [t * self.noise(key) * factor for t, factor in zip(times, factors, strict=True)]
