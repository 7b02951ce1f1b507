"""What the best mapping does otherwise than the baseline, and what that gains: sections of any problem."""

from __future__ import annotations

from collections import Counter

import numpy as np

from egrl.runs.units import cost_text
from hwsim.capabilities import HasExplanation, HasPartition
from hwsim.explanation import Explanation, Partition
from hwsim.problem import Mapping16, Problem
from hwsim.sections import Bars, Cell, Section, Table

BEST = "the best"
NAMED = 3
"""Ops that the sentence about the gain names."""


def gained(problem: Problem, best: Mapping16) -> list[Section]:
    """Where the cost went: by what bounds the ops, or by chips and links; then what moved, where choices are places."""
    before, rival = problem.baseline.mapping, problem.about.rival
    found: list[Section] = []
    if isinstance(problem, HasExplanation):
        found.append(_causes(problem.explain(before), problem.explain(best), rival))
    if isinstance(problem, HasPartition):
        found += _chips(problem.partition(before), problem.partition(best), rival)
    if problem.about.place and not isinstance(problem, HasPartition):
        found.append(_moves(problem, best))
    return found


def _causes(before: Explanation, after: Explanation, rival: str) -> Bars:
    names = sorted(
        {*before.seconds_bound_by, *after.seconds_bound_by},
        key=lambda name: -before.seconds_bound_by.get(name, 0.0),
    )
    series = {
        label: [each.seconds_bound_by.get(name, 0.0) for name in names]
        for label, each in ((rival, before), (BEST, after))
    }
    change = [old.duration_s - new.duration_s for old, new in zip(before.ops, after.ops, strict=True)]
    most = [i for i in np.argsort(-np.array(change), kind="stable")[:NAMED].tolist() if change[i] > 0]
    named = "; ".join(
        f"{after.ops[i].name}, {cost_text(change[i], 's')} less, bound by {before.ops[i].bound_by} before and by"
        f" {after.ops[i].bound_by} now"
        for i in most
    )
    shares = [
        f"ops bound by {name} take {cost_text(abs(gain), 's')} {'less' if gain > 0 else 'more'}"
        for name, old, new in sorted(
            zip(names, *series.values(), strict=True), key=lambda row: -abs(row[1] - row[2])
        )[:NAMED]
        if abs(gain := old - new) > 0
    ]
    total = cost_text(before.latency_s - after.latency_s, "s")
    says = (
        f"By the model the best mapping takes {total} less: {', '.join(shares)}."
        if shares
        else "By the model both take equally long."
    )
    gains = sum(part for part in change if part > 0)
    if named:
        says += f" The ops that gain most, of {cost_text(gains, 's')} in all: {named}."
    return Bars("What gained the time", says, names, series, "s")


def _chips(before: Partition, after: Partition, rival: str) -> list[Section]:
    says = (
        f"{after.bottleneck.capitalize()} sets the pace, {cost_text(after.cost_s, 's')} a sample; of {rival} it is"
        f" {before.bottleneck}, {cost_text(before.cost_s, 's')}. What gains is an even load."
    )
    count = len(after.chips)
    used = [i for i in range(count) if before.chips[i].nodes or after.chips[i].nodes]
    both = {label: [part.chips[i] for i in used] for label, part in ((rival, before), (BEST, after))}
    names = [f"chip {after.chips[i].name}" for i in used]
    links = [f"{after.chips[i].name} -> {after.chips[(i + 1) % count].name}" for i in used]
    if len(used) < count:
        says += f" {count - len(used)} of {count} chips have nothing in either and are left out."
    return [
        Bars(
            "What gained the time: chips",
            says,
            names,
            {label: [chip.busy_s for chip in chips] for label, chips in both.items()},
            "s",
        ),
        Bars(
            "Links",
            "Bytes a sample over each link of the ring.",
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
    says = f"{sum(count.values()):,} of {live:,} tensors lie elsewhere than {problem.about.rival} puts them."
    columns = [("tensors", ""), ("from", ""), ("to", ""), ("how many", ""), ("bytes", "B")]
    return Table("What moved", says, columns, rows)


def nodes(problem: Problem, best: Mapping16) -> Table:
    """A row a node: its choices before and after; with an explanation its bytes, its time and what bounds it."""
    space, before, rival = problem.space, problem.baseline.mapping, problem.about.rival
    columns = [("#", ""), (problem.about.step, "")]
    for head in space.heads:
        columns += [(f"{head}, {rival}", ""), (f"{head}, {BEST}", ""), (f"{head}, size", "B")]
    explained = None
    if isinstance(problem, HasExplanation):
        explained = [problem.explain(each).ops for each in (before, best)]
        columns += [(f"time, {rival}", "s"), (f"time, {BEST}", "s"), ("gain", "s")]
        columns += [(f"bound by, {rival}", ""), (f"bound by, {BEST}", ""), ("bytes moved", "B")]
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
    says = f"{sum(changed):,} of {len(rows):,} rows are otherwise than {rival} has them."
    name = "Ops" if problem.about.step == "op" or isinstance(problem, HasPartition) else "Choices"
    return Table(name, says, columns, rows, changed)
