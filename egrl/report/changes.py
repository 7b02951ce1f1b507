"""Differences between the best mapping and the baseline, and their gains: sections for any problem."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from egrl.runs.export import PackedMemory, allocate
from egrl.runs.text import cost_text, short_baseline_text
from hwsim.capabilities import HasLifetimes, HasOccupancy, explainer
from hwsim.explanation import OpTimes, Partition
from hwsim.problem import Mapping16, Problem
from hwsim.sections import Bars, Box, Cell, Line, Lines, MemoryMap, MemoryMaps, Section, Table

BEST = "the best"
GAINED = "Where time was gained"
LEAST_S = 1e-12
"""Less than this is rounding."""
MOST_PARTS = 40
"""The most parts of a network that a table lists."""


def gained(problem: Problem, best: Mapping16) -> list[Section]:
    """Where the cost went: by what bounds the ops, or by chips and links; then what moved, where choices are places."""
    before, over = problem.baseline.mapping, short_baseline_text(problem.about)
    found: list[Section] = []
    if explain := explainer(problem, OpTimes):
        explained = explain(before), explain(best)
        found += [_gains(problem, *explained, best), *_parts(*explained, over), _causes(*explained, over)]
    if split := explainer(problem, Partition):
        found += _chips(split(before), split(best), over)
    elif problem.about.place and (before != best).any():
        found.append(_moves(problem, best))
    return found


def _gains(problem: Problem, before: OpTimes, after: OpTimes, best: Mapping16) -> Table:
    """Gain and loss of ops, by what happened to their own tensors; the rows add up to the difference."""
    over = short_baseline_text(problem.about)
    groups: dict[tuple[str, ...], list[int]] = {}
    for n in range(len(best)):
        groups.setdefault(_moved(problem, n, best), []).append(n)
    change = np.array(
        [old.duration_s - new.duration_s for old, new in zip(before.ops, after.ops, strict=True)]
    )
    rows: list[list[Cell]] = []
    for moves, members in groups.items():
        own = change[members]
        most = members[int(np.argmax(np.abs(own)))]
        faster, slower = float(own[own > 0].sum()), float(-own[own < 0].sum())
        name = f"{after.ops[most].name} ({cost_text(abs(float(change[most])), 's')} {_word(change[most])})"
        moved = ", ".join(moves) or "none of their own tensors"
        rows.append(
            [
                moved,
                len(members),
                faster,
                slower,
                faster - slower,
                name if abs(change[most]) >= LEAST_S else None,
            ]
        )
    rows.sort(key=lambda row: -abs(float(row[4] or 0)))
    total = before.latency_s - after.latency_s
    says = (
        f"By the model {over}'s mapping takes {cost_text(before.latency_s, 's')} and the best"
        f" {cost_text(after.latency_s, 's')}, {cost_text(abs(total), 's')} {_word(total)}. Each op counts in the row of"
        " the moves of its own tensors; net gains add up to the difference. An op can gain without moving: its"
        " neighbours left it more room in fast memory, or more time to fetch its weight ahead."
    )
    columns = [
        ("what moved", ""),
        ("ops", ""),
        ("less", "s"),
        ("more", "s"),
        ("net gain", "s"),
        ("most changed", ""),
    ]
    return Table(GAINED, says, columns, rows)


def _parts(before: OpTimes, after: OpTimes, over: str) -> list[Table]:
    """Gain of each part of the network, by the first words of the ops' names; nothing if the names show no parts."""
    words = [re.split(r"[./]", op.name.strip("/")) for op in after.ops]
    found: list[Table] = []
    for depth in range(1, 4):
        groups: dict[str, list[int]] = {}
        for n, name in enumerate(words):
            groups.setdefault(".".join(name[:depth]), []).append(n)
        if len(groups) > MOST_PARTS:
            break
        if 1 < len(groups) < len(words):
            old, new = (np.array([op.duration_s for op in each.ops]) for each in (before, after))
            rows: list[list[Cell]] = [
                [part, len(n), float(old[n].sum()), float(new[n].sum()), float((old[n] - new[n]).sum())]
                for part, n in groups.items()
            ]
            columns = [
                ("part", ""),
                ("ops", ""),
                (f"time, {over}", "s"),
                (f"time, {BEST}", "s"),
                ("gain", "s"),
            ]
            says = (
                "Ops grouped by the beginning of their names, in execution order; a negative gain is a loss."
            )
            found = [Table("Where in the network", says, columns, rows)]
    return found


