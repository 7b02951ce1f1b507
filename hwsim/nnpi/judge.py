"""Is a mapping one that the chip can hold? Slow and obvious; it shares no code with the simulator.

What must hold: every tensor with a size lies in a memory that exists, and where a pin wants it, every other decision is
-1, and at every step the bytes held in a memory do not exceed its capacity. A weight in the slowest memory (number 0)
or in any other is held at every step; an activation from its op to its last consumer (closed interval).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Violation
from workloads.workload import Workload


def judge(
    workload: Workload,
    memories: Sequence[tuple[str, int]],
    weight_element_bytes: float,
    activation_element_bytes: float,
    mapping: NDArray[np.int16],
    fixed: Mapping[tuple[int, int], int] | None = None,
    together: Sequence[Sequence[tuple[int, int]]] = (),
) -> list[Violation]:
    """Everything that a mapping int16 [N, 2] (weight, activation) breaks.

    Args:
        workload: what is mapped.
        memories: (name, capacity in bytes), slowest first.
        weight_element_bytes, activation_element_bytes: of the chip; sizes are rescaled from the workload's
            own.
        mapping: memory numbers, -1 if there is no tensor.
        fixed: of (op, column) its memory, where it has to lie in one; None: nowhere.
        together: lists of (op, column) that have to lie in one memory.

    Returns:
        One violation per wrong decision, then one per memory and step that holds too much; empty: all is well.

    Raises:
        ValueError: mapping is not [N, 2].
    """
    if mapping.shape != (len(workload.ops), 2):
        raise ValueError(f"mapping: expected shape ({len(workload.ops)}, 2), received {mapping.shape}")
    weight_scale = Fraction(weight_element_bytes) / Fraction(workload.element_bytes.weight)
    activation_scale = Fraction(activation_element_bytes) / Fraction(workload.element_bytes.activation)

    last_reader = {op.name: step for step, op in enumerate(workload.ops)}
    for step, op in enumerate(workload.ops):
        for edge in op.inputs:
            last_reader[edge.source] = max(last_reader[edge.source], step)

    violations: list[Violation] = []
    # What each memory begins to hold at a step, less what it held until the step before.
    change = [[0] * (len(workload.ops) + 1) for _ in memories]
    for step, op in enumerate(workload.ops):
        tensors = (
            ("weight", ceil(op.weight_bytes * weight_scale), 0, len(workload.ops) - 1),
            ("activation", ceil(op.output_bytes * activation_scale), step, last_reader[op.name]),
        )
        for column, (kind, size, first, last) in enumerate(tensors):
            choice = int(mapping[step, column])
            where = f"{kind} of {op.name}"
            if size == 0:
                if choice != -1:
                    violations.append(Violation("no tensor to place", where, choice, -1, "choice"))
            elif choice < 0:
                violations.append(Violation("tensor not placed", where, 1, 0, "memory"))
            elif choice >= len(memories):
                violations.append(Violation("no such memory", where, choice, len(memories) - 1, "choice"))
            else:
                change[choice][first] += size
                change[choice][last + 1] -= size
    return (
        violations + _pins(workload, mapping, fixed or {}, together) + _overflows(workload, memories, change)
    )


def _pins(
    workload: Workload,
    mapping: NDArray[np.int16],
    fixed: Mapping[tuple[int, int], int],
    together: Sequence[Sequence[tuple[int, int]]],
) -> list[Violation]:
    """A violation a tensor that is not where it is pinned, or not where the first of those is that it lies with."""
    wanted = [(tensor, memory, "pinned elsewhere") for tensor, memory in fixed.items()]
    for first, *others in together:
        wanted += [(other, int(mapping[first]), "does not lie with what it is pinned to") for other in others]
    return [
        Violation(
            rule, f"{('weight', 'activation')[column]} of {workload.ops[op].name}", found, memory, "choice"
        )
        for (op, column), memory, rule in wanted
        if (found := int(mapping[op, column])) != memory
    ]


def _overflows(
    workload: Workload, memories: Sequence[tuple[str, int]], change: Sequence[Sequence[int]]
) -> list[Violation]:
    """A violation a memory and step that holds more than the capacity: sums of the changes up to the step."""
    found = []
    for (name, capacity), changes in zip(memories, change, strict=True):
        demanded = 0
        for step, op in enumerate(workload.ops):
            demanded += changes[step]
            if demanded > capacity:
                where = f"step {step} ({op.name})"
                found.append(Violation(f"{name} overflows", where, demanded, capacity, "bytes"))
    return found
