"""How one run's best partition loads the chips and links of a package, beside the heuristic's.

One column per partition, one bar per chip: seconds per sample that the chip and its link to the next are busy. Below,
the weights and the peak on the device model, beside the SRAM.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.partition import Split, shares, shares_figure, split_figure
from egrl.figures.drawing import Drawing, plain
from egrl.figures.repetitions import Fastest, fastest
from egrl.runs.past_run import PastRun
from hwsim.capabilities import explainer
from hwsim.explanation import Partition
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Busy times and memory a chip, the baseline's partition and the best; of several runs, the fastest's.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem splits over no chips.
    """
    shown = fastest(runs)
    problem = shown.run.problem
    if not explainer(problem, Partition):
        raise InputError(
            f"plot partition: expected a problem that splits a network over chips (mcm), found {problem.about.name!r}"
        )
    splits = splits_of(shown, problem)
    numbers = {
        **shown.numbers,
        "partitions": [{**vars(split), "utilisation": split.utilisation} for split in splits],
    }
    return Drawing(split_figure(splits, shown.title), plain(numbers), shown.remarks)


def draw_shares(shown: Fastest, problem: Problem) -> Drawing:
    """The use of chips, links and SRAM by the baseline's partition and by the best."""
    splits = splits_of(shown, problem)
    numbers = {**shown.numbers, "partitions": [{"label": s.label, **shares(s)} for s in splits]}
    return Drawing(shares_figure(splits, shown.title), plain(numbers), shown.remarks)


def splits_of(shown: Fastest, problem: Problem) -> list[Split]:
    """The baseline's partition and the best one of a run."""
    mappings, about = shown.mappings(), shown.run.problem.about
    return [
        _split(problem, mappings["compiler"], about.baseline_name, about.unit),
        _split(problem, mappings["best"], f"best: {shown.speedup:.4f}x", about.unit),
    ]


def _split(problem: Problem, mapping: Mapping16, label: str, unit: str) -> Split:
    explain = explainer(problem, Partition)
    assert explain is not None
    found = explain(mapping)
    columns = {
        name: np.array([getattr(chip, name) for chip in found.chips])
        for name in ("link_s", "nodes", "weight_bytes", "peak_bytes")
    }
    busy = np.array([chip.busy_s for chip in found.chips])
    return Split(label, busy, **columns, capacity_bytes=found.capacity_bytes, cost_s=found.cost_s, unit=unit)
