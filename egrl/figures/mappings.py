"""Figures of the mappings of runs: where tensors lie, for how long, and what bounds the ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from analysis.breakdown import Inference, breakdown, breakdown_figure, micro
from analysis.embedding import (
    BEST,
    COMPETITIVE,
    FEWEST,
    MOST,
    WITHIN,
    Groups,
    choose,
    embed,
    embedding_figure,
    hamming,
    measure,
)
from analysis.layout import Layout, layout_figure, use
from analysis.memories import Band, band_figure, bands, shift_figure, shifts
from analysis.partition import Split, split_figure
from analysis.peak import Held, peak_figure
from analysis.utilisation import Schedule, utilisation, utilisation_figure
from egrl.figures.repetitions import (
    Drawing,
    check_alike,
    check_places,
    fastest,
    refusal,
    subject,
    together,
)
from egrl.runs.export import PackedMemory, allocate
from egrl.runs.past_run import Evaluations, PastRun
from egrl.runs.peak import USES, peaks
from egrl.runs.text import drawn_baseline_text
from hwsim.capabilities import HasLifetimes, HasOccupancy, HasPlacement, Occupancy, explainer
from hwsim.explanation import OpTime, OpTimes, Partition, cause_text
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.text import size_text


def draw_bands(runs: Sequence[PastRun]) -> Drawing:
    """Memory maps of one run as bands: the baseline's (the compiler's, say) and the best.

    A band is one head (weights, activations) of one map. Each bar is an op's tensor, in execution order: the darker,
    the slower its memory. White is no tensor. At the right stands the spread of bytes. Figure 6, bottom, of the EGRL
    paper.

    *Contiguity* is the share of neighbouring tensors of a head in the same memory. The paper says that EGRL favours
    it; where the compiler keeps all activations in one memory, EGRL's cannot be higher.

    InputError where the runs are not of one problem, or none has a valid mapping.
    """
    shown = fastest(runs)
    problem = shown.problem
    check_places("bands", problem)
    found = {
        name: bands(mapping, problem.space.size_bytes, problem.space.heads, problem.space.labels)
        for name, mapping in shown.mappings().items()
    }
    numbers = {
        "ops": problem.space.nodes,
        "heads": [
            {
                "head": head,
                "memories": problem.space.labels[h],
                "tensors": int((problem.space.size_bytes[:, h] > 0).sum()),
                **{name: _numbers(parts[h]) for name, parts in found.items()},
            }
            for h, head in enumerate(problem.space.heads)
        ],
    }
    named = {shown.label(name): parts for name, parts in found.items()}
    return shown.drawing(band_figure(named, problem.space.nodes, shown.title), numbers)


def _numbers(band: Band) -> dict[str, object]:
    return {"contiguity": band.contiguity, "byte_share": band.byte_share, "choices": band.choices}


def draw_shift(runs: Sequence[PastRun]) -> Drawing:
    """Memory map shifts of runs: from the compiler's map to the best mapping of each.

    A row is a memory of the compiler's map, with how much it held; its cells say which share of that the best mapping
    puts into each memory. A diagonal of 100% is the compiler's own map. A hatched row held nothing. Tensors are counted
    above, bytes below. Figure 6, top, of the EGRL paper.

    InputError where the runs are not of one problem, or one has no valid mapping.
    """
    kept, remarks = together(runs)
    problem = kept[0].problem
    check_places("shift", problem)
    best = np.stack([run.best_mapping() for run in kept])
    found = shifts(
        problem.baseline.mapping, best, problem.space.size_bytes, problem.space.heads, problem.space.labels
    )
    baseline_name = drawn_baseline_text(problem.about)
    of = "the best mapping" if len(kept) == 1 else f"the best mappings of {len(kept)} runs"
    title = f"{problem.about.workload} on {problem.about.chip}\nfrom {baseline_name}'s map to {of}"
    numbers = {
        **subject(problem),
        "runs": [str(run.path) for run in kept],
        "heads": [
            {
                "head": shift.head,
                "memories": shift.memories,
                "tensors": shift.tensors,
                "bytes": shift.sizes,
                "by_count": shift.by_count,
                "by_bytes": shift.by_bytes,
            }
            for shift in found
        ],
    }
    return Drawing(shift_figure(found, title, baseline_name), numbers, remarks)


def draw_breakdown(runs: Sequence[PastRun]) -> Drawing:
    """What bounds the ops of one run's inferences: under the baseline (the compiler's mapping, say) and under the
    best.

    Two bars are the latencies of the compiler's map and the best, shared out over causes: a memory, the multiply
    array (`mac`), the vector unit (`dsp`), the launch (`overhead`), a measurement (`measured`). An op counts wholly
    for the cause that took longest. Below are up to eight ops that gained most and eight that lost most, from the
    compiler's time (hollow) to the best's (filled).

    InputError where the runs are not of one problem, none has a valid mapping, or the problem explains no costs.
    """
    shown = fastest(runs)
    problem = shown.problem
    explain = explainer(problem, OpTimes)
    if explain is None:
        raise refusal("breakdown", problem, "that explains its costs")
    explained = {name: explain(mapping).ops for name, mapping in shown.mappings().items()}
    before, after = (
        Inference(
            shown.label(name), np.array([op.duration_s for op in ops]), tuple(op.bound_by for op in ops)
        )
        for name, ops in explained.items()
    )
    names = [op.name for op in explained["compiler"]]
    memories = tuple(dict.fromkeys(label for head in problem.space.labels for label in head))
    found = breakdown(before, after, memories)
    figure = breakdown_figure(before, after, names, memories, shown.title)
    numbers = {
        "ops": names,
        "causes": found.causes,
        **{
            name: {"seconds_by_cause": seconds, "duration_s": run.duration_s, "bound_by": run.bound_by}
            for name, run, seconds in zip(
                explained, (before, after), (found.before_s, found.after_s), strict=True
            )
        },
        "change_s": found.change_s,
    }
    return shown.drawing(figure, numbers)


def draw_partition(runs: Sequence[PastRun]) -> Drawing:
    """How one run's best partition loads the chips and links of a package, beside the heuristic's.

    One column per partition, one bar per chip: seconds per sample that the chip and its link to the next are busy.
    Below, the weights and the peak on the device model, beside the SRAM.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem splits over no chips.
    """
    shown = fastest(runs)
    problem = shown.problem
    explain = explainer(problem, Partition)
    if explain is None:
        raise refusal("partition", problem, "that splits a network over chips (mcm)")
    labels = {"compiler": drawn_baseline_text(problem.about), "best": f"best: {shown.speedup:.4f}x"}
    splits = [
        _split(explain(mapping), labels[name], problem.about.unit)
        for name, mapping in shown.mappings().items()
    ]
    partitions = [{**vars(split), "utilisation": split.utilisation} for split in splits]
    return shown.drawing(split_figure(splits, shown.title), {"partitions": partitions})


def _split(found: Partition, label: str, unit: str) -> Split:
    columns = {
        name: np.array([getattr(chip, name) for chip in found.chips])
        for name in ("link_s", "nodes", "weight_bytes", "peak_bytes")
    }
    busy = np.array([chip.busy_s for chip in found.chips])
    return Split(label, busy, **columns, capacity_bytes=found.capacity_bytes, cost_s=found.cost_s, unit=unit)


ALIGN_BYTES, SECONDS, SEED = 64, 10.0, 0
"""As `egrl allocate` packs where no flag says otherwise."""


def draw_layout(runs: Sequence[PastRun]) -> Drawing:
    """Where the tensors of one run's best mapping lie in the chip's memories, and for how long.

    Ops to the right, addresses upwards, one box per tensor, one row per memory. Hatched boxes are activations; white
    between boxes is unusable room. The addresses are those of `egrl allocate`, or those that the mapping itself leads
    to: of a buffer in the fast memory of the MMapGame. Where a memory cannot be packed, a remark says by how many
    bytes.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem has no addresses.
    """
    if explainer(runs[0].problem, Partition):
        return draw_partition(runs)
    shown = fastest(runs)
    problem, best = shown.run.problem, shown.run.best_mapping()
    if isinstance(problem, HasLifetimes):
        memories = allocate(problem, best, ALIGN_BYTES, SECONDS, SEED)
        layouts = [_packed(problem, memory) for memory in memories]
        heads, steps = problem.space.heads, len(problem.space.nodes)
        of_packing = [
            {"fullest_bytes": memory.packing.fullest_bytes, "packed": memory.packing.verdict == "packed"}
            for memory in memories
        ]
        remarks = [
            f"{memory.name} does not fit by {memory.over_bytes:,} bytes; `egrl allocate` names what sticks out"
            for memory in memories
            if memory.over_bytes
        ]
    elif isinstance(problem, HasPlacement):
        layouts = [_placed(problem, best, problem.space.size_bytes[:, 0])]
        heads, steps = ("tensor",), int(layouts[0].end.max(initial=1))
        of_packing, remarks = [{}], []
    else:
        raise refusal("layout", problem, "with lifetimes of tensors")
    figure = layout_figure(layouts, heads, steps, shown.title, f"{problem.about.step}, in execution order")
    numbers = {
        "heads": heads,
        "steps": steps,
        "align_bytes": ALIGN_BYTES if isinstance(problem, HasLifetimes) else None,
        "memories": [
            {
                "memory": layout.memory,
                "capacity_bytes": layout.capacity_bytes,
                **how,
                **asdict(use(layout, steps)),
                "tensors": len(layout.first),
            }
            for layout, how in zip(layouts, of_packing, strict=True)
        ],
    }
    return shown.drawing(figure, numbers, remarks)


def draw_peak(runs: Sequence[PastRun]) -> Drawing:
    """What fills each of the chip's memories at its fullest step, under one run's best mapping.

    A bar per tensor, the largest first: in use by the op that runs, read by a later op, or no longer read: a weight
    whose op has run, which stays for the next inference.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem has no lifetimes.
    """
    shown = fastest(runs)
    problem, best = shown.run.problem, shown.run.best_mapping()
    if not isinstance(problem, HasLifetimes):
        raise refusal("peak", problem, "with lifetimes of tensors")
    found = peaks(problem, best)
    panels = [
        Held(
            f"{peak.memory} while {peak.step} runs: {size_text(peak.held_bytes)} of {size_text(peak.capacity_bytes)}",
            [f"{tensor.head} of {tensor.node}" for tensor in peak.tensors],
            [tensor.size_bytes for tensor in peak.tensors],
            [USES.index(use) for use in peak.uses],
        )
        for peak in found
    ]
    numbers = {"memories": [peak.document for peak in found]}
    return shown.drawing(peak_figure(panels, USES, shown.title), numbers)


def _packed(problem: Problem, memory: PackedMemory) -> Layout:
    """A memory with the addresses that were found for its tensors."""
    rows = [
        (tensor.first, tensor.last + 1, offset, tensor.size_bytes, problem.space.heads.index(tensor.head))
        for tensor, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
    ]
    return Layout(memory.name, memory.capacity_bytes, *np.array(rows, np.int64).reshape(-1, 5).T)


def _placed(problem: HasPlacement, mapping: Mapping16, size_bytes: NDArray[np.int64]) -> Layout:
    """The memory in which a mapping's places have addresses, each for its closed interval of steps; sizes are [N]."""
    rows = [
        (place["first"], place["last"] + 1, place["offset_bytes"], size, 0)
        for place, size in zip(problem.placement(mapping), size_bytes.tolist(), strict=True)
        if place is not None and "first" in place
    ]
    return Layout(*problem.placed_in(), *np.array(rows, np.int64).reshape(-1, 5).T)


