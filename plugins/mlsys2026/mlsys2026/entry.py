"""What egrl finds under the name `mlsys2026` (entry point `egrl.problems`)."""

from __future__ import annotations

from typing import Any

from egrl.core.registry import ProblemDefinition, ProblemEntry
from workloads.errors import InputError

CHIP = "contest"


def _load() -> ProblemDefinition:
    from mlsys2026.instance import load_instance
    from mlsys2026.problem import Mlsys2026, MlsysConfig

    def build(workload: Any, chip: Any, config: Any) -> Mlsys2026:
        if chip != CHIP:
            raise InputError(f"--chip: expected none, since the instance has the chip, found {chip!r}")
        return Mlsys2026(load_instance(workload) if isinstance(workload, str) else workload, config)

    def described(name: str) -> dict[str, Any]:
        return {"summary": "problem mlsys2026: a fast and a slow memory, whose sizes the instance has"}

    return ProblemDefinition(MlsysConfig, build, lambda: [CHIP], described, {})


ENTRY = ProblemEntry(
    "MLSys 2026 contest: which ops of a graph run as one on a chip with a small fast memory, in time units",
    "workload.json",
    "",
    _load,
    "exact",
    "an instance of the contest (.json)",
)
