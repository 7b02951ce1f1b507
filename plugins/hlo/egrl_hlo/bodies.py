"""What loops, calls and branches cost: how often loops run, and the steps of their bodies by value."""

from __future__ import annotations

import re
from dataclasses import replace

from egrl_hlo.layout import VMEM
from egrl_hlo.parse import Computation, Module, Node, names, numbers
from egrl_hlo.trace import NONE, Price, Trace


def total(body: Trace, first: int = 0) -> Price:
    """The price of a body. Traffic of its parameters goes to the operands, from number `first` on, traffic of its
    results to the results, all other traffic to slow memory, unless the compiler put it in fast memory. A result that
    is a parameter, unchanged, is passed; one that takes a parameter's place can do so outside, too."""
    origin = origins(body)
    operands = {value: (first + number, leaf) for value, (number, leaf) in body.parameters.items()}
    results: dict[int, int] = {}
    passes: dict[int, tuple[int, int]] = {}
    in_place: list[tuple[int, int, int]] = []
    for leaf, value in enumerate(body.results):
        if value == NONE:
            continue
        if value in operands:
            passes[leaf] = operands[value]
            continue
        place = origin.get(value, value)
        results.setdefault(value, leaf)
        if place in operands:
            in_place.append((*operands[place], leaf))
        results.setdefault(place, leaf)
    reads: dict[tuple[int, int], int] = {}
    writes = dict.fromkeys(
        (leaf for leaf, v in enumerate(body.results) if v != NONE and leaf not in passes), 0
    )
    slow = 0
    for step in body.steps:
        slow += step.slow_bytes
        for value, size in (*step.reads.items(), *step.writes.items()):
            if value in operands:
                reads[operands[value]] = reads.get(operands[value], 0) + size
            elif (leaf := results.get(value, results.get(origin.get(value, value), NONE))) != NONE:
                writes[leaf] += size
            else:
                slow += size * (body.places[step.at[value]].space != VMEM)
    for leaf, value in enumerate(body.results):
        if value in body.constants:
            writes[leaf] += body.sizes[value]
    for position, source, _ in in_place:
        reads.setdefault((position, source), 0)
    return Price(
        sum(s.flops for s in body.steps),
        reads,
        writes,
        slow,
        tuple(in_place),
        passes,
        sum(s.cycles for s in body.steps),
        max((s.scratch_bytes for s in body.steps), default=0),
    )


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
        (body.cycles + condition.cycles) * trips,
        body.scratch_bytes,
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
    return replace(price, reads=reads, writes=writes, in_place=(), passes={})


_STATED = re.compile(r'"?known_trip_count"?\s*:\s*\{\s*"?n"?\s*:\s*"?(\d{1,15})')
_ENDS = {"LT": 0, "LE": 1}
_VIEWS = ("copy", "bitcast", "convert")


def trips_of(node: Node, computation: Computation, module: Module) -> int | None:
    """The trips of a loop in a computation: as stated, or counted where the loop counts an element of its state by one
    from a constant up to a constant. None where it is neither."""
    stated = _STATED.search(node.attributes.get("backend_config", ""))
    if stated is not None:
        return int(stated[1])
    condition, body = (_called(node, key, module) for key in ("condition", "body"))
    start = computation.by_name[node.operands[0]] if node.operands else None
    if condition is None or body is None or start is None or start.opcode != "tuple":
        return None
    compared, inner, sides = _sides(condition.root, condition, module)
    direction = inner.attributes.get("direction", "")
    if compared != "compare" or direction not in _ENDS or len(sides) != 2:
        return None
    counter, limit = _source(sides[0], condition), _constant(sides[1], condition)
    index = (numbers(counter, "index") or [-1])[0]
    if counter.opcode != "get-tuple-element" or limit is None or not 0 <= index < len(start.operands):
        return None
    begin = _constant(computation.by_name[start.operands[index]], computation)
    if begin is None or not _counts_by_one(body, index, module):
        return None
    return max(limit + _ENDS[direction] - begin, 0)


def _called(node: Node, key: str, module: Module) -> Computation | None:
    found = names(node, key)
    return module.computations.get(found[0]) if len(found) == 1 else None


def _sides(node: Node, scope: Computation, module: Module) -> tuple[str, Node, list[Node]]:
    """Opcode and operands of a node, in terms of its scope where it is a fusion of one instruction."""
    if node.opcode != "fusion":
        return node.opcode, node, scope.operands(node)
    fused = _called(node, "calls", module)
    if fused is None:
        return "", node, []
    outside = dict(zip((p.name for p in fused.parameters), node.operands, strict=False))
    sides = [
        scope.by_name[outside[name]] if name in outside else fused.by_name[name]
        for name in fused.root.operands
    ]
    return fused.root.opcode, fused.root, sides


def _counts_by_one(body: Computation, index: int, module: Module) -> bool:
    if body.root.opcode != "tuple" or index >= len(body.root.operands):
        return False
    opcode, _, sides = _sides(_source(body.by_name[body.root.operands[index]], body), body, module)
    if opcode != "add" or len(sides) != 2:
        return False
    old = [side for side in (_source(side, body) for side in sides) if numbers(side, "index") == [index]]
    return len(old) == 1 and any(_constant(side, body) == 1 for side in sides)


def _source(node: Node, scope: Computation) -> Node:
    """What a node copies."""
    while node.opcode in _VIEWS and node.operands and node.operands[0] in scope.by_name:
        node = scope.by_name[node.operands[0]]
    return node


def _constant(node: Node, scope: Computation) -> int | None:
    found = _source(node, scope)
    digits = found.literal.removeprefix("-")
    return (
        int(found.literal) if found.opcode == "constant" and digits.isascii() and digits.isdigit() else None
    )