TIME = "time since the inference began (µs)"
"""The label of the x axis if the problem knows how long its steps take."""
OP = "op"
"""The step whose time an explanation states."""


def draw_utilisation(runs: Sequence[PastRun]) -> Drawing:
    """The content of the chip's memories during an inference: under the baseline and under the best mapping.

    How full each memory is over the time of an inference: the baseline (the compiler's mapping, say) at the left, the
    best at the right. A weight is there all along, an activation from its op to its last consumer. No valid map
    crosses the dashed line. Nearly empty memories have a scale of their own. Fragmentation and prefetched data are
    not shown. The strip below says what limits the op that runs, if the problem explains its ops.

    Of a network split over a module's chips it is the figure `partition`.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem has no occupancy.
    """
    if explainer(runs[0].problem, Partition):
        return draw_partition(runs)
    shown = fastest(runs)
    problem = shown.problem
    if not isinstance(problem, HasOccupancy):
        raise refusal("utilisation", problem, "that reports the use of its memories")
    mappings = shown.mappings()
    held = {name: problem.occupancy(mapping) for name, mapping in mappings.items()}
    schedules = [
        _schedule(problem, mapping, held[name], shown.label(name)) for name, mapping in mappings.items()
    ]
    first = held["compiler"]
    unit = f"{problem.about.step}, in execution order" if not schedules[0].limits else TIME
    figure = utilisation_figure(
        schedules, first.memories, problem.space.heads, first.capacity_bytes, shown.title, unit
    )
    numbers = {
        "memories": first.memories,
        "capacity_bytes": first.capacity_bytes,
        "heads": problem.space.heads,
        "x": unit,
        **{
            name: {
                **asdict(utilisation(schedule, first.capacity_bytes)),
                "by_head_bytes": schedule.by_head_bytes,
                "edges": schedule.edges,
                "limits": schedule.limits,
            }
            for name, schedule in zip(held, schedules, strict=True)
        },
    }
    return shown.drawing(figure, numbers)


