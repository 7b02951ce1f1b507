"""Draw and repair mappings of any problem: by its own rule if it has one, else decision by decision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import CanRepair, CanSample
from hwsim.draws import independent_sample
from hwsim.problem import Keys, Mapping16, Problem


def sample(problem: Problem, probabilities: NDArray[np.floating[Any]], key: Keys) -> Mapping16:
    """Draw canonical mappings int16 [B, N, H] from probabilities [B, N, H, C]; those of dead decisions are ignored.

    Raises:
        ValueError: a shape or dtype is wrong, or a probability is negative or not finite.
    """
    if isinstance(problem, CanSample):
        return problem.sample(probabilities, key)
    return independent_sample(problem.space, probabilities, key)


def sample_uniformly(problem: Problem, key: Keys) -> Mapping16:
    """Draw as `sample` does from equal probabilities, with the same result, but without an array for them.

    Raises:
        ValueError: the key is not uint64 [B].
    """
    if isinstance(problem, CanSample):
        return problem.sample(None, key)
    return independent_sample(problem.space, None, key)


def repair(problem: Problem, mapping: Mapping16, key: Keys) -> Mapping16:
    """The nearest mappings int16 [B, N, H] by the problem's own rule; without one, their canonical form.

    Raises:
        ValueError: the shape, the dtype or a choice number is wrong.
    """
    if isinstance(problem, CanRepair):
        return problem.repair(mapping, key)
    problem.space.check(mapping, key)
    return problem.space.canonical(mapping)
