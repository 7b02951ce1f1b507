"""Method `pymoo:GA`: pymoo's genetic algorithm on integers.

Source: Blank and Deb, "pymoo: multi-objective optimization in Python" (IEEE Access, 2020). Where its population can
have no more new children it goes on with points drawn at random. With `told = "ran"`
it is told of the points that ran instead of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.method import Context
from egrl.core.registry import MethodDefinition
from egrl.methods.peers.peer import Peer, PeerConfig, Points, check_name, definition, load


@dataclass(frozen=True)
class PymooConfig(PeerConfig):
    """Settings of pymoo's genetic algorithm."""

    population: Annotated[
        int, Ge(2), Le(100_000), Doc("of the first generation and of every further one")
    ] = 100


def pymoo(name: str) -> MethodDefinition:
    """The method `pymoo:GA`. InputError where the extra is missing or another name is given."""
    load("pymoo", f"pymoo:{name}")
    check_name("pymoo", name or "GA", ["GA"])
    return definition(PymooConfig, Pymoo)


class Pymoo(Peer):
    """Simulated binary crossover and polynomial mutation, both rounded; children that are there already are dropped."""

    def __init__(self, context: Context, config: PymooConfig) -> None:
        super().__init__(context, "pymoo", config)
        task = self.task

        def part(module: str) -> Any:
            return load(f"pymoo.{module}", "pymoo:GA")

        self._rng = np.random.Generator(np.random.PCG64(task.seed))
        self._choices, self._size = task.choices, config.population
        self._population = part("core.population").Population
        first = self._random()
        first[0] = task.first
        rounding = part("operators.repair.rounding").RoundingRepair
        problem = part("core.problem").Problem(
            n_var=len(task.choices), n_obj=1, xl=np.zeros(len(task.choices)), xu=task.choices - 1, vtype=int
        )
        self._algorithm = part("algorithms.soo.nonconvex.ga").GA(
            pop_size=config.population,
            sampling=first,
            crossover=part("operators.crossover.sbx").SBX(vtype=float, repair=rounding()),
            mutation=part("operators.mutation.pm").PM(vtype=float, repair=rounding()),
        )
        self._algorithm.setup(problem, termination=("n_gen", np.inf), seed=task.seed, verbose=False)
        self._generation: Any = None

    def _random(self) -> Points:
        return self._rng.integers(0, self._choices, (self._size, len(self._choices)))

    def points(self) -> Points:
        """The next generation; random points where it is empty."""
        self._generation = self._algorithm.ask()
        if self._generation is None or not len(self._generation):
            self._generation = self._population.new("X", self._random())
            self._generation.set("n_gen", self._algorithm.n_iter)
        points: Points = np.asarray(self._generation.get("X")).astype(np.int64)
        return points

    def learn_losses(self, loss: NDArray[np.float64], ran: Points) -> None:
        """Tell the algorithm of its generation, as it ran."""
        self._generation.set("X", ran)
        self._generation.set("F", loss[:, None])
        self._algorithm.tell(infills=self._generation)
