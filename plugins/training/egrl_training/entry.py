"""What egrl finds under the name `training` (entry point `egrl.problems`)."""

from __future__ import annotations

from dataclasses import asdict

from egrl.core.registry import Choice, ProblemDefinition, ProblemEntry, on_chips


def _load() -> ProblemDefinition:
    from egrl_training.simulator.device import describe, device_names, load_device
    from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
    from egrl_training.steps.load import load_training

    loaders, names = (load_training, load_device), (device_names, "half")
    return on_chips(
        "training", TrainingConfig, TrainingProblem, loaders, names, (describe, asdict), None, _steps
    )


def _steps() -> list[dict[str, object]]:
    from egrl_training.steps import step_names
    from egrl_training.steps.load import describe, load_training

    return [
        {
            "name": name,
            "summary": f"step for --problem training: {sizes['ops']} ops, {sizes['seconds'] * 1e3:.1f} ms,"
            f" {sizes['candidate_bytes'] / 2**20:.0f} MiB to keep or recompute",
            **sizes,
        }
        for name in step_names()
        for sizes in [describe(load_training(name))]
    ]


TRAINING = ProblemEntry(
    "which values a training step keeps for its backward pass within a limit of memory, in seconds a step",
    "workload.json.gz",
    "chip.toml",
    _load,
    "exact",
    "a training step: a name, or a file (.json, .json.gz, .json.xz); `egrl list workloads` shows the names",
    measured=Choice("twin", "steps are measured, and what the op times get wrong can be learned"),
)
