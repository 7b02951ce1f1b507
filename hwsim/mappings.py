"""Mappings of a problem, drawn and repaired: by the problem's own rule where it has one, else decision by decision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import CanRepair, CanSample
from hwsim.draws import independent_sample
from hwsim.problem import Keys, Mapping16, Problem


def sample(problem: Problem, probabilities: NDArray[np.floating[Any]], key: Keys) -> Mapping16:
    """Draw canonical mappings int16 [B, N, H] from probabilities [B, N, H, C] (rows of dead decisions ignored).

    Raises:
        ValueError: where a shape or dtype is wrong or a probability negative or not finite.
    """
    if isinstance(problem, CanSample):
        return problem.sample(probabilities, key)
    return independent_sample(problem.space, probabilities, key)


def sample_uniformly(problem: Problem, key: Keys) -> Mapping16:
    """As `sample`, all choices of a decision being equally likely: the same draws, without the probabilities' room.

    Raises:
        ValueError: the key is not uint64 [B].
    """
    if isinstance(problem, CanSample):
        return problem.sample(None, key)
    return independent_sample(problem.space, None, key)


def repair(problem: Problem, mapping: Mapping16, key: Keys) -> Mapping16:
    """The mappings int16 [B, N, H] nearest by the problem's own rule that it can express; else their canonical form.

    Raises:
        ValueError: where shape, dtype or a choice number is out of range.
    """
    if isinstance(problem, CanRepair):
        return problem.repair(mapping, key)
    problem.space.check(mapping, key)
    return problem.space.canonical(mapping)
