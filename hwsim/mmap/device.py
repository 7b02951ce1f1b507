"""The time of a program on a simulated device under a finished layout: instructions, copies, and waiting.

Source: MMapGame paper, section 5.1 ("Metrics"), where latency is measured on a TPUv4i. This model stands for that
measurement.

The model (*assumptions*; in short in `docs/explanations/mmap.md`):

- Instructions run in order. Alone, one takes L_I(S) of `hwsim.mmap.cost`, and its traffic with HBM is spread evenly
  over that time.
- There is a queue of copies into fast memory and one of copies out of it, each first in, first out, one copy at a
  time. A copy is queued when the first step of its window begins, or when its tensor is read from HBM before that,
  ties in the order of buffers. Copies out are queued before an instruction waits, copies in after it.
- HBM is shared fairly (max-min): the instruction wants the share that it takes alone, a copy wants all. So k copies
  leave an instruction its share if that is at most 1 / (k + 1), and split the rest. Otherwise all get 1 / (k + 1), and
  the instruction slows down.
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
from hwsim.mmap.layout import Layout
from hwsim.mmap.rules.state import COPY, DROP
from hwsim.mmap.tables import Tables, instruction_s
from hwsim.problem import Floats

Ints = NDArray[np.int32]

RUN_S, CONTENTION_S, WAIT_S = range(3)
"""Parts of a latency: the sum of L_I(S), what instructions lose to copies, and what they wait for copies."""


INTO, OUT = 0, 1
"""The queues of copies, into fast memory and out of it: rows of `order` and `ends`.

What kernels call `rest` is float64 [N], what each queued copy still has to transfer, seconds of all of HBM. `order` is
int32 [2, N], the buffers of each queue as they were queued. `ends` is int32 [2, 2], positions in `order` of the copy
under way, and behind the last one. They are no NamedTuple, which costs the innermost kernels a third of their speed.
"""


def latency_s(tables: Tables, layout: Layout) -> float:
    """Seconds of the program under a finished layout."""
    return _simulate_layout(tables, layout)[0]


def latency_parts_s(tables: Tables, layout: Layout) -> Floats:
    """float64 [3], what a latency consists of: `RUN_S`, `CONTENTION_S` and `WAIT_S`."""
    return _simulate_layout(tables, layout)[1]


def latency_by_step_s(tables: Tables, layout: Layout) -> NDArray[np.float32]:
    """float32 [T + 1], seconds of each instruction, what it waits for included, and of the last copies."""
    return _simulate_layout(tables, layout)[2]


def _simulate_layout(tables: Tables, layout: Layout) -> tuple[float, Floats, NDArray[np.float32]]:
    parts, took_s = np.empty(3), np.empty(len(tables.step) + 1, np.float32)
    action = layout.action.astype(np.int32)
    total_s = simulate(tables, action, layout.copy_first, layout.copy_last, parts, took_s)
    return float(total_s), parts, took_s


@kernel
def _schedule_copies(
    tables: Tables, action: Ints, copy_first: Ints, copy_last: Ints, issue: Ints, due: Ints
) -> None:
    """Fill, int32 [N], the steps at whose beginning copies are queued, and those that wait for them; -1 = none."""
    issue[:] = -1
    due[:] = -1
    # Of each tensor the output that lies in fast memory, from which HBM gets its copy.
    output_of = np.full(len(tables.ready), -1, np.int32)
    for b in range(len(tables.buffer)):
        buffer = tables.buffer[b]
        if action[b] < 0:
            continue
        if action[b] == COPY:
            issue[b] = copy_first[b]
            # A copy out is waited for when its place is used again, a copy in by its instruction.
            due[b] = copy_last[b] + 1 if buffer.is_output else buffer.step
        if buffer.is_output:
            if action[b] != DROP:
                output_of[buffer.tensor] = b
            continue
        # An input that is dropped or copied in reads from HBM, so the tensor's copy out must be done by then.
        output = output_of[buffer.tensor]
        if output < 0 or (action[b] != DROP and action[b] != COPY):
            continue
        needed = copy_first[b] if action[b] == COPY else buffer.step
        if issue[output] < 0:
            # A NoCopy that is read from HBM later: it is copied out as soon as it is written.
            issue[output] = tables.buffer[output].step + 1
            due[output] = needed
        elif needed < due[output]:
            due[output] = needed
        issue[output] = min(issue[output], needed)


@kernel
def _list_by_step(step: Ints, head: Ints, following: Ints) -> None:
    """Lists of the buffers with a step, by that step, in order: `head` [T + 1], `following` [N], -1 = the end."""
    head[:] = -1
    # Backwards, since each buffer is put at the front of its list.
    for b in range(len(step) - 1, -1, -1):
        if step[b] >= 0:
            following[b] = head[step[b]]
            head[step[b]] = b


@kernel
def _enqueue(
    tables: Tables, side: int, b: int, following: Ints, rest: Floats, order: Ints, ends: Ints
) -> None:
    """Append the copies in or out, as `side` says, of the list that begins at buffer b to their queue."""
    # The list has copies of both directions; each queue takes its own, in the order of buffers.
    while b >= 0:
        if tables.buffer[b].is_output == (side == OUT):
            rest[b] = tables.buffer[b].demand_s
            order[side, ends[side, 1]] = b
            ends[side, 1] += 1
        b = following[b]


@kernel
def _soonest(rest: Floats, order: Ints, ends: Ints) -> tuple[int, float]:
    """How many copies are under way, and the least that one of them still has to transfer (seconds of all of HBM)."""
    # Only the first copy of each queue is under way.
    active, least = 0, np.inf
    for side in range(2):
        if ends[side, 0] < ends[side, 1]:
            active += 1
            least = min(least, rest[order[side, ends[side, 0]]])
    return active, least


@kernel
def _transfer(rest: Floats, order: Ints, ends: Ints, amount: float) -> None:
    """Let each copy under way transfer `amount`; what is finished leaves its queue."""
    for side in range(2):
        if ends[side, 0] < ends[side, 1]:
            b = order[side, ends[side, 0]]
            # Exactly 0 at the end, whatever is rounded: the rest decides who is waited for.
            rest[b] = rest[b] - amount if rest[b] > amount else 0.0
            if rest[b] == 0.0:
                ends[side, 0] += 1


@kernel
def _run_instruction(alone_s: float, demand: float, rest: Floats, order: Ints, ends: Ints) -> float:
    """Run one instruction that wants a share `demand` of HBM; how many seconds longer than alone it takes."""
    # `left_s` is what the instruction would still take alone. From one end of a copy to the next shares are constant.
    left_s, late_s = alone_s, 0.0
    while left_s > 0.0:
        active, least = _soonest(rest, order, ends)
        if active == 0:
            break
        # Max-min: either the instruction has its demand and the copies split the rest, or all have the same share.
        share = 1.0 / (active + 1)
        speed, rate = 1.0, (1.0 - demand) / active
        if demand > share:
            speed, rate = share / demand, share
        took_s = least / rate
        # What ends first: the instruction, or one of the copies.
        if left_s / speed <= took_s:
            took_s = left_s / speed
            _transfer(rest, order, ends, rate * took_s)
            left_s = 0.0
        else:
            _transfer(rest, order, ends, least)
            left_s -= speed * took_s
        late_s += (1.0 - speed) * took_s
    return late_s


@kernel
def _fast_bytes(tables: Tables, action: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bytes that each instruction reads from and writes to fast memory, int64 [T] each."""
    read, write = np.zeros(len(tables.step), np.int64), np.zeros(len(tables.step), np.int64)
    for b in range(len(action)):
        # Neither dropped nor undecided (-1).
        if action[b] > DROP:
            read[tables.buffer[b].step] += tables.buffer[b].read_bytes
            write[tables.buffer[b].step] += tables.buffer[b].write_bytes
    return read, write


