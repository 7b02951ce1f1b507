"""The judge of a schedule: Vela made it, and it takes no more SRAM than there is."""

from __future__ import annotations

from hwsim.problem import Violation


def judge(used_bytes: int | None, limit_bytes: int, error: str) -> list[Violation]:
    """What is wrong with a schedule that takes so many bytes of SRAM, or none as Vela failed with an error."""
    if used_bytes is None:
        return [Violation(f"Vela fails ({error})", "the schedule", 1.0, 0.0, "")]
    if used_bytes > limit_bytes:
        return [Violation("SRAM", "the program", float(used_bytes), float(limit_bytes), "B")]
    return []
