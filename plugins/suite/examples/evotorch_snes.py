"""Evolution of scores: EvoTorch's SNES moves a score for each tensor and memory; the highest counts. Needs evotorch."""

import logging
from typing import Any

import numpy as np
import torch
from evotorch import Problem
from evotorch.algorithms import SNES
from evotorch.tools.misc import set_default_logger_config

BONUS, WIDTH, POPULATION = 1.0, 1.0, 10
"""Of the default's memory at the beginning; the first standard deviation; placements of a generation. By hand."""


def search(task: Any, seed: int) -> None:
    """Begin at the default's placement, and go on until nothing is left."""
    set_default_logger_config(logger_level=logging.WARNING, override=True)
    memories = len(task.memories)
    shape = (*task.sizes.shape, memories)
    first = BONUS * (task.default[..., None] == np.arange(memories))

    def loss(scores: torch.Tensor) -> torch.Tensor:
        cost = task.measure(scores.numpy().reshape(shape).argmax(axis=-1)).cost
        return torch.tensor(cost / task.default_cost)

    problem = Problem(
        "min", loss, solution_length=int(np.prod(shape)), bounds=None, seed=seed, initial_bounds=(-1, 1)
    )
    center = torch.tensor(first.reshape(-1), dtype=torch.float32)
    snes = SNES(problem, stdev_init=WIDTH, popsize=POPULATION, center_init=center)
    while task.left:
        snes.step()
