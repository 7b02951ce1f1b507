"""Few changes that keep most of what a mapping gains, as a board measures it.

Which changes are tried comes from a model: mappings of its front and the first steps of its order, best first. If the
model does not explain the gain, a third of the requests first measures what each group of changes is worth, and what is
worth the least is left out, too. What they keep is measured in two halves of the other requests: in the first one
candidate is chosen, with the fewest changes that surely keep the share (or keep it by the measurements and by a model
that explains the gain); in the second it is measured beside the whole mapping and the baseline. Only the second
counts, since the luck of the first had a part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.measure.board_executor import BoardExecutor
from egrl.runs.contest import LEAST_ROUNDS, Contest, contest, unlike
from egrl.runs.simplified import SHARES, Simplified
from egrl.runs.text import baseline_text, counted
from hwsim.nearest import Costs, best_first
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError

PARTS = (0.25, 0.5, 0.75)
"""Shares of the steps, best first, that are tried beside the front."""
LEAST_REQUESTS = 3 * LEAST_ROUNDS * 4


@dataclass(frozen=True)
class Kept:
    """What a board says of a mapping with fewer changes.

    Attributes:
        mapping: int16 [N, H].
        changes, of: how many it has, and how many the whole mapping has.
        keep: the share of the gain that was asked for.
        tried: different candidates.
        found: the second half: the baseline, the whole mapping, and the chosen one, if it is another.
    """

    mapping: Mapping16
    changes: int
    of: int
    keep: float
    tried: int
    found: Contest

    @property
    def at(self) -> int:
        """The number of the chosen mapping in the contest."""
        return len(self.found.measured) - 1

    @property
    def gains(self) -> bool:
        """Whether the whole mapping is surely faster than the baseline."""
        return self.found.interval(1)[0] > 1

    @property
    def confirmed(self) -> bool:
        """Whether the chosen mapping surely keeps the share of a gain that is sure."""
        return self.gains and (self.at == 1 or self.found.kept(self.at, 1)[1] >= self.keep)


def candidates(simplified: Simplified, best: Mapping16, most: int) -> list[Mapping16]:
    """At most so many different mappings int16 [N, H] with fewer changes than the best one, fewest changes first."""
    front, problem = simplified.front, simplified.problem
    numbers = sorted({simplified.at, *(front.fewest(share) for share in SHARES)} - {0})
    found = [front.mapping[at] for at in numbers]
    steps, now = best_first(problem, best), problem.baseline.mapping.copy()
    ends = {max(int(part * len(steps)), 1) for part in PARTS} if len(steps) > 1 else set()
    for number, step in enumerate(steps, start=1):
        now = now.copy()
        nodes, heads = step.changes.T
        now[nodes, heads] = best[nodes, heads]
        if number in ends:
            found.append(now)
    found = [mapping for mapping in found if 0 < _changes(problem, mapping) < _changes(problem, best)]
    found = _by_changes(problem, found)
    if len(found) <= most or most <= 0:
        return found[: max(most, 0)]
    return [found[at] for at in np.unique(np.linspace(0, len(found) - 1, most).astype(np.int64))]


def _changes(problem: Problem, mapping: Mapping16) -> int:
    return int((mapping != problem.baseline.mapping).sum())


def measure_few(
    boards: BoardExecutor,
    simplified: Simplified,
    best: Mapping16,
    keep: float,
    requests: int,
    known: Sequence[Sequence[float]] = (),
    trusted: bool = False,
) -> Kept:
    """The fewest changes of a valid mapping int16 [N, H] that keep a share of its gain, by so many requests.

    `trusted`: the model explains the gain that was measured; then what it says and a measurement says is enough, else
    the measurements have to be sure. InputError where the requests are too few.
    """
    if requests < LEAST_REQUESTS:
        raise InputError(f"--requests {requests}: expected at least {LEAST_REQUESTS}")
    left, few = requests, list[Mapping16]()
    if not trusted:
        few = _without_least(boards, simplified, best, keep, requests // 3, known)
        left -= requests // 3
    half = left // 2
    few = _by_changes(
        simplified.problem, [*few, *candidates(simplified, best, half // LEAST_ROUNDS - 2 - len(few))]
    )
    chosen = best
    if few:
        first = contest(boards, [boards.baseline, best, *few], half, known)
        said = _by_model(simplified, few, keep) if trusted else [False] * len(few)
        for at, mapping in enumerate(few):
            if first.runs(at + 2) and first.runs(1):
                value, low, _ = first.kept(at + 2, 1)
                if low >= keep or (said[at] and keep <= value < math.inf):
                    chosen = mapping
                    break
    pair = [boards.baseline, best, chosen]
    second = contest(boards, [pair[at] for at in unlike(pair)], left - half, known)
    problem = simplified.problem
    return Kept(chosen, _changes(problem, chosen), _changes(problem, best), keep, len(few), second)


def _without_least(
    boards: BoardExecutor,
    simplified: Simplified,
    best: Mapping16,
    keep: float,
    requests: int,
    known: Sequence[Sequence[float]],
) -> list[Mapping16]:
    """The best mapping without the groups of changes that are worth the least, as a board measures them; [] if none.

    Groups are neighbours in the model's order, best first; of what cannot be undone alone nothing is measured.
    """
    problem, base = simplified.problem, simplified.problem.baseline.mapping
    changes = np.concatenate([step.changes for step in best_first(problem, best)])
    groups = np.array_split(changes, max(min(requests // LEAST_ROUNDS - 2, len(changes)), 1))
    undone = [(group, _undone(problem, best, base, group)) for group in groups]
    alone = [(group, mapping) for group, mapping in undone if mapping is not None]
    if len(alone) < 2:
        return []
    found = contest(boards, [boards.baseline, best, *(mapping for _, mapping in alone)], requests, known)
    losses = [1 - found.kept(at + 2, 1)[0] if found.runs(at + 2) else math.inf for at in range(len(alone))]
    lost, out = 0.0, np.zeros((0, 2), np.int64)
    for at in np.argsort(losses):
        lost += max(losses[at], 0.0)
        if lost > 1 - keep:
            break
        out = np.concatenate([out, alone[at][0]])
    least = _undone(problem, best, base, out) if len(out) else None
    return [] if least is None or not _changes(problem, least) else [least]


def _undone(
    problem: Problem, best: Mapping16, base: Mapping16, changes: NDArray[np.int64]
) -> Mapping16 | None:
    """A mapping without some changes int64 [K, 2], node and head of each; None where it would not run as it stands."""
    nodes, heads = changes.T
    mapping = best.copy()
    mapping[nodes, heads] = base[nodes, heads]
    return None if problem.judge(mapping) else mapping


def _by_changes(problem: Problem, mappings: Sequence[Mapping16]) -> list[Mapping16]:
    """Different mappings, fewest changes first."""
    return sorted((mappings[at] for at in unlike(mappings)), key=lambda mapping: _changes(problem, mapping))


def _by_model(simplified: Simplified, mappings: Sequence[Mapping16], keep: float) -> list[bool]:
    """Whether each mapping int16 [N, H] keeps the share of the gain by the model."""
    costs, front = Costs(simplified.problem), simplified.front
    base, goal = float(front.cost[0]), front.goal[1]
    return [base - costs.of(mapping) >= keep * (base - goal) > 0 for mapping in mappings]


def document_of(kept: Kept, problem: Problem) -> dict[str, Any]:
    """For --json."""
    rows = [
        {"speedup": kept.found.speedup(at), "speedup_interval": list(kept.found.interval(at))}
        for at in (1, kept.at)
    ]
    share, low, high = kept.found.kept(kept.at, 1)
    return {
        "kind": "measured simplification",
        "version": 1,
        **problem.about.names,
        "keep": kept.keep,
        "given": {"changes": kept.of, **rows[0]},
        "chosen": {"changes": kept.changes, **rows[1], "kept": share, "kept_interval": [low, high]},
        "confirmed": kept.confirmed,
        "noise": kept.found.noise.relative,
        "tried": kept.tried,
    }


def text_of(kept: Kept, problem: Problem) -> str:
    """The answer for people."""
    found, at, over = kept.found, kept.at, baseline_text(problem.about, problem.baseline.name)
    whole, chosen = (f"{found.speedup(k):.4f}x ({_between(found.interval(k))})" for k in (1, at))
    if not kept.gains:
        return (
            f"the gain itself is not confirmed: {whole} over {over} by these requests; more --requests tell, or keep"
            " the baseline's mapping"
        )
    if at == 1:
        every = f"all {counted(kept.of, 'change')}: measured {whole} over {over}"
        return f"{every}\nno fewer were found to keep {kept.keep:.0%} of the gain"
    share, low, high = found.kept(at, 1)
    sure = "confirmed" if kept.confirmed else f"{kept.keep:.0%} is not confirmed"
    return (
        f"{kept.changes} of {counted(kept.of, 'change')}: measured {chosen} over {over}, all of them {whole}\n"
        f"they keep {share:.0%} of the gain (95% interval {low:.0%} to {high:.0%}): {sure}"
    )


def _between(interval: tuple[float, float]) -> str:
    return f"95% interval {interval[0]:.4f}x to {interval[1]:.4f}x"
