"""The contest as a problem: which tensors between ops are kept; all else follows (`grouping.py`).

Source: the MLSys 2026 contest on graph scheduling, whose rules these are, as README.md of this plug-in reads them.

Deviations:
- Rewards are squared speedups over the baseline, as of every problem of egrl; the contest scores an instance by the
  best cost of all teams / cost.
- Every subgraph holds all ops between its output and what is kept; the rules allow it to compute a kept tensor anew,
  too. In a tree no other subgraph needs that tensor; elsewhere it can pay: where a subgraph loads all inputs of a
  pointwise op anyhow, the op may take less than loading its output. The bounds count such subgraphs, too.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from hwsim.capabilities import Solution
from hwsim.mappings import choice_columns
from hwsim.problem import (
    About,
    Baseline,
    Bound,
    Evaluation,
    Keys,
    Mapping16,
    Observation,
    Violation,
)
from hwsim.sections import Section, Table
from hwsim.space import Space
from mlsys2026 import judge
from mlsys2026.bound import Covers, simple_bound
from mlsys2026.grouping import MOST_OPS, Book
from mlsys2026.instance import Instance, document_of
from mlsys2026.schedule import Step, read_schedule, text_of
from mlsys2026.solving import MlsysSolving, mapping_of
from workloads.errors import InputError

SIMULATOR_VERSION = 1
"""Goes up with every change to which schedules are valid or what they take."""
SCHEMA_VERSION = 901
UNIT = "time units"
CHIP = "contest"
THREADS = 2
FIXED_LOOKS = 2000
"""Schedules that a solve looks at which is told where to begin."""
PLAN_FILE = "schedule.json"


@dataclass(frozen=True)
class MlsysConfig:
    """Settings of the problem."""

    tiles_divide: Annotated[
        bool,
        Doc("if true, w, h and k have to divide the output's columns and rows and the depth of each sum"),
    ] = False


class Mlsys2026:
    """Choose which outputs of ops are kept in memory between subgraphs.

    mapping   int16 [N, 1]: 1 "kept" or 0 "inside" for the output of each op; dead for outputs of the graph
    cost      latency of the best schedule of the subgraphs that follow, in time units of the instance
    reward    (baseline cost / cost)^2
    valid     always: where a subgraph does not fit, more is kept
    epsilon   the share of the ops whose output is kept only because of that

    Attributes:
        instance: graph and chip.
        observation: what policies see.
    """

    def __init__(self, instance: Instance, config: MlsysConfig | None = None) -> None:
        """Build tables and baseline.

        Raises:
            InputError: an op does not fit into fast memory even in the smallest tiles.
        """
        self.config = config or MlsysConfig()
        self.instance = instance = replace(instance, tiles_divide=self.config.tiles_divide)
        self.about = About(
            "mlsys2026",
            instance.name,
            CHIP,
            UNIT,
            baseline_name="one op per step",
            evaluated="schedules",
            step="step",
            plan_file=PLAN_FILE,
        )
        self._book = Book(instance)
        sizes = [
            0 if fixed else instance.size(t)
            for fixed, t in zip(self._book.fixed, instance.outputs, strict=True)
        ]
        count = len(instance)
        self.space = Space(
            [f"op{op}" for op in range(count)],
            ("output",),
            np.full((count, 1), 2, np.int16),
            labels=[("inside", "kept")],
            size_bytes=np.array(sizes, np.int64)[:, None],
        )
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        self.observation = Observation(
            np.concatenate([_features(instance, self._book), columns], axis=1),
            _edges(instance),
            SCHEMA_VERSION,
        )
        everything = [True] * count
        for op, group in self._book.groups(everything).items():
            if not math.isfinite(self._book.cost(group, -1, False)):
                raise InputError(
                    f"{instance.name}: fast_memory_capacity: expected room for a tile of op {op}, found"
                    f" {instance.capacity} elements"
                )
        cost = self._book.stays(self._book.groups(everything))[0]
        self.baseline = Baseline(mapping_of(everything, self.space.live), cost, "one op per step")
        proved, proof = simple_bound(self._book)
        self._proved = Bound(proved, math.inf, proof, 0.0)

    def _kept(self, mapping: Mapping16) -> list[bool]:
        """For each op whether its output is kept, of one mapping [N, 1]."""
        return ((mapping[:, 0] == 1) | ~self.space.live[:, 0]).tolist()

    def _repaired(self, kept: list[bool]) -> list[bool]:
        """Keep more until all subgraphs fit: what the last op of one that does not reads."""
        kept = list(kept)
        pending = [op for op in range(len(kept)) if kept[op]]
        while pending:
            op = pending.pop()
            group = self._book.group(op, self._book.inside(op, kept))
            if math.isfinite(self._book.cost(group, -1, False)):
                continue
            for tensor in self.instance.inputs[op]:
                source = self.instance.producer[tensor]
                if source >= 0 and not kept[source]:
                    kept[source] = True
                    pending.append(source)
            pending.append(op)
        return kept

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Costs of mappings int16 [B, N, 1]. Nothing is random: keys are ignored.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        repaired = self.repair(mapping, key)
        cost = np.empty(len(mapping))
        for row, each in enumerate(repaired):
            cost[row] = self._book.stays(self._book.groups(self._kept(each)))[0]
        moved = (repaired != self.space.canonical(mapping)).mean(axis=(1, 2))
        return Evaluation.of_costs(cost, self.baseline.cost, np.ones(len(cost), np.bool_), repaired, moved)

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """Mappings [B, N, 1] with more kept where a subgraph does not fit.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        rows = [mapping_of(self._repaired(self._kept(each)), self.space.live) for each in mapping]
        return np.stack(rows) if rows else mapping.copy()

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every rule that the schedule of one mapping [N, 1] breaks, replayed in exact fractions."""
        kept = self._kept(mapping)
        broken: list[Violation] = []
        for op, group in self._book.groups(kept).items():
            ops = group.plan.ops
            if len(ops) > MOST_OPS:
                broken.append(
                    Violation("ops of the subgraph", f"op{op}", float(len(ops)), float(MOST_OPS), "ops")
                )
            elif not math.isfinite(self._book.cost(group, -1, False)):
                least = judge.least_peak(self.instance, ops)
                room = float(self.instance.capacity)
                broken.append(Violation("fast memory", f"op{op}", float(least), room, "elements"))
        return broken or list(judge.replay(self.instance, self.steps(mapping)).violations)

    def steps(self, mapping: Mapping16) -> list[Step]:
        """The schedule of one mapping [N, 1], after any repair."""
        return self._book.schedule(self._repaired(self._kept(mapping)))

    def plan_text(self, mapping: Mapping16) -> str:
        """The contest's output file for one mapping [N, 1], with the exact latency of each step, rounded to float64."""
        steps = self.steps(mapping)
        return text_of(steps, [float(each) for each in judge.replay(self.instance, steps).latencies])

    def read_plan(self, text: str, where: str) -> Mapping16:
        """int16 [N, 1]: what an output file of the contest keeps. Tiles and what stays in fast memory are chosen anew.

        InputError if it is not in the contest's form, or its schedule is not valid.
        """
        steps = read_schedule(text, self.instance, where)
        broken = judge.replay(self.instance, steps).violations
        if broken:
            raise InputError(f"{where}: expected a valid schedule, found: {broken[0]}")
        kept = [False] * len(self.instance)
        for step in steps:
            kept[judge.sink_of(self.instance, step)] = True
        return mapping_of(kept, self.space.live)

    def sections(self, mapping: Mapping16) -> list[Section]:
        """The steps of one mapping [N, 1] as a table."""
        steps = self.steps(mapping)
        verdict = judge.replay(self.instance, steps)
        rows = [
            (
                number,
                ", ".join(map(str, step.ops)),
                " x ".join(map(str, step.granularity)),
                ", ".join(map(str, step.retain)) or "-",
                float(latency),
            )
            for number, (step, latency) in enumerate(zip(steps, verdict.latencies, strict=True))
        ]
        columns = [("step", ""), ("ops", ""), ("w x h x k", ""), ("stays", ""), ("latency", "")]
        says = "The subgraphs in the order in which they run, with the tensor that stays in fast memory after each."
        return [Table("Steps of the schedule", says, columns, rows)]

    def solving(self, seed: int, threads: int = THREADS, start: Mapping16 | None = None) -> MlsysSolving:
        """The solver at its beginning, from `start` int16 [N, 1] on if that is given."""
        kept = None if start is None else self._repaired(self._kept(start))
        return MlsysSolving(self._book, self.space.live, seed, threads, kept)

    def prove(self, bound: Bound) -> None:
        """Remember a bound, if it is the highest so far."""
        if bound.cost > self._proved.cost:
            self._proved = bound

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """What the solver finds and proves within about the limit, or in a fixed amount of work from `start` on."""
        solving = self.solving(seed, THREADS if start is None else 1, start)
        if start is None:
            solving.work(time_limit_s)
        else:
            solving.work_fixed(FIXED_LOOKS, time_limit_s)
        solving.close()
        self.prove(solving.bound)
        return Solution(solving.best, solving.cost, solving.bound, solving.done)

    def model_cost(self, mapping: Mapping16) -> float:
        """The cost of one mapping int16 [N, 1], after any repair."""
        return float(self.evaluate(mapping[None], np.zeros(1, np.uint64)).cost[0])

    def bound(self, time_limit_s: float) -> Bound:
        """The highest bound that is known; with time, a small instance is solved to prove a higher one."""
        if time_limit_s > 0 and Covers.serves(self._book) and self._proved.seconds == 0:
            self.solve(time_limit_s, 0)
        return self._proved

    def files(self) -> dict[str, str]:
        """The instance."""
        document = {"name": self.instance.name, **json.loads(document_of(self.instance))}
        return {"workload.json": json.dumps(document)}

    def fingerprint(self) -> str:
        """Hex digest of simulator version, instance and settings."""
        told = [SIMULATOR_VERSION, self.instance.name, document_of(self.instance)]
        told += ["tiles divide"] if self.instance.tiles_divide else []
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _features(instance: Instance, book: Book) -> NDArray[np.float32]:
    """float32 [N, 8]: matrix product or not; size over capacity and rows over columns of the output; time of computing
    over time of moving; depth; readers and inputs; whether it has to be kept. Sizes and times are log1p."""
    rows = []
    for op, out in enumerate(instance.outputs):
        moved = sum(map(instance.size, (*instance.inputs[op], out))) / instance.bandwidth
        rows.append(
            (
                float(instance.matmul[op]),
                math.log1p(instance.size(out) / instance.capacity),
                math.log(instance.heights[out] / instance.widths[out]) / 8,
                math.log1p(book.compute_floor(op) / moved),
                math.log1p(instance.depth(op)) / 8,
                math.log1p(len(instance.consumers[out])),
                math.log1p(len(instance.inputs[op])),
                float(book.fixed[op]),
            )
        )
    return np.array(rows, np.float32)


def _edges(instance: Instance) -> NDArray[np.int64]:
    """int64 [2, E]: every op and each op that reads its output."""
    pairs = [(op, reader) for op, out in enumerate(instance.outputs) for reader in instance.consumers[out]]
    return np.array(pairs, np.int64).reshape(-1, 2).T.copy()


def contest_seconds(name: str) -> float:
    """Seconds that the contest gives an instance that is called like its own, mlsys-2026-N; else 60."""
    number = PurePath(name).stem.rpartition("-")[2]
    if not number.isdecimal() or not 1 <= int(number) <= 24:
        return 60.0
    return (2.0, 5.0, 15.0, 30.0, 60.0, 120.0)[(int(number) - 1) // 4]