def _schedule(problem: Problem, mapping: Mapping16, held: Occupancy, name: str) -> Schedule:
    """In microseconds where the problem can say how long its steps take, else in steps."""
    ops = _ops(problem, mapping)
    if ops is None:
        return Schedule(name, np.arange(len(held.by_head) + 1, dtype=np.float64), held.by_head)
    edges_us = np.cumsum([0.0, *(op.duration_s for op in ops)]) * 1e6
    limits = tuple(cause_text(op.bound_by) for op in ops)
    return Schedule(f"{name}, {micro(float(edges_us[-1] / 1e6))} µs", edges_us, held.by_head, limits)


def _ops(problem: Problem, mapping: Mapping16) -> tuple[OpTime, ...] | None:
    """The ops of an inference, if the problem explains them and its steps are ops; else None."""
    explain = explainer(problem, OpTimes)
    return None if explain is None or problem.about.step != OP else explain(mapping).ops


def draw_umap(runs: Sequence[PastRun]) -> Drawing:
    """Mappings of runs in two dimensions: as fast as the compiler's, the best, and the compiler's own.

    InputError where the runs are not of one problem, one has no valid mapping, or all together have too few.
    """
    kept, remarks = together(runs)
    problem = kept[0].problem
    check_alike("umap", problem)
    live = problem.space.live
    past = [_valid(run) for run in kept]
    searched = [(found.mapping[:, live], found.speedup) for found in past]
    compiler = problem.baseline.mapping[live]
    groups = choose(searched, compiler)
    best = groups.best
    pairs = list(zip(groups.run.tolist(), groups.index.tolist(), strict=True))
    speedup = np.array([past[run].speedup[index] for run, index in pairs])
    _check(kept, past, groups)
    distance = hamming(np.stack([*(searched[run][0][index] for run, index in pairs), compiler]))
    distances = measure(distance, best, groups.run)
    points = embed(distance)
    baseline_name = drawn_baseline_text(problem.about)
    title = f"{problem.about.workload} on {problem.about.chip}: mappings as fast as {baseline_name}'s, and the best"
    short = [run.path.name for run in kept]
    names = short if len(set(short)) == len(short) else [str(run.path) for run in kept]
    figure = embedding_figure(points, best, groups.run, names, distances, title, baseline_name)
    numbers = {
        **subject(problem),
        "runs": [str(run.path) for run in kept],
        "competitive_within": WITHIN,
        "most": MOST,
        "live_decisions": int(live.sum()),
        "distances": distances,
        "group": [BEST if member else COMPETITIVE for member in best.tolist()],
        "run": groups.run,
        "evaluation": [int(past[run].ticket[index]) for run, index in pairs],
        "speedup": speedup,
        "embedding": points[:-1],
        "compiler": points[-1],
    }
    return Drawing(figure, numbers, [*remarks, *_remarks(kept, past, speedup[best])])


