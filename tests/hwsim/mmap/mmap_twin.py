"""Plain-Python twin of the game: the same rules in the obvious way, straight from the program.

Nothing here is shared with the kernels. Every interval is compared with every other one in time and in bytes, every
window of a copy is tried, a backup is a deep copy of the state. Only the order of float operations is the same.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from hwsim.mmap.chip import Chip
from workloads.programs.program import Program

DROP, COPY, NOCOPY = 0, 1, 2


@dataclass
class Placed:
    """A buffer in fast memory: closed interval and copy window, None where there is none."""

    buffer: int
    offset: int
    interval: tuple[int, int] | None
    window: tuple[int, int] | None


@dataclass
class State:
    left: list[float]
    at: int = 0
    total: float = 0.0
    actions: dict[int, int] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)
    forced: set[int] = field(default_factory=set)
    lost: bool = False


class Twin:
    def __init__(self, program: Program, chip: Chip, literal: bool, drop_backup: bool) -> None:
        self.program, self.chip = program, chip
        self.literal, self.drop_backup = literal, drop_backup
        self.counted: set[int] = set()
        for i in range(len(program.instructions)):
            mine = [n for n, b in enumerate(program.buffers) if b.instruction == i and self.size(n) > 0]
            mine.sort(key=lambda n: program.buffers[n].traffic_bytes, reverse=True)  # stable: ties by order
            self.counted |= set(mine[:8])
        everything = set(range(len(program.buffers)))
        self.supply = [self.latency(i, everything) for i in range(len(program.instructions))]
        self.none = [self.latency(i, set()) for i in range(len(program.instructions))]
        self.state = State(list(self.supply))
        for n, buffer in enumerate(program.buffers):
            if buffer.alias_id >= 0 and self.size(n) > chip.cmem.capacity_bytes:
                self.state.forced.add(buffer.alias_id)
        self._skip()
        self.backup = deepcopy(self.state)
        self.resets = 0

    def size(self, n: int) -> int:
        return self.program.tensors[self.program.buffers[n].tensor].size_bytes

    def latency(self, i: int, fast: set[int]) -> float:
        instruction, chip = self.program.instructions[i], self.chip
        slow, read, write = instruction.slow_bytes, 0, 0
        for n, buffer in enumerate(self.program.buffers):
            if buffer.instruction != i:
                continue
            if n not in fast or n not in self.counted:
                slow += buffer.traffic_bytes
            elif buffer.is_output:
                write += buffer.traffic_bytes
            else:
                read += buffer.traffic_bytes
        memory = slow / chip.hbm.bandwidth_Bps + read / chip.cmem.read_Bps + write / chip.cmem.write_Bps
        return max(instruction.flops / chip.compute.peak_flops, memory)

    def over(self) -> bool:
        return self.state.lost or self.state.at == len(self.program.buffers)

    def mates(self, n: int) -> list[int]:
        alias = self.program.buffers[n].alias_id
        if alias < 0:
            return []
        return [
            m
            for m, b in enumerate(self.program.buffers)
            if b.alias_id == alias and m != n and self.size(m) > 0
        ]

    def plan(self, action: int) -> Placed | bool | None:
        """False: illegal; None: legal, nothing is placed."""
        n = self.state.at
        buffer = self.program.buffers[n]
        played = self.state.actions
        mates_in = any(played.get(m, DROP) != DROP for m in self.mates(n))
        mates_out = any(m in played and played[m] == DROP for m in self.mates(n))
        if action == DROP:
            return False if mates_in else None
        if mates_out or buffer.alias_id in self.state.forced or self.size(n) > self.chip.cmem.capacity_bytes:
            return False
        return self._copy(n) if action == COPY else self._no_copy(n)

    def _copy(self, n: int) -> Placed | bool:
        now = self.program.buffers[n].instruction
        window = self._window(n)
        if window is None:
            return False
        output = self.program.buffers[n].is_output
        interval = (now, window[1]) if output else (window[0], now)
        offset = self._offset(n, interval)
        return False if offset is None else Placed(n, offset, interval, window)

    def _window(self, n: int) -> tuple[int, int] | None:
        buffer = self.program.buffers[n]
        now, steps = buffer.instruction, len(self.supply)
        if buffer.is_output:
            for e in range(now + 1, steps):
                for a in range(now + 1, now + 2 if self.literal else e + 1):
                    if self._covers(n, list(range(a, e + 1))):
                        return (a if self.literal else self._first_used(list(range(a, e + 1))), e)
            return None
        for s in range(now - 1, self._ready(buffer.tensor) - 1, -1):
            for c in [now] if self.literal else range(now, s, -1):
                if self._covers(n, list(range(c - 1, s - 1, -1))):
                    return (s, c - 1 if self.literal else self._first_used(list(range(c - 1, s - 1, -1))))
        return None

    def _covers(self, n: int, steps: list[int]) -> bool:
        """Equations 5 and 6; `steps` from the instruction away."""
        for other in self.state.placed:
            if other.window and len(set(steps) & set(range(other.window[0], other.window[1] + 1))) > 1:
                return False
        rest = self.size(n) / self.chip.hbm.bandwidth_Bps
        for t in steps:
            if self.state.left[t] >= rest:
                return True
            rest -= self.state.left[t]
        return False

    def _first_used(self, steps: list[int]) -> int:
        return next(t for t in steps if self.state.left[t] > 0)

    def _ready(self, tensor: int) -> int:
        for other in self.state.placed:
            buffer = self.program.buffers[other.buffer]
            if buffer.tensor == tensor and buffer.is_output and other.window:
                return other.window[1] + 1
        return self.program.tensors[tensor].produced + 1

    def _group_offset(self, n: int) -> int | None:
        mates = self.mates(n)
        return next((other.offset for other in self.state.placed if other.buffer in mates), None)

    def _offset(self, n: int, interval: tuple[int, int]) -> int | None:
        fixed = self._group_offset(n)
        room = self.chip.cmem.capacity_bytes - self.size(n)
        for offset in range(0, room + 1, self.chip.cmem.granule_bytes):
            if (fixed is None or offset == fixed) and self._free(n, interval, offset):
                return offset
        return None

    def _free(self, n: int, interval: tuple[int, int], offset: int) -> bool:
        end = offset + self.size(n)
        if end > self.chip.cmem.capacity_bytes:
            return False
        for other in self.state.placed:
            if other.interval is None or other.buffer in self.mates(n):
                continue
            in_time = other.interval[0] <= interval[1] and interval[0] <= other.interval[1]
            if in_time and other.offset < end and offset < other.offset + self.size(other.buffer):
                return False
        return True

    def _no_copy(self, n: int) -> Placed | bool:
        buffer = self.program.buffers[n]
        now = buffer.instruction
        if buffer.is_output:
            if self.program.tensors[buffer.tensor].leaves:
                return False
            interval = self.program.live_range(buffer.tensor)
            offset = self._offset(n, interval)
            return False if offset is None else Placed(n, offset, interval, None)
        before = None
        for other in self.state.placed:
            if self.program.buffers[other.buffer].tensor != buffer.tensor or other.interval is None:
                continue
            if other.interval[0] <= now and (before is None or other.interval[1] >= before.interval[1]):
                before = other
        if before is None:
            return False
        fixed = self._group_offset(n)
        if fixed is not None and fixed != before.offset:
            return False
        if before.interval[1] >= now:
            return Placed(n, before.offset, None, None)
        interval = (before.interval[1] + 1, now)
        if not self._free(n, interval, before.offset):
            return False
        return Placed(n, before.offset, interval, None)

    def step(self, action: int) -> float:
        """Play a legal action; how the return changed, in seconds."""
        before = self.state.total
        self._apply(action)
        if not self.over() and all(self.plan(a) is False for a in (DROP, COPY, NOCOPY)):
            self._dead_end()
        return self.state.total - before

    def _apply(self, action: int) -> None:
        state, n = self.state, self.state.at
        plan = self.plan(action)
        assert plan is not False
        state.actions[n] = action
        if plan is not None:
            i = self.program.buffers[n].instruction
            fast = {p.buffer for p in state.placed}
            state.total += self.latency(i, fast) - self.latency(i, fast | {n})
            state.placed.append(plan)
            if plan.window:
                steps = list(range(plan.window[0], plan.window[1] + 1))
                rest = self.size(n) / self.chip.hbm.bandwidth_Bps
                for t in steps if self.program.buffers[n].is_output else steps[::-1]:
                    taken = min(rest, state.left[t])
                    state.left[t] -= taken
                    rest -= taken
        state.at += 1
        self._skip()
        future = {
            self.program.buffers[m].alias_id
            for m in range(state.at, len(self.program.buffers))
            if self.size(m)
        }
        past = {self.program.buffers[p.buffer].alias_id for p in state.placed}
        if not (future & past) - {-1}:
            self.backup = deepcopy(state)

    def _skip(self) -> None:
        while self.state.at < len(self.program.buffers) and self.size(self.state.at) == 0:
            self.state.at += 1

    def _dead_end(self) -> None:
        if not self.drop_backup:
            self.state.lost, self.state.total = True, 0.0
            return
        group = self.program.buffers[self.state.at].alias_id
        self.resets += 1
        self.state = deepcopy(self.backup)
        self.state.forced.add(group)
        self.backup = deepcopy(self.state)

    def cost(self) -> float:
        fast = {p.buffer for p in self.state.placed}
        total = 0.0
        for i in range(len(self.program.instructions)):
            total += self.latency(i, fast)
        return total

    def play(self, wishes: list[int]) -> None:
        orders = {COPY: (COPY, NOCOPY, DROP), NOCOPY: (NOCOPY, COPY, DROP), DROP: (DROP, NOCOPY, COPY)}
        while not self.over():
            for action in orders[wishes[self.state.at]]:
                if self.plan(action) is not False:
                    self._apply(action)
                    break
            else:
                self._dead_end()
