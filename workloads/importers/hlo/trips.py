"""How often a loop's body runs."""

from __future__ import annotations

import re

from workloads.importers.hlo.attributes import names, numbers
from workloads.importers.hlo.parse import Computation, Module, Node

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
        return node.opcode, node, [scope.by_name[name] for name in node.operands]
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
