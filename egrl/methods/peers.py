"""Other people's optimisers behind ask and tell: Nevergrad, Optuna, pymoo (the extra `peers`).

    nevergrad:NAME   any optimiser of Nevergrad's registry (default DiscreteLenglerOnePlusOne)
    optuna:NAME      a sampler of Optuna (default TPESampler)
    pymoo:GA         pymoo's genetic algorithm on integers

Sources: Bennet et al., "Nevergrad: black-box optimization platform" (2021); Akiba et al., "Optuna" (KDD 2019);
Blank and Deb, "pymoo: multi-objective optimization in Python" (IEEE Access, 2020).

What an optimiser sees: a vector of D integers, one for each live decision that has a choice, 0 <= x < its number of
choices; the start mapping (or the problem's initial one) as the first point, measured and told first; and as the loss
the negative reward of what ran for its point, the same that every other method sees. It is told of its own point, not
of the repaired one. A measurement that failed has the loss `FAILED`.

They are deterministic given the seed, and resumed by replaying the archive: none can say what its state is.

Deviations: Nevergrad asks for one point at a time (`num_workers = 1`) and is told before the next; so is Optuna.
A genetic algorithm whose population can have no more new children goes on with points drawn at random.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from egrl.keys import REPAIR, run_keys
from egrl.methods import Definition
from egrl.types import Proposals, Setting, proposals
from hwsim.problem import Evaluation, Mapping16, Problem, Status
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.store import StoredPolicy

FAILED = 1000.0
"""Loss of a failed measurement; of others it is at most 1 (where nothing ran) and mostly below 0."""

Points = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """What an optimiser is told of a problem: numbers of choices int64 [D], a first point int64 [D], a seed."""

    choices: Points
    first: Points
    seed: int


class Optimiser(Protocol):
    """Strict turns: `ask` gives points int64 [B, D], `tell` takes their losses float64 [B], lower is better."""

    def ask(self) -> Points: ...
    def tell(self, loss: NDArray[np.float64]) -> None: ...


class Peer:
    """A `Method` made of an optimiser."""

    metric_names: tuple[str, ...] = ()

    def __init__(self, setting: Setting, name: str, build: Callable[[Task], Optimiser]) -> None:
        """Raises InputError where there are several problems."""
        if len(setting.problems) != 1:
            raise InputError(f"this method takes one workload, found {len(setting.problems)}")
        self._setting, self._name = setting, name
        self._problem = setting.problems[0]
        self._open = _open(self._problem)
        self._start = setting.start[0]
        first = self._problem.initial if self._start is None else self._start
        seed = int(setting.generator(f"peer {name}").integers(2**31))
        point = np.maximum(first[self._open], 0).astype(np.int64)
        self._optimiser = build(Task(self._problem.num_choices[self._open].astype(np.int64), point, seed))
        self._batch: Mapping16 = np.zeros((0, *first.shape), np.int16)
        self._loss = np.zeros(0)
        self._asked = self._told = self._proposed = 0

    def ask(self, room: int) -> Proposals | None:
        """The next rows of the optimiser's batch; a new batch once all of it has been told."""
        if self._told == len(self._batch):
            self._batch = self._mappings(self._optimiser.ask())
            self._loss = np.zeros(len(self._batch))
            self._asked = self._told = 0
        rows = slice(self._asked, min(len(self._batch), self._asked + room))
        names = [self._name] * (rows.stop - rows.start)
        if self._proposed == 0 and self._start is not None:
            names[0] = "start"
        self._asked = rows.stop
        self._proposed += len(names)
        return proposals(self._batch[rows], names)

    def _mappings(self, points: Points) -> Mapping16:
        """Mappings [B, N, H] of points [B, D]; the very first row is the start mapping as it was given."""
        problem = self._problem
        mapping = np.where(problem.size_bytes > 0, np.int16(0), np.int16(-1))
        batch = np.repeat(mapping[None], len(points), axis=0)
        batch[:, self._open] = points
        keys = run_keys(self._setting.seed, np.arange(self._proposed, self._proposed + len(batch)), REPAIR)
        batch = problem.repair(batch, keys)
        if self._proposed == 0:
            batch[0] = problem.initial if self._start is None else self._start
        return batch

    def learn(self) -> None:
        """The optimiser learns when it is told."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Tell the optimiser once its whole batch has been measured."""
        rows = slice(self._told, self._told + len(proposals))
        usable = (evaluation.status <= Status.INVALID) & np.isfinite(evaluation.reward)
        self._loss[rows] = np.where(usable, -evaluation.reward, FAILED)
        self._told = rows.stop
        if self._told == len(self._batch):
            self._optimiser.tell(self._loss)

    def metrics(self) -> Mapping[str, float]:
        """No metrics of its own."""
        return {}

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """None: resumed by replaying the archive."""
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """ValueError: there is no state to load."""
        raise ValueError("state: expected none (resumed by replaying the archive), received one")


