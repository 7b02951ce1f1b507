"""What a schedule takes and breaks, replayed tile by tile in exact fractions: slow, obvious, shared with nothing.

The numbers R1 to R10 are the readings of the rules in the guide of this plug-in (README.md, "Readings").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from hwsim.problem import Violation
from mlsys2026.instance import Instance
from mlsys2026.schedule import Step


class Part(NamedTuple):
    """A range of rows or of columns, half-open; `by` says what moves it: "tile", "depth", or "" for the whole."""

    start: int
    stop: int
    by: str

    def __len__(self) -> int:
        return self.stop - self.start


class Slice(NamedTuple):
    """A part of a tensor that a moment needs (R6: parts that other things move are different slices)."""

    tensor: int
    rows: Part
    columns: Part

    @property
    def size(self) -> int:
        """Elements."""
        return len(self.rows) * len(self.columns)


@dataclass(frozen=True)
class Verdict:
    """Latency of each step, exact; and every rule that the schedule breaks."""

    latencies: tuple[Fraction, ...]
    violations: tuple[Violation, ...]

    @property
    def total(self) -> Fraction:
        """The cost of the schedule."""
        return sum(self.latencies, Fraction(0))


def replay(instance: Instance, steps: Sequence[Step]) -> Verdict:
    """Run a schedule. A step whose subgraph or order is wrong has latency 0."""
    slow = {t for t, op in enumerate(instance.producer) if op < 0}
    resident: frozenset[int] = frozenset()
    latencies, broken = [], []
    for number, step in enumerate(steps):
        where = f"step {number}"
        faults = _faults(instance, step, where)
        if faults:
            broken += faults
            latencies.append(Fraction(0))
            continue
        run = _Run(instance, step, resident)
        broken += run.uneven(where)
        missing = sorted(run.external - slow - resident)
        broken += [Violation(f"tensor {t} is in neither memory", where, 1.0, 0.0, "tensors") for t in missing]
        latency, peak = run.replayed()
        latencies.append(latency)
        if peak > instance.capacity:
            broken.append(Violation("fast memory", where, float(peak), float(instance.capacity), "elements"))
        out = instance.outputs[run.sink]
        if out not in step.retain:  # R8: a retained output is not written, and is lost after the next step
            slow.add(out)
        resident = frozenset(step.retain)
    broken += _unfinished(instance, steps, slow)
    return Verdict(tuple(latencies), tuple(broken))


def _unfinished(instance: Instance, steps: Sequence[Step], slow: set[int]) -> Iterator[Violation]:
    done = {op for step in steps for op in step.ops}
    for op in range(len(instance)):
        if op not in done:
            yield Violation("never run", f"op {op}", 1.0, 0.0, "runs")
        elif instance.is_output(instance.outputs[op]) and instance.outputs[op] not in slow:
            yield Violation(
                "not in slow memory in the end", f"tensor {instance.outputs[op]}", 1.0, 0.0, "copies"
            )


def _sinks(instance: Instance, ops: Sequence[int]) -> list[int]:
    inside = set(ops)
    return [op for op in ops if not inside & set(instance.consumers[instance.outputs[op]])]


def sink_of(instance: Instance, step: Step) -> int:
    """The op whose output is that of a step."""
    (sink,) = _sinks(instance, step.ops)
    return sink


def least_peak(instance: Instance, ops: Sequence[int]) -> int:
    """Elements that fast memory holds at the first moment of a subgraph in the smallest tiles."""
    run = _Run(instance, Step(tuple(ops), (1, 1, 1)), frozenset())
    corner = _tile(0, 1, instance.heights[run.out]), _tile(0, 1, instance.widths[run.out])
    return run.occupied(run.needs(*corner, 0)[0], 1, run.moments == 1)


def _faults(instance: Instance, step: Step, where: str) -> list[Violation]:
    """What is wrong with a step before it runs."""
    sinks = _sinks(instance, step.ops)
    if len(sinks) != 1:  # R1
        return [Violation("outputs of the subgraph", where, float(len(sinks)), 1.0, "tensors")]
    out = instance.outputs[sinks[0]]
    found = [
        Violation(f"tensor {t} retained, which is no output of the subgraph", where, 1.0, 0.0, "tensors")
        for t in step.retain
        if t != out
    ]  # R8
    w, h, _ = step.granularity
    tiles = -(-instance.widths[out] // w) * -(-instance.heights[out] // h)
    if step.order is not None and sorted(step.order) != list(range(tiles)):
        found.append(
            Violation(
                "the order is no permutation of the tiles",
                where,
                float(len(step.order)),
                float(tiles),
                "tiles",
            )
        )
    return found


class _Run:
    """One step, moment by moment: a moment is a tile and a slice of the sums."""

    def __init__(self, instance: Instance, step: Step, resident: frozenset[int]) -> None:
        self.instance, self.step, self.resident = instance, step, resident
        self.inside = set(step.ops)
        self.sink = _sinks(instance, step.ops)[0]
        self.out = instance.outputs[self.sink]
        inner = {instance.outputs[op] for op in step.ops}
        self.external = {t for op in step.ops for t in instance.inputs[op]} - inner
        self.roots = self._roots()
        self.moments = max((-(-instance.depth(op) // step.granularity[2]) for op in self.roots), default=1)

    def _roots(self) -> list[int]:
        """The matrix products that sum up a tile over all moments (R4): those that only pointwise ops follow."""
        found, pending, seen = [], [self.sink], {self.sink}
        while pending:
            op = pending.pop()
            if self.instance.matmul[op]:
                found.append(op)
                continue
            for tensor in self.instance.inputs[op]:
                source = self.instance.producer[tensor]
                if source in self.inside and source not in seen:
                    seen.add(source)
                    pending.append(source)
        return found

    def uneven(self, where: str) -> Iterator[Violation]:
        """What tiles and slices leave over, if they have to divide (R11)."""
        w, h, k = self.step.granularity
        cuts = [("columns", self.instance.widths[self.out], w), ("rows", self.instance.heights[self.out], h)]
        for what, whole, part in (*cuts, *(("depth", self.instance.depth(op), k) for op in self.roots)):
            if self.instance.tiles_divide and whole % part:
                yield Violation(
                    f"{part} does not divide the {what}", where, float(whole % part), 0.0, "left over"
                )

    def replayed(self) -> tuple[Fraction, int]:
        """Latency of the step, and the most elements that fast memory holds at any moment."""
        w, h, _ = self.step.granularity
        width, height = self.instance.widths[self.out], self.instance.heights[self.out]
        across = -(-width // w)
        tiles = across * -(-height // h)
        total, peak = Fraction(0), 0
        held: set[Slice] = set()
        for tile in range(tiles) if self.step.order is None else self.step.order:
            if self.step.order is None:
                held = set()  # R7: without an order nothing outlives a tile
            rows = _tile(tile // across, h, height)
            columns = _tile(tile % across, w, width)
            for moment in range(self.moments):
                needed, compute = self.needs(rows, columns, moment)
                last = moment == self.moments - 1
                stored = len(rows) * len(columns) if last and self.out not in self.step.retain else 0
                loaded = sum(part.size for part in needed - held)
                total += max(compute, Fraction(loaded + stored, self.instance.bandwidth))
                peak = max(peak, self.occupied(needed, len(rows) * len(columns), last))
                held = needed  # R7: what the moment before needed is still there, and nothing else
        return total, peak

    def occupied(self, needed: set[Slice], tile: int, last: bool) -> int:
        """Elements that fast memory holds: whole resident and retained tensors (R9), slices, tile and sums (R5)."""
        held = sum(map(self.instance.size, self.resident | set(self.step.retain)))
        held += sum(part.size for part in needed)
        if self.instance.matmul[self.sink] or last:
            held += 0 if self.out in self.step.retain else tile
        if not self.instance.matmul[self.sink] and self.moments > 1:
            held += tile * len(self.roots)
        return held

    def needs(self, rows: Part, columns: Part, moment: int) -> tuple[set[Slice], Fraction]:
        """What a moment has to have in fast memory that is not resident, and how long it computes."""
        loads: set[Slice] = set()
        ran: dict[tuple[int, Slice, bool], Fraction] = {}
        last = moment == self.moments - 1
        self._finish(Slice(self.out, rows, columns), moment, last, loads, ran)
        return {part for part in loads if part.tensor not in self.resident}, sum(ran.values(), Fraction(0))

    def _finish(self, part: Slice, moment: int, last: bool, loads: set[Slice], ran: dict) -> None:
        """A tile at the top: pointwise ops run at the last moment, matrix products sum up a slice at each (R4)."""
        instance = self.instance
        op = instance.producer[part.tensor]
        if op not in self.inside:
            if last:
                loads.add(_labelled(instance, part))
            return
        at = (op, _labelled(instance, part), self.moments > 1)
        if at in ran:
            return
        if not instance.matmul[op]:
            ran[at] = self._cost(op, part, Fraction(1)) if last else Fraction(0)
            for tensor in instance.inputs[op]:
                self._finish(Slice(tensor, part.rows, part.columns), moment, last, loads, ran)
            return
        depth, k = instance.depth(op), self.step.granularity[2]
        start = moment * k
        if start >= depth:
            return
        inner = _whole_if(Part(start, min(start + k, depth), "depth"), depth)
        ran[at] = self._cost(op, part, Fraction(len(inner), instance.native[0]))
        left, right = instance.inputs[op]
        self._feed(Slice(left, part.rows, inner), loads, ran)
        self._feed(Slice(right, inner, part.columns), loads, ran)

    def _feed(self, part: Slice, loads: set[Slice], ran: dict) -> None:
        """A slice that a matrix product needs: computed anew at each moment that needs it (R3), over whole sums."""
        instance = self.instance
        part = _labelled(instance, part)
        op = instance.producer[part.tensor]
        if op not in self.inside:
            loads.add(part)
            return
        at = (op, part, False)
        if at in ran:
            return
        if not instance.matmul[op]:
            ran[at] = self._cost(op, part, Fraction(1))
            for tensor in instance.inputs[op]:
                self._feed(Slice(tensor, part.rows, part.columns), loads, ran)
            return
        depth = instance.depth(op)
        ran[at] = self._cost(op, part, Fraction(depth, instance.native[0]))
        left, right = instance.inputs[op]
        self._feed(Slice(left, part.rows, Part(0, depth, "")), loads, ran)
        self._feed(Slice(right, Part(0, depth, ""), part.columns), loads, ran)

    def _cost(self, op: int, part: Slice, deep: Fraction) -> Fraction:
        """Time that an op takes for a slice of its output (R2)."""
        native_width, native_height = self.instance.native
        exact = self.instance.matmul[op]
        down = _natives(part.rows, native_height, exact)
        across = _natives(part.columns, native_width, exact)
        return self.instance.base_costs[op] * down * across * deep


def _natives(part: Part, native: int, exact: bool) -> Fraction:
    """Native tiles that a range takes: a slice of a depth counts in proportion for a matrix product, all else whole."""
    if exact and part.by == "depth":
        return Fraction(len(part), native)
    return Fraction(-(-len(part) // native))


def _tile(number: int, length: int, whole: int) -> Part:
    return _whole_if(Part(number * length, min((number + 1) * length, whole), "tile"), whole)


def _whole_if(part: Part, whole: int) -> Part:
    """The part, as nothing moves it if it is all that there is."""
    return Part(0, whole, "") if len(part) == whole else part


def _labelled(instance: Instance, part: Slice) -> Slice:
    return Slice(
        part.tensor,
        _whole_if(part.rows, instance.heights[part.tensor]),
        _whole_if(part.columns, instance.widths[part.tensor]),
    )
