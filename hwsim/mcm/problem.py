"""Partitioning over a multi-chip module as a problem: a constraint solver repairs mappings, a pipeline sets the cost.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", sections 3 to 5.

Deviations:
- Rewards are squared speedups, as of every problem here; the paper's is the throughput.
- If the solver finds no partition within its limit, the baseline's partition is judged instead.
- Without the solver, the reward of an invalid partition is minus the share of its bytes on nodes at which a rule is
  broken. The paper gives no throughput, but 0 would be the reward of a very slow partition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import Parts, Solution
from hwsim.explanation import Partition
from hwsim.family import Effects, Estimate, Family
from hwsim.mappings import choice_columns, independent_sample
from hwsim.mcm.baseline import compile_baseline, partitions_of_rules
from hwsim.mcm.bound import bound_of, solve
from hwsim.mcm.config import McmConfig, check_names, resize
from hwsim.mcm.cost import costs, loads, tensors_of
from hwsim.mcm.device import device_tables, run
from hwsim.mcm.explain import partition, pipeline_of
from hwsim.mcm.judge import judge, judge_device
from hwsim.mcm.network import SCHEMA_VERSION, distinct_names, network
from hwsim.mcm.package import Package, package_file
from hwsim.mcm.placer import McmPlacer
from hwsim.mcm.rules import misplaced_nodes
from hwsim.mcm.solver.solver import Repairer, solver
from hwsim.mcm.terms import ChipTerms
from hwsim.problem import (
    UNPROVED,
    About,
    Baseline,
    Bound,
    Evaluation,
    Keys,
    Mapping16,
    Observation,
    Status,
    Violation,
)
from hwsim.space import Space, check_keys
from hwsim.stages import Pipeline
from workloads.importers.placement_json import PlacementGraph
from workloads.workload import Workload

SIMULATOR_VERSION = 2
"""Goes up with every change that changes a partition or a cost."""


class McmProblem:
    """Assign each node of a network to a chip of a package.

    mapping   int16 [N, 1]: the chip of each node; decisions are never dead
    cost      seconds per sample, the inverse of the throughput: those of the busiest chip or link of the pipeline
    reward    (baseline cost / cost)^2 if it ran; -epsilon if it did not
    valid     the rules of the package hold; with `model = "device"` the peak of every chip fits in its memory, too
    epsilon   the share of bytes that FIX moved, 1 if it found nothing within its limit; if nothing ran, the share of
              bytes on nodes at which a rule is broken or memory is short

    Attributes:
        observation: what policies see.
        parts: the loads of chips and links, of which the largest is the cost.
        placer: if there is a solver, partitions by score.

    >>> problem = McmProblem(load("resnet50"), load_package("mcm36"))
    >>> problem.evaluate(problem.space.initial[None], np.zeros(1, np.uint64)).speedup
    """

    def __init__(
        self, given: Workload | PlacementGraph, package: Package, config: McmConfig | None = None
    ) -> None:
        """Build tables and solver and compile the baseline.

        Raises:
            InputError: a setting is unknown, `network` refuses the network, or it has no valid partition.
        """
        self.config = config or McmConfig()
        check_names(self.config)
        package = resize(package, self.config.chips)
        self._given, self.package = given, package
        self.network = network(given, package, self.config.copies)
        self.tables = self.network.tables
        self.device = device_tables(self.network, package)
        self.solver = solver(self.network.graph, package)
        self._proved: dict[float, Bound] = {}

        self.about = About(
            "mcm",
            self.network.graph.name,
            package.name,
            "s" if isinstance(given, Workload) else "file units",
            baseline_name="the heuristic",
            evaluated="partitions",
            place="chip",
            model_error=package.prediction.get("held_out_error", 0.0),
            uncounted="; ".join(given.remarks) if isinstance(given, Workload) else "",
        )
        size_bytes = self.tables.size_bytes[:, None].copy()
        chips = [str(chip) for chip in range(package.chips)]
        # Chips of the device model wait for each other.
        sums = self.config.model == "analytical"
        self.parts = _loads_of(
            package.chips, ChipTerms(self.tables, self.network.made_bytes) if sums else None
        )
        self.space = Space(
            distinct_names(self.network.graph.nodes),
            ("chip",),
            np.full(size_bytes.shape, package.chips, np.int16),
            [chips],
            size_bytes,
            pipeline=self._pipeline(),
        )
        columns = choice_columns(self.space.choice_rank, self.space.initial)
        x = np.concatenate([self.network.features, columns], axis=1)
        edges = np.ascontiguousarray(self.tables.edges.T)
        self.observation = Observation(x.astype(np.float32), edges, SCHEMA_VERSION)
        mapping = compile_baseline(
            self.network, self.solver, self.config.baseline, self._demand, self.config.backtracks
        )[:, None]
        self._repairer = Repairer(self.solver, mapping[:, 0], self.config.backtracks)
        if self.config.solver:
            self.placer = McmPlacer(self.tables, self._repairer)
        self.baseline = Baseline(
            mapping,
            self._costs(mapping[None, :, 0])[0],
            self.config.baseline,
            rules=partial(partitions_of_rules, self.tables),
        )

    def _pipeline(self) -> Pipeline | None:
        """The chips as stages, if no edge may lead back."""
        if not self.tables.acyclic:
            return None
        device = None if self.config.model == "analytical" else self.device
        return pipeline_of(self.tables, self.package, device)

    def _costs(self, places: NDArray[np.int16]) -> NDArray[np.float64]:
        """Costs [B] of partitions [B, N]; infinite if the device has too little memory."""
        if self.config.model == "analytical":
            return costs(self.tables, places)
        ran = run(self.device, places)
        return np.where(ran.excess_bytes > 0, np.inf, ran.cost_s)

    def _demand(self, place: NDArray[np.int16]) -> tuple[int, int]:
        """The chip on which a valid partition [N] needs the most memory, and how many bytes (0 if none is asked)."""
        if self.config.model == "analytical":
            return 0, 0
        peak = run(self.device, place[None]).peak_bytes[0]
        return int(peak.argmax()), int(peak.max())

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Judge mappings int16 [B, N, 1]; keys uint64 [B] are for FIX where one is not valid.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        size, total = self.tables.size_bytes, int(self.tables.size_bytes.sum())
        place = np.ascontiguousarray(mapping[:, :, 0])
        wrong = misplaced_nodes(self.tables, place)
        ran: NDArray[np.bool_] = ~np.any(wrong, axis=1)
        if self.config.solver:
            fixed, stands_in = self._repairer.fix(place, key, ran)
            share = np.where(fixed != place, size, 0).sum(axis=1) / total
            share = np.where(stands_in, 1.0, share)
            place, ran = fixed, np.ones(len(place), np.bool_)
        else:
            share = np.where(wrong, size, 0).sum(axis=1) / total
        if self.config.model == "device":
            device = run(self.device, place)
            cost, busy = device.cost_s, np.concatenate([device.chip_s, device.link_s], axis=1)
            lacks = ran & (device.excess_bytes > 0)
            held = np.maximum(device.peak_bytes.sum(axis=1), 1)
            share = np.where(lacks, device.excess_bytes / held, share)
            ran &= ~lacks
        else:
            busy = loads(self.tables, place)
            cost = busy.max(axis=1)
        return Evaluation.of_costs(
            cost,
            self.baseline.cost,
            ran,
            place[:, :, None],
            np.clip(share, 0.0, 1.0),
            parts=busy.astype(np.float32),
        )

    def _valid(self, places: NDArray[np.int16]) -> NDArray[np.bool_]:
        """Bool [B]: which partitions [B, N] keep the rules of the package."""
        return np.asarray(~np.any(misplaced_nodes(self.tables, places), axis=1), np.bool_)

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        """SAMPLE by the solver: [B, N, 1, C] or None -> int16 [B, N, 1]; without it, every node by itself.

        Raises:
            ValueError: a shape or dtype is wrong, or a probability is negative or not finite.
        """
        if not self.config.solver:
            return independent_sample(self.space, probabilities, key)
        shape = (*self.space.shape, self.package.chips)
        p = (
            np.ones((np.size(key), *shape), np.float32)
            if probabilities is None
            else np.asarray(probabilities)
        )
        if p.ndim != 4 or p.shape[1:3] != shape[:2] or p.shape[3] < self.package.chips:
            raise ValueError(
                f"probabilities: expected shape (B, {shape[0]}, 1, {shape[2]}), received {p.shape}"
            )
        check_keys(key, len(p))
        weights = p[:, :, 0, : self.package.chips].astype(np.float32)
        return self._repairer.found(self.solver.sample(weights, key, None, self.config.backtracks))[
            :, :, None
        ]

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """FIX by the solver for mappings [B, N, 1] that are not valid; without it they stay as they are.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        if not self.config.solver:
            return mapping.copy()
        place = np.ascontiguousarray(mapping[:, :, 0])
        return self._repairer.fix(place, key, self._valid(place))[0][:, :, None].copy()

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every rule that one mapping [N, 1] breaks, by code that shares nothing with solver, costs and device."""
        t, rules, sram = self.tables, self.package.constraints, self.package.chip.sram_bytes
        place, weights = mapping[:, 0].tolist(), t.weight_bytes.tolist()
        edges = [(u, v) for u, v in t.edges.tolist()]
        on = (rules.acyclic, rules.no_skip, rules.triangle, rules.memory)
        found = judge(t.chips, sram, edges, weights, place, *on, self.space.nodes)
        if self.config.model == "device" and rules.memory and all(0 <= chip < t.chips for chip in place):
            made = self.network.made_bytes.tolist()
            found += judge_device(t.chips, sram, weights, made, tensors_of(t), place)
        return found

    explained = Partition

    def explain(self, mapping: Mapping16) -> Partition:
        """Bytes and times of chips and loads of links under the mapping that is judged for one mapping int16 [N, 1].

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        place = self.repair(mapping[None], np.zeros(1, np.uint64))[0, :, 0]
        on_device = self.config.model == "device"
        return partition(self.network, self.device, place, self.package.chip.sram_bytes, on_device)

    def bound(self, time_limit_s: float) -> Bound:
        """The proofs of `hwsim/mcm/bound.py` that are done within the limit; none ships with the package."""
        if time_limit_s <= 0:
            return UNPROVED
        if time_limit_s not in self._proved:
            known_s = float(costs(self.tables, self.baseline.mapping[None, :, 0])[0])
            self._proved[time_limit_s] = bound_of(self.network, known_s, time_limit_s)[0]
        return self._proved[time_limit_s]

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """The cheapest split where the graph has few ideals, else the best cuts; nothing of it is random.

        Neither `seed` nor `start` is used.
        """
        keys = np.zeros(3, np.uint64)
        return solve(
            self.network,
            self.baseline.mapping[:, 0],
            lambda places: self._repairer.fix(places, keys[: len(places)], self._valid(places))[0],
            self._costs,
            time_limit_s,
        )

    def model_cost(self, mapping: Mapping16) -> float:
        """Seconds per sample of what is judged for one mapping int16 [N, 1]; infinite if that does not run."""
        found = self.evaluate(mapping[None], np.zeros(1, np.uint64))
        return float(found.cost[0]) if found.status[0] == Status.OK else float("inf")

    @cached_property
    def family(self) -> Family:
        """The models around the analytical one that measurements choose from."""
        from hwsim.mcm.family.family import McmFamily

        return McmFamily(self.network, self.package.link.hop_s)

    @property
    def describable(self) -> Sequence[str]:
        """No effect: a package has rates alone."""
        return ()

    def described(
        self, estimates: Mapping[str, Estimate], effects: Effects, name: str
    ) -> tuple[McmProblem, str]:
        """See `hwsim.family.HasFamily`; the text is a package file."""
        from hwsim.mcm.family.family import fitted

        package, text = fitted(self.package, estimates, name)
        return McmProblem(self._given, package, self.config), text

    def fingerprint(self) -> str:
        """Hex digest of simulator version, package, network and settings."""
        parts = {"version": SIMULATOR_VERSION, "config": asdict(self.config), "files": dict(self.files())}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def files(self) -> dict[str, str]:
        """The network and the package as text."""
        return {"workload.json": self.network.text, "chip.toml": package_file(self.package)}


def _loads_of(chips: int, terms: ChipTerms | None) -> Parts:
    """A load for each chip, and one for each link to the next."""
    names = [f"chip {c}" for c in range(chips)] + [f"link {c} -> {(c + 1) % chips}" for c in range(chips)]
    return Parts(tuple(names), "max", np.full(2 * chips, -1, np.int32), terms=terms)
