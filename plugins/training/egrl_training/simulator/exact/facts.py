"""What holds under every plan of a training step: what is needed when, and which memory no plan can change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from egrl_training.simulator.tables import EITHER, FORWARD, Bools, Ints, Tables

NEVER = -1


class Facts(NamedTuple):
    """K ops, the first `turn` of them before the J ops of the backward pass; S storages.

    Moments of the backward pass are its own ops, 0 to J - 1, and J, the end, when gradients are handed over.

    Attributes:
        base_s: seconds of the ops of the phases forward and backward, which all run once in any case.
        first: int64 [S], the first moment that reads a storage, other than to make another again; `NEVER`.
        last: int64 [S], the last such moment; `NEVER`.
        free: int64 [S], the op of the forward pass from which on a storage would be gone if it were not saved.
        forced: bool [S], True for storages without a decision that are saved if they are needed.
        forward_bytes: int64 [turn + 1], what is in memory during each op whatever the plan; `turn`: between the passes.
        backward_bytes: int64 [J], the same in the backward pass.
        between_bytes: int64 [J], the same before each of its ops, while what that misses is computed.
    """

    base_s: float
    first: Ints
    last: Ints
    free: Ints
    forced: Bools
    forward_bytes: Ints
    backward_bytes: Ints
    between_bytes: Ints


def facts_of(t: Tables) -> Facts:
    """The facts of a step."""
    ops, storages = len(t.phase), len(t.maker)
    late = ops - t.turn
    reader = np.repeat(np.arange(ops), np.diff(t.input_first))
    of_forward = (t.maker >= 0) & (t.maker < t.turn)
    first, last = np.full(storages, late + 1), np.full(storages, NEVER)
    moment = np.concatenate([reader[reader >= t.turn] - t.turn, np.full(len(t.gradients), late)])
    read = np.concatenate([t.inputs[reader >= t.turn], t.gradients])
    np.minimum.at(first, read, moment)
    np.maximum.at(last, read, moment)
    first[last == NEVER] = NEVER
    # Readers of phase `either` may run in the other pass.
    free = t.maker.copy()
    early = (reader < t.turn) & (t.phase[reader] == FORWARD)
    np.maximum.at(free, t.inputs[early], reader[early])
    free = np.where(of_forward, free + 1, 0)
    forced = of_forward & (t.decision < 0)
    return Facts(
        float(t.seconds[t.phase != EITHER].sum()),
        first,
        last,
        free,
        forced,
        _forward_bytes(t, free, forced & (last != NEVER)),
        *_backward_bytes(t, first, last, forced),
    )


def _spread(change: Ints, first: Ints, end: Ints, size: Ints) -> None:
    """Add sizes from `first` on and take them off at `end`."""
    np.add.at(change, first, size)
    np.add.at(change, end, -size)


def _forward_bytes(t: Tables, free: Ints, saved: Bools) -> Ints:
    """Storages of the ops of phase forward while the forward pass itself needs them, and what is saved in any case."""
    change = np.zeros(t.turn + 2, np.int64)
    made = np.flatnonzero((t.maker >= 0) & (t.maker < t.turn))
    made = made[(t.phase[t.maker[made]] == FORWARD) | saved[made] | t.is_output[made]]
    stays = saved[made] | t.is_output[made]
    _spread(change, t.maker[made], np.where(stays, t.turn + 1, free[made]), t.size_bytes[made])
    held = np.cumsum(change)[:-1] + t.fixed_bytes
    held[:-1] += np.where(t.phase[: t.turn] == FORWARD, t.scratch_bytes[: t.turn], 0)
    tangents = t.tangents[np.isin(t.tangents, t.inputs) | t.is_gradient[t.tangents]]
    held[-1] += t.size_bytes[tangents].sum()
    return held


def _backward_bytes(t: Tables, first: Ints, last: Ints, forced: Bools) -> tuple[Ints, Ints]:
    """During and before each op of the backward pass: what is made there, and what is read before and after."""
    late = len(t.phase) - t.turn
    during, before = np.zeros(late + 2, np.int64), np.zeros(late + 2, np.int64)
    own = np.flatnonzero((t.maker >= t.turn) | np.isin(np.arange(len(t.maker)), t.tangents))
    given = t.maker[own] < 0
    begin = np.maximum(t.maker[own] - t.turn, 0)
    end = np.where(t.is_gradient[own], late, np.maximum(last[own], begin))
    end = np.where(given & (last[own] == NEVER), begin - 1, end)  # a tangent that nothing reads
    _spread(during, begin, end + 1, t.size_bytes[own])
    later = np.where(given, begin, begin + 1)
    _spread(before, later, np.maximum(end + 1, later), t.size_bytes[own])
    read = np.flatnonzero((t.maker >= 0) & (t.maker < t.turn) & (last != NEVER) & ~t.is_output)
    size = t.size_bytes[read]
    _spread(during, np.where(forced[read], 0, first[read]), last[read] + 1, size)
    _spread(
        before, np.where(forced[read], 0, np.minimum(first[read] + 1, last[read] + 1)), last[read] + 1, size
    )
    always = t.fixed_bytes + t.size_bytes[t.is_output].sum()
    return np.cumsum(during)[:late] + always + t.scratch_bytes[t.turn :], np.cumsum(before)[:late] + always
