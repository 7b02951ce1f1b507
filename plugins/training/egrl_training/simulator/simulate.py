"""What a plan of a training step costs: which ops run when, how long all take, and what is in memory meanwhile.

`simulator/problem.py` states the rules. A *run* is one op that runs once: in the forward pass, or in the backward
pass, be it for the first time or again. Plans are int16 [N], one number per decision: `RECOMPUTE`, `KEEP` or `OFFLOAD`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.tables import Bools, Floats, Ints, Tables
from hwsim.jit import kernel

RECOMPUTE, KEEP, OFFLOAD = 0, 1, 2
VERSION = 1
"""Goes up with every change that changes a cost or a peak."""
BACKWARD_PHASE, EITHER_PHASE = 2, 1


class Runs(NamedTuple):
    """The runs of a plan.

    Attributes:
        saved: bool [S], True for storages that are kept for the backward pass, on the device or on the host.
        op: int64 [2 K], the ops in the order in which they run; the first `length` are used.
        turn: number of runs in the forward pass.
        length: number of runs.
        leaves: int64 [S], the run before which a storage that is kept on the host has left the device; -1: it stays.
        returns: int64 [S], the run before which it has room on the device again; -1: it stays.
        wait_s: float64 [length], how long each run waits for copies before it begins.
        order: int64, the storages that are kept on the host, in the order in which they return.

    The last four are empty if nothing is kept on the host.
    """

    saved: Bools
    op: Ints
    turn: int
    length: int
    leaves: Ints
    returns: Ints
    wait_s: Floats
    order: Ints


@kernel
def _backward_runs(t: Tables, plan: NDArray[np.int16], saved: Bools, order: Ints) -> int:
    """Fill `order` with the runs of the backward pass and `saved` with what that needs of the forward pass; the count.

    Before each op, what it misses is computed; what a missing maker reads may be missing, too. All of them run in the
    order of their positions. After the last op the same is done for the gradients.
    """
    # Local names: a kernel that takes a field out of a tuple at every use is some ten times slower.
    phase, maker, decision = t.phase, t.maker, t.decision
    input_first, inputs, gradients = t.input_first, t.inputs, t.gradients
    ops, count = len(phase), 0
    again, chain = np.zeros(ops, np.bool_), np.empty(ops + 1, np.int64)
    for k in range(t.turn, ops + 1):
        at, length = -1, 0
        while at < length:
            # First what op k reads (or the gradients), then what each op of the growing chain reads.
            reader = k if at < 0 else chain[at]
            whole = reader == ops
            first, last = (0, len(gradients)) if whole else (input_first[reader], input_first[reader + 1])
            for i in range(first, last):
                s = gradients[i] if whole else inputs[i]
                m = maker[s]
                if m < 0 or phase[m] == BACKWARD_PHASE or saved[s]:
                    continue
                d = decision[s]
                if d < 0 or plan[d] != RECOMPUTE:
                    # Without a decision: made by an op that must not run twice, or without bytes.
                    saved[s] = True
                elif not again[m]:
                    again[m] = True
                    chain[length] = m
                    length += 1
            at += 1
        if length:
            order[count : count + length] = np.sort(chain[:length])
            count += length
        if k < ops:
            order[count] = k
            count += 1
    return count


@kernel
def _forward_runs(t: Tables, saved: Bools) -> Ints:
    """The runs of the forward pass: its own ops, and those of either pass that something saved or read needs."""
    phase, maker = t.phase, t.maker
    input_first, inputs, output_first, outputs = t.input_first, t.inputs, t.output_first, t.outputs
    runs = np.zeros(t.turn, np.bool_)
    for k in range(t.turn - 1, -1, -1):  # readers before makers
        runs[k] = runs[k] or phase[k] != EITHER_PHASE
        for i in range(output_first[k], output_first[k + 1]):
            runs[k] = runs[k] or saved[outputs[i]]
        if runs[k]:
            for i in range(input_first[k], input_first[k + 1]):
                if maker[inputs[i]] >= 0:
                    runs[maker[inputs[i]]] = True
    return np.flatnonzero(runs)


@kernel
def runs_of(t: Tables, plan: NDArray[np.int16]) -> Runs:
    """Which ops run, in which order, and what is saved, under a plan int16 [N]."""
    saved = np.zeros(len(t.size_bytes), np.bool_)
    late = np.empty(2 * len(t.phase), np.int64)
    # The backward pass first: it decides what is saved, and that decides which ops of either pass run forward.
    count = _backward_runs(t, plan, saved, late)
    early = _forward_runs(t, saved)
    order = np.empty(2 * len(t.phase), np.int64)
    order[: len(early)] = early
    order[len(early) : len(early) + count] = late[:count]
    none = np.empty(0, np.int64)
    runs = Runs(saved, order, len(early), len(early) + count, none, none, np.empty(0), none)
    for s in range(len(t.to_host_s)):
        if saved[s] and t.to_host_s[s] > 0 and plan[t.decision[s]] == OFFLOAD:
            return _with_copies(t, plan, runs)
    return runs


@kernel
def may_leave(t: Tables, s: int) -> bool:
    """Whether a storage may be kept on the host."""
    return len(t.to_host_s) > 0 and t.to_host_s[s] > 0


@kernel
def _begins(t: Tables, runs: Runs) -> tuple[Floats, Floats]:
    """float64 [turn + 1], [length - turn + 1]: when each run begins, from the start of its pass, and when that ends.

    Without waits.
    """
    order, turn, seconds, again_s = runs.op, runs.turn, t.seconds, t.again_s
    ran = np.zeros(len(seconds), np.bool_)
    early, late = np.zeros(turn + 1), np.zeros(runs.length - turn + 1)
    for r in range(runs.length):
        k = order[r]
        took = again_s[k] if ran[k] else seconds[k]
        ran[k] = True
        if r < turn:
            early[r + 1] = early[r] + took
        else:
            late[r - turn + 1] = late[r - turn] + took
    return early, late


@kernel
def _with_copies(t: Tables, plan: NDArray[np.int16], runs: Runs) -> Runs:
    """The runs of a plan that keeps values on the host, with what is there when, and who waits.

    Which run a storage leaves or returns before depends on the runs without their waits. So it does not change if
    copies take longer than they should, and neither does memory.
    """
    order, turn, length, decision = runs.op, runs.turn, runs.length, t.decision
    input_first, inputs = t.input_first, t.inputs
    early, late = _begins(t, runs)
    leaves, returns = np.full(len(decision), -1, np.int64), np.full(len(decision), -1, np.int64)
    wait_s = np.zeros(length)
    away = np.zeros(len(decision), np.bool_)
    for n in range(len(away)):
        away[n] = runs.saved[n] and t.to_host_s[n] > 0 and plan[decision[n]] == OFFLOAD
    # To the host: in the order of last uses, then of positions. A run that is reached never waits, only the pass' end.
    last, _ = last_uses(t, runs)
    queue = np.flatnonzero(away)
    queue = queue[np.argsort(last[queue], kind="mergesort")]
    done, at = 0.0, 0
    for s in queue:
        done = max(done, early[last[s] + 1]) + t.to_host_s[s]
        while at < turn and (at <= last[s] or early[at] < done):
            at += 1
        leaves[s] = at
    wait_s[turn] = max(done - early[turn], 0.0)
    # From the host: in the order of first uses, then of positions; planned from the last to the first.
    first = np.full(len(decision), -1, np.int64)
    for r in range(turn, length):
        k = order[r]
        for i in range(input_first[k], input_first[k + 1]):
            if away[inputs[i]] and first[inputs[i]] < 0:
                first[inputs[i]] = r
    queue = np.flatnonzero(away)
    queue = queue[np.argsort(first[queue], kind="mergesort")]
    begin, at = np.inf, length - 1
    for s in queue[::-1]:
        begin = min(begin, late[first[s] - turn]) - t.from_host_s[s]
        at = min(at, int(first[s]))
        while at > turn and late[at - turn] > begin:
            at -= 1
        returns[s] = at
    # Then forward: a run issues its copies when the run before it has ended, and only then waits for what it reads.
    there = np.empty(len(queue))
    issued, read, behind, done = 0, 0, 0.0, 0.0
    for r in range(turn, length):
        now = late[r - turn] + behind
        ready = now
        while issued < len(queue) and returns[queue[issued]] == r:
            done = max(done, now) + t.from_host_s[queue[issued]]
            there[issued] = done
            issued += 1
        while read < len(queue) and first[queue[read]] == r:
            ready = max(ready, there[read])
            read += 1
        wait_s[r] += ready - now
        behind += ready - now
    return Runs(runs.saved, order, turn, length, leaves, returns, wait_s, queue)


@kernel
def seconds_of(t: Tables, runs: Runs) -> float:
    """Seconds of all runs, added in their order, and of what they wait for."""
    order, seconds, again_s = runs.op, t.seconds, t.again_s
    ran = np.zeros(len(seconds), np.bool_)
    total = 0.0
    for r in range(runs.length):
        k = order[r]
        total += again_s[k] if ran[k] else seconds[k]
        ran[k] = True
    for r in range(len(runs.wait_s)):
        total += runs.wait_s[r]
    return total


@kernel
def last_uses(t: Tables, runs: Runs) -> tuple[Ints, Ints]:
    """int64 [S] each: the last run of the forward and of the backward pass that makes or reads a storage; -1: none."""
    input_first, inputs, output_first, outputs = t.input_first, t.inputs, t.output_first, t.outputs
    order, turn, saved = runs.op, runs.turn, runs.saved
    forward, backward = np.full(len(t.size_bytes), -1, np.int64), np.full(len(t.size_bytes), -1, np.int64)
    for r in range(runs.length):
        k = order[r]
        last = forward if r < turn else backward
        for i in range(input_first[k], input_first[k + 1]):
            last[inputs[i]] = r
        for i in range(output_first[k], output_first[k + 1]):
            # What an op makes again although it was saved is a copy, which has no life of its own.
            if r < turn or not saved[outputs[i]]:
                last[outputs[i]] = r
    return forward, backward


@kernel
def _frees(t: Tables, runs: Runs) -> tuple[Ints, Ints]:
    """int64 [S] each: the run of the forward and of the backward pass after which a storage is freed; -1: it is not."""
    forward, backward = last_uses(t, runs)
    for s in range(len(forward)):
        if runs.saved[s] or t.is_output[s]:
            forward[s] = -1
        if t.is_gradient[s] or (t.is_output[s] and runs.saved[s]):
            backward[s] = -1
    return forward, backward


@kernel
def _copied_bytes(t: Tables, runs: Runs) -> Ints:
    """int64 [length]: what comes back from the host before each run, less what has left."""
    found = np.zeros(runs.length, np.int64)
    for s in runs.order:
        found[runs.leaves[s]] -= t.size_bytes[s]
        found[runs.returns[s]] += t.size_bytes[s]
    return found


@kernel
def memory_of(t: Tables, runs: Runs, held: Ints) -> int:
    """Fill int64 `held` [length] with the bytes in memory while each run runs; the greatest of them."""
    input_first, inputs, output_first, outputs = t.input_first, t.inputs, t.output_first, t.outputs
    size, scratch, order, turn, saved = t.size_bytes, t.scratch_bytes, runs.op, runs.turn, runs.saved
    forward, backward = _frees(t, runs)
    copied = _copied_bytes(t, runs)
    now = t.fixed_bytes
    for r in range(runs.length):
        now += copied[r]
        if r == turn:
            for s in t.tangents:
                if backward[s] >= 0 or t.is_gradient[s]:
                    now += size[s]
        k, freed = order[r], forward if r < turn else backward
        copies = 0  # of what was saved; they are freed at once
        for i in range(output_first[k], output_first[k + 1]):
            if r >= turn and saved[outputs[i]]:
                copies += size[outputs[i]]
            else:
                now += size[outputs[i]]
        held[r] = now + copies + scratch[k]
        for i in range(input_first[k], input_first[k + 1]):
            if freed[inputs[i]] == r:
                now -= size[inputs[i]]
        for i in range(output_first[k], output_first[k + 1]):
            if freed[outputs[i]] == r:
                now -= size[outputs[i]]
    peak: int = held[: runs.length].max()
    return peak


@kernel
def simulate(t: Tables, plans: NDArray[np.int16]) -> tuple[Floats, Ints]:
    """Seconds float64 [B] of a step and its peak in bytes int64 [B] under plans int16 [B, N]."""
    seconds, peak = np.empty(len(plans)), np.empty(len(plans), np.int64)
    held = np.empty(2 * len(t.phase), np.int64)
    for b in range(len(plans)):
        runs = runs_of(t, plans[b])
        seconds[b] = seconds_of(t, runs)
        peak[b] = memory_of(t, runs, held)
    return seconds, peak


@kernel
def canonical(t: Tables, plans: NDArray[np.int16]) -> NDArray[np.int16]:
    """Plans int16 [B, N] with `RECOMPUTE` where nothing needs the value, so that keeping it means nothing."""
    out = plans.copy()
    for b in range(len(plans)):
        saved = runs_of(t, plans[b]).saved
        for s in range(len(t.decision)):
            if t.decision[s] >= 0 and not saved[s]:
                out[b, t.decision[s]] = RECOMPUTE
    return out


class Trace(NamedTuple):
    """What happens under one plan, run by run.

    Attributes:
        op: int64 [R], positions in `TrainingStep.ops`.
        turn: number of runs in the forward pass.
        again: bool [R], True if the op has run before.
        held_bytes: int64 [R], bytes in memory while it runs.
        wait_s: float64 [R], seconds that it waits for copies from or to the host before it begins.
        leaves, returns: int64 [S], see `Runs`, but -1 everywhere if nothing is kept on the host.
        order: int64, the storages that are kept on the host, in the order in which they return.
    """

    op: Ints
    turn: int
    again: Bools
    held_bytes: Ints
    wait_s: Floats
    leaves: Ints
    returns: Ints
    order: Ints


def trace(tables: Tables, plan: NDArray[np.int16]) -> Trace:
    """The runs of one plan int16 [N], with the memory that each sees."""
    runs = runs_of(tables, plan)
    held = np.empty(len(runs.op), np.int64)
    memory_of(tables, runs, held)
    order = runs.op[: runs.length]
    again = np.zeros(runs.length, np.bool_)
    again[runs.turn :] = np.isin(order[runs.turn :], order[: runs.turn])
    stays = np.full(len(tables.size_bytes), -1, np.int64)
    copies = (
        (runs.wait_s, runs.leaves, runs.returns) if len(runs.leaves) else (np.zeros(len(order)), stays, stays)
    )
    return Trace(tables.op[order], int(runs.turn), again, held[: runs.length].copy(), *copies, runs.order)
