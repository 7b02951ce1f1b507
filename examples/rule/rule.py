"""A linear rule places the tensors of a network in the memories of a chip, in Python without a library.

Reads the text that describe.py writes. Prints for each tensor the number of its op, which tensor of the op it is, and
the number of its memory, 0 being the slowest. rule.c is the same in C.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

HEADS = ("weight", "activation")
OF_WEIGHTS = ("idle_before", "fetched_of_idle", "fetch_of_idle_4", "fetch_of_idle_16")
OF_ACTIVATIONS = ("traffic_of_readers", "rearranges")
"""Features that tensors of the other kind have as 0."""


class Op(NamedTuple):
    compute_s: float
    weight: int
    weight_read: int
    steps: int
    passes: int
    activation: int
    written: int
    external: int
    is_output: int
    rearranges: int


class Network(NamedTuple):
    """Ops in execution order on a chip, and the rule: a name and four coefficients of each feature.

    Edges are (source, reader, bytes); memories are (capacity, bytes per second), the slowest first.
    """

    memories: list[tuple[int, float]]
    into: int
    launch_s: float
    ops: list[Op]
    edges: list[tuple[int, int, int]]
    rule: dict[str, list[float]]
    free: float


class Tensor(NamedTuple):
    op: int
    head: int
    size: int
    first: int
    last: int
    moved: int


def read(text: str) -> Network:
    words = iter(text.split())

    def integers(count: int) -> list[int]:
        return [int(next(words)) for _ in range(count)]

    def labelled(label: str) -> str:
        if next(words) != label:
            raise ValueError(label)
        return next(words)

    memories, into, launch_s = int(labelled("memories")), int(labelled("into")), float(labelled("launch_s"))
    levels = [(int(next(words)), float(next(words))) for _ in range(memories)]
    ops, edges = int(labelled("ops")), int(labelled("edges"))
    found = [Op(float(next(words)), *integers(9)) for _ in range(ops)]
    links = [(source, reader, size) for source, reader, size in (integers(3) for _ in range(edges))]
    rule: dict[str, list[float]] = {}
    for name in words:
        if name == "free":
            if not 0 < into < memories <= 8 or any(
                not 0 <= source < reader < ops for source, reader, _ in links
            ):
                raise ValueError("another number of a memory or an op")
            return Network(levels, into, launch_s, found, links, rule, rounded(float(next(words))))
        rule[name] = [rounded(float(next(words))) for _ in range(4)]
    raise ValueError("free")


def tensors_of(net: Network) -> list[Tensor]:
    last, read_bytes = list(range(len(net.ops))), [0] * len(net.ops)
    for source, reader, size in net.edges:
        last[source] = max(last[source], reader)
        read_bytes[source] += size
    found = []
    for i, op in enumerate(net.ops):
        weight = Tensor(i, 0, op.weight, 0, len(net.ops) - 1, op.weight_read * op.steps)
        activation = Tensor(i, 1, op.activation, i, last[i], op.written + read_bytes[i])
        found += [tensor for tensor in (weight, activation) if tensor.size]
    return found


def rounded(number: float) -> float:
    """The nearest float of 32 bits."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def scaled(ratio: float) -> float:
    return min(max(math.log2(max(ratio, 1e-6)), -16.0), 16.0) / 4


