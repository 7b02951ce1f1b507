"""Other people's optimisers behind ask and tell (the extra `peers`): `nevergrad.py`, `optuna.py` and `pymoo.py`.

What an optimiser sees: a vector of D integers, one for each live decision that has a choice, 0 <= x < its number of
choices; the start mapping (or the problem's initial one) as the first point, measured and told first; and as the loss
the negative reward of what ran for its point, the same that every other method sees. It is told of its own point, not
of the repaired one. A measurement that failed has the loss `FAILED`.

They are deterministic given the seed, and none can say what its state is: a checkpoint keeps all losses so far, and an
optimiser is brought back by asking and telling it again.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egrl.core.keys import REPAIR, run_keys
from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition
from hwsim.mappings import repair
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
        first = self._problem.space.initial if self._start is None else self._start
        seed = int(setting.generator(f"peer {name}").integers(2**31))
        point = np.maximum(first[self._open], 0).astype(np.int64)
        self._optimiser = build(
            Task(self._problem.space.num_choices[self._open].astype(np.int64), point, seed)
        )
        self._batch: Mapping16 = np.zeros((0, *first.shape), np.int16)
        self._loss = np.zeros(0)
        self._losses: list[NDArray[np.float64]] = []
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
        mapping = np.where(problem.space.live, np.int16(0), np.int16(-1))
        batch = np.repeat(mapping[None], len(points), axis=0)
        batch[:, self._open] = points
        keys = run_keys(self._setting.seed, np.arange(self._proposed, self._proposed + len(batch)), REPAIR)
        batch = repair(problem, batch, keys)
        if self._proposed == 0:
            batch[0] = problem.space.initial if self._start is None else self._start
        return batch

    def learn(self) -> None:
        """The optimiser learns when it is told."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Tell the optimiser once its whole batch has been measured."""
        rows = slice(self._told, self._told + len(proposals))
        usable = (evaluation.status <= Status.INVALID) & np.isfinite(evaluation.reward)
        self._loss[rows] = np.where(usable, -evaluation.reward, FAILED)
        self._told = rows.stop
        self._losses.append(self._loss[rows].copy())
        if self._told == len(self._batch):
            self._optimiser.tell(self._loss)

    def metrics(self) -> Mapping[str, float]:
        """No metrics of its own."""
        return {}

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """How many rows were proposed, and the losses told."""
        return {"proposed": self._proposed, "losses": np.concatenate([np.zeros(0), *self._losses])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`, for a method that has not been asked yet."""
        losses, proposed = np.array(state["losses"], np.float64), int(state["proposed"])
        self._losses = [losses]
        while self._proposed < proposed:
            points = self._optimiser.ask()
            left = losses[self._proposed :]
            if len(left) >= len(points):
                self._optimiser.tell(left[: len(points)])
                self._proposed += len(points)
                continue
            self._batch, self._loss = self._mappings(points), np.zeros(len(points))
            self._loss[: len(left)], self._told = left, len(left)
            self._asked, self._proposed = proposed - self._proposed, proposed


def _open(problem: Problem) -> NDArray[np.bool_]:
    """bool [N, H]: the live decisions with more than one choice."""
    return problem.space.live & (problem.space.num_choices > 1)


def serves(problem: Problem) -> str | None:
    """A peer needs something to decide."""
    return None if _open(problem).any() else "no decision has more than one choice"


def load(module: str, name: str) -> Any:
    """A module of the extra. InputError where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"--method {name}: expected the extra: pip install 'egrl[peers]' ({error})"
        ) from error


def check_name(method: str, name: str, names: Sequence[str]) -> str:
    """The name, or InputError with those like it."""
    if name in names:
        return name
    folded = {entry.lower(): entry for entry in names}
    near = [folded[entry] for entry in difflib.get_close_matches(name.lower(), list(folded), 5, 0.3)]
    near = near or list(names[:5])
    raise InputError(
        f"--method {method}:{name}: expected an optimiser of {method}, such as {', '.join(near)}"
    )


def definition(method: str, config: type, build: Callable[[Task, Any], Optimiser]) -> MethodDefinition:
    return MethodDefinition(
        config, lambda setting, own: Peer(setting, method, lambda task: build(task, own)), serves, {}
    )
