"""The neighbourhood that all methods share: the local moves of a problem, made in one place.

Whoever searches from mapping to mapping (annealing, the population's chromosomes, greedy-DP, TAG) draws from these, so
that methods differ in what they do with a neighbour and not in which neighbours they know.
"""

from __future__ import annotations

from hwsim.capabilities import CanMove, pipeline_of
from hwsim.problem import Problem
from population.moves import Moves, MovesConfig


def moves_of(problem: Problem, config: MovesConfig) -> Moves:
    """The moves on a problem's mappings, which know its sizes, its pipeline where choices are stages, and its own move
    where it has one."""
    space, own = problem.space, problem.move if isinstance(problem, CanMove) else None
    return Moves(space.num_choices, space.live, config, space.size_bytes, pipeline_of(problem), own)
