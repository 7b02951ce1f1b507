"""The neighbourhood that all methods share: the local moves of a problem, made in one place.

Whoever searches from mapping to mapping (annealing, the population's chromosomes, greedy-DP, TAG) draws from these, so
that methods differ in what they do with a neighbour and not in which neighbours they know.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import CanMove, HasObservation
from hwsim.problem import Problem
from population.moves import Moves, MovesConfig
from workloads.colour_refinement import LARGE, alike


def moves_of(problem: Problem, config: MovesConfig) -> Moves:
    """The moves on a problem's mappings.

    They know its sizes; its pipeline, if choices are stages; its own move, if it has one; and which ops of a large
    network are alike.
    """
    space, own = problem.space, problem.move if isinstance(problem, CanMove) else None
    classes = classes_of(problem) if len(space.nodes) > LARGE else None
    return Moves(
        space.num_choices, space.live, config, space.size_bytes, problem.space.pipeline, own, classes
    )


def classes_of(problem: Problem) -> NDArray[np.int64] | None:
    """Numbers int64 [N] of the classes of nodes that are alike; None of a problem that shows no graph."""
    if not isinstance(problem, HasObservation):
        return None
    seen = problem.observation
    return alike(seen.x, seen.edge_index, LARGE)
