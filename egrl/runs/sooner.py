"""Whether a run could stop sooner: a note while it goes on, and what its summary says of `--until-gap`.

Both watch from outside, as `egrl/runs/gap.py` does: the search never sees a bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from egrl.core.budget import Budget
from egrl.core.recorder import Observer
from egrl.runs import progress
from egrl.runs.config import share_of
from egrl.runs.gains import IDLE, Gains
from egrl.runs.gap import Gap
from egrl.runs.summary import BUDGET
from egrl.runs.verdict import OPTIMAL, percent_up

NEAR = 5e-3
"""The gap below which going on hardly pays, if nothing was gained for long. Assumption."""
LONG = 20
"""Generations without a gain after which that is said. Assumption."""
WIDEST = 0.05
"""The widest gap that `--until-gap` is advised with: a wider one says little of another seed. Assumption."""


class HardlyPays(Observer):
    """Says once per run that going on hardly pays: the gap is below `NEAR`, and `LONG` generations gained nothing."""

    def __init__(
        self, gap: Gap, gains: Gains, budget: Budget, rows: Sequence[Mapping[str, Any]], quiet: bool
    ) -> None:
        """`rows` are the metrics of a run that is resumed: what was said then is not said again."""
        self._gap, self._gains, self._budget, self._quiet = gap, gains, budget, quiet
        before = Gains(budget.generation_evals)
        self._said = False
        for row in rows:
            before.generation(row)
            self._said = self._said or self._due(row, before)

    def generation(self, row: Mapping[str, Any]) -> None:
        """Look, after `gap` and `gains` have; nothing is said where the search ends anyway."""
        over = self._gap.reached or self._gains.count == self._budget.evaluations
        if self._said or over or not self._due(row, self._gains):
            return
        self._said = True
        left = self._gap.to(float(row["best_speedup"]))
        progress.note(
            f"at most {percent_up(left)} can still be gained, and {LONG} generations have gained nothing; Ctrl-C ends"
            " the run and keeps the best",
            self._quiet,
        )

    def _due(self, row: Mapping[str, Any], gains: Gains) -> bool:
        return gains.idle(LONG) > 0 and self._gap.to(float(row["best_speedup"])) < NEAR


def sooner(gap: Gap, gains: Gains, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `--until-gap` saves a run that was not given it, for the `document` of its summary; None if that is little.

    It is little if less than half of the evaluations came after the last gain, or fewer than `IDLE` generations.

    Returns:
        `until_gap`, the share to give; `evaluations`, after which the best was so near to the bound; `rest`, the share
        by which all others improved it; `known`, True if the bound was known from the beginning.
    """
    cost, (count, speedup) = document["bound"], gains.last()
    late = 2 * count > gains.count or not gains.idle(IDLE)
    if not gap.unasked or document["stopped"] != BUDGET or cost is None or "reward_bound" in document or late:
        return None
    if gap.to(speedup, cost) > WIDEST:
        return None
    for share in _shares(gap.to(speedup, cost)):
        limit = max(share_of(share) or 0.0, OPTIMAL)
        stop = next(rise for rise in gains.rises if gap.to(rise[1], cost) <= limit)
        if stop[0] == count:
            break
    rest = document["best"]["speedup"] / stop[1] - 1.0
    known = gap.begun_with.cost >= cost
    return {"until_gap": share, "evaluations": stop[0], "rest": rest, "known": known}


def _shares(gap: float) -> tuple[str, ...]:
    """Shares above a gap (of an optimum: 0), as `--until-gap` takes them, the rounder one first."""
    if gap <= OPTIMAL:
        return ("0%",)
    return f"{(math.floor(gap * 1e3) + 1) / 10:g}%", f"{(math.floor(gap * 1e4) + 1) / 100:g}%"
