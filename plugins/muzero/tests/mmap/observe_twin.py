"""Plain-Python twin of what an agent sees: every array cell by cell, from the twin of the game and the program.

Nothing is shared with the kernels but the names of the columns and the constants of the scales.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from mmap_twin import Placed, Twin

from egrl_muzero.mmap.parts import ACTION_FEATURES, BUFFER_FEATURES, View
from hwsim.mmap.observation import SECONDS_SCALE, SIZE_SCALE, STEPS_SCALE


def steps(distance: int) -> float:
    return math.copysign(math.log1p(abs(distance)) * STEPS_SCALE, distance)


def seconds(value: float) -> float:
    return math.log1p(max(value, 0.0) * 1e9) * SECONDS_SCALE


def meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


class ObserveTwin:
    """What `view` shows of a game that is not over, after `moves` moves."""

    def __init__(self, twin: Twin, view: View, moves: int) -> None:
        self.twin, self.view, self.moves = twin, view, moves
        self.program, self.chip, self.b = twin.program, twin.chip, twin.state.at
        self.now = self.program.buffers[self.b].instruction
        self.granules = self.chip.cmem.capacity_bytes // self.chip.cmem.granule_bytes

    def all(self) -> dict[str, np.ndarray[Any, Any]]:
        later = [n for n in range(self.b + 1, len(self.program)) if self.twin.size(n)]
        same = [n for n in later if self.tensor(n) == self.tensor(self.b)]
        k, count = self.view.next_buffers, self.view.same_tensor
        shown = [self.b, *(later + [None] * k)[:k], *(same + [None] * count)[:count]]
        held = {"held": self.held(), "losses": np.array([self.losses(a) for a in range(3)])}
        return (held if self.view.held else {}) | {
            "buffers": np.array([self.buffer(n) for n in shown]),
            "buffer_ids": np.array([self.ids(n) for n in shown]),
            "memory_map": self.memory_map(),
            "memory_profile": self.column(
                [self.now], self.view.profile_cells or self.granules, self.twin.state.placed
            ),
            "supply": self.supply(),
            "actions": np.array([self.action(a) for a in range(3)]),
            "global": np.array([steps(value) for value in (self.moves, self.b, *self.in_group())]),
            "offsets": self.offsets(),
        }

    def tensor(self, n: int) -> int:
        return self.program.buffers[n].tensor

    def alias(self, n: int) -> int:
        return self.program.buffers[n].alias_id

    def benefit(self, n: int) -> float:
        fast = {p.buffer for p in self.twin.state.placed}
        i = self.program.buffers[n].instruction
        return self.twin.latency(i, fast) - self.twin.latency(i, fast | {n})

    def buffer(self, n: int | None) -> list[float]:
        if n is None:
            return [0.0] * len(BUFFER_FEATURES)
        buffer, alias, played = self.program.buffers[n], self.alias(n), self.twin.state.actions
        first, last = self.program.live_range(buffer.tensor)
        mates = self.twin.mates(n)
        columns = {
            "present": 1,
            "size": math.log1p(self.twin.size(n)) * SIZE_SCALE,
            "is_output": buffer.is_output,
            "target_time": steps(buffer.instruction - self.now),
            "live_first": steps(first - self.now),
            "live_last": steps(last - self.now),
            "demand": seconds(self.twin.size(n) / self.chip.hbm.bandwidth_Bps),
            "benefit": seconds(self.benefit(n)),
            "same_tensor": buffer.tensor == self.tensor(self.b),
            "in_group": alias >= 0,
            "same_group": alias >= 0 and alias == self.alias(self.b),
            "group_placed": any(played.get(m, 0) > 0 for m in mates),
            "group_dropped": alias in self.twin.state.forced or any(played.get(m) == 0 for m in mates),
        }
        return [float(columns[name]) for name in BUFFER_FEATURES]

    def ids(self, n: int | None) -> tuple[int, int]:
        if n is None:
            return -1, -1
        aliases = sorted({buffer.alias_id for buffer in self.program.buffers} - {-1})
        return self.tensor(n), aliases.index(self.alias(n)) if self.alias(n) >= 0 else -1

    def column(self, times: list[int], cells: int, placed: list[Placed]) -> np.ndarray[Any, Any]:
        """[cells]: 1 where a granule of the cell is taken at any of the times."""
        taken = np.zeros(cells, np.int64)
        for other in placed:
            if other.interval is None or not any(other.interval[0] <= t <= other.interval[1] for t in times):
                continue
            low = other.offset // self.chip.cmem.granule_bytes
            high = low + math.ceil(self.twin.size(other.buffer) / self.chip.cmem.granule_bytes)
            for cell in range(cells):  # the cell is [cell, cell + 1) * granules / cells
                if cell * self.granules < high * cells and low * cells < (cell + 1) * self.granules:
                    taken[cell] = 1
        return taken

    def memory_map(self) -> np.ndarray[Any, Any]:
        cells, begin = self.view.map_cells, self.now - self.view.map_steps // 2
        stride = self.view.map_steps // cells
        columns = []
        for cell in range(cells):
            times = list(range(begin + cell * stride, begin + (cell + 1) * stride))
            columns.append(self.column(times, cells, self.twin.state.placed))
        return np.array(columns).T

    def supply(self) -> np.ndarray[Any, Any]:
        begin, left = self.now - self.view.supply_steps // 2, self.twin.state.left
        times = range(begin, begin + self.view.supply_steps)
        return np.array([seconds(left[t]) if 0 <= t < len(left) else -1.0 for t in times])

    def action(self, number: int) -> list[float]:
        plan = self.twin.plan(number)
        row = dict.fromkeys(ACTION_FEATURES, 0.0) | {"legal": float(plan is not False), "offset": -1.0}
        if isinstance(plan, Placed):
            row["offset"] = plan.offset / self.chip.cmem.capacity_bytes
            if plan.interval is not None:
                row |= {
                    "has_interval": 1.0,
                    "first": steps(plan.interval[0] - self.now),
                    "last": steps(plan.interval[1] - self.now),
                }
        return [row[name] for name in ACTION_FEATURES]

    def extent(self, other: Placed) -> range:
        granule = self.chip.cmem.granule_bytes
        low = other.offset // granule
        return range(low, low + math.ceil(self.twin.size(other.buffer) / granule))

    def held_uses(self) -> list[tuple[Placed, int]]:
        """Where each held tensor lies, and its next use."""
        found = []
        placed = [p for p in self.twin.state.placed if p.interval is not None]
        for tensor in {self.tensor(p.buffer) for p in placed}:
            latest = max((p for p in placed if self.tensor(p.buffer) == tensor), key=lambda p: p.interval[1])
            uses = [
                n for n in range(self.b, len(self.program)) if self.tensor(n) == tensor and self.twin.size(n)
            ]
            last = latest.interval[1]
            covers = [p for p in placed if p.interval[1] > last and meet(self.extent(p), self.extent(latest))]
            if uses and last > self.now - self.view.held and (last > self.now or not covers):
                found.append((latest, uses[0]))
        return found

    def held(self) -> np.ndarray[Any, Any]:
        cells = self.view.profile_cells or self.granules
        found = np.zeros(cells)
        for other, use in self.held_uses():
            for cell in range(cells):
                extent = self.extent(other)
                if (
                    cell * self.granules < extent.stop * cells
                    and extent.start * cells < (cell + 1) * self.granules
                ):
                    found[cell] = max(found[cell], seconds(self.benefit(use)))
        return found

    def losses(self, number: int) -> list[float]:
        plan = self.twin.plan(number)
        if not isinstance(plan, Placed) or plan.interval is None:
            return [0.0, 0.0]
        lost = [
            use
            for other, use in self.held_uses()
            if meet(self.extent(other), self.extent(plan))
            and self.tensor(use) != self.tensor(self.b)
            and not (self.alias(use) >= 0 and self.alias(use) == self.alias(self.b))
        ]
        if not lost:
            return [0.0, 0.0]
        first = min(self.program.buffers[n].instruction for n in lost)
        return [seconds(sum(max(self.benefit(n), 0.0) for n in lost)), steps(first - self.now)]

    def in_group(self) -> tuple[int, int]:
        mates = self.twin.mates(self.b)
        return sum(m < self.b for m in mates), sum(m > self.b for m in mates)

    def offsets(self) -> np.ndarray[Any, Any]:
        at = {other.buffer: other.offset for other in self.twin.state.placed}
        if self.view.offsets is None:
            shown = list(range(len(self.program)))
        else:
            shown = list(range(self.b - self.view.offsets, self.b))
        return np.array([at[n] / self.chip.cmem.capacity_bytes if n in at else -1.0 for n in shown])
