"""DEAP's operators instead of the paper's: selection, mating and mutation as `deap.tools` has them, or your own.

Each is a callable with DEAP's conventions (Fortin et al., "DEAP: Evolutionary algorithms made easy", JMLR 13, 2012):

    select(individuals, k) -> k individuals, which have `.fitness`
    mate(first, second) -> both, changed in place
    mutate(individual) -> (individual,), changed in place

Mating and mutation get a `Vector`, a sequence of float32 numbers: the weights of a network, or the priors of a
chromosome, decision after decision. Of mating the first child is kept. A chromosome keeps the temperatures of its first
parent. With `population.plus` chromosomes are not mated.

DEAP draws from Python's global `random`. Each call has it, and numpy's, seeded by a generator of the run, and leaves
both as they were.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from deap import creator, tools

from policies.weight_vector import Weights
from population.genome import Boltzmann, Genome, Individual, Network
from workloads.errors import InputError


class Vector(array):
    """The numbers of a genome, as DEAP's operators change them: slices are copies, which numpy's are not."""

    fitness: Any = None


@contextmanager
def global_random(rng: np.random.Generator) -> Iterator[None]:
    """Python's and numpy's global generators, seeded by `rng` inside and as before outside."""
    before, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    seed = int(rng.integers(2**63))
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpys)  # noqa: NPY002


def tournament(
    members: Sequence[Individual], count: int, size: int, rng: np.random.Generator
) -> list[Individual]:
    """`count` members, each the fittest of `size` drawn with replacement."""
    with global_random(rng):
        chosen: list[Individual] = tools.selTournament(members, count, size)
    return chosen


@dataclass(frozen=True)
class Operators:
    """Callables that take the place of the paper's operators; None: the paper's.

    Attributes:
        select: chooses parents.
        mate: crosses two parents of one encoding.
        mutate: changes a child.
    """

    select: Callable[..., Any] | None = None
    mate: Callable[..., Any] | None = None
    mutate: Callable[..., Any] | None = None

    def selected(
        self, members: Sequence[Individual], count: int, size: int, rng: np.random.Generator
    ) -> list[Individual]:
        """`count` individuals: by `select` of those that ran (any, if none did), else by tournaments of `size`.

        InputError if what `select` gives is not that.
        """
        if self.select is None:
            return tournament(members, count, size, rng)
        ran = [m for m in members if np.isfinite(m.score)]
        if not ran:
            return [members[int(k)] for k in rng.integers(len(members), size=count)]
        with global_random(rng):
            chosen = list(self.select(ran, count))
        if len(chosen) != count or any(all(c is not m for m in ran) for c in chosen):
            raise InputError(f"select: expected {count} of the individuals, found {len(chosen)}")
        return chosen


def varied(change: Callable[..., Any], *genomes: Any, rng: np.random.Generator) -> Any:
    """The first child that a mating or mutation makes of genomes, which stay as they are.

    InputError if it is none.
    """
    name = getattr(change, "__name__", type(change).__name__)
    vectors = [_vector(genome) for genome in genomes]
    with global_random(rng):
        children = change(*vectors)
    if not isinstance(children, tuple) or not children:
        raise InputError(f"{name}: expected a tuple of individuals, found {type(children).__name__}")
    numbers = np.asarray(children[0], dtype=np.float32)
    if numbers.shape != (len(vectors[0]),) or not np.isfinite(numbers).all():
        raise InputError(f"{name}: expected {len(vectors[0])} finite numbers, found others")
    return _genome(numbers, genomes[0])


def _vector(genome: Genome) -> Vector:
    numbers = genome.weights if isinstance(genome, Network) else genome.prior
    vector = Vector("f", np.ascontiguousarray(numbers, dtype=np.float32).tobytes())
    vector.fitness = creator.MaximisedFitness()
    return vector


def _genome(numbers: Weights, like: Genome) -> Genome:
    """A genome of the encoding of another, with its own array."""
    if isinstance(like, Network):
        return Network(numbers.copy())
    return Boltzmann(numbers.reshape(like.prior.shape).copy(), like.temperature)