class Features:
    """What the rule sees of each tensor in each memory: see the table in README.md."""

    def __init__(self, net: Network, tensors: list[Tensor]) -> None:
        """Times of ops with all tensors in the slowest memory, and bytes that are live."""
        self.net, ops, self.slow_Bps = net, net.ops, net.memories[0][1]
        self.inputs = [0.0] * len(ops)
        for _, reader, size in net.edges:
            self.inputs[reader] += size
        self.busy = [max(op.compute_s + net.launch_s, 1e-30) for op in ops]
        moved = [(op.written + size) / self.slow_Bps for op, size in zip(ops, self.inputs, strict=True)]
        self.slow = [
            (op.weight_read * op.steps + op.written + size + op.external) / self.slow_Bps
            for op, size in zip(ops, self.inputs, strict=True)
        ]
        self.mean = 0.0
        for busy, slow in zip(self.busy, self.slow, strict=True):
            self.mean += max(busy, slow + net.launch_s) / len(ops)
        idle = [max(busy - own, 0.0) for busy, own in zip(self.busy, moved, strict=True)]
        self.idle_before = list(accumulate(idle, initial=0.0))
        self.fetched = list(accumulate(op.weight_read / self.slow_Bps for op in ops))
        self.readers = [0.0] * len(ops)
        for source, reader, _ in net.edges:
            self.readers[source] = max(self.readers[source], self.slow[reader] / self.busy[reader])
        self.live = [0] * len(ops)
        for tensor in tensors:
            for step in range(tensor.first, tensor.last + 1):
                self.live[step] += tensor.size if tensor.head else 0

    def gain(self, i: int, moved: int, memory: int) -> float:
        """Seconds that an op gains if some of its bytes are in a memory and all others in the slowest one."""
        compute, slow, fast = self.net.ops[i].compute_s, 1 / self.slow_Bps, 1 / self.net.memories[memory][1]
        rest = max(compute, self.slow[i] - moved * slow)
        return max(compute, self.slow[i]) - max(rest, moved * fast)

    def loss(self, i: int, moved: int, memory: int) -> float:
        """Seconds that an op loses if some of its bytes are in the slowest memory and all others in another one."""
        op, slow, fast = self.net.ops[i], 1 / self.slow_Bps, 1 / self.net.memories[memory][1]
        outside, size = op.external * slow, op.weight_read * op.steps + op.written + self.inputs[i]
        rest = max(op.compute_s, (size - moved) * fast)
        return max(rest, moved * slow + outside) - max(op.compute_s, max(size * fast, outside))

    def stream(self, memory: int, buffer: float) -> tuple[list[float], list[float], list[float], float]:
        """Waits, waits of an op and all later ones, what is fetched after each, and idle seconds in all.

        Weights are fetched in order, ahead of their ops as far as `buffer` seconds of the slowest memory have room.
        """
        wait, ahead, all_idle, fetched = [], [], 0.0, 0.0
        fetches = [op.weight_read / self.slow_Bps if op.passes > 0 else 0.0 for op in self.net.ops]
        left = 0.0
        for fetch in fetches:
            left += fetch
        for op, fetch, busy, inputs in zip(self.net.ops, fetches, self.busy, self.inputs, strict=True):
            outside, had = op.external / self.slow_Bps, min(fetch, fetched)
            rest = fetch - had
            quiet = max(busy, (op.written + inputs) / self.net.memories[memory][1])
            takes = max(quiet, rest + outside)
            idle = max(0.0, takes - rest - outside)
            fetched, left = fetched - had, left - fetch
            more = max(0.0, min(idle, min(buffer - fetched, left - fetched)))
            fetched += more
            wait.append(takes - quiet)
            ahead.append(fetched)
            all_idle += idle - more
        return wait, list(accumulate(reversed(wait)))[::-1], ahead, all_idle

    def in_memory(self, tensors: list[Tensor], memory: int) -> list[dict[str, float]]:
        """The features of each tensor in a memory."""
        net, mean, slow_Bps, (capacity, Bps) = self.net, self.mean, self.slow_Bps, self.net.memories[memory]
        buffer = net.memories[net.into][0] / slow_Bps
        streams = {"": self.stream(memory, buffer), "_small": self.stream(memory, 0.25 * buffer)}
        wait, _, ahead, all_idle = streams[""]
        changes = {"gain": self.change(self.gain, memory), "loss": self.change(self.loss, memory)}
        of_all = {
            "one": 1.0,
            "all_weights": scaled(sum(op.weight for op in net.ops) / capacity),
            "fullest_of_all": scaled(max(self.live) / capacity),
            "bandwidth": scaled(Bps / slow_Bps),
            "share_of_capacity": scaled(capacity / sum(size for size, _ in net.memories[1:])),
            "idle_in_all": scaled(all_idle / mean + 1e-3),
            "wait_in_all": scaled(sum_of(wait) / mean + 1e-3),
        }
        rows = []
        for t in tensors:
            row = of_all | self.of_sizes(t, memory) | (self.of_activation(t) if t.head else self.of_weight(t))
            row["fetched_ahead"] = scaled(ahead[t.op] / buffer + 1e-3)
            held = self.held(t, memory)
            for suffix, (waits, after, _, _) in streams.items():
                relief = min(t.moved / slow_Bps, after[t.op])
                row[f"wait{suffix}"] = scaled(waits[t.op] / mean + 1e-3)
                row[f"wait_after{suffix}"] = scaled(after[t.op] / mean + 1e-3)
                row[f"relief{suffix}"] = scaled(relief / mean + 1e-3)
                row[f"relief_of_bytes{suffix}"] = scaled(relief / held / mean + 1e-3)
                row[f"relieves{suffix}"] = float(relief > 0)
            for name, own in changes.items():
                share = own[t.op][t.head] / mean
                row[f"{name}_alone"] = scaled(share + 1e-4)
                row["gains_alone" if name == "gain" else "loses_alone"] = float(share > 0)
                row[f"{name}_of_bytes"] = scaled(share / held + 1e-4)
            rows.append(row)
        return rows

    def change(self, of: Callable[[int, int, int], float], memory: int) -> list[tuple[float, float]]:
        """What `gain` or `loss` says of the weight of each op, and of its activation with all readers."""
        of_readers = [0.0] * len(self.net.ops)
        for source, reader, size in self.net.edges:
            of_readers[source] += of(reader, size, memory)
        return [
            (of(i, op.weight_read * op.steps, memory), of(i, op.written, memory) + of_readers[i])
            for i, op in enumerate(self.net.ops)
        ]

    def held(self, t: Tensor, memory: int) -> float:
        """Bytes x share of steps / capacity."""
        return t.size * ((t.last - t.first + 1) / len(self.net.ops)) / self.net.memories[memory][0]

    def of_sizes(self, t: Tensor, memory: int) -> dict[str, float]:
        count, busy, (capacity, Bps) = len(self.net.ops), self.busy[t.op], self.net.memories[memory]
        saved = t.moved * (1 / self.slow_Bps - 1 / Bps)
        return {
            "saved_of_mean": scaled(saved / self.mean),
            "saved_of_compute": scaled(saved / busy),
            "bytes": scaled(t.size / capacity),
            "lifetime": scaled((t.last - t.first + 1) / count),
            "bytes_times_lifetime": scaled(self.held(t, memory)),
            "fullest_step": scaled(max(self.live[t.first : t.last + 1]) / capacity),
            "traffic_of_op": scaled(self.slow[t.op] / busy),
            "compute_of_mean": scaled(busy / self.mean),
            "position": t.op / count,
            "reuse": scaled(max(t.moved, 1) / t.size),
            "is_output": float(self.net.ops[t.op].is_output),
        }

    def of_activation(self, t: Tensor) -> dict[str, float]:
        readers = scaled(max(self.readers[t.op], 1e-3))
        own = {"traffic_of_readers": readers, "rearranges": float(self.net.ops[t.op].rearranges)}
        return dict.fromkeys(OF_WEIGHTS, 0.0) | own

    def of_weight(self, t: Tensor) -> dict[str, float]:
        before, fetch = self.idle_before[t.op], self.net.ops[t.op].weight_read / self.slow_Bps
        close = [before - self.idle_before[max(t.op - n, 0)] for n in (4, 16)]
        own = (
            scaled((before + 1e-12) / self.mean),
            scaled(self.fetched[t.op] / (before + 1e-9 * self.mean + 1e-15)),
            *(scaled(fetch / (idle + 1e-9 * self.mean)) for idle in close),
        )
        return dict.fromkeys(OF_ACTIVATIONS, 0.0) | dict(zip(OF_WEIGHTS, own, strict=True))


