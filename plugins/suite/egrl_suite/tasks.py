"""Tracks, and what a method gets in one: a task that shows what may be seen, counts measurements and keeps the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_suite.judge import Wrong
from egrl_suite.library import KINDS, Instance, SuiteError

MARKS = (25, 100, 400)
CONTENDERS, AGAIN = 4, 3
"""Of a noisy track: mappings that are measured again at the end, and how often each; these requests count."""


@dataclass(frozen=True)
class Track:
    """What is told, and when it is scored.

    Attributes:
        marks: numbers of measurements after which the best counts.
        kinds: of the instances.
        apart: whether each mark is a search of its own, whose answer is confirmed.
        profiles: whether a measurement tells the seconds of each part: an op, or a chip and a link.
        rates: whether the method sees the chip's speeds, and not the names and sizes of its memories alone.
        about: in words.
    """

    marks: tuple[int, ...]
    kinds: tuple[str, ...]
    about: str
    apart: bool = False
    profiles: bool = False
    rates: bool = True


TRACKS = {
    "one-shot": Track((1,), ("nnpi",), "one placement, nothing asked"),
    "measurements": Track(MARKS, ("nnpi",), "totals are told; of the chip only memories", rates=False),
    "profiles": Track(
        MARKS, ("nnpi",), "as measurements, with the seconds of every op", profiles=True, rates=False
    ),
    "boards": Track(
        (50, 100), ("board",), "a chip file that is wrong, 2 % noise, the answer confirmed", apart=True
    ),
    "board-profiles": Track((50, 100), ("board",), "as boards, with the seconds of every op", True, True),
    "model": Track(
        (1000, 10_000, 100_000, 1_000_000), ("nnpi",), "the chip is known: evaluations of its model"
    ),
    "programs": Track((25, 100), ("program",), "actions of the MMapGame; totals are told"),
    "modules": Track(MARKS, ("mcm",), "partitions of graphs among chips; totals are told"),
    "module-profiles": Track(
        (25, 100), ("mcm",), "as modules, with the busy seconds of every chip and link", profiles=True
    ),
}


def track_named(name: str) -> Track:
    """Raises SuiteError if there is none."""
    if name not in TRACKS:
        raise SuiteError(f"--track: expected one of {', '.join(TRACKS)}, found {name!r}")
    return TRACKS[name]


class OutOfBudget(Exception):
    """No measurement is left. Who runs a method catches it: the method need not."""


class Told(NamedTuple):
    """Of a measurement: seconds, infinite where the placement cannot run; and those of each part, or None."""

    cost: float
    profile: list[float] | None


class Task:
    """An instance in a track, as a method sees it.

    Attributes:
        network, chip: parsed files; a method may change its copies.
        sizes, first, last: int64 [N, H], bytes of each tensor (0: none to place), and the steps at which it is held.
        memories: names; `capacity` int64 [L] has their bytes; slowest first.
        default, default_cost, default_profile: int16 [N, H], the placement to beat, and what its measurement told,
            which is not counted.
        left: measurements that are left.
        ran, wrong: how many placements could run; why the last that could not is none.
    """

    def __init__(self, instance: Instance, track: Track, budget: int, seed: int) -> None:
        self._instance, self._judge, self._track = instance, instance.judge, track
        self._rng = np.random.default_rng([seed, *instance.name.encode()])
        self.network, self.chip = instance.seen
        if not track.rates:
            self.chip = _without_rates(self.chip)
        judge = self._judge
        self.sizes, self.first, self.last = judge.sizes.copy(), judge.first.copy(), judge.last.copy()
        self.memories, self.capacity = list(judge.names), judge.capacity.copy()
        self.default = instance.default_mapping.copy()
        again = CONTENDERS * AGAIN if track.apart else 0
        self.left = self._budget = budget - again
        self.ran, self.wrong = 0, ""
        self._best: tuple[float, NDArray[np.int16]] = (inf, self.default)
        self._marked: dict[int, NDArray[np.int16]] = {}
        self._seen: dict[bytes, tuple[float, NDArray[np.int16]]] = {}
        self.default_cost, self.default_profile = self._told(self.default)
        if track.marks != (1,):  # where one placement is answered, that counts, and no better one
            self._keep(self.default, self.default_cost)

    @property
    def used(self) -> int:
        """Measurements so far."""
        return self._budget - self.left

    def measure(self, mapping: Any) -> Told:
        """The cost of one placement [N, H]. Raises OutOfBudget if no measurement is left."""
        if self.left <= 0:
            raise OutOfBudget
        self.left -= 1
        try:
            runs = self._judge.fitted(mapping)
            told = self._told(runs)
            self._keep(runs, told.cost)
            self.ran += 1
        except Wrong as error:
            told, self.wrong = Told(inf, None), str(error)
        self._mark()
        return told

    def record(self, mappings: NDArray[np.int16], costs: Sequence[float]) -> None:
        """Count measurements that kernels made, which equal the judge's; what is scored is judged again."""
        for mapping, cost in zip(mappings, costs, strict=True):
            if self.left <= 0:
                raise OutOfBudget
            self.left -= 1
            self.ran += 1
            if cost < self._best[0]:
                self._best = (cost, np.array(mapping, np.int16))
            self._mark()

    def answers(self) -> dict[int, NDArray[np.int16]]:
        """Of each mark the placement that counts there: the best told until then; on a noisy track one, confirmed."""
        if self._track.apart:
            return {self._budget + CONTENDERS * AGAIN: self._confirmed()}
        return {
            mark: self._marked.get(mark, self._best[1]) for mark in self._track.marks if mark <= self._budget
        }

    def _told(self, mapping: NDArray[np.int16]) -> Told:
        """Of a placement that fits: seconds and those of the parts, with the noise of one measurement on all alike."""
        parts, factor = self._judge.profile(mapping), self._noisy(1.0)
        cost = max(parts) if self._instance.kind == "mcm" else sum(parts)
        return Told(cost * factor, [seconds * factor for seconds in parts] if self._track.profiles else None)

    def _noisy(self, cost: float) -> float:
        sigma = self._instance.noise
        return cost * exp(sigma * self._rng.normal() - sigma * sigma / 2) if sigma else cost

    def _keep(self, mapping: NDArray[np.int16], cost: float) -> None:
        if self._track.apart:
            self._seen.setdefault(mapping.tobytes(), (cost, mapping))
        if cost < self._best[0]:
            self._best = (cost, mapping.copy())

    def _mark(self) -> None:
        if self.used in self._track.marks:
            self._marked[self.used] = self._best[1]

    def _confirmed(self) -> NDArray[np.int16]:
        """Of the fastest measured, the one with the least mean of further measurements."""
        ranked = sorted(self._seen.values(), key=lambda one: one[0])[:CONTENDERS]
        means = [
            np.mean([self._noisy(self._judge.cost(mapping)) for _ in range(AGAIN)]) for _, mapping in ranked
        ]
        return ranked[int(np.argmin(means))][1]


Search = Callable[[Task, int], Any]
"""Searches a task with a seed; what it returns, if anything, is measured last."""


def _without_rates(chip: dict[str, Any]) -> dict[str, Any]:
    """What is seen of a chip where costs are measured: which memories it has, slowest first, or which chips."""
    if "memories" not in chip:
        return chip
    kept = ("name", "capacity_bytes", "reserved_bytes")
    memories = [{key: memory[key] for key in kept if key in memory} for memory in chip["memories"]]
    return {"memories": memories, "element_bytes": chip["element_bytes"]}


assert all(kind in KINDS for track in TRACKS.values() for kind in track.kinds)
