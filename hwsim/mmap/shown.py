"""What a page or a text shows of the game: latencies in parts, fast memory over time, the buffers that differ."""

from __future__ import annotations

import numpy as np

from hwsim.mmap.device import CONTENTION_S, RUN_S, WAIT_S, latency_parts_s
from hwsim.mmap.game import ACTIONS
from hwsim.mmap.layout import Layout
from hwsim.mmap.tables import Tables
from hwsim.sections import Bars, Box, Cell, MemoryMap, MemoryMaps, Section, Table
from workloads.programs.program import Program

PARTS = {
    RUN_S: "instructions alone",
    CONTENTION_S: "slowed down by copies",
    WAIT_S: "waiting for copies",
}
"""What the parts of a latency are called in output."""
BEST = "the best"


def sections(
    program: Program, tables: Tables, before: Layout, best: Layout, granule_bytes: int, baseline_name: str
) -> list[Section]:
    """The layout `before`, of the baseline, and the best one, each as it is simulated."""
    layouts = {baseline_name: before, BEST: best}
    parts = {label: latency_parts_s(tables, layout) for label, layout in layouts.items()}
    less = {name: float(parts[baseline_name][k] - parts[BEST][k]) for k, name in PARTS.items()}
    most = max(less, key=lambda name: abs(less[name]))
    way = "less" if less[most] >= 0 else "more"
    edges = np.concatenate([[0.0], np.cumsum(tables.step["supply_s"])]).tolist()
    return [
        Bars(
            "What the latency consists of",
            f"The largest change: {most}, {abs(less[most]) * 1e6:,.2f} us {way}.",
            list(PARTS.values()),
            {label: [float(found[k]) for k in PARTS] for label, found in parts.items()},
            "s",
        ),
        MemoryMaps(
            "Fast memory over time",
            "A box is a tensor in fast memory: how long it stays there, and at which address. The time is that of the"
            " instructions with all buffers in fast memory.",
            [
                MemoryMap(
                    label, "CMEM", tables.capacity * granule_bytes, edges, _boxes(program, tables, layout)
                )
                for label, layout in layouts.items()
            ],
            "s",
            "instruction",
        ),
        _buffers(program, tables, before, best, baseline_name),
    ]


def _boxes(program: Program, tables: Tables, layout: Layout) -> list[Box]:
    boxes = []
    for b in np.flatnonzero(layout.first >= 0).tolist():
        copied = layout.copy_first[b] >= 0
        boxes.append(
            Box(
                program.buffer_name(b),
                ACTIONS[int(layout.action[b])].lower(),
                int(layout.first[b]),
                int(layout.last[b]) + 1,
                int(layout.offset_bytes[b]),
                int(tables.buffer["size_bytes"][b]),
                (int(layout.copy_first[b]), int(layout.copy_last[b]) + 1) if copied else None,
            )
        )
    return boxes


def _buffers(program: Program, tables: Tables, before: Layout, best: Layout, baseline_name: str) -> Table:
    columns = [
        ("buffer", ""), ("size", "B"), (baseline_name, ""), (BEST, ""), ("first step", ""), ("last step", ""),
        ("address", "B"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for b in np.flatnonzero((before.action >= 0) | (best.action >= 0)).tolist():
        there = best.first[b] >= 0
        place = (best.first[b], best.last[b], best.offset_bytes[b])
        actions = [ACTIONS[int(a)].lower() if a >= 0 else None for a in (before.action[b], best.action[b])]
        rows.append(
            [
                program.buffer_name(b),
                int(tables.buffer["size_bytes"][b]),
                *actions,
                *(int(value) if there else None for value in place),
            ]
        )
    changed = [row[2] != row[3] for row in rows]
    says = f"{sum(changed):,} of {len(rows):,} buffers are treated otherwise than by {baseline_name}."
    return Table("Buffers", says, columns, rows, changed)
