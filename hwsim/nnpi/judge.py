"""Is a mapping one that the chip can hold? Slow and obvious, and shares no code with the simulator.

What must hold: every tensor with a size lies in a memory that exists, every other decision is -1, and at
every step the bytes held in a memory do not exceed its capacity. A weight in the slowest memory (number 0)
or in any other is held at every step; an activation from its op to its last consumer (closed interval).
"""

from __future__ import annotations

from collections.abc import Sequence
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
) -> list[Violation]:
    """Everything that a mapping int16 [N, 2] (weight, activation) breaks.

    Args:
        workload: what is mapped.
        memories: (name, capacity in bytes), slowest first.
        weight_element_bytes, activation_element_bytes: of the chip; sizes are rescaled from the workload's
            own.
        mapping: memory numbers, -1 where there is no tensor.

    Returns:
        One violation a wrong decision, then one a memory and step that holds too much; empty: all is well.

    Raises:
        ValueError: mapping is not [N, 2].
    """
    if mapping.shape != (len(workload.ops), 2):
        raise ValueError(f"mapping: expected shape ({len(workload.ops)}, 2), received {mapping.shape}")
    weight_scale = Fraction(weight_element_bytes) / Fraction(workload.element_bytes.weight)
    activation_scale = Fraction(activation_element_bytes) / Fraction(workload.element_bytes.activation)

    violations: list[Violation] = []
    held = []  # (memory, bytes, first step, last step)
    for step, op in enumerate(workload.ops):
        readers = [s for s, other in enumerate(workload.ops) for e in other.inputs if e.source == op.name]
        last_reader = max([step, *readers])
        tensors = (
            ("weight", ceil(op.weight_bytes * weight_scale), 0, len(workload.ops) - 1),
            ("activation", ceil(op.output_bytes * activation_scale), step, last_reader),
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
                held.append((choice, size, first, last))

    for number, (name, capacity) in enumerate(memories):
        for step, op in enumerate(workload.ops):
            demanded = sum(s for memory, s, first, last in held if memory == number and first <= step <= last)
            if demanded > capacity:
                violations.append(
                    Violation(f"{name} overflows", f"step {step} ({op.name})", demanded, capacity, "bytes")
                )
    return violations