def _word(gain: float) -> str:
    return "less" if gain >= 0 else "more"


def _moved(problem: Problem, node: int, best: Mapping16) -> tuple[str, ...]:
    """The tensors of a node that lie elsewhere: "weight from dram to llc"."""
    space, found = problem.space, []
    for h in range(len(space.heads)):
        old, new = int(problem.baseline.mapping[node, h]), int(best[node, h])
        if space.live[node, h] and old != new:
            found.append(f"{space.heads[h]} from {space.labels[h][old]} to {space.labels[h][new]}")
    return tuple(found)


def _causes(before: OpTimes, after: OpTimes, over: str) -> Bars:
    names = sorted(
        {*before.seconds_bound_by, *after.seconds_bound_by},
        key=lambda name: -before.seconds_bound_by.get(name, 0.0),
    )
    series = {
        label: [each.seconds_bound_by.get(name, 0.0) for name in names]
        for label, each in ((over, before), (BEST, after))
    }
    says = (
        "The time of an op counts for what takes longest in it: moving data through one of the memories, computing on"
        " an engine, or starting the op (overhead). This may differ between the two mappings."
    )
    return Bars("What bounds the time", says, names, series, "s")


def _chips(before: Partition, after: Partition, over: str) -> list[Section]:
    says = (
        f"{after.bottleneck.capitalize()} sets the pace, {cost_text(after.cost_s, 's')} per sample; of {over} it is"
        f" {before.bottleneck}, {cost_text(before.cost_s, 's')}. An even load is faster."
    )
    count = len(after.chips)
    used = [i for i in range(count) if before.chips[i].nodes or after.chips[i].nodes]
    both = {label: [part.chips[i] for i in used] for label, part in ((over, before), (BEST, after))}
    names = [f"chip {after.chips[i].name}" for i in used]
    links = [f"{after.chips[i].name} -> {after.chips[(i + 1) % count].name}" for i in used]
    if len(used) < count:
        says += f" {count - len(used)} of {count} chips have nothing in either and are left out."
    return [
        Bars(
            "Where time was gained: chips",
            says,
            names,
            {label: [chip.busy_s for chip in chips] for label, chips in both.items()},
            "s",
        ),
        Bars(
            "Links",
            "Bytes per sample over each link of the ring.",
            links,
            {label: [float(chip.link_bytes) for chip in chips] for label, chips in both.items()},
            "B",
        ),
        Bars(
            "Memory of the chips",
            "The most that each chip holds; the line is what it can hold.",
            names,
            {label: [float(chip.peak_bytes) for chip in chips] for label, chips in both.items()},
            "B",
            float(after.capacity_bytes),
        ),
    ]


def _moves(problem: Problem, best: Mapping16) -> Table:
    space, before = problem.space, problem.baseline.mapping
    count: Counter[tuple[str, str, str]] = Counter()
    size: Counter[tuple[str, str, str]] = Counter()
    for n, h in np.argwhere((before != best) & space.live).tolist():
        old, new = (space.labels[h][int(each[n, h])] for each in (before, best))
        count[space.heads[h], old, new] += 1
        size[space.heads[h], old, new] += int(space.size_bytes[n, h])
    order = sorted(count, key=lambda key: -size[key])
    rows: list[list[Cell]] = [[*key, count[key], size[key]] for key in order]
    live = int(space.live.sum())
    baseline = short_baseline_text(problem.about)
    says = f"{sum(count.values()):,} of {live:,} tensors lie elsewhere than {baseline} puts them."
    columns = [("tensors", ""), ("from", ""), ("to", ""), ("how many", ""), ("bytes", "B")]
    return Table("What moved", says, columns, rows)


