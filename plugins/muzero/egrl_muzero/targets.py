"""Training targets of the networks for remembered moves.

Source: MuZero (Schrittwieser et al., 2020), equations 1 to 5 and appendix G: n-step returns that end in a searched
value. With a potential (`egrl_muzero.potential`) both are relative to what is usual from a place on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.learner import Targets
from egrl_muzero.potential import Potential
from egrl_muzero.ring import Ring
from hwsim.jit import kernel
from hwsim.problem import Floats

NO_VALUE = -1


def targets(
    ring: Ring,
    end: int,
    time: NDArray[np.int64],
    slot: NDArray[np.int64],
    unroll: int,
    steps: int,
    potential: Potential,
) -> Targets:
    """Targets of segments that begin at times [M] in slots [M]; `steps` is n, `unroll` is K.

    Nothing is taken from time `end` on.
    """
    segments = _segments(ring, end, time, slot, unroll, steps)
    take, alive = segments.take, segments.alive
    place, reward, after = take["place"], take["reward"], take["after"]
    shaped = potential.shape(place, reward, after)
    value = np.zeros((len(time), unroll + 1))
    searched = take["value"].astype(np.float64)
    _returns(shaped, alive, searched, segments.valued, steps, potential.discount, value)
    part = slice(0, unroll)
    return Targets(
        take["action"][:, part].astype(np.int64),
        alive[:, : unroll + 1],
        value.astype(np.float32),
        ring.policy[segments.row[:, : unroll + 1], slot[:, None]],
        potential.local(place, reward, after)[:, part].astype(np.float32),
    )


def ends_of(
    ring: Ring, end: int, time: NDArray[np.int64], slot: NDArray[np.int64], unroll: int, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Times and slots of the moves in whose values the returns of such segments end, each once, in order."""
    ends = _segments(ring, end, time, slot, unroll, steps).valued
    known = ends != NO_VALUE
    times = (time[:, None] + ends)[known]
    slots = np.broadcast_to(slot[:, None], ends.shape)[known]
    moves = np.unique(times * ring.slots + slots)
    return moves // ring.slots, moves % ring.slots


class _Segments(NamedTuple):
    """Of M segments, and n moves beyond: rows of the ring int64 [M, K + n + 1] and its scalars there; bool, alike,
    whether the game is still going on; int64 [M, K + 1], after how many moves of the segment the return from each of
    its positions takes a value (`NO_VALUE`: nowhere)."""

    row: NDArray[np.int64]
    take: dict[str, NDArray[Any]]
    alive: NDArray[np.bool_]
    valued: NDArray[np.int64]


def _segments(
    ring: Ring, end: int, time: NDArray[np.int64], slot: NDArray[np.int64], unroll: int, steps: int
) -> _Segments:
    times = time[:, None] + np.arange(unroll + steps + 1)
    row = np.minimum(times, end - 1) % ring.rows
    take = {name: array[row, slot[:, None]] for name, array in ring.scalars.items()}
    alive = times < end
    alive[:, 1:] &= ~(np.cumsum(take["done"], axis=1) > 0)[:, :-1]
    ends = np.full((len(time), unroll + 1), NO_VALUE)
    _ends(take["done"], take["stray"], alive, steps, ends)
    return _Segments(row, take, alive, ends)


@kernel
def _ends(
    done: NDArray[np.bool_],
    stray: NDArray[np.bool_],
    alive: NDArray[np.bool_],
    steps: int,
    out: NDArray[np.int64],
) -> None:
    """Write where returns [M, K + 1] of moves [M, K + n + 1] take a value: after n rewards, or fewer where what comes
    next is not known or was not chosen; nowhere where the game ends before.
    """
    rows, heads = out.shape
    # Head k begins at move k. It takes a value at the first move i that is the n-th, or astray (what follows was not
    # chosen by the policy), or the last of what is remembered without the game having ended there.
    for m in range(rows):
        for k in range(heads):
            for i in range(k, k + steps + 1):
                if not alive[m, i]:  # the game ended before: no value, the rewards are all there is
                    break
                if (
                    stray[m, i]
                    or i == k + steps
                    or i + 1 == alive.shape[1]
                    or not (alive[m, i + 1] or done[m, i])
                ):
                    out[m, k] = i
                    break


@kernel
def _returns(
    reward: Floats,
    alive: NDArray[np.bool_],
    value: Floats,
    ends: NDArray[np.int64],
    steps: int,
    discount: float,
    out: Floats,
) -> None:
    """Write returns [M, K + 1] of moves [M, K + n + 1]: rewards up to where a value is taken or the game ends."""
    rows, heads = out.shape
    for m in range(rows):
        for k in range(heads):
            # Invariant: `factor` is discount^(i - k), `total` the discounted rewards of moves k to i - 1.
            total, factor = 0.0, 1.0
            for i in range(k, k + steps + 1):
                if not alive[m, i]:
                    break
                if i == ends[m, k]:
                    total += factor * value[m, i]
                    break
                total += factor * reward[m, i]
                factor *= discount
            out[m, k] = total
