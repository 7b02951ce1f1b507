"""How long a program runs on a simulated device under a finished layout: instructions, copies, and what waits for
what.

Source: MMapGame paper, section 5.1 ("Metrics"), where latency is measured on a TPUv4i; a measurement is what this
stands for.

The model (*assumptions*), which `docs/mmap.md` explains:

- Instructions run in order. Alone, one takes L_I(S) of `hwsim.mmap.cost`, and its traffic with HBM is spread evenly
  over that time.
- There is a queue of copies into fast memory and one of copies out of it, each first in, first out, one copy at a
  time. A copy is queued when the first step of its window begins, or when its tensor is read from HBM before that,
  ties in the order of buffers. Copies out are queued before an instruction waits, copies in after it.
- HBM is shared fairly (max-min): the instruction wants what it wants alone, a copy all there is. So k copies leave an
  instruction its wish if that is at most 1 / (k + 1), and share the rest; else all get 1 / (k + 1), and it slows
  down.
- An instruction waits for copies of its own inputs, for copies out whose window ends before it (then their place is
  used again), and for those of a tensor that it or a copy in of its step reads from HBM. The program ends with its
  last copy.
- An output that is kept in fast memory without a copy and is read from HBM later is copied out when the next
  instruction begins.

Bandwidth of fast memory that copies take is neglected. So the latency is at least the sum of L_I(S), and exactly that
if nothing is copied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.layout import Layout
from hwsim.mmap.rules.state import COPY, DROP
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats

Ints = NDArray[np.int32]

RUN_S, CONTENTION_S, WAIT_S = range(3)
"""Parts of a latency: the sum of L_I(S), what instructions lose to copies, and what they wait for copies."""


def latency_s(tables: Tables, layout: Layout) -> float:
    """Seconds of the program under a finished layout."""
    return _simulated(tables, layout)[0]


def latency_parts_s(tables: Tables, layout: Layout) -> Floats:
    """float64 [3], what a latency consists of: `RUN_S`, `CONTENTION_S` and `WAIT_S`."""
    return _simulated(tables, layout)[1]


def _simulated(tables: Tables, layout: Layout) -> tuple[float, Floats]:
    parts = np.empty(3)
    action = layout.action.astype(np.int32)
    return float(simulate(tables, action, layout.copy_first, layout.copy_last, parts)), parts


@kernel
def _plan_copies(
    tables: Tables, action: Ints, copy_first: Ints, copy_last: Ints, issue: Ints, due: Ints
) -> None:
    """int32 [N] each: the step at whose beginning the copy of a buffer is queued, and the one that waits for it;
    -1.
    """
    issue[:] = -1
    due[:] = -1
    held = np.full(len(tables.ready), -1, np.int32)
    for b in range(len(tables.buffer)):
        buffer = tables.buffer[b]
        if action[b] < 0:
            continue
        if action[b] == COPY:
            issue[b] = copy_first[b]
            due[b] = copy_last[b] + 1 if buffer.is_output else buffer.step
        if buffer.is_output:
            if action[b] != DROP:
                held[buffer.tensor] = b
            continue
        source = held[buffer.tensor]
        if source < 0 or (action[b] != DROP and action[b] != COPY):
            continue
        needed = copy_first[b] if action[b] == COPY else buffer.step
        if issue[source] < 0:
            issue[source] = tables.buffer[source].step + 1
            due[source] = needed
        elif needed < due[source]:
            due[source] = needed
        issue[source] = min(issue[source], needed)


@kernel
def _by_step(step: Ints, head: Ints, following: Ints) -> None:
    """Lists of the buffers with a step, by that step, in order: `head` [T + 1], `following` [N], -1 = the end."""
    head[:] = -1
    for b in range(len(step) - 1, -1, -1):
        if step[b] >= 0:
            following[b] = head[step[b]]
            head[step[b]] = b


@kernel
def _queue(
    tables: Tables, outputs: bool, b: int, queued: Ints, rest: Floats, order: Ints, ends: Ints
) -> None:
    """Append the copies out (or in) of the list that begins at b to their queue."""
    side = 1 if outputs else 0
    while b >= 0:
        if tables.buffer[b].is_output == outputs:
            rest[b] = tables.buffer[b].demand_s
            order[side, ends[side, 1]] = b
            ends[side, 1] += 1
        b = queued[b]


@kernel
def _soonest(rest: Floats, order: Ints, ends: Ints) -> tuple[int, float]:
    """How many copies are under way, and the least that one of them still has to transfer (seconds of all of HBM)."""
    active, least = 0, np.inf
    for side in range(2):
        if ends[side, 0] < ends[side, 1]:
            active += 1
            least = min(least, rest[order[side, ends[side, 0]]])
    return active, least


@kernel
def _transfer(rest: Floats, order: Ints, ends: Ints, amount: float) -> None:
    """Each copy under way transfers `amount`; what is finished leaves its queue."""
    for side in range(2):
        if ends[side, 0] < ends[side, 1]:
            b = order[side, ends[side, 0]]
            rest[b] = rest[b] - amount if rest[b] > amount else 0.0
            if rest[b] == 0.0:
                ends[side, 0] += 1


@kernel
def _run(alone_s: float, wish: float, rest: Floats, order: Ints, ends: Ints) -> float:
    """Run one instruction that wants a share `wish` of HBM; how many seconds longer than alone it takes."""
    left, late = alone_s, 0.0
    while left > 0.0:
        active, least = _soonest(rest, order, ends)
        if active == 0:
            break
        share = 1.0 / (active + 1)
        speed, rate = 1.0, (1.0 - wish) / active
        if wish > share:
            speed, rate = share / wish, share
        took = least / rate
        if left / speed <= took:
            took = left / speed
            _transfer(rest, order, ends, rate * took)
            left = 0.0
        else:
            _transfer(rest, order, ends, least)
            left -= speed * took
        late += (1.0 - speed) * took
    return late


@kernel
def simulate(tables: Tables, action: Ints, copy_first: Ints, copy_last: Ints, parts: Floats) -> float:
    """Seconds of the program on the device; `parts` float64 [3] becomes what they consist of.

    action, copy_first, copy_last: int32 [N], as in a `Layout`.
    """
    buffers, steps = len(tables.buffer), len(tables.step)
    issue, due = np.empty(buffers, np.int32), np.empty(buffers, np.int32)
    _plan_copies(tables, action, copy_first, copy_last, issue, due)
    issued, queued = np.empty(steps + 1, np.int32), np.empty(buffers, np.int32)
    awaited, awaits = np.empty(steps + 1, np.int32), np.empty(buffers, np.int32)
    _by_step(issue, issued, queued)
    _by_step(due, awaited, awaits)
    read, write = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    for b in range(buffers):
        if action[b] > DROP:
            read[tables.buffer[b].step] += tables.buffer[b].read_bytes
            write[tables.buffer[b].step] += tables.buffer[b].write_bytes
    rest = np.zeros(buffers)
    order, ends = np.empty((2, buffers), np.int32), np.zeros((2, 2), np.int32)
    total = 0.0
    parts[:] = 0.0
    for t in range(steps + 1):
        _queue(tables, True, issued[t], queued, rest, order, ends)
        b = awaited[t]
        while b >= 0:
            while rest[b] > 0.0:
                active, least = _soonest(rest, order, ends)
                _transfer(rest, order, ends, least)
                parts[WAIT_S] += least * active
                total += least * active
            b = awaits[b]
        if t == steps:
            break
        _queue(tables, False, issued[t], queued, rest, order, ends)
        step = tables.step[t]
        alone_s = roofline_s(
            step.compute_s,
            step.traffic_bytes,
            read[t],
            write[t],
            tables.hbm_Bps,
            tables.read_Bps,
            tables.write_Bps,
        )
        slow_s = (step.traffic_bytes - read[t] - write[t]) / tables.hbm_Bps
        late = _run(alone_s, slow_s / alone_s if alone_s > 0.0 else 0.0, rest, order, ends)
        parts[RUN_S] += alone_s
        parts[CONTENTION_S] += late
        total += alone_s + late
    return total
