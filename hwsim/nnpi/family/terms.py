"""The parameters of the family: what each multiplies, and how far a chip file may be off.

Source: the prior is a choice of ours, written down here and in benchmarks/log/twin.md: constants within a factor of
1.5 (one standard deviation of 0.4 in the logarithm), a kind of op and ops of one shape within 15 %, a single op or
tensor within 15 % more, with that last figure learned from the board.

A fitted chip file: each fitted value with its 90 % interval and the value before.

A chip file has no place for single ops: who calls says what becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.family import Effects, Estimate, Parameter
from hwsim.nnpi.chip import Chip, Factors, Memory, Waiting, parse_chip, template
from hwsim.nnpi.family.cost import Terms
from hwsim.nnpi.tables import Tables
from hwsim.problem import Floats
from workloads.workload import KINDS, Workload

SWITCHES = ("cross", "prefetch", "contention", "moves")
SWITCHED = (*SWITCHES, "overhead")
WAITS = ("serial", "shared")
EFFECTS = (*SWITCHED, "access", *WAITS)
"""The chip file's switches, and what is on where the file has more than 0: the latency of an access, compute and
transfers that do not overlap, and transfers that wait for those of other memories."""

CONSTANT, KIND, SHAPE, OWN, GENERIC_SPREAD = 0.4, 0.15, 0.15, 0.15, 1.0
KIND_TRAFFIC = 0.1
ACCESS_SHARE = 0.1
"""Where the effect is on though the chip file has 0: latency of an access, as a share of the launch overhead …"""
WAITING = 0.1
"""… and the share that waits."""
LAUNCH_S = 5e-7
"""Launch overhead of an op where the chip file has the effect off."""


class Layout:
    """Which rows of the raw terms each parameter moves: R raw terms, P parameters.

    The raw terms are, as `gradients` has them: bandwidths [L], access latencies [L], launch, serial, shared, compute
    seconds [N], factors of weights [N] and of activations [N].

    Attributes:
        parameters: P of them.
        matrix: sparse float64 [R, P]: logarithm of each raw term's factor = matrix @ theta.
        columns: int64 [S], the parameters that are not of single ops or tensors.
        common: float64 [R, S], those columns of the matrix.
        entry: int64 [N + 1], where the slopes of an op by raw terms of its own begin (`op_times`).
    """

    def __init__(self, tables: Tables, workload: Workload, memories: tuple[str, ...]) -> None:
        self._ops, self._levels = len(workload), len(memories)
        self._launch_s = tables.launch_s or LAUNCH_S
        self._access_s = access_s(tables)
        self._waits = {name: getattr(tables, name) or WAITING for name in WAITS}
        self._tables = tables
        self.parameters: list[Parameter] = []
        self._rows: list[NDArray[np.int64]] = []
        self._add_constants(memories)
        self._add_kinds(workload)
        self._add_own(workload)
        self._own = np.array([p.own for p in self.parameters], np.bool_)
        self.columns: NDArray[np.int64] = np.flatnonzero(~self._own)
        self.entry: NDArray[np.int64] = tables.edge_start + 3 * np.arange(self._ops + 1)
        self._raw = self._raw_terms()

    @cached_property
    def matrix(self) -> Any:
        """See the class."""
        from scipy import sparse  # slow to import, and a family that only names rules needs none of it

        sizes = [len(rows) for rows in self._rows]
        spread = np.repeat([p.spread for p in self.parameters], sizes)
        at = (np.concatenate(self._rows), np.repeat(np.arange(len(sizes)), sizes))
        return sparse.csr_matrix((spread, at), shape=(2 * self._levels + 3 + 3 * self._ops, len(sizes)))

    @cached_property
    def common(self) -> Floats:
        """See the class."""
        found: Floats = self.matrix[:, self.columns].toarray()
        return found

    @cached_property
    def _alone(self) -> Any:
        from scipy import sparse

        return self.matrix @ sparse.diags(self._own.astype(np.float64))

    def _add(self, rows: NDArray[np.int64] | list[int], parameter: Parameter) -> None:
        self._rows.append(np.asarray(rows, np.int64))
        self.parameters.append(parameter)

    @property
    def _compute(self) -> NDArray[np.int64]:
        return 2 * self._levels + 3 + np.arange(self._ops)

    def _raw_terms(self) -> NDArray[np.int64]:
        """int64 [X], the raw term of each entry: an op's compute, weight and activation, and what its edges read."""
        raw = np.empty(self.entry[-1], np.int64)
        for i in range(self._ops):
            first, last = self._tables.edge_start[i], self._tables.edge_start[i + 1]
            read = self._compute[self._tables.edge_source[first:last]] + 2 * self._ops
            raw[self.entry[i] : self.entry[i + 1]] = [*(self._compute[i] + self._ops * np.arange(3)), *read]
        return raw

    def by_single(self, slope: Floats) -> Any:
        """Slopes float64 [B, X] of ops by raw terms of their own, as sparse [B N, P] by parameters of single nodes."""
        from scipy import sparse

        batch, entries = slope.shape
        starts = self.entry[:-1] + entries * np.arange(batch)[:, None]
        index = (np.tile(self._raw, batch), np.append(starts.reshape(-1), batch * entries))
        by_raw = sparse.csr_matrix(
            (slope.reshape(-1), *index), shape=(batch * self._ops, self.matrix.shape[0])
        )
        return by_raw @ self._alone

    def _add_constants(self, memories: tuple[str, ...]) -> None:
        levels, launch_s = self._levels, self._launch_s
        for m, name in enumerate(memories):
            bandwidth = float(self._tables.bandwidth_Bps[m])
            self._add([m], Parameter(f"bandwidth {name}", CONSTANT, bandwidth, "B/s", shared=True))
        for m, name in enumerate(memories):
            latency_s = float(self._access_s[m])
            latency = Parameter(f"access {name}", GENERIC_SPREAD, latency_s, "s", "access", shared=True)
            self._add([levels + m], latency)
        self._add([2 * levels], Parameter("launch", CONSTANT, launch_s, "s", "overhead", shared=True))
        for at, (name, share) in enumerate(self._waits.items(), 2 * levels + 1):
            self._add([at], Parameter(name, GENERIC_SPREAD, share, "", name, shared=True, most=1.0))
        self._add(self._compute, Parameter("compute", CONSTANT, 1.0, shared=True))

    def _add_kinds(self, workload: Workload) -> None:
        """Adds a parameter per kind of op, and per group of equal ops (a network repeats its layers)."""
        kinds = np.array([op.kind for op in workload])
        for kind in sorted(set(kinds.tolist())):
            self._add(
                self._compute[kinds == kind], Parameter(f"compute of {kind} ops", KIND, 1.0, shared=True)
            )
        for kind in sorted(set(kinds.tolist())):
            both = np.concatenate([self._compute[kinds == kind] + k * self._ops for k in (1, 2)])
            self._add(both, Parameter(f"traffic of {kind} ops", KIND_TRAFFIC, 1.0, shared=True))
        equal: dict[object, list[int]] = {}
        for i, op in enumerate(workload):
            equal.setdefault((op.kind, op.gemm, op.vector_ops), []).append(i)
        for ops in equal.values():
            if len(ops) > 1:
                name = f"compute of ops like {workload.ops[ops[0]].name}"
                self._add(self._compute[ops], Parameter(name, SHAPE, 1.0))

    def _add_own(self, workload: Workload) -> None:
        tables, ops = self._tables, self._ops
        for i, op in enumerate(workload):
            self._add([int(self._compute[i])], Parameter(f"compute {op.name}", OWN, 1.0, own=True))
        for i, op in enumerate(workload):
            if tables.weight_bytes[i] > 0:
                name = f"weight {op.name}"
                self._add([int(self._compute[i]) + ops], Parameter(name, OWN, 1.0, own=True))
        for i, op in enumerate(workload):
            if tables.activation_bytes[i] > 0:
                name = f"activation {op.name}"
                self._add([int(self._compute[i]) + 2 * ops], Parameter(name, OWN, 1.0, own=True))

    def terms(self, effects: Effects, theta: Floats, residual_s: Floats) -> Terms:
        """What the kernels read of a model; `residual_s` is float64 [N, 2, L]."""
        levels, ops, tables = self._levels, self._ops, self._tables
        raw = self.matrix @ theta if theta.any() else np.zeros(2 * levels + 3 + 3 * ops)
        factor = np.exp(np.clip(raw, -20.0, 20.0))
        bandwidth, access, others, compute, weight, activation = np.split(
            factor, np.cumsum([levels, levels, 3, ops, ops])
        )
        launch, serial, shared = others.tolist()
        return Terms(
            weight_factor=weight,
            activation_factor=activation,
            compute_s=tables.compute_s * compute,
            bandwidth_Bps=tables.bandwidth_Bps * bandwidth,
            access_s=self._access_s * access * ("access" in effects),
            launch_s=self._launch_s * launch if "overhead" in effects else 0.0,
            serial=min(1.0, self._waits["serial"] * serial) if "serial" in effects else 0.0,
            shared=min(1.0, self._waits["shared"] * shared) if "shared" in effects else 0.0,
            residual_s=residual_s,
            **{switch: switch in effects for switch in SWITCHES},
        )

    def nominal(self) -> Effects:
        """The effects that the chip file has on."""
        tables = self._tables
        on = {name for name in (*SWITCHES, *WAITS) if getattr(tables, name)}
        above = {"overhead": tables.launch_s > 0, "access": tables.access_s.any()}
        return frozenset(on | {name for name, there in above.items() if there})


