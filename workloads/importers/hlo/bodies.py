"""What loops, calls and branches cost: their bodies' steps, summed up by what becomes of each value."""

from __future__ import annotations

from collections.abc import Callable

from workloads.importers.hlo.trace import NONE, Price, Trace


def total(body: Trace, operand_of: Callable[[int, int], tuple[int, int]]) -> Price:
    """The price of a body: traffic of its parameters goes to the operands (`operand_of` names them), traffic of its
    results to the results, all other traffic to slow memory. A result that is a parameter, unchanged, is passed; one
    that takes a parameter's place can do so outside, too."""
    origin = origins(body)
    results: dict[int, int] = {}
    passes: dict[int, tuple[int, int]] = {}
    in_place: list[tuple[int, int, int]] = []
    for leaf, value in enumerate(body.results):
        if value == NONE:
            continue
        if value in body.parameters:
            passes[leaf] = operand_of(*body.parameters[value])
            continue
        first = origin.get(value, value)
        results.setdefault(value, leaf)
        if first in body.parameters:
            in_place.append((*operand_of(*body.parameters[first]), leaf))
        results.setdefault(first, leaf)
    reads: dict[tuple[int, int], int] = {}
    writes = dict.fromkeys(
        (leaf for leaf, v in enumerate(body.results) if v != NONE and leaf not in passes), 0
    )
    slow = 0
    for step in body.steps:
        slow += step.slow_bytes
        for value, size in (*step.reads.items(), *step.writes.items()):
            if value in body.parameters:
                key = operand_of(*body.parameters[value])
                reads[key] = reads.get(key, 0) + size
            elif (leaf := results.get(value, results.get(origin.get(value, value), NONE))) != NONE:
                writes[leaf] += size
            else:
                slow += size
    for leaf, value in enumerate(body.results):
        if value in body.constants:
            writes[leaf] += body.sizes[value]
    for position, source, _ in in_place:
        reads.setdefault((position, source), 0)
    return Price(sum(s.flops for s in body.steps), reads, writes, slow, tuple(in_place), passes)


def origins(body: Trace) -> dict[int, int]:
    """By value: the first one of those in whose place it lies; only of values that an update in place made."""
    found: dict[int, int] = {}
    for step in body.steps:
        for old, new in step.in_place:
            found[new] = found.get(old, old)
    return found


def repeated(body: Price, condition: Price, trips: int, leaves: int) -> Price:
    """A loop of so many trips. Its state of so many arrays goes in and out in place; what the body passes on is not
    written at all."""
    reads = {key: size * trips for key, size in body.reads.items()}
    for key, size in condition.reads.items():
        reads[key] = reads.get(key, 0) + size * trips
    passes = {leaf: key for leaf, key in body.passes.items() if key == (0, leaf)}
    state = [leaf for leaf in range(leaves) if leaf not in passes]
    for leaf in state:
        reads.setdefault((0, leaf), 0)
    return Price(
        (body.flops + condition.flops) * trips,
        reads,
        {leaf: body.writes.get(leaf, 0) * trips for leaf in state},
        (body.slow_bytes + condition.slow_bytes) * trips,
        tuple((0, leaf, leaf) for leaf in state),
        passes,
    )


def copied(price: Price, sizes: list[int]) -> Price:
    """The same with everything that is passed, or could be changed in place, copied into a result of its own."""
    reads, writes = dict(price.reads), dict(price.writes)
    shared = [(key, leaf) for leaf, key in price.passes.items()]
    shared += [((position, source), leaf) for position, source, leaf in price.in_place]
    for key, leaf in shared:
        if leaf < len(sizes):
            reads[key] = reads.get(key, 0) + sizes[leaf]
            writes[leaf] = max(writes.get(leaf, 0), sizes[leaf])
    return Price(price.flops, reads, writes, price.slow_bytes)
