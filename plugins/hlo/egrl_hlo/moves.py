"""What XLA's memory-space assignment adds to a program: which nodes only carry a value from one memory to another.

They are no work of the program, but the *placement* that XLA chose (`egrl_hlo/placement.py`):

- `copy-start` and `copy-done` between HBM and fast memory, with one layout otherwise, and `copy` likewise;
- `slice-start` and `slice-done` of all parts of a value, which the call `ConcatBitcast` joins: a copy in slices;
- the same as `async-start`, whose computation does nothing else.

What goes to another memory (the host), changes the layout, or takes only a part of a value is the program's own. The
call `AllocateBuffer` gives room that nothing has written: no value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from egrl_hlo.layout import HBM, VMEM
from egrl_hlo.parse import Computation, Module, Node, array, names
from egrl_hlo.scan import leaves

JOIN = "ConcatBitcast"
ALLOCATES = ("AllocateBuffer", "CreateBuffer")
PASSES = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "AssumeGatherIndicesInBound",
)
"""Calls that hand their operand on."""
MOVING = (
    JOIN,
    "MoveToHost",
    "MoveToDevice",
    "X64Combine",
    "X64SplitLow",
    "X64SplitHigh",
    "SliceToDynamic",
    "PadToStatic",
)
"""Calls that compute nothing."""
SELECTING = ("TopK", "PartialReduce")
"""Calls that compare each element of their first operand."""


@dataclass(frozen=True)
class Moves:
    """By name of a node.

    Attributes:
        begun: of a start, the node whose value is copied.
        ended: of an end, its start.
        joined: of a `ConcatBitcast`, the starts of its slices.
        at_once: of a copy that nothing runs beside, the node whose value is copied.
    """

    begun: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    joined: dict[str, tuple[str, ...]] = field(default_factory=dict)
    at_once: dict[str, str] = field(default_factory=dict)


def target(node: Node) -> str:
    """The name of the function that a custom call calls; "" for any other node."""
    return node.attributes.get("custom_call_target", "").strip('"') if node.opcode == "custom-call" else ""


def begins(node: Node, module: Module) -> str:
    """The opcode that a start begins: "copy" of copy-start, and of an async-start of a computation that copies."""
    if node.opcode != "async-start":
        return node.opcode.removesuffix("-start") if node.opcode.endswith("-start") else ""
    called = [module.computations[name] for name in names(node, "calls") if name in module.computations]
    if len(called) != 1 or any(
        other.opcode != "parameter" for other in called[0].nodes if other != called[0].root
    ):
        return ""
    return called[0].root.opcode


def find(computation: Computation, module: Module) -> Moves:
    """The moves of a computation."""
    found = Moves()
    ends = {
        node.operands[0]: node
        for node in computation.nodes
        if node.opcode.endswith("-done") and node.operands
    }
    users: dict[str, list[Node]] = {}
    for node in computation.nodes:
        for name in node.operands:
            users.setdefault(name, []).append(node)
    slices: dict[str, str] = {}
    for node in computation.nodes:
        end, source = ends.get(node.name), node.operands[0] if node.operands else ""
        if node.opcode == "copy" and _moves(node, computation.by_name[source]):
            found.at_once[node.name] = source
        elif end is not None and begins(node, module) == "copy" and _moves(end, computation.by_name[source]):
            found.begun[node.name] = source
            found.ended[end.name] = node.name
        elif end is not None and begins(node, module) == "slice":
            slices[end.name] = node.name
    for node in computation.nodes:
        if target(node) == JOIN and all(name in slices for name in node.operands):
            parts = [computation.by_name[slices[name]] for name in node.operands]
            sources = {part.operands[0] for part in parts}
            alone = all(len(users[name]) == 1 for name in node.operands)
            elements = sum(array(computation.by_name[name]).elements for name in node.operands)
            if (
                alone
                and len(sources) == 1
                and _moves(node, computation.by_name[min(sources)])
                and elements == array(node).elements
            ):
                found.joined[node.name] = tuple(part.name for part in parts)
                found.begun.update((part.name, part.operands[0]) for part in parts)
                found.ended.update((name, slices[name]) for name in node.operands)
    return found


def _moves(to: Node, source: Node) -> bool:
    """Whether two nodes differ in nothing but that one lies in HBM and one in fast memory."""
    one, other = leaves(to.shape), leaves(source.shape)
    if len(one) != 1 or len(other) != 1 or {one[0].layout.space, other[0].layout.space} != {HBM, VMEM}:
        return False
    return one[0] == replace(other[0], layout=replace(other[0].layout, space=one[0].layout.space))