def _open(problem: Problem) -> NDArray[np.bool_]:
    """bool [N, H]: the live decisions with more than one choice."""
    return (problem.size_bytes > 0) & (problem.num_choices > 1)


def serves(problem: Problem) -> str | None:
    """A peer needs something to decide."""
    return None if _open(problem).any() else "no decision has more than one choice"


def _load(module: str, name: str) -> Any:
    """A module of the extra. InputError where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"--method {name}: expected the extra: pip install 'egrl[peers]' ({error})"
        ) from error


def _known(method: str, name: str, names: Sequence[str]) -> str:
    """The name, or InputError with those like it."""
    if name in names:
        return name
    folded = {entry.lower(): entry for entry in names}
    near = [folded[entry] for entry in difflib.get_close_matches(name.lower(), list(folded), 5, 0.3)]
    near = near or list(names[:5])
    raise InputError(
        f"--method {method}:{name}: expected an optimiser of {method}, such as {', '.join(near)}"
    )


def _definition(method: str, config: type, build: Callable[[Task, Any], Optimiser]) -> Definition:
    return Definition(
        config, lambda setting, own: Peer(setting, method, lambda task: build(task, own)), serves, {}
    )


# ---- Nevergrad


@dataclass(frozen=True)
class NevergradConfig:
    """Settings of Nevergrad.

    Attributes:
        encoding: "integer", one bounded variable a decision, rounded; "choice", one unordered choice a decision.
        budget: evaluations that its optimisers plan for, where they plan; they go on beyond.
    """

    encoding: Literal["integer", "choice"] = "integer"
    budget: Annotated[int, Ge(1)] = 4000


def nevergrad(name: str) -> Definition:
    """The method `nevergrad:NAME`. InputError where the extra or the name is missing."""
    package = _load("nevergrad", f"nevergrad:{name}")
    chosen = _known("nevergrad", name or "DiscreteLenglerOnePlusOne", sorted(package.optimizers.registry))
    return _definition("nevergrad", NevergradConfig, lambda task, own: NevergradOptimiser(task, chosen, own))


class NevergradOptimiser:
    """One point at a time; the first is a suggestion, and where the optimiser's search begins."""

    def __init__(self, task: Task, name: str, config: NevergradConfig) -> None:
        package = _load("nevergrad", f"nevergrad:{name}")
        self._groups = [np.flatnonzero(task.choices == count) for count in np.unique(task.choices)]
        self._integer = config.encoding == "integer"
        self._size = len(task.choices)
        with warnings.catch_warnings():  # advice on settings that were chosen on purpose
            warnings.simplefilter("ignore")
            if self._integer:
                parameter = package.p.Array(init=task.first.astype(np.float64))
                parameter = parameter.set_bounds(np.zeros(self._size), task.choices - 1.0)
                parameter = parameter.set_integer_casting()
                first: Any = task.first.astype(np.float64)
            else:
                kinds = [
                    package.p.Choice(range(int(task.choices[g[0]])), repetitions=len(g), deterministic=True)
                    for g in self._groups
                ]
                parameter = package.p.Tuple(*kinds)
                first = tuple(tuple(task.first[g].tolist()) for g in self._groups)
                parameter.value = first
            self._refused = package.errors.TellNotAskedNotSupportedError
            parameter.random_state.seed(task.seed)
            self._optimiser = package.optimizers.registry[name](
                parameter, budget=config.budget, num_workers=1
            )
            self._optimiser.suggest(first)
        self._candidate: Any = None

    def ask(self) -> Points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._candidate = self._optimiser.ask()
        value = self._candidate.value
        if self._integer:
            return np.asarray(value, dtype=np.int64)[None]
        point = np.zeros(self._size, dtype=np.int64)
        for group, part in zip(self._groups, value, strict=True):
            point[group] = part
        return point[None]

    def tell(self, loss: NDArray[np.float64]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(
                self._refused
            ):  # a few learn only from what they thought of: the start is no news to them
                self._optimiser.tell(self._candidate, float(loss[0]))


# ---- Optuna


@dataclass(frozen=True)
class OptunaConfig:
    """Settings of Optuna.

    Attributes:
        encoding: "integer", an ordered number a decision; "choice", a category a decision.
    """

    encoding: Literal["integer", "choice"] = "integer"


def optuna(name: str) -> Definition:
    """The method `optuna:NAME`. InputError where the extra or the name is missing."""
    samplers = _load("optuna", f"optuna:{name}").samplers
    chosen = _known("optuna", name or "TPESampler", _seeded(samplers))
    return _definition("optuna", OptunaConfig, lambda task, own: OptunaOptimiser(task, chosen, own))


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


class OptunaOptimiser:
    """One trial at a time; the first is enqueued."""

    def __init__(self, task: Task, name: str, config: OptunaConfig) -> None:
        package = _load("optuna", f"optuna:{name}")
        package.logging.set_verbosity(package.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                sampler = getattr(package.samplers, name)(seed=task.seed)
            except ImportError as error:
                raise InputError(f"--method optuna:{name}: this sampler needs more: {error}") from error
            self._study = package.create_study(sampler=sampler)
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

    def ask(self) -> Points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._trial = self._study.ask(self._space)
        return np.array([[self._trial.params[key] for key in self._names]], dtype=np.int64)

    def tell(self, loss: NDArray[np.float64]) -> None:
        self._study.tell(self._trial, float(loss[0]))


# ---- pymoo


@dataclass(frozen=True)
class PymooConfig:
    """Settings of pymoo's genetic algorithm.

    Attributes:
        population: of the first generation and of every further one.
    """

    population: Annotated[int, Ge(2), Le(100_000)] = 100


def pymoo(name: str) -> Definition:
    """The method `pymoo:GA`. InputError where the extra is missing or another name is given."""
    _load("pymoo", f"pymoo:{name}")
    _known("pymoo", name or "GA", ["GA"])
    return _definition("pymoo", PymooConfig, PymooOptimiser)


class PymooOptimiser:
    """Simulated binary crossover and polynomial mutation, both rounded; children that are there already are dropped."""

    def __init__(self, task: Task, config: PymooConfig) -> None:
        def part(module: str) -> Any:
            return _load(f"pymoo.{module}", "pymoo:GA")

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
        self._asked: Any = None

    def _random(self) -> Points:
        return self._rng.integers(0, self._choices, (self._size, len(self._choices)))

    def ask(self) -> Points:
        self._asked = self._algorithm.ask()
        if self._asked is None or not len(self._asked):
            self._asked = self._population.new("X", self._random())
            self._asked.set("n_gen", self._algorithm.n_iter)
        points: Points = np.asarray(self._asked.get("X")).astype(np.int64)
        return points

    def tell(self, loss: NDArray[np.float64]) -> None:
        self._asked.set("F", loss[:, None])
        self._algorithm.tell(infills=self._asked)
