"""The state of a search (champions, generations, open batches), and the row of metrics of a generation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.core.method import Method
from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Floats, Status
from hwsim.space import Space


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
            list(tree.get("pending", [])),
            float(tree.get("model_calls", 0.0)),
            float(tree.get("model_seconds", 0.0)),
        )


def check_tree(tree: dict[str, Any], mappings: Sequence[NDArray[np.int16]]) -> None:
    """Raise ValueError unless it is a tree of `to_tree`, of as many problems with mappings [N, H] like these."""
    fault = state_mismatch(SearchState().to_tree(), tree, "loop")
    if fault is None and len(tree["champions"]) != len(mappings):
        fault = f"loop.champions: expected {len(mappings)}, found {len(tree['champions'])}"
    for number, (mapping, found) in enumerate(
        zip(mappings, tree["champions"] if fault is None else (), strict=False)
    ):
        if found is None:  # nothing has run yet
            continue
        new = asdict(Champion(0.0, 0.0, 0.0, "", 0, mapping))
        fault = fault or state_mismatch(new, found, f"loop.champions[{number}]")
        if fault is None and found["mapping"].shape != mapping.shape:
            fault = f"loop.champions[{number}].mapping: expected shape {mapping.shape}"
    if fault is not None:
        raise ValueError(fault)


def check_pending(pending: Sequence[dict[str, Any]], spaces: Sequence[Space], evaluations: int) -> None:
    """Raise ValueError unless open batches follow each other, the first one from among so many evaluations."""
    end = None
    for number, tree in enumerate(pending):
        where, mapping, source = f"loop.pending[{number}]", tree["mapping"], tree["source"]
        first, known, problem = (int(tree[name]) for name in ("first", "known", "problem"))
        if not 0 <= problem < len(spaces):
            raise ValueError(f"{where}.problem: expected 0..{len(spaces) - 1}, found {problem}")
        if not isinstance(mapping, np.ndarray) or mapping.dtype != np.int16 or mapping.ndim != 3:
            raise ValueError(f"{where}.mapping: expected int16 [B, N, H]")
        if mapping.shape[1:] != spaces[problem].shape:
            raise ValueError(f"{where}.mapping: expected {list(spaces[problem].shape)} decisions")
        if len(source) != len(mapping) or not all(isinstance(name, str) for name in source):
            raise ValueError(f"{where}.source: expected {len(mapping)} words")
        follows = 0 <= first <= evaluations if end is None else first == end
        if not follows or not 0 <= known <= first or not len(mapping):
            raise ValueError(f"{where}: expected the tickets after those before, found {first} and {known}")
        end = first + len(mapping)


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


# ---- states in checkpoints


def state_mismatch(new: Any, found: Any, where: str = "method") -> str | None:
    """The first place at which the state `found` differs in kind from that of a new method, in words; None: nowhere.

    The kinds of values and the shapes of arrays must be the same. Where the new state has None, anything may stand;
    tables may have further keys, lists another length, and arrays more rows.
    """
    if new is None:
        return None
    if found is None:
        return f"{where}: expected {type(new).__name__}, found none"
    if isinstance(new, Mapping):
        if not isinstance(found, Mapping) or not set(new) <= set(found):
            return f"{where}: expected a table with the keys {', '.join(map(str, new))}"
        pairs = [(f"{where}.{key}", value, found[key]) for key, value in new.items()]
        return next((fault for at, a, b in pairs if (fault := state_mismatch(a, b, at))), None)
    if isinstance(new, list | tuple):
        if not isinstance(found, list | tuple):
            return f"{where}: expected a list"
        if len(new) != len(found):
            return None
        parts = enumerate(zip(new, found, strict=True))
        return next((fault for i, (a, b) in parts if (fault := state_mismatch(a, b, f"{where}[{i}]"))), None)
    if getattr(new, "shape", ()):
        return _array_mismatch(new, found, where)
    plain = not hasattr(new, "shape") or isinstance(new, np.generic)
    if plain and isinstance(found, np.ndarray):
        return f"{where}: expected {_kind(new).__name__}, found an array"
    if _kind(new) is not _kind(found):
        return f"{where}: expected {_kind(new).__name__}, found {_kind(found).__name__}"
    if isinstance(new, int) and not math.isfinite(found):
        return f"{where}: expected a finite number, found {found}"
    return None


def _array_mismatch(new: Any, found: Any, where: str) -> str | None:
    shape, given = tuple(new.shape), tuple(getattr(found, "shape", ()))
    if not hasattr(found, "shape") or len(given) != len(shape) or given[1:] != shape[1:] or given < shape:
        return f"{where}: expected an array of shape {shape}, found {given or type(found).__name__}"
    kinds = [np.asarray(part).dtype.kind for part in (new, found)]
    if kinds[0] != kinds[1]:
        return f"{where}: expected an array of kind {kinds[0]}, found {kinds[1]}"
    return None


def _kind(value: object) -> type:
    """Numbers are of one kind, whole or not."""
    number = isinstance(value, bool | int | float | np.generic) or getattr(value, "shape", None) == ()
    return float if number else type(value)