@kernel
def simulate(
    tables: Tables,
    action: Ints,
    copy_first: Ints,
    copy_last: Ints,
    parts: Floats,
    took_s: NDArray[np.float32],
) -> float:
    """Seconds of the program on the device; `parts` float64 [3] becomes what they consist of.

    `took_s` float32 [T + 1] becomes the seconds of each instruction, what it waits for included, and those that the end
    of the program waits for the last copies. action, copy_first, copy_last: int32 [N], as in a `Layout`.
    """
    buffers, steps = len(tables.buffer), len(tables.step)
    issue, due = np.empty(buffers, np.int32), np.empty(buffers, np.int32)
    _schedule_copies(tables, action, copy_first, copy_last, issue, due)
    issued, next_issued = np.empty(steps + 1, np.int32), np.empty(buffers, np.int32)
    awaited, next_awaited = np.empty(steps + 1, np.int32), np.empty(buffers, np.int32)
    _list_by_step(issue, issued, next_issued)
    _list_by_step(due, awaited, next_awaited)
    read, write = _fast_bytes(tables, action)
    rest = np.zeros(buffers)
    order, ends = np.empty((2, buffers), np.int32), np.zeros((2, 2), np.int32)
    total = 0.0
    parts[:] = 0.0
    for t in range(steps + 1):
        # Copies out are queued before the instruction waits, since it may wait for one of them.
        _enqueue(tables, OUT, issued[t], next_issued, rest, order, ends)
        b = awaited[t]
        waited_s = 0.0
        while b >= 0:
            while rest[b] > 0.0:
                # No instruction runs, so `active` copies share HBM, and the next one ends after `least` of each.
                active, least = _soonest(rest, order, ends)
                _transfer(rest, order, ends, least)
                waited_s += least * active
                parts[WAIT_S] += least * active
                total += least * active
            b = next_awaited[b]
        # Step T has no instruction: it stands for the end of the program, which waits for the last copies.
        if t == steps:
            took_s[t] = waited_s
            break
        _enqueue(tables, INTO, issued[t], next_issued, rest, order, ends)
        alone_s = instruction_s(tables, t, read[t], write[t])
        slow_s = (tables.step[t].traffic_bytes - read[t] - write[t]) / tables.hbm_Bps
        late_s = _run_instruction(alone_s, slow_s / alone_s if alone_s > 0.0 else 0.0, rest, order, ends)
        took_s[t] = waited_s + alone_s + late_s
        parts[RUN_S] += alone_s
        parts[CONTENTION_S] += late_s
        total += alone_s + late_s
    return total
