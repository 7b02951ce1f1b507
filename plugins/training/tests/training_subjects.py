"""What of this plug-in takes part in egrl's suites."""

from __future__ import annotations

from collections.abc import Callable

import subjects
from egrl_training.simulator.device import Device
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from hwsim.problem import Problem
from make_training import decoder, unet

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "training": lambda: TrainingProblem(unet(2), None, TrainingConfig(fraction=0.6)),
    "training-penalise": lambda: TrainingProblem(
        decoder(1), None, TrainingConfig(fraction=0.9, invalid="penalise")
    ),
    "training-host": lambda: TrainingProblem(
        unet(2), Device("host", memory_fraction=0.6, to_host_Bps=2e10, from_host_Bps=3e10)
    ),
}
subjects.take_part(PROBLEMS, {})
