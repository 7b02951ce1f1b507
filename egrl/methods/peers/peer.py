"""Other people's optimisers behind ask and tell (the extra `peers`): `nevergrad.py`, `optuna.py` and `pymoo.py`.

What an optimiser sees: a vector of D integers, one for each live decision that has a choice, 0 <= x < its number of
choices; the start mapping (or the problem's initial one) as the first point, measured and told first; and as the loss
the negative reward of what ran for its point, the same that every other method sees. It is told of its own point or,
with `told = "ran"`, of the point that ran for it, which has the same loss, as far as its interface allows: each file
says how. The former is the default since it finds more (docs/results/neighbourhood.md). A measurement that failed has
the loss `FAILED`. They know neither sizes nor moves: they are black-box optimisers, which see integers.

They are deterministic given the seed, and none can say what its state is: an optimiser is brought back by asking and
telling it again.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.keys import REPAIR
from egrl.core.method import Context, Method
from egrl.core.proposals import START, Proposals, proposals
from egrl.core.registry import MethodDefinition
from hwsim.mappings import repair
from hwsim.problem import Evaluation, Mapping16, Problem
from workloads.errors import InputError
from workloads.nearest import nearest

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
    near = nearest(name, names, LISTED, LITTLE_ALIKE) or names[:LISTED]
    raise InputError(
        f"--method {method}:{name}: expected an optimiser of {method}, such as {', '.join(near)}"
    )


def definition(config: type, build: Callable[[Context, Any], Peer]) -> MethodDefinition:
    """The definition of a peer with these settings."""
    return MethodDefinition(config, build, serves, {}, group=GROUP)
