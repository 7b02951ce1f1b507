"""Does a placement fit the banks? Slow and obvious; it shares no code with the cost model.

What must hold: every place with a size lies in a memory that exists, a pinned one or one without a size has no choice,
and at every instruction the bytes held in a memory, each at its alignment, do not exceed the capacity.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwsim.problem import Violation

Held = tuple[str, int, int, int]
"""Name, size in bytes, first and last step (closed)."""


def judge(
    places: Sequence[Held],
    memories: Sequence[tuple[str, int, int]],
    pins: dict[str, int],
    choices: Sequence[int],
) -> list[Violation]:
    """Everything that a choice a place breaks; empty: all is well.

    Args:
        places: what is placed.
        memories: name, capacity in bytes and alignment of each.
        pins: place -> number of its memory.
        choices: a memory a place, -1 if it has none.

    Raises:
        ValueError: not one choice a place.
    """
    if len(choices) != len(places):
        raise ValueError(f"choices: expected {len(places)}, received {len(choices)}")
    violations: list[Violation] = []
    steps = max(last for _, _, _, last in places) + 1
    held = [[0] * steps for _ in memories]
    for (name, size, first, last), choice in zip(places, choices, strict=True):
        if size == 0 or name in pins:
            if choice != -1:
                violations.append(Violation("nothing to place", name, choice, -1, "choice"))
            memory = pins.get(name, -1)
        elif not 0 <= choice < len(memories):
            violations.append(Violation("no such memory", name, choice, len(memories) - 1, "choice"))
            continue
        else:
            memory = choice
        if size > 0:
            align = memories[memory][2]
            for step in range(first, last + 1):
                held[memory][step] += (size + align - 1) // align * align
    for (name, capacity, _), demands in zip(memories, held, strict=True):
        for step, demanded in enumerate(demands):
            if demanded > capacity:
                violations.append(Violation(f"{name} overflows", f"step {step}", demanded, capacity, "bytes"))
    return violations
