"""What single instructions need of their operands, and which of these they update in place."""

from __future__ import annotations

import re

from workloads.importers.hlo.attributes import array, operand
from workloads.importers.hlo.flops import ELEMENTWISE
from workloads.importers.hlo.parse import Node, path_of
from workloads.importers.hlo.shapes import Array, leaves

_FROM_FIRST = frozenset(("slice", "dynamic-slice", "pad", "broadcast", "gather"))
"""Their first operand is read as far as there are elements to fill from it."""
_ALIASING = re.compile(r"\{\s*([\d,\s]*)\}:\s*\(\s*(\d{1,6})\s*,\s*\{\s*([\d,\s]*)\}")


def size_of(shape: Array, elements: int) -> int:
    """Bytes of some of an array's elements."""
    return -(-elements * shape.bits // 8)


def needed(node: Node, need: int, out: int, position: int, shape: Array, operands: list[Node]) -> int:
    """Elements of an operand that so many of the node's `out` elements need."""
    elements, opcode = shape.elements, node.opcode
    if position == 0 and opcode in _FROM_FIRST:
        return min(need, elements)
    if opcode in ELEMENTWISE or opcode in ("copy", "convert", "transpose", "reverse", "reshape"):
        return min(need, elements)
    if opcode in ("dot", "convolution"):
        return elements
    return min(elements, -(-elements * need // max(out, 1)))


def updates(node: Node, operands: list[Node]) -> list[tuple[int, int]]:
    """(operand that is updated, bytes of the update) for each result of an instruction that updates in place."""
    if node.opcode == "dynamic-update-slice":
        return [(0, array(operand(node, operands, 1)).size_bytes)]
    if node.opcode == "scatter" and len(operands) >= 3:
        count = len(operands) // 2
        return [(k, array(operands[count + 1 + k]).size_bytes) for k in range(count)]
    return []


def stated_aliases(node: Node, operands: list[Node]) -> list[tuple[int, int, int]]:
    """What `output_to_operand_aliasing` says, for results and operands of at most one level of tuples."""
    found = []
    key = "output_to_operand_aliasing"
    for out, number, path in _ALIASING.findall(node.attributes.get(key, "")):
        leaf, source = ((*path_of(text, f"{node.name}: {key}"), 0)[0] for text in (out, path))
        position = int(number)
        if (
            position < len(operands)
            and leaf < len(leaves(node.shape))
            and source < len(leaves(operands[position].shape))
        ):
            found.append((position, source, leaf))
    return found


def through_bitcasts(node: Node, by_name: dict[str, Node]) -> Node:
    """The node that a chain of bitcasts begins with."""
    while node.opcode == "bitcast" and node.operands:
        node = by_name[node.operands[0]]
    return node
