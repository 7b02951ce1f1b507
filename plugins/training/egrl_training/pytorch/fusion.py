"""What inductor makes of a step: chains of pointwise ops become one kernel, and what is within has no room of its own.

A *virtual* value is one that inductor computes within the kernels that read it, so that it lies in no memory. This is
decided before the step is planned, by a rule that comes near what inductor's scheduler does: the maker is pointwise,
every reader is pointwise or a reduction, and either one op alone reads it, or all that it is computed from is hardly
larger than itself (so that nobody would keep it rather than its inputs). Readers of a virtual value read its inputs.

Deviations from inductor: its scheduler also fuses across a reduction, reorders kernels, realises a value that is read
often, and lets kernels write to what they read last. `compiled.py` reads what it makes of a plan.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.times import device_of, rate_Bps
from egrl_training.steps.step import OWNER, Op, TrainingStep, Value

LITTLE_MORE = 1.25
"""Inputs of at most so many times a value's bytes are no reason to keep it (assumption)."""
MOST_INPUTS = 8
"""Reads of a kernel after which inductor writes a value to memory (`config.realize_reads_threshold` and its like)."""
# fmt: off
_MOVES = frozenset({
    "clone", "_to_copy", "full", "full_like", "iota", "arange",
    "cat", "constant_pad_nd", "embedding", "index", "gather", "scalar_tensor",
    "copy", "where", "convert_element_type", "slice_scatter", "select_scatter", "fill",
    "empty", "zeros", "ones", "zeros_like", "broadcast_in_dim", "inductor_lookup_seed",
    "inductor_random", "inductor_randint",
})
# fmt: on
"""Ops that inductor computes element by element, though PyTorch does not tag them as pointwise."""
_REDUCTIONS = frozenset(
    {"sum", "mean", "amax", "amin", "var_mean", "var", "prod", "any", "all", "argmax", "argmin"}
)


def fused(joint: JointGraph) -> TrainingStep:
    """The step of a joint graph without what inductor computes within kernels; names stay."""
    return _Fusion(joint).step()


def is_pointwise(node: fx.Node) -> bool:
    """True if inductor computes the node element by element, so that it may become part of the kernels that read it."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or _name(target) in _MOVES


def is_fusible(node: fx.Node) -> bool:
    """True if the node is pointwise or a reduction: it can compute its inputs within its own kernel."""
    return is_pointwise(node) or (
        isinstance(node.target, torch._ops.OpOverload) and _name(node.target) in _REDUCTIONS
    )


def _name(target: torch._ops.OpOverload) -> str:
    return target._schema.name.split("::")[-1]


class _Fusion:
    def __init__(self, joint: JointGraph) -> None:
        self._joint, self._step = joint, joint.step
        self._pointwise = [is_pointwise(node) for node in joint.ops]
        self._fusible = [is_fusible(node) for node in joint.ops]
        self._readers: dict[int, set[int]] = {}
        for number, op in enumerate(self._step.ops):
            for value in op.inputs:
                self._readers.setdefault(int(self._step.owner[value]), set()).add(number)
        self._returned = {
            int(self._step.owner[number]) for number in (*self._step.outputs, *self._step.gradients)
        }
        self._within: dict[int, tuple[int, ...]] = {}
        """For each virtual owner the owners that its readers read instead."""

    def step(self) -> TrainingStep:
        ops: list[Op] = []
        for number, op in enumerate(self._step.ops):
            if self._makes_views(op):
                continue
            inputs = self._inputs(op)
            if self._virtual(number, op, inputs):
                self._within[op.outputs[0]] = inputs
            else:
                ops.append(replace(op, inputs=inputs, seconds=self._seconds(number, op, inputs)))
        return self._numbered(ops)

    def _seconds(self, number: int, op: Op, inputs: tuple[int, ...]) -> float:
        """A fused kernel takes as long as reading its inputs and writing its outputs, if one op alone takes longer."""
        if not self._fusible[number]:
            return op.seconds
        moved = sum(self._step.values[value].size_bytes for value in (*inputs, *op.outputs))
        return min(op.seconds, moved / rate_Bps(device_of(self._joint.ops[number])))

    def _makes_views(self, op: Op) -> bool:
        return all(self._step.values[output].view_of != OWNER for output in op.outputs)

    def _inputs(self, op: Op) -> tuple[int, ...]:
        read: set[int] = set()
        for value in op.inputs:
            owner = int(self._step.owner[value])
            read.update(self._within.get(owner, (owner,)))
        return tuple(sorted(read))

    def _virtual(self, number: int, op: Op, inputs: tuple[int, ...]) -> bool:
        if (
            not self._pointwise[number]
            or len(op.outputs) != 1
            or op.outputs[0] in self._returned
            or not op.recomputable
        ):
            return False
        owner = op.outputs[0]
        readers = self._all_readers(owner)
        if not readers or len(inputs) > MOST_INPUTS or not all(self._fusible[reader] for reader in readers):
            return False
        sizes = sum(self._step.values[value].size_bytes for value in inputs)
        alone = len(readers) == 1 and self._step.ops[next(iter(readers))].phase == op.phase
        return alone or sizes <= LITTLE_MORE * self._step.values[owner].size_bytes

    def _all_readers(self, owner: int) -> set[int]:
        """Ops that read the storage and are no views."""
        return {
            reader for reader in self._readers.get(owner, ()) if not self._makes_views(self._step.ops[reader])
        }

    def _numbered(self, ops: list[Op]) -> TrainingStep:
        """The step with these ops and only the values that they read and make, numbered anew."""
        made = {value for op in ops for value in op.outputs}
        kept = [
            number
            for number, value in enumerate(self._step.values)
            if value.view_of == OWNER and (value.role or number in made)
        ]
        new = {old: number for number, old in enumerate(kept)}
        values: list[Value] = [self._step.values[old] for old in kept]

        def numbers(olds: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(sorted({new[int(self._step.owner[old])] for old in olds}))

        return replace(
            self._step,
            values=tuple(values),
            ops=tuple(replace(op, inputs=numbers(op.inputs), outputs=numbers(op.outputs)) for op in ops),
            outputs=numbers(self._step.outputs),
            gradients=numbers(self._step.gradients),
        )
