"""Plans made to fit a limit, and room that is left used again.

Both are greedy. A plan that is too large gives up, at its fullest run, the kept values that cost the least seconds per
byte; a plan that fits keeps what saves the most seconds per byte as long as it still fits. Where there is a host, what
is given up goes there as long as copies end within the passes, and is else computed again if that takes less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.simulate import (
    KEEP,
    OFFLOAD,
    RECOMPUTE,
    Runs,
    last_uses,
    may_leave,
    memory_of,
    runs_of,
    seconds_of,
)
from egrl_training.simulator.tables import Bools, Floats, Ints, Tables
from hwsim.jit import kernel


@kernel
def is_rerun(t: Tables, runs: Runs) -> Bools:
    """bool [K]: True for the ops outside the phase `backward` that run in the backward pass."""
    found = np.zeros(len(t.phase), np.bool_)
    for r in range(runs.turn, runs.length):
        found[runs.op[r]] = runs.op[r] < t.turn
    return found


@kernel
def again_seconds(t: Tables, saved: Bools, rerun: Bools, s: int) -> float:
    """Seconds that the backward pass takes longer if storage `s`, which is saved, is computed again instead."""
    maker, decision, seconds = t.maker, t.decision, t.again_s
    input_first, inputs = t.input_first, t.inputs
    first = maker[s]
    if rerun[first]:
        return 0.0
    chain = [first]
    seen = {first}
    total, at = 0.0, 0
    while at < len(chain):
        k = chain[at]
        at += 1
        total += seconds[k]
        for i in range(input_first[k], input_first[k + 1]):
            u = inputs[i]
            m = maker[u]
            if m >= 0 and not saved[u] and decision[u] >= 0 and not rerun[m] and m not in seen:
                seen.add(m)
                chain.append(m)
    return total


@kernel
def _idle_at(t: Tables, runs: Runs, fullest: int) -> Bools:
    """bool [S]: storages that are saved, in memory at the run `fullest`, and not used in its pass until after it."""
    last, _ = last_uses(t, runs)
    idle = runs.saved.copy()
    if fullest < runs.turn:
        for s in range(len(idle)):
            idle[s] = idle[s] and 0 <= last[s] < fullest
    for r in range(runs.turn, fullest + 1):
        k = runs.op[r]
        for i in range(t.input_first[k], t.input_first[k + 1]):
            idle[t.inputs[i]] = False
    for s in runs.order:
        if runs.leaves[s] <= fullest < runs.returns[s]:
            idle[s] = False
    return idle


@kernel
def _slack(t: Tables, runs: Runs) -> tuple[float, float]:
    """Seconds of the forward and of the backward pass in which nothing is copied, roughly; below 0: it is too long."""
    out, back = 0.0, 0.0
    for r in range(runs.length):
        if r < runs.turn:
            out += t.seconds[runs.op[r]]
        else:
            back += t.seconds[runs.op[r]]
    for s in runs.order:
        out -= t.to_host_s[s]
        back -= t.from_host_s[s]
    return out, back


@kernel
def _copy_seconds(t: Tables, plan: NDArray[np.int16], s: int, out: float, back: float) -> float:
    """Seconds that the step waits longer, by what `_slack` says, if `s` is kept on the host; or infinity."""
    if not may_leave(t, s) or plan[t.decision[s]] != KEEP:
        return np.inf
    out, back = max(out, 0.0), max(back, 0.0)
    return max(t.to_host_s[s] - out, 0.0) + max(t.from_host_s[s] - back, 0.0)


@kernel
def _relieve(t: Tables, plan: NDArray[np.int16], limit: int, held: Ints) -> bool:
    """Change a plan in place until it fits; False if its fullest run has nothing left to give up."""
    while True:
        runs = runs_of(t, plan)
        over = memory_of(t, runs, held) - limit
        if over <= 0:
            return True
        fullest = int(np.argmax(held[: runs.length]))
        idle = _idle_at(t, runs, fullest)
        rerun = is_rerun(t, runs)
        found = np.flatnonzero(idle & (t.decision >= 0) & ~t.is_output & ~t.is_gradient)
        again, price = np.empty(len(found)), np.empty(len(found))
        out, back = _slack(t, runs)
        for at in range(len(found)):
            s = found[at]
            again[at] = again_seconds(t, runs.saved, rerun, s)
            price[at] = min(again[at], _copy_seconds(t, plan, s, out, back)) / t.size_bytes[s]
        for at in np.argsort(price, kind="mergesort"):
            s = found[at]
            if _copy_seconds(t, plan, s, out, back) < again[at]:
                plan[t.decision[s]] = OFFLOAD
                out, back = out - t.to_host_s[s], back - t.from_host_s[s]
            else:
                plan[t.decision[s]] = RECOMPUTE
            over -= t.size_bytes[s]
            if over <= 0:
                break
        if len(found) == 0:
            return False


@kernel
def _give_way(t: Tables, plan: NDArray[np.int16], fits: NDArray[np.int16], limit: int, held: Ints) -> None:
    """Take choices from the plan `fits` in place until all fits.

    Those of what is in memory at the fullest run come first.
    """
    while True:
        runs = runs_of(t, plan)
        if memory_of(t, runs, held) <= limit:
            return
        fullest = int(np.argmax(held[: runs.length]))
        changed = False
        here = runs.saved.copy()
        for r in range(runs.turn, fullest + 1):
            k = runs.op[r]
            for i in range(t.output_first[k], t.output_first[k + 1]):
                here[t.outputs[i]] = True
        for s in range(len(here)):
            d = t.decision[s]
            if here[s] and d >= 0 and plan[d] != fits[d]:
                plan[d] = fits[d]
                changed = True
        if not changed:
            plan[:] = fits


@kernel
def fitted(
    t: Tables, plans: NDArray[np.int16], limit: int, fits: NDArray[np.int16]
) -> tuple[NDArray[np.int16], Bools]:
    """Plans int16 [B, N] made to fit, and bool [B], True for those that had to change.

    Plans that fit stay as they are. `fits` is a plan int16 [N] that fits; it gives its choices where no other way is
    found.
    """
    out, changed = plans.copy(), np.zeros(len(plans), np.bool_)
    held = np.empty(2 * len(t.phase), np.int64)
    for b in range(len(plans)):
        if memory_of(t, runs_of(t, out[b]), held) <= limit:
            continue
        changed[b] = True
        if not _relieve(t, out[b], limit, held):
            _give_way(t, out[b], fits, limit, held)
    return out, changed


def relieved(t: Tables, plan: NDArray[np.int16], limit: int) -> tuple[NDArray[np.int16], bool]:
    """A copy of a plan int16 [N] with less kept, and whether it fits the limit.

    No kernel: it would be another copy of the one that it calls, which is one of those that take longest to compile.
    """
    out = plan.copy()
    return out, _relieve(t, out, limit, np.empty(2 * len(t.phase), np.int64))


@kernel
def _gain_per_byte(t: Tables, runs: Runs) -> Floats:
    """float64 [S]: seconds per byte that keeping a storage saves, its maker or its copies alone; 0 if it saves none."""
    rerun = is_rerun(t, runs)
    waits = runs.wait_s.sum() > 0
    gain = np.zeros(len(t.size_bytes))
    for s in range(len(gain)):
        if t.decision[s] >= 0 and not runs.saved[s] and rerun[t.maker[s]]:
            gain[s] = t.again_s[t.maker[s]] / t.size_bytes[s]
        elif waits and runs.leaves[s] >= 0:
            gain[s] = (t.to_host_s[s] + t.from_host_s[s]) / t.size_bytes[s]
    return gain


@kernel
def filled(t: Tables, plan: NDArray[np.int16], limit: int, tries: int) -> NDArray[np.int16]:
    """A copy of a plan int16 [N] that fits, with more kept where that fits and saves time; at most `tries` tries."""
    out = plan.copy()
    held = np.empty(2 * len(t.phase), np.int64)
    runs = runs_of(t, out)
    best = seconds_of(t, runs)
    gain = _gain_per_byte(t, runs)
    for s in np.argsort(-gain, kind="mergesort"):
        if gain[s] <= 0 or tries <= 0:
            break
        d = t.decision[s]
        before = out[d]
        for choice in (KEEP, OFFLOAD):
            if out[d] != before or before == choice or (choice == OFFLOAD and not may_leave(t, s)):
                continue
            tries -= 1
            out[d] = choice
            runs = runs_of(t, out)
            seconds = seconds_of(t, runs)
            if seconds < best and memory_of(t, runs, held) <= limit:
                best = seconds
            else:
                out[d] = before
    return out
