"""The state of a search (champions, generations, open batches), and the row of metrics of a generation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive, Proposals
from egrl.core.method import Method
from hwsim.problem import Evaluation, Floats, Status


@dataclass(frozen=True)
class Champion:
    """The best evaluation of a problem so far: valid, complete, of finite reward; the first, if several are equal."""

    reward: float
    cost: float
    speedup: float
    source: str
    ticket: int
    mapping: NDArray[np.int16]


@dataclass
class SearchState:
    """The state of the loop, as a checkpoint holds it.

    Attributes:
        champions: one per problem, with the highest reward; None before anything ran (see `Loop.named`).
    """

    generation: int = 0
    seconds: float = 0.0
    finished: bool = False
    champions: list[Champion | None] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    model_calls: float = 0.0
    model_seconds: float = 0.0

    def to_tree(self) -> dict[str, Any]:
        """A tree that `checkpoint` can store."""
        return {**asdict(self), "champions": [None if c is None else asdict(c) for c in self.champions]}

    @staticmethod
    def of_tree(tree: dict[str, Any]) -> SearchState:
        """The inverse of `to_tree`."""
        champions = [None if c is None else Champion(**c) for c in tree["champions"]]
        return SearchState(
            int(tree["generation"]),
            float(tree["seconds"]),
            bool(tree["finished"]),
            champions,
            list(tree["pending"]),
            float(tree["model_calls"]),
            float(tree["model_seconds"]),
        )


def update_champion(state: SearchState, part: Proposals, evaluation: Evaluation) -> None:
    """Make the best of some rows the champion, if it is better than the champion so far."""
    eligible = (evaluation.status == Status.OK) & ~evaluation.partial & np.isfinite(evaluation.reward)
    if not eligible.any():
        return
    row = int(np.argmax(np.where(eligible, evaluation.reward, -np.inf)))
    best = state.champions[part.problem]
    if best is None or evaluation.reward[row] > best.reward:
        state.champions[part.problem] = Champion(
            float(evaluation.reward[row]),
            float(evaluation.cost[row]),
            float(evaluation.speedup[row]),
            str(part.source[row]),
            int(part.tickets[row]),
            evaluation.repaired[row].copy(),
        )


def champion_of(archive: Archive, ticket: int, problem: int) -> Champion:
    """The evaluation that a method keeps. ValueError where it did not run, or is of another problem."""
    ran = 0 <= ticket < len(archive) and archive.column("status")[ticket] == Status.OK
    if not ran or archive.column("problem")[ticket] != problem:
        raise ValueError(
            f"champion: expected the ticket of a valid evaluation of problem {problem}, received {ticket}"
        )
    reward, cost, speedup = (float(archive.column(name)[ticket]) for name in ("reward", "cost", "speedup"))
    mapping = archive.mappings(np.array([ticket]))[0]
    return Champion(reward, cost, speedup, str(archive.sources(np.array([ticket]))[0]), ticket, mapping)


def best_speedup(state: SearchState) -> float:
    """The geometric mean of the champions' speedups over problems; 0 until each has a valid mapping."""
    speedups = [0.0 if c is None else c.speedup for c in state.champions]
    if not all(s > 0 for s in speedups):
        return 0.0
    return math.exp(sum(math.log(s) for s in speedups) / len(speedups))


def metrics_row(
    generation: int, state: SearchState, archive: Archive, first: int, method: Method
) -> dict[str, Any]:
    """The metrics of the generation whose evaluations begin at ticket `first`.

    `best_speedup` is that of the function above; `best_reward` is the mean reward of the champions, NaN until each
    problem has one.
    """
    rows = slice(first, len(archive))
    ok = archive.column("status")[rows] == Status.OK
    champions = [c for c in state.champions if c is not None]
    return {
        "generation": generation,
        "evaluations": len(archive),
        "seconds": round(state.seconds, 3),
        "model_calls": round(state.model_calls, 3),
        "model_seconds": round(state.model_seconds, 3),
        "best_speedup": best_speedup(state),
        "best_reward": float(np.mean([np.nan if c is None else c.reward for c in state.champions])),
        "mean_reward": _mean(archive.column("reward")[rows]),
        "mean_speedup": float(np.mean(archive.column("speedup")[rows])),
        "valid_fraction": float(np.mean(ok)),
        "mean_epsilon": float(np.mean(archive.column("epsilon")[rows])),
        "champion_source": max(champions, key=lambda c: c.ticket).source if champions else "",
        **{name: float(value) for name, value in method.metrics().items()},
    }


def _mean(rewards: Floats) -> float:
    """The mean of the rewards that are finite (a failed measurement has none); NaN if none is."""
    known = rewards[np.isfinite(rewards)]
    return float(known.mean()) if len(known) else math.nan
