"""What a play of the MMapGame costs: the judge of the suite's `program` instances, buffers in a fast memory or not.

A program is a list of instructions in order (operations, bytes that move anyway), of tensors (bytes, the step that
writes it or -1, its last step, whether it is a result), and of buffers: a use of a tensor by an instruction (whether
it is written, bytes moved, a group that shares its place or -1). A mapping [N, 1] names an action a buffer: 0 drop,
1 copy, 2 no copy. They are played in order. A copy needs a window of steps with time left; what lies in fast memory
takes the lowest place that is free in all of its steps. What may not be played is replaced in the order of `ORDERS`;
where nothing may be, the game goes back to where no group was begun and not ended, and drops that group for good. The
rules are those of docs/explanations/mmap.md in egrl's repository, with its defaults. The cost is the sum of what each
instruction takes: the longer of its arithmetic and its traffic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_suite.judge import Wrong

DROP, COPY, STAY = 0, 1, 2
ORDERS = {DROP: (DROP, STAY, COPY), COPY: (COPY, STAY, DROP), STAY: (STAY, COPY, DROP)}
COUNTED = 8
"""Of the buffers of an instruction, those with most traffic: only their place changes its time."""


class Placed(NamedTuple):
    """A buffer in fast memory: bytes [offset, end), closed intervals of steps; first > last where there is none."""

    buffer: int
    offset: int
    end: int
    first: int
    last: int
    copy_first: int = 0
    copy_last: int = -1


class ProgramJudge:
    """A program on a chip.

    Attributes:
        sizes, first, last: int64 [N, 1], bytes of each buffer (0: none to place), the steps its tensor is held.
        names: of the actions; `capacity` int64 [3]: bytes of slow memory, which has no limit, and of fast memory.
    """

    def __init__(self, program: dict[str, Any], chip: dict[str, Any]) -> None:
        self.chip, self.steps = chip, program["instructions"]
        self.tensors, self.buffers = program["tensors"], program["buffers"]
        own, fast = [self.tensors[tensor] for tensor, *_ in self.buffers], chip["capacity_bytes"]
        end = len(self.steps) - 1
        self.live = [(max(born, 0), end if leaves else last) for _, born, last, leaves in own]
        self.size = [size for size, *_ in own]
        self.demand = [size / chip["hbm_Bps"] for size in self.size]
        self.sizes = np.array(self.size, np.int64)[:, None]
        self.first, self.last = np.array(self.live, np.int64).T.reshape(2, -1, 1)
        self.names, self.capacity = ["drop", "copy", "nocopy"], np.array([2**60, fast, fast], np.int64)
        self.of_step: list[list[int]] = [[] for _ in self.steps]
        self.mates: dict[int, list[int]] = {-1: []}
        for n, (_, step, _, _, group) in enumerate(self.buffers):
            self.of_step[step].append(n)
            if group >= 0 and self.size[n] > 0:
                self.mates.setdefault(group, []).append(n)
        by_traffic = [sorted(mine, key=lambda n: -self.buffers[n][3]) for mine in self.of_step]
        self.counted = {n for mine in by_traffic for n in [n for n in mine if self.size[n] > 0][:COUNTED]}
        self.supply = [self.seconds(step, self.counted) for step in range(len(self.steps))]

    def seconds(self, step: int, fast: set[int]) -> float:
        """What an instruction takes with some buffers in fast memory."""
        (flops, slow), moved, chip = self.steps[step], [0, 0], self.chip
        for n in self.of_step[step]:
            _, _, out, traffic, _ = self.buffers[n]
            if n in fast and n in self.counted:
                moved[out] += traffic
            else:
                slow += traffic
        memory = slow / chip["hbm_Bps"] + moved[0] / chip["read_Bps"] + moved[1] / chip["write_Bps"]
        return float(max(flops / chip["peak_flops"], memory))

    def play(self, mapping: Any) -> Game:
        """The game that is played for a mapping. Raises Wrong if it is none."""
        given = np.asarray(mapping)
        if given.shape != self.sizes.shape or given.dtype.kind not in "iuf":
            raise Wrong(f"expected numbers [{len(self.sizes)}, 1], found {given.dtype} {list(given.shape)}")
        wanted = given[self.sizes > 0]
        if not np.all((wanted == np.floor(wanted)) & (wanted >= 0) & (wanted <= STAY)):
            raise Wrong("expected actions 0 to 2, found others")
        game = Game(self)
        backup = game.copy()
        while (n := game.at) < len(self.buffers):
            if self.size[n] > 0:
                plans = ((action, game.plan(n, action)) for action in ORDERS[int(given[n, 0])])
                legal = next(((action, plan) for action, plan in plans if plan is not False), None)
                if legal is None:
                    game.dropped.add(self.buffers[n][4])
                    game = backup.copy()
                    continue
                game.apply(n, *legal)
            game.at += 1
            if game.at > game.group_end:
                backup = game.copy()
        return game

    def fitted(self, mapping: Any) -> NDArray[np.int16]:
        """The actions that are played."""
        return np.array(self.play(mapping).action, np.int16)[:, None]

    def profile(self, mapping: Any) -> list[float]:
        """Seconds of each instruction."""
        fast = {placed.buffer for placed in self.play(mapping).placed}
        return [self.seconds(step, fast) for step in range(len(self.steps))]

    def cost(self, mapping: Any) -> float:
        """Seconds of the program."""
        return sum(self.profile(mapping))


class Game:
    """How far a play is: actions, what lies where, seconds of each step that are left, groups dropped for good."""

    def __init__(self, judge: ProgramJudge) -> None:
        self.judge, self.at, self.group_end = judge, 0, -1
        self.action, self.left = [-1] * len(judge.buffers), list(judge.supply)
        self.placed: list[Placed] = []
        self.dropped: set[int] = set()

    def copy(self) -> Game:
        """The same state; the groups are shared, since they stay dropped."""
        other, lists = Game.__new__(Game), ("action", "left", "placed")
        other.__dict__ = {**self.__dict__, **{name: self.__dict__[name][:] for name in lists}}
        return other

    def apply(self, n: int, action: int, placed: Placed | None) -> None:
        """Play a legal action."""
        _, _, out, _, group = self.judge.buffers[n]
        self.action[n] = action
        if placed is None:
            return
        self.placed.append(placed)
        self.group_end = max([self.group_end, *self.judge.mates[group][-1:]])
        rest = self.judge.demand[n]
        steps = range(placed.copy_first, placed.copy_last + 1)
        for t in steps if out else reversed(steps):
            taken = min(rest, self.left[t])
            self.left[t] -= taken
            rest -= taken

    def plan(self, n: int, action: int) -> Any:
        """Where a buffer would lie; None: nowhere; False: the action is illegal."""
        judge, (tensor, now, out, _, group) = self.judge, self.judge.buffers[n]
        mates, size = judge.mates[group], judge.size[n]
        done = [self.action[m] for m in mates if m != n and self.action[m] >= 0]
        if action == DROP:
            return False if any(done) else None
        if DROP in done or group in self.dropped or size > judge.capacity[1]:
            return False
        fixed, window = next((p.offset for p in self.placed if p.buffer in mates), None), (0, -1)
        if action == COPY:
            if (found := self.window(n)) is None:
                return False
            window, (first, last) = found, (now, found[1]) if out else (found[0], now)
        elif out:
            if judge.tensors[tensor][3]:
                return False
            first, last = judge.live[n]
        else:
            own = [p for p in self.uses(tensor) if p.first <= min(now, p.last)]
            there = max(reversed(own), key=lambda p: p.last, default=None)
            if there is None or fixed not in (None, there.offset):
                return False
            fixed, first, last = there.offset, there.last + 1, now
        offset = fixed if first > last else self.room(size, first, last, fixed, mates)
        return False if offset is None else Placed(n, offset, offset + size, first, last, *window)

    def uses(self, tensor: int) -> list[Placed]:
        """Where a tensor lies so far."""
        return [p for p in self.placed if self.judge.buffers[p.buffer][0] == tensor]

    def room(self, size: int, first: int, last: int, fixed: int | None, mates: list[int]) -> int | None:
        """The lowest offset, or the fixed one, that is free for all steps of an interval; None if there is none."""
        granule, offset = self.judge.chip["granule_bytes"], fixed or 0
        for p in sorted(self.placed, key=lambda p: p.offset):
            in_time = p.first <= min(last, p.last) and first <= p.last and p.buffer not in mates
            if in_time and p.offset < offset + size and offset < p.end:
                if fixed is not None:
                    return None
                offset = -(-p.end // granule) * granule
        return offset if offset + size <= self.judge.capacity[1] else None

    def window(self, n: int) -> tuple[int, int] | None:
        """The steps of a copy: the nearest whose seconds are enough, at most one in common with another copy's."""
        tensor, now, out, _, _ = self.judge.buffers[n]
        copies = [p for p in self.placed if p.copy_first <= p.copy_last]
        made = [p.copy_last for p in self.uses(tensor) if p in copies and p.copy_first > p.first]
        in_slow = made[0] if made else self.judge.tensors[tensor][1]
        way, until = (1, len(self.left)) if out else (-1, in_slow)
        near, rest = -1, 0.0
        for far in range(now + way, until, way):
            if out:
                ends = [min(far, p.copy_last) for p in copies if p.copy_first < min(far, p.copy_last)]
            else:
                ends = [max(far, p.copy_first) for p in copies if p.copy_last > max(far, p.copy_first)]
            begin = max([now + 1, *ends]) if out else min([now - 1, *ends])
            steps = [far]
            if begin != near:
                near, rest, steps = begin, self.judge.demand[n], list(range(begin, far + way, way))
            for t in steps:
                if self.left[t] >= rest:
                    start = next(t for t in range(begin, far + way, way) if self.left[t] > 0)
                    return (start, far) if out else (far, start)
                rest -= self.left[t]
        return None
