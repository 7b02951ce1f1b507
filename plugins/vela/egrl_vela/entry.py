"""What egrl finds under the name `vela` (entry point `egrl.problems`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from egrl.core.registry import ProblemDefinition, ProblemEntry
from workloads.errors import InputError


def _load() -> ProblemDefinition:
    from egrl_vela.compiler import Target
    from egrl_vela.problem import DEVICES, VelaConfig, VelaProblem

    def build(workload: Any, chip: Any, config: Any) -> VelaProblem:
        names = str(chip).split(":")
        if len(names) != 3 or not all(names):
            raise InputError(
                f"--chip: expected accelerator:system-config:memory-mode as Vela has them, found {chip!r}"
            )
        if "u85" in names[0].lower():
            raise InputError(f"--chip {chip}: Vela's Python core, which makes schedules, knows no Ethos-U85")
        path = Path(str(workload))
        if path.suffix.lower() != ".tflite" or not path.is_file():
            raise InputError(f"{workload}: expected a model of TensorFlow Lite (.tflite), found no such file")
        return VelaProblem(
            Target(str(path), names[0], names[1], names[2], config.config, config.sram), config
        )

    def described(name: str) -> dict[str, Any]:
        return {"summary": "problem vela: accelerator:system-config:memory-mode, any that Vela knows"}

    return ProblemDefinition(VelaConfig, build, lambda: list(DEVICES), described, {})


VELA = ProblemEntry(
    "how Vela's Python core schedules a network on an Ethos-U: SRAM for weights, cascades, stripes, in cycles",
    "",
    "",
    _load,
    "egrl",
    "a quantised model of TensorFlow Lite (.tflite)",
)