def _valid(run: PastRun) -> Evaluations:
    """The evaluations of the run. InputError if none is valid."""
    if run.summary.get("best") is None:
        raise InputError(f"{run.path}: expected a run with a valid mapping, found none yet")
    found = run.evaluations()
    if not (found.speedup > 0).any():
        raise InputError(
            f"{run.path / 'mappings'}: expected evaluations of valid mappings, found none of {len(found.ticket)}"
        )
    return found


def _check(runs: Sequence[PastRun], past: Sequence[Evaluations], groups: Groups) -> None:
    """InputError where there are too few mappings, saying how many there are and how many are needed."""
    where = ", ".join(str(run.path) for run in runs)
    best, competitive = int(groups.best.sum()), int((~groups.best).sum())
    if competitive < 2:
        fastest = max(float(found.speedup.max()) for found in past)
        raise InputError(
            f"{where}: expected at least 2 distinct mappings of a speedup from {1 - WITHIN:g} to {1 + WITHIN:g} besides"
            f" the best and the compiler's own, found {competitive} (the fastest has {fastest:.4f})"
        )
    if best < 2 or best + competitive + 1 < FEWEST:
        raise InputError(
            f"{where}: expected at least {FEWEST - 1} distinct mappings, 2 of them of the best tenth, found"
            f" {best + competitive} and {best}; a longer run has more"
        )


def _remarks(runs: Sequence[PastRun], past: Sequence[Evaluations], best: NDArray[np.float64]) -> list[str]:
    found = [
        f"{run.path} starts from {run.start}, not cold as in the paper: its mappings were near to that"
        " start from the beginning"
        for run in runs
        if run.summary["start"] != "cold"
    ]
    if best.min() <= 1 + WITHIN:
        found.append(
            f"{int((best <= 1 + WITHIN).sum())} of the {len(best)} best mappings are at most {1 + WITHIN:g}x as fast as"
            " the compiler's: the two groups hardly differ in speed"
        )
    for run, kept in zip(runs, past, strict=True):
        if kept.ticket[0] > 0:
            found.append(f"{run.path} keeps no mappings of its first {kept.ticket[0]} evaluations")
    return found
