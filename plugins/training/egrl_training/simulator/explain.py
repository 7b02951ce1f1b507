"""Where the time of a training step goes under a plan, and what is in memory at its fullest moment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.simulate import Runs, last_uses, memory_of, runs_of
from egrl_training.simulator.tables import Bools, Ints, Tables
from egrl_training.steps.step import TrainingStep
from hwsim.explanation import Breakdown, Holder, Payer

SHOWN = 10
"""Values that are named of each kind."""
CHOICES = ("recompute", "keep", "offload")
"""The last one only where there is a host."""


def explain(step: TrainingStep, t: Tables, plan: NDArray[np.int16], limit_bytes: int) -> Breakdown:
    """The breakdown of a plan int16 [N]; seconds of the forward pass, of the backward pass, and of ops that run again.

    With a host, also those of waiting for copies to it and back.

    Payers are the ops that run again, dearest first; each is called by the largest value that it makes and that was not
    kept.
    """
    runs = runs_of(t, plan)
    held = np.empty(len(runs.op), np.int64)
    peak = int(memory_of(t, runs, held))
    order = runs.op[: runs.length]
    again = np.zeros(len(t.phase), np.bool_)
    again[order[runs.turn :]] = True
    again &= np.isin(np.arange(len(t.phase)), order[: runs.turn])
    forward = float(t.seconds[order[: runs.turn]].sum())
    late = order[runs.turn :]
    recomputed, backward = float(t.again_s[again].sum()), float(t.seconds[late[~again[late]]].sum())
    dearest = _dearest(t, again & (t.again_s > 0), runs)
    parts = {"forward": forward, "backward": backward, "computed again": recomputed}
    if t.to_host_s.any():
        parts["waiting for the host"] = float(runs.wait_s.sum())
    fullest = int(held[: runs.length].argmax())
    return Breakdown(
        sum(parts.values()),
        parts,
        tuple(Payer(_name(step, t, s), CHOICES[0], float(t.again_s[t.maker[s]]), 0.0) for s in dearest),
        limit_bytes,
        peak,
        fullest,
        _holders(step, t, plan, runs, fullest),
    )


def _dearest(t: Tables, again: Bools, runs: Runs) -> Ints:
    """The largest storage that is not saved of each op that runs again, the ops that take longest first."""
    decided = np.flatnonzero((t.decision >= 0) & ~runs.saved)
    paid = decided[again[t.maker[decided]]]
    paid = paid[np.lexsort((-t.size_bytes[paid], t.maker[paid]))]
    first = np.unique(t.maker[paid], return_index=True)[1]
    return paid[first][np.argsort(-t.again_s[t.maker[paid[first]]], kind="stable")][:SHOWN]


def _name(step: TrainingStep, t: Tables, storage: int) -> str:
    return step.label(int(t.storage[storage]))


def _holders(
    step: TrainingStep, t: Tables, plan: NDArray[np.int16], runs: Runs, at: int
) -> tuple[Holder, ...]:
    """The largest storages in memory during run `at`: those that ops make, and parameters, inputs and tangents."""
    begin, end = spans(t, runs, at)
    there = np.flatnonzero((begin <= at) & (at < end) & (t.size_bytes > 0))
    largest = there[np.argsort(-t.size_bytes[there], kind="stable")][:SHOWN]
    return tuple(
        Holder(_name(step, t, s), _choice(step, t, plan, s), int(t.size_bytes[s]), int(begin[s]), int(end[s]))
        for s in largest
    )


def _choice(step: TrainingStep, t: Tables, plan: NDArray[np.int16], storage: int) -> str:
    if t.decision[storage] >= 0:
        return CHOICES[plan[t.decision[storage]]]
    return step.values[t.storage[storage]].role or "no decision"


def spans(t: Tables, runs: Runs, at: int) -> tuple[Ints, Ints]:
    """int64 [S] each: the first run that sees a storage and the run after the last.

    Of a storage that is made twice, it is the later life. Of one that goes to the host, it is the life before that for
    runs `at` before it leaves, else the later one.
    """
    forward, backward = last_uses(t, runs)
    begin, end = np.full(len(t.maker), -1, np.int64), np.full(len(t.maker), -1, np.int64)
    always = (t.maker < 0) & ~np.isin(np.arange(len(t.maker)), t.tangents)
    begin[always], end[always] = 0, runs.length
    begin[t.tangents], end[t.tangents] = runs.turn, backward[t.tangents] + 1
    for r in range(runs.length):
        k = runs.op[r]
        for s in t.outputs[t.output_first[k] : t.output_first[k + 1]]:
            if not (r >= runs.turn and runs.saved[s]):
                begin[s] = r
                end[s] = (forward if r < runs.turn else backward)[s] + 1
    end[runs.saved] = np.maximum(runs.turn, backward[runs.saved] + 1)
    away = runs.order
    early = away[at < runs.leaves[away]]
    later = np.setdiff1d(away, early)
    end[early], begin[later] = runs.leaves[early], runs.returns[later]
    end[t.is_output | t.is_gradient] = runs.length
    return begin, end
