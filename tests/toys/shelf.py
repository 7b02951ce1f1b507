"""Tensors in a slow and a fast memory: occupancy, lifetimes, a place each, and where the time goes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hwsim.capabilities import Lifetime, Occupancy
from hwsim.explanation import OpTime, OpTimes
from hwsim.placing import Placer, Scores, ranked
from hwsim.problem import About, Baseline, Evaluation, Keys, Mapping16, Violation
from hwsim.sections import Bars, Section
from hwsim.space import Space

MEMORIES = (("slow", 1000), ("fast", 50))
SECONDS_A_BYTE = (1.0, 0.25)


class ShelfPlacer(Placer):
    """Puts the four tensors that have a size into fast memory by falling score, where there is room."""

    feature_names = ("one", "bytes")

    def __init__(self, shelf: ToyShelf) -> None:
        self._shelf = shelf
        self.node = np.flatnonzero(shelf.space.size_bytes[:, 0])
        self.head = np.zeros(4, np.int64)
        self.features = np.zeros((4, 2, 2), np.float32)
        self.features[:, 1, 0] = 1
        self.features[:, 1, 1] = shelf.space.size_bytes[self.node, 0] / MEMORIES[1][1]

    def place(self, scores: Scores, free_share: np.ndarray) -> Mapping16:
        self.check(scores, free_share)
        out = np.repeat(self._shelf.space.initial[None], len(scores), axis=0)
        for row, order, own in zip(out, ranked(scores), scores, strict=True):
            for tensor in order:
                if own[tensor, 1] <= own[tensor, 0]:
                    continue
                row[self.node[tensor], 0] = 1
                if self._shelf.judge(row):
                    row[self.node[tensor], 0] = 0
        return out


class ToyShelf:
    """Op n makes tensor n, which the next op reads; where fast memory is full, a tensor stays in the slow one."""

    def __init__(self) -> None:
        self.about = About("toy-shelf", "toy", "none", place="memory", step="op")
        size_bytes = np.array([[30], [20], [0], [40], [25]])
        labels = [[name for name, _ in MEMORIES]]
        self.space = Space(
            [f"n{i}" for i in range(5)], ["tensor"], np.full((5, 1), 2, np.int16), labels, size_bytes
        )
        first = self.space.initial
        self.baseline = Baseline(first, float(self._seconds(first).sum()), "all slow")

    def _seconds(self, mapping: Mapping16) -> np.ndarray:
        """Float64 [5], of each op: it writes its own tensor and reads the one before."""
        own = self.space.size_bytes[:, 0] * np.where(mapping[:, 0] == 1, SECONDS_A_BYTE[1], SECONDS_A_BYTE[0])
        return 1.0 + own + np.concatenate([[0.0], own[:-1]])

    def _held(self, mapping: Mapping16) -> np.ndarray:
        """int64 [5, 2], bytes in each memory while each op runs."""
        size, place = self.space.size_bytes[:, 0], mapping[:, 0]
        made = np.stack([np.where(place == level, size, 0) for level in range(2)], axis=1)
        return made + np.concatenate([np.zeros((1, 2), np.int64), made[:-1]])

    def sections(self, mapping: Mapping16) -> list[Section]:
        both = {"all slow": self.baseline.mapping, "the best": mapping}
        held = {label: self._held(each)[:, 1].tolist() for label, each in both.items()}
        return [Bars("Fast memory", "Bytes held at each op.", self.space.nodes, held, "B", MEMORIES[1][1])]

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        self.space.check(mapping, key)
        out = self.space.canonical(mapping)
        for row in out:
            for n in range(5):
                before = row[n, 0]
                if (
                    before == 1
                    and self._held(np.where(np.arange(5)[:, None] > n, 0, row))[n, 1] > MEMORIES[1][1]
                ):
                    row[n, 0] = 0
        return out

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        fitted, ran = self.repair(mapping, key), np.ones(len(mapping), np.bool_)
        costs = np.array([self._seconds(row).sum() for row in fitted])
        size = self.space.size_bytes
        moved = np.where(fitted != self.space.canonical(mapping), size, 0).sum(axis=(1, 2)) / size.sum()
        return Evaluation.of_costs(costs, self.baseline.cost, ran, fitted, moved)

    def judge(self, mapping: Mapping16) -> list[Violation]:
        found = []
        for n in range(5):
            near = [m for m in (n - 1, n) if m >= 0 and mapping[m, 0] == 1]
            held = sum(int(self.space.size_bytes[m, 0]) for m in near)
            if held > MEMORIES[1][1]:
                found.append(Violation("fast memory", f"n{n}", held, MEMORIES[1][1], "bytes"))
        return found

    explained = OpTimes

    def explain(self, mapping: Mapping16) -> OpTimes:
        fitted = self.repair(mapping[None], np.zeros(1, np.uint64))[0]
        seconds, held = self._seconds(fitted).tolist(), self._held(fitted)
        names = [None if choice < 0 else MEMORIES[choice][0] for choice in fitted[:, 0].tolist()]
        ops = tuple(
            OpTime(
                f"n{n}", None, names[n], sum(seconds[:n]), seconds[n], "slow", {"slow": int(held[n, 0])}, 0, 0
            )
            for n in range(5)
        )
        total = {"slow": sum(op.traffic_bytes["slow"] for op in ops)}
        return OpTimes(sum(seconds), ops, total, 0, {"slow": sum(seconds)})

    def memories(self) -> Sequence[tuple[str, int]]:
        return MEMORIES

    def lifetimes(self, mapping: Mapping16) -> Sequence[Lifetime]:
        placed = [(n, int(choice)) for n, choice in enumerate(mapping[:, 0]) if choice >= 0]
        size = self.space.size_bytes[:, 0].tolist()
        return [Lifetime(f"n{n}", "tensor", choice, size[n], n, min(n + 1, 4)) for n, choice in placed]

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        names, room = zip(*MEMORIES, strict=True)
        return Occupancy(names, self._held(mapping)[:, :, None], np.array(room, np.int64))

    def placement(self, mapping: Mapping16) -> Sequence[Mapping[str, Any] | None]:
        return [None if choice < 0 else {"memory": MEMORIES[choice][0]} for choice in mapping[:, 0].tolist()]

    def baseline_placement(self) -> None:
        """The baseline is a mapping."""
        return

    def placed_in(self) -> tuple[str, int]:
        return MEMORIES[-1]

    @property
    def placer(self) -> ShelfPlacer:
        return ShelfPlacer(self)

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((MEMORIES, self.space.size_bytes.tolist())).encode()).hexdigest()
