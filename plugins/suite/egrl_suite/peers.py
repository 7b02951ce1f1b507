"""Other people's optimisers as methods, for comparisons: Nevergrad, Optuna and pymoo (the extra `peers`).

    egrl compare --methods egrl,egrl_suite.peers:NEVERGRAD … --set egrl_suite.peers:NEVERGRAD.optimiser=PSO

Sources: Bennet et al., "Nevergrad: black-box optimization platform" (2021); Akiba et al., "Optuna: a next-generation
hyperparameter optimization framework" (KDD 2019); Blank and Deb, "pymoo: multi-objective optimization in Python" (IEEE
Access, 2020).

What an optimiser sees: a vector of D integers, one for each live decision that has a choice, 0 <= x < its number of
choices; the start mapping (or the problem's initial one) as the first point, measured and told first; and as the loss
the negative reward of what ran for its point, the same that every other method sees. It is told of its own point or,
with `told = "ran"`, of the point that ran for it, which has the same loss, as far as its interface allows: each class
says how. The former is the default since it finds more (benchmarks/log/neighbourhood.md). A measurement that failed has
the loss `FAILED`. They know neither sizes nor moves: they are black-box optimisers, which see integers.

They are deterministic given the seed, and none can say what its state is: an optimiser is brought back by asking and
telling it again.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from hwsim.keys import REPAIR
from hwsim.mappings import repair
from hwsim.problem import Evaluation, Mapping16, Problem
from workloads.errors import InputError
from workloads.text import nearest

FAILED = 1000.0
"""Loss of a failed measurement; of others it is at most 1 (where nothing ran) and mostly below 0."""
GROUP = "Black-box optimisers, which see integers"
LISTED, LITTLE_ALIKE = 5, 0.3
"""Optimisers that a message names, and how little they need be like the name that is none; assumption."""

Points = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """A problem as an optimiser sees it: numbers of choices int64 [D], a first point int64 [D], a seed."""

    choices: Points
    first: Points
    seed: int


@dataclass(frozen=True)
class PeerConfig:
    """Settings of every peer."""

    told: Annotated[
        Literal["own", "ran"],
        Doc('for which point it gets results: its "own", or also the repaired one that "ran"'),
    ] = field(default="own", kw_only=True)


class Peer(Method):
    """A method made of an optimiser of integers: a peer says what `points` it thinks of and learns their losses.

    It has no state that could be kept: it is brought back by asking and telling it again.
    """

    def __init__(self, context: Context, name: str, config: PeerConfig) -> None:
        self._told = config.told
        self._context, self._name, self._problem = context, name, context.problems[0]
        self._open = _open(self._problem)
        start = context.start[0]
        self._first = self._problem.space.initial if start is None else start
        self.task = Task(
            self._problem.space.num_choices[self._open].astype(np.int64),
            np.maximum(self._first[self._open], 0).astype(np.int64),
            int(context.generator(f"peer {name}").integers(2**31)),
        )
        self._asked, self._points = 0, np.zeros((0, len(self.task.choices)), np.int64)
        self._start_loss, self._start_ran = np.zeros(0), self._points

    @abstractmethod
    def points(self) -> Points:
        """The next points int64 [B, D]; at first `task.first` is the first of them."""

    @abstractmethod
    def learn_losses(self, loss: NDArray[np.float64], ran: Points) -> None:
        """The losses float64 [B] of the last points, lower being better, and what ran for them, int64 [B, D]."""

    def ask(self) -> Proposals:
        """The next points as mappings, but for the start, which has been measured."""
        points = self.points()
        if len(self._start_loss) == len(points):
            self._points = points
            self._learn(self._start_loss[:0], points[:0])
            points = self.points()
        self._points = points
        return proposals(self._mappings(points)[len(self._start_loss) :], self._name)

    def _mappings(self, points: Points) -> Mapping16:
        """Mappings [B, N, H] of points [B, D]; where there is no start, the very first row is the initial mapping."""
        problem = self._problem
        mapping = np.where(problem.space.live, np.int16(0), np.int16(-1))
        batch = np.repeat(mapping[None], len(points), axis=0)
        batch[:, self._open] = points
        batch = repair(problem, batch, self._context.keys(REPAIR, self._asked, len(batch)))
        if self._asked == 0 and self._context.start[0] is None:
            batch[0] = self._first
        self._asked += len(batch)
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Learn the losses; that of the start comes first in those of the first points."""
        loss = np.where(evaluation.usable, -evaluation.reward, FAILED)
        ran = evaluation.repaired[:, self._open].astype(np.int64)
        if proposals.source[0] == START:
            self._start_loss, self._start_ran = loss, np.maximum(ran, 0)
            return
        # What a game never came to is as it was proposed.
        self._learn(loss, np.where(ran < 0, self._points[len(self._start_loss) :], ran))

    def _learn(self, loss: NDArray[np.float64], ran: Points) -> None:
        """Losses and what ran, those of the start before them; who is told of its own points, of these."""
        ran = np.concatenate([self._start_ran, ran]) if self._told == "ran" else self._points
        self.learn_losses(np.concatenate([self._start_loss, loss]), ran)
        self._start_loss, self._start_ran = self._start_loss[:0], self._start_ran[:0]