def access_s(tables: Tables) -> Floats:
    """Latencies of an access float64 [L]: the chip file's, or what they are taken for if it has none."""
    if tables.access_s.any():
        return tables.access_s
    return np.full(len(tables.access_s), ACCESS_SHARE * (tables.launch_s or LAUNCH_S))


class _Values:
    """Fitted values, and notes on them by where they stand in the file (see `template`)."""

    def __init__(self, estimates: Mapping[str, Estimate], title: str) -> None:
        self.estimates, self.notes = estimates, {"": title}

    def value(self, parameter: str, where: str, before: float, nominal: float | None = None) -> float:
        """The fitted value of a constant; `nominal` is what factors are of where the file has 0."""
        found, of = self.estimates.get(parameter), before if nominal is None else nominal
        if found is None:
            return before
        self.notes[where] = f"{before:.4g} before; {of * found.low:.4g} to {of * found.high:.4g}"
        return _rounded(of * found.factor)

    def clock_Hz(self, before: float) -> float:
        """The clock: compute times are over it."""
        found = self.estimates.get("compute")
        if found is None:
            return before
        note = f"{before:.4g} before; {before / found.high:.4g} to {before / found.low:.4g}"
        self.notes["compute.clock_Hz"] = note
        return _rounded(before / found.factor)

    def memories(self, chip: Chip, access: bool) -> tuple[Memory, ...]:
        """None is slower than the one before it; `access` says whether an access takes time."""
        launch_s = chip.overhead.launch_s if chip.effects.overhead else LAUNCH_S
        has_access = any(memory.access_s for memory in chip.memories)
        memories, least = [], 0.0
        for memory in chip.memories:
            where = f"memories.{memory.name}.bandwidth_Bps"
            rate = self.value(f"bandwidth {memory.name}", where, memory.bandwidth_Bps)
            if rate < least:
                self.notes[where] = (
                    f"{self.notes.get(where, 'not fitted')}; {rate:.4g} raised to the slower memory's"
                )
            least = max(rate, least)
            access_s = 0.0
            if access:
                before, where = memory.access_s, f"memories.{memory.name}.access_s"
                nominal = before if has_access else ACCESS_SHARE * launch_s
                access_s = self.value(f"access {memory.name}", where, before, nominal)
            memories.append(replace(memory, bandwidth_Bps=least, access_s=access_s))
        return tuple(memories)

    def waiting(self, before: Waiting, effects: Effects) -> Waiting:
        """The shares that wait."""
        found = {}
        for name in WAITS:
            share = getattr(before, name)
            fitted = self.value(name, f"waiting.{name}", share, share or WAITING)
            found[name] = min(1.0, fitted) if name in effects else 0.0
        return Waiting(**found)

    def factors(self, table: str, before: Mapping[str, float]) -> dict[str, float]:
        """By kind of op, those of kinds that were not measured as they were."""
        return {
            kind: self.value(f"{table} of {kind} ops", f"factors.{table}.{kind}", before.get(kind, 1.0))
            for kind in KINDS
            if f"{table} of {kind} ops" in self.estimates or kind in before
        }