def nodes(problem: Problem, best: Mapping16) -> Table:
    """One row per node: its choices before and after; with an explanation its bytes, its time and what bounds it."""
    space, before, over = problem.space, problem.baseline.mapping, short_baseline_text(problem.about)
    ops = problem.about.step == "op" or explainer(problem, Partition) is not None
    columns = [("#", ""), ("op" if ops else "node", "")]
    for head in space.heads:
        columns += [(f"{head}, {over}", ""), (f"{head}, {BEST}", ""), (f"{head}, size", "B")]
    explained = None
    if explain := explainer(problem, OpTimes):
        explained = [explain(each).ops for each in (before, best)]
        columns += [(f"time, {over}", "s"), (f"time, {BEST}", "s"), ("gain", "s")]
        columns += [(f"bound by, {over}", ""), (f"bound by, {BEST}", ""), ("bytes moved", "B")]
    rows: list[list[Cell]] = []
    for n, node in enumerate(space.nodes):
        row: list[Cell] = [n, node]
        for h, labels in enumerate(space.labels):
            row += [labels[int(m[n, h])] if m[n, h] >= 0 else None for m in (before, best)]
            row.append(int(space.size_bytes[n, h]))
        if explained is not None:
            old, new = explained[0][n], explained[1][n]
            row += [old.duration_s, new.duration_s, old.duration_s - new.duration_s]
            row += [old.bound_by, new.bound_by, sum(new.traffic_bytes.values())]
        rows.append(row)
    changed = (before != best).any(axis=1).tolist()
    says = f"In {sum(changed):,} of {len(rows):,} rows the best differs from {over}; they are marked."
    return Table("Ops" if ops else "Choices", says, columns, rows, changed)


ALIGN_BYTES, SECONDS, SEED = 64, 1.0, 0
"""How addresses are found: as in `egrl allocate`, with less time for a memory that is hard to pack."""


def memory(problem: Problem, best: Mapping16) -> list[Section]:
    """Maps of the memories where tensors have lifetimes; else what memories hold, where the problem can say that."""
    mappings = {short_baseline_text(problem.about): problem.baseline.mapping, BEST: best}
    if isinstance(problem, HasLifetimes):
        maps = [each for label, mapping in mappings.items() for each in _maps(problem, label, mapping)]
        names = [name for name, _ in reversed(list(problem.memories()))]
        maps.sort(key=lambda each: names.index(each.memory))
        says = (
            "A box is a tensor in a memory: how long it is needed, and at which address. The addresses are those that"
            " egrl allocate finds in a second; empty memories are left out."
        )
        timed = explainer(problem, OpTimes) is not None
        shown = [each for each in maps if any(other.memory == each.memory and other.boxes for other in maps)]
        return [MemoryMaps("Memory over time", says, shown, "s" if timed else "", problem.about.step)]
    if isinstance(problem, HasOccupancy):
        return _held(problem, mappings)
    return []


def edges(problem: Problem, mapping: Mapping16, steps: int) -> list[float]:
    """[T + 1], when steps begin and the last ends: in seconds where the problem explains them, else their numbers."""
    if explain := explainer(problem, OpTimes):
        durations = [op.duration_s for op in explain(mapping).ops]
        return np.concatenate([[0.0], np.cumsum(durations)]).tolist()
    return [float(step) for step in range(steps + 1)]


def _maps(problem: Problem, label: str, mapping: Mapping16) -> list[MemoryMap]:
    begins = edges(problem, mapping, len(problem.space.nodes))
    return [
        MemoryMap(label, memory.name, memory.capacity_bytes, begins, _boxes(memory))
        for memory in allocate(problem, mapping, ALIGN_BYTES, SECONDS, SEED)
    ]


def _boxes(memory: PackedMemory) -> list[Box]:
    return [
        Box(f"{t.head} of {t.node}", t.head, t.first, t.last + 1, offset, t.size_bytes)
        for t, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
    ]


def _held(problem: HasOccupancy, mappings: dict[str, Mapping16]) -> list[Section]:
    held = {label: problem.occupancy(mapping) for label, mapping in mappings.items()}
    first = next(iter(held.values()))
    return [
        Lines(
            f"Memory over time: {name}",
            "Bytes held at each step; the level is what the memory can hold.",
            "step",
            "bytes",
            [
                Line(label, range(len(found.by_head)), found.occupied_bytes[:, number].tolist())
                for label, found in held.items()
            ],
            {"capacity": float(first.capacity_bytes[number])},
            ("", "B"),
        )
        for number, name in enumerate(first.memories)
    ]
