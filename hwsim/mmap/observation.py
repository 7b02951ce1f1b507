"""The observation of a program on a chip: a graph with the buffers as nodes.

Source: table 1 of the MMapGame paper.

Deviations: identifiers (tensor_id, alias_id) are edges and counts here, so that a policy can read another program;
times are distances; seconds are in units of a nanosecond, and every size or time is log1p times a constant.

Edges (source, target): from every input of an instruction to its outputs; from a use of a tensor to the next one; from
a member of an alias group to the next one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.mmap.tables import Tables, savings_s
from workloads.programs.program import NO_ALIAS, Program

SCHEMA_VERSION = 101
"""Changes whenever a feature, its meaning or its scale changes; other problems' schemas have other numbers."""

SIZE_SCALE = 1 / 16
"""log1p of bytes: 16 MiB -> 1.04."""
SECONDS_SCALE = 1 / 12
"""log1p of nanoseconds: 100 us -> 0.96."""
STEPS_SCALE = 1 / 8
"""log1p of a number of instructions or uses: 1024 -> 0.87."""

SCALES: dict[str, float] = {
    "size": SIZE_SCALE,
    "traffic": SIZE_SCALE,
    "demand": SECONDS_SCALE,
    "benefit": SECONDS_SCALE,
    "supply": SECONDS_SCALE,
    "since_live": STEPS_SCALE,
    "until_dead": STEPS_SCALE,
    "until_end": STEPS_SCALE,
    "uses": STEPS_SCALE,
    "uses_before": STEPS_SCALE,
    "group_size": STEPS_SCALE,
}
"""Scale of log1p of each quantity, in the order of the columns."""
FLAGS = ("is_output", "leaves", "is_parameter", "fits")
"""Columns that are 0 or 1."""
FEATURES: tuple[str, ...] = (*SCALES, *FLAGS)


def features(program: Program, tables: Tables) -> NDArray[np.float32]:
    """float32 [N, 15], columns as in `FEATURES`, values roughly in 0..2."""
    uses, own, step = program.buffers, tables.buffer, tables.buffer["step"]
    spans = np.array([program.live_range(use.tensor) for use in uses], np.int64)
    group_size = np.zeros(len(uses))
    grouped = own["group"] >= 0
    group_size[grouped] = np.bincount(own["group"][grouped])[own["group"][grouped]]
    columns = {
        "size": own["size_bytes"],
        "traffic": np.array([use.traffic_bytes for use in uses]),
        "demand": own["demand_s"] * 1e9,
        "benefit": savings_s(tables) * 1e9,
        "supply": tables.step["supply_s"][step] * 1e9,
        "since_live": step - spans[:, 0],
        "until_dead": spans[:, 1] - step,
        "until_end": len(program.instructions) - 1 - step,
        "uses": np.bincount(own["tensor"])[own["tensor"]],
        "uses_before": _uses_before(own["tensor"]),
        "group_size": group_size,
    }
    flags = {
        "is_output": own["is_output"],
        "leaves": own["leaves"],
        "is_parameter": np.array([program.tensors[use.tensor].produced < 0 for use in uses]),
        "fits": own["granules"] <= tables.capacity,
    }
    scaled = [np.log1p(np.maximum(columns[name], 0)) * scale for name, scale in SCALES.items()]
    return np.stack([*scaled, *(flags[name] for name in FLAGS)], axis=1).astype(np.float32)


def edges(program: Program) -> NDArray[np.int64]:
    """int64 [2, E], without repetitions, sorted."""
    found: set[tuple[int, int]] = set()
    inputs: list[list[int]] = [[] for _ in program.instructions]
    last_use: dict[int, int] = {}
    last_member: dict[int, int] = {}
    for number, use in enumerate(program.buffers):
        if use.is_output:
            found |= {(source, number) for source in inputs[use.instruction]}
        else:
            inputs[use.instruction].append(number)
        if use.tensor in last_use:
            found.add((last_use[use.tensor], number))
        last_use[use.tensor] = number
        if use.alias_id != NO_ALIAS:
            if use.alias_id in last_member:
                found.add((last_member[use.alias_id], number))
            last_member[use.alias_id] = number
    return np.array(sorted(found), np.int64).reshape(-1, 2).T.copy()


def _uses_before(tensor: NDArray[np.int32]) -> NDArray[np.int64]:
    seen: dict[int, int] = {}
    before = np.zeros(len(tensor), np.int64)
    for n, t in enumerate(tensor.tolist()):
        before[n] = seen.get(t, 0)
        seen[t] = seen.get(t, 0) + 1
    return before