def _open(problem: Problem) -> NDArray[np.bool_]:
    """bool [N, H]: the live decisions with more than one choice."""
    return problem.space.live & (problem.space.num_choices > 1)


def serves(problem: Problem) -> str | None:
    """A peer needs something to decide."""
    return None if _open(problem).any() else "no decision has more than one choice"


def load(module: str) -> Any:
    """A module of the extra. InputError where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{module}: expected the extra: pip install 'egrl[peers]' ({error})") from error


def check_name(library: str, name: str, names: Sequence[str]) -> str:
    """The name, or InputError with those like it."""
    if name in names:
        return name
    near = nearest(name, names, LISTED, LITTLE_ALIKE) or names[:LISTED]
    raise InputError(
        f"--set method.optimiser={name}: expected an optimiser of {library}, such as {', '.join(near)}"
    )


@dataclass(frozen=True)
class NevergradConfig(PeerConfig):
    """Settings of Nevergrad."""

    optimiser: Annotated[str, Doc("a name of its registry")] = "DiscreteLenglerOnePlusOne"
    encoding: Annotated[
        Literal["integer", "choice"],
        Doc('"integer", one bounded variable a decision, rounded; "choice", one unordered choice a decision'),
    ] = "integer"
    budget: Annotated[
        int, Ge(1), Doc("evaluations that its optimisers plan for, where they plan; they go on beyond")
    ] = 4000


class Nevergrad(Peer):
    """An optimiser of Nevergrad's registry, asked for a point at a time (`num_workers = 1`) and told before the next.

    With `told = "ran"` it is told of its own point, then of the one that ran for it, as of a point that it did not ask
    for. Optimisers that refuse such points are told of their own only. The first point is a suggestion, and where the
    optimiser's search begins.
    """

    def __init__(self, context: Context, config: NevergradConfig) -> None:
        super().__init__(context, "nevergrad", config)
        task = self.task
        package = load("nevergrad")
        kind = package.optimizers.registry[
            check_name("nevergrad", config.optimiser, sorted(package.optimizers.registry))
        ]
        self._groups = [np.flatnonzero(task.choices == count) for count in np.unique(task.choices)]
        self._integer = config.encoding == "integer"
        self._size = len(task.choices)
        with warnings.catch_warnings():  # advice on settings that were chosen on purpose
            warnings.simplefilter("ignore")
            if self._integer:
                parameter = package.p.Array(init=task.first.astype(np.float64))
                parameter = parameter.set_bounds(np.zeros(self._size), task.choices - 1.0)
                parameter = parameter.set_integer_casting()
            else:
                kinds = [
                    package.p.Choice(range(int(task.choices[g[0]])), repetitions=len(g), deterministic=True)
                    for g in self._groups
                ]
                parameter = package.p.Tuple(*kinds)
                parameter.value = self._value(task.first)
            self._refused = package.errors.TellNotAskedNotSupportedError
            parameter.random_state.seed(task.seed)
            try:
                self._optimiser = kind(parameter, budget=config.budget, num_workers=1)
                kind(2, budget=4, num_workers=1).ask()
            except (ImportError, RuntimeError) as error:  # a wrapper around something that is not installed
                raise InputError(
                    f"--set method.optimiser={config.optimiser}: this optimiser needs more: {error}"
                ) from error
            self._optimiser.suggest(self._value(task.first))
        self._candidate: Any = None
        self._asked_for = task.first

    def points(self) -> Points:
        """The next point of the optimiser."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._candidate = self._optimiser.ask()
        value = self._candidate.value
        point = np.zeros(self._size, dtype=np.int64)
        if self._integer:
            point[:] = np.asarray(value)
        else:
            for group, part in zip(self._groups, value, strict=True):
                point[group] = part
        self._asked_for = point
        return point[None]

    def _value(self, point: Points) -> Any:
        """What Nevergrad calls a point int64 [D]."""
        if self._integer:
            return point.astype(np.float64)
        return tuple(tuple(point[group].tolist()) for group in self._groups)

    def learn_losses(self, loss: NDArray[np.float64], ran: Points) -> None:
        """Tell the optimiser of its candidate, and of what ran."""
        told = [self._candidate]
        if (ran[0] != self._asked_for).any():
            told.append(self._optimiser.parametrization.spawn_child(new_value=self._value(ran[0])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for candidate in told:
                with suppress(self._refused):  # a few learn only from points of their own; the start is none
                    self._optimiser.tell(candidate, float(loss[0]))


@dataclass(frozen=True)
class OptunaConfig(PeerConfig):
    """Settings of Optuna."""

    optimiser: Annotated[str, Doc("a sampler")] = "TPESampler"
    encoding: Annotated[
        Literal["integer", "choice"],
        Doc('"integer", one ordered number per decision; "choice", one category per decision'),
    ] = "integer"


def _seeded(samplers: Any) -> list[str]:
    """Names of the samplers that need nothing but a seed and never run out of points."""
    found = []
    for name in dir(samplers):
        kind = getattr(samplers, name)
        if inspect.isclass(kind) and name.endswith("Sampler") and name != "BruteForceSampler":
            parameters = inspect.signature(kind).parameters.values()
            needed = [p for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
            if not needed and any(p.name == "seed" for p in parameters):
                found.append(name)
    return found


class Optuna(Peer):
    """A sampler of Optuna, asked for one trial at a time; the first is enqueued.

    With `told = "ran"` it is told of its own point, then of the one that ran for it, as a trial made elsewhere.
    Samplers that learn from generations of their own only (NSGAIISampler) take no heed of it.
    """

    def __init__(self, context: Context, config: OptunaConfig) -> None:
        super().__init__(context, "optuna", config)
        task = self.task
        package = load("optuna")
        name = check_name("optuna", config.optimiser, _seeded(package.samplers))
        package.logging.set_verbosity(package.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                sampler = getattr(package.samplers, name)(seed=task.seed)
            except ImportError as error:
                raise InputError(
                    f"--set method.optimiser={name}: this sampler needs more: {error}"
                ) from error
            self._study = package.create_study(sampler=sampler)
        self._made = package.trial.create_trial
        self._names = [f"x{number:06d}" for number in range(len(task.choices))]
        kinds = package.distributions
        self._space = {
            key: kinds.IntDistribution(0, int(count) - 1)
            if config.encoding == "integer"
            else kinds.CategoricalDistribution(range(int(count)))
            for key, count in zip(self._names, task.choices, strict=True)
        }
        self._study.enqueue_trial(dict(zip(self._names, task.first.tolist(), strict=True)))
        self._trial: Any = None

    def points(self) -> Points:
        """The parameters of the next trial."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._trial = self._study.ask(self._space)
        return np.array([[self._trial.params[key] for key in self._names]], dtype=np.int64)

    def learn_losses(self, loss: NDArray[np.float64], ran: Points) -> None:
        """Tell the study of its trial, and of what ran."""
        own = self._trial.params
        self._study.tell(self._trial, float(loss[0]))
        other = dict(zip(self._names, ran[0].tolist(), strict=True))
        if other != own:
            self._study.add_trial(self._made(params=other, distributions=self._space, value=float(loss[0])))


@dataclass(frozen=True)
class PymooConfig(PeerConfig):
    """Settings of pymoo's genetic algorithm."""

    population: Annotated[
        int, Ge(2), Le(100_000), Doc("of the first generation and of every further one")
    ] = 100


class Pymoo(Peer):
    """pymoo's genetic algorithm on integers: simulated binary crossover and polynomial mutation, both rounded.

    Children that are there already are dropped. Where its population can have no more new children it goes on with
    points drawn at random. With `told = "ran"` it is told of the points that ran instead of its own.
    """

    def __init__(self, context: Context, config: PymooConfig) -> None:
        super().__init__(context, "pymoo", config)
        task = self.task

        def part(module: str) -> Any:
            return load(f"pymoo.{module}")

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


NEVERGRAD = MethodDefinition(NevergradConfig, Nevergrad, serves, {}, group=GROUP)
OPTUNA = MethodDefinition(OptunaConfig, Optuna, serves, {}, group=GROUP)
PYMOO = MethodDefinition(PymooConfig, Pymoo, serves, {}, group=GROUP)
