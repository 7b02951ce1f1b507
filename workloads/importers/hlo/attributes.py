"""Numbers in the attributes of an instruction."""

from __future__ import annotations

import re

from workloads.importers.hlo.parse import Node
from workloads.importers.hlo.scan import Fault
from workloads.importers.hlo.shapes import Array, leaves

_NUMBER = re.compile(r"-?\d{1,18}")
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


def numbers(node: Node, key: str) -> list[int]:
    """The numbers in an attribute like {1,2}, none where it is missing."""
    return [int(found) for found in _NUMBER.findall(node.attributes.get(key, ""))]


def names(node: Node, key: str) -> list[str]:
    """The names in an attribute like {%a, %b} or %a."""
    return _NAME.findall(node.attributes.get(key, ""))


def one_name(node: Node, key: str) -> str:
    found = names(node, key)
    if len(found) != 1:
        raise Fault(
            f"{node.name}: expected {key}=COMPUTATION, found {node.attributes.get(key, 'nothing')[:40]!r}"
        )
    return found[0]


def dimension(node: Node, shape: Array, axis: int, key: str) -> int:
    """The size of a shape along an axis that an attribute names."""
    if not 0 <= axis < len(shape.dims):
        raise Fault(f"{node.name}: {key}: expected an axis below {len(shape.dims)}, found {axis}")
    return shape.dims[axis]


def operand(node: Node, operands: list[Node], position: int) -> Node:
    if not 0 <= position < len(operands):
        raise Fault(
            f"{node.name}: expected at least {max(position, 0) + 1} operands of {node.opcode}, found {len(operands)}"
        )
    return operands[position]


def array(node: Node) -> Array:
    """The shape of an array; of several results the largest."""
    found = leaves(node.shape)
    return max(found, key=lambda leaf: leaf.elements) if found else Array(0, (0,))