def sum_of(numbers: list[float]) -> float:
    """The sum as C has it; `sum` compensates what rounding loses."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def scores_of(net: Network, tensors: list[Tensor]) -> list[list[float]]:
    """A score for each tensor in each memory, 0 in the slowest one."""
    features, levels = Features(net, tensors), len(net.memories)
    scores = [[0.0] * levels for _ in tensors]
    for memory in range(1, levels):
        fast = (memory - 1) / (levels - 2) if levels > 2 else 1.0
        ends = rounded(1 - fast), rounded(fast)
        for t, row, score in zip(tensors, features.in_memory(tensors, memory), scores, strict=True):
            total = 0.0
            for name, of_rule in net.rule.items():
                own = ends[0] * of_rule[2 * t.head] + ends[1] * of_rule[2 * t.head + 1]
                total += own * rounded(row[name])
            score[memory] = rounded(total)
    return scores


def place(net: Network, tensors: list[Tensor]) -> list[int]:
    """The memory of each tensor: by falling best score, each in its best memory above 0 that has room for it."""
    scores, levels = scores_of(net, tensors), range(len(net.memories))
    budget = [capacity for capacity, _ in net.memories]
    # 0 to a half, and exactly 0 from about free < -2 on: tensors may fill the memory.
    share = 1 / (1 + math.exp(-2 * min(max(net.free, -30.0), 30.0)))
    free = 0.5 * max(share - 0.02, 0.0) / (1 - 0.02)
    budget[net.into] = math.floor(budget[net.into] * (1 - free))
    used = [[0] * len(net.ops) for _ in levels]
    chosen = [0] * len(tensors)
    for k in sorted(range(len(tensors)), key=lambda k: -max(scores[k][1:])):
        t, score = tensors[k], scores[k]
        steps = range(t.first, t.last + 1)
        for memory in sorted((m for m in levels if score[m] > 0), key=lambda m: (-score[m], -m)):
            if max(used[memory][step] for step in steps) + t.size <= budget[memory]:
                chosen[k] = memory
                break
        for step in steps:
            used[chosen[k]][step] += t.size
    return chosen


def main(argv: list[str]) -> int:
    file = argv[0] if len(argv) == 1 else "FILE"
    try:
        net = read(Path(file).read_text(encoding="utf-8"))
        tensors = tensors_of(net)
        memories = place(net, tensors)
    except (OSError, ArithmeticError, LookupError, RuntimeError, StopIteration, ValueError) as error:
        print(f"rule: {file}: expected a file that describe.py wrote, found {error!r}", file=sys.stderr)
        return 2
    for t, memory in zip(tensors, memories, strict=True):
        print(t.op, HEADS[t.head], memory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