def fitted(chip: Chip, estimates: Mapping[str, Estimate], effects: Effects, name: str) -> tuple[Chip, str]:
    """The chip so described, and its file. A memory is never slower than the one before it, as chip files want it.

    Raises:
        InputError: the name is none for a chip.
    """
    of = _Values(
        estimates, f"# {chip.name}, fitted to measurements. After a value: before; the 90 % interval."
    )
    launch_s = chip.overhead.launch_s
    if "overhead" in effects:
        launch_s = of.value("launch", "overhead.launch_s", launch_s if chip.effects.overhead else LAUNCH_S)
    for effect in SWITCHED:
        before = getattr(chip.effects, effect)
        if (effect in effects) != before:
            of.notes[f"effects.{effect}"] = f"{str(before).lower()} before"
    found = replace(
        chip,
        memories=of.memories(chip, "access" in effects),
        waiting=of.waiting(chip.waiting, effects),
        compute=replace(chip.compute, clock_Hz=of.clock_Hz(chip.compute.clock_Hz)),
        overhead=replace(chip.overhead, launch_s=launch_s),
        effects=replace(chip.effects, **{effect: effect in effects for effect in SWITCHED}),
        factors=Factors(
            of.factors("compute", chip.factors.compute), of.factors("traffic", chip.factors.traffic)
        ),
    )
    text = template(found, name, of.notes)
    return parse_chip(text, f"{name}.toml"), text


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
