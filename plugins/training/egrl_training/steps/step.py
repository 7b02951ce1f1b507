"""One training step of a network: its ops in order, forward then backward, and the values that they pass on.

Source: the joint forward and backward graph of PyTorch's AOTAutograd, and how its partitioner splits it
(`torch/_functorch/partitioners.py`). A *value* is one tensor. A *view* shares the storage of another value and takes
no room. What a value owns is called its *storage*; the value that is no view *owns* it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

ROLES = ("parameter", "input", "tangent")
"""What a value is that no op makes. A parameter (or buffer, or state of an optimizer) and an input of the network are
there during the whole step. A tangent, the gradient of an output, is there from the start of the backward pass to its
last use."""
PHASES = ("forward", "either", "backward")
"""When an op runs. `forward`: in the forward pass, and again in the backward pass if an output is needed there and was
not kept. `either`: no output of the network needs it, and no tangent is needed for it. It runs in the forward pass if
an output of it is kept, otherwise in the backward pass. `backward`: it depends on a tangent."""
OWNER = -1


@dataclass(frozen=True)
class Value:
    """A tensor.

    Attributes:
        name: unique among the values.
        size_bytes: bytes of its storage; 0 for a view.
        view_of: position in `TrainingStep.values` of the value that owns its storage; `OWNER` if it owns one itself.
        role: one of `ROLES` if it is given; "" if an op makes it.
    """

    name: str
    size_bytes: int
    view_of: int = OWNER
    role: str = ""


@dataclass(frozen=True)
class Op:
    """One op of a step.

    Attributes:
        name: unique among the ops.
        kind: what it computes, such as "aten.mm", for people and for estimates.
        phase: one of `PHASES`.
        inputs: positions in `TrainingStep.values`, each once.
        outputs: positions in `TrainingStep.values`; all views, or none.
        seconds: how long it takes; 0 for an op that only makes views.
        scratch_bytes: room that it needs beside inputs and outputs while it runs.
        recomputable: False if it must not run twice, because it draws random numbers, has an effect, or was forbidden.
        module: path of the module that it belongs to, such as "blocks.0.up", for people; "" if it is not known.
    """

    name: str
    kind: str
    phase: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    seconds: float
    scratch_bytes: int = 0
    recomputable: bool = True
    module: str = ""


@dataclass(frozen=True)
class TrainingStep:
    """A training step.

    Ops stand in the order in which they run if each runs once; an op of phase `either` stands directly after the op
    that makes the last of its inputs.

    Attributes:
        name: of the network, for people and files.
        values: V values; a view stands after the value that owns its storage.
        ops: O ops in execution order.
        outputs: positions of the values that the forward pass returns, which stay alive to the end of the step.
        gradients: positions of the values that the backward pass returns, which stay alive to the end of the step.
        source: where it was captured: versions, machine, how the times were measured. For people.
        graph: digest of the graph that it was captured from, so that a plan is applied to that graph only; "" if none.
    """

    name: str
    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[int, ...]
    gradients: tuple[int, ...]
    source: str = ""
    graph: str = ""

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """int64 [V]: for each value the position of the value that owns its storage."""
        return np.array(
            [number if value.view_of == OWNER else value.view_of for number, value in enumerate(self.values)]
        )

    @cached_property
    def maker(self) -> NDArray[np.int64]:
        """int64 [V]: for each value the position of the op that makes it; -1 if it is given."""
        maker = np.full(len(self.values), -1, np.int64)
        for number, op in enumerate(self.ops):
            maker[list(op.outputs)] = number
        return maker

    def label(self, number: int) -> str:
        """A value's name, with the module that makes it if it is known: what people look for in their model."""
        maker = self.maker[number]
        module = self.ops[maker].module if maker >= 0 else ""
        return f"{self.values[number].name} of {module}" if module else self.values[number].name

    @cached_property
    def unread(self) -> Sequence[Value]:
        """The parameters that have bytes, and that no op reads and nobody is given; the largest first."""
        read = {int(self.owner[number]) for op in self.ops for number in op.inputs}
        read |= {int(self.owner[number]) for number in (*self.outputs, *self.gradients)}
        found = [value for number, value in enumerate(self.values) if number not in read and value.size_bytes]
        return sorted((v for v in found if v.role == "parameter"), key=lambda value: -value.size_bytes)

    @cached_property
    def candidates(self) -> Sequence[int]:
        """The values with a decision, in order.

        Such a value owns a storage with bytes, is made by a recomputable op outside the backward pass, and may be
        needed by the backward pass, directly or to compute other values again. What an op that is not recomputable
        makes is always kept if it is needed.
        """
        needed = self._needed()
        return [
            number
            for number, value in enumerate(self.values)
            if value.view_of == OWNER
            and value.size_bytes > 0
            and self.maker[number] >= 0
            and self.ops[self.maker[number]].phase != "backward"
            and self.ops[self.maker[number]].recomputable
            and number in needed
        ]

    def _needed(self) -> set[int]:
        """Owners that the backward pass reads if it may compute everything again."""
        needed = {int(self.owner[number]) for number in self.gradients}
        for op in reversed(self.ops):
            makes = any(int(self.owner[output]) in needed or output in needed for output in op.outputs)
            if op.phase == "backward" or makes:
                needed |= {value for number in op.inputs for value in (number, int(self.owner[number]))}
        return needed
