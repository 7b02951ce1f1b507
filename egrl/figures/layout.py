"""Where the tensors of one run's best mapping lie in the chip's memories, and for how long.

Ops to the right, addresses upwards, one box per tensor, one row per memory. Hatched boxes are activations; white
between boxes is unusable room. The addresses are those of `egrl allocate`. Where a memory cannot be packed, a remark
says by how many bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np

from analysis.layout import Layout, layout_figure, use
from egrl.figures import partition
from egrl.figures.drawing import Drawing, plain
from egrl.figures.repetitions import fastest
from egrl.problems import find_problem
from egrl.runs.allocation import PackedMemory, allocate
from egrl.runs.past_run import PastRun
from hwsim.capabilities import HasLifetimes, explainer
from hwsim.explanation import Partition
from hwsim.problem import Problem
from workloads.errors import InputError

ALIGN_BYTES, SECONDS, SEED = 64, 10.0, 0
"""As `egrl allocate` packs where no flag says otherwise."""


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Memories over ops, one box per tensor; of several runs, the fastest's.

    A problem may have a figure of its own (the MMapGame's is `egrl.figures.memory_map`); of a network that is split
    over chips it is `egrl.figures.partition`.

    InputError where the runs are not of one problem, none has a valid mapping, or the problem has no lifetimes.
    """
    if own := find_problem(runs[0].options.problem).figures.get("layout"):
        drawing: Drawing = importlib.import_module(own).draw(runs)
        return drawing
    if explainer(runs[0].problem, Partition):
        return partition.draw(runs)
    shown = fastest(runs)
    problem = shown.run.problem
    if not isinstance(problem, HasLifetimes):
        raise InputError(
            f"plot layout: expected a problem with lifetimes of tensors, found {problem.about.name!r}"
        )
    memories = allocate(problem, shown.run.best_mapping(), ALIGN_BYTES, SECONDS, SEED)
    layouts = [_layout(problem, memory) for memory in memories]
    steps, axis = len(problem.space.nodes), f"{problem.about.step}, in execution order"
    figure = layout_figure(layouts, problem.space.heads, steps, shown.title, axis)
    numbers = {
        **shown.numbers,
        "heads": problem.space.heads,
        "steps": steps,
        "align_bytes": ALIGN_BYTES,
        "memories": [
            {
                "memory": memory.name,
                "capacity_bytes": memory.capacity_bytes,
                "fullest_bytes": memory.packing.fullest_bytes,
                "packed": memory.packing.verdict == "packed",
                "height_bytes": used.height_bytes,
                "mean_share": used.mean_share,
                "tensors": len(memory.tensors),
            }
            for memory, used in zip(memories, (use(layout, steps) for layout in layouts), strict=True)
        ],
    }
    remarks = [
        f"{memory.name} does not fit by {memory.over_bytes:,} bytes; `egrl allocate` names what sticks out"
        for memory in memories
        if memory.over_bytes
    ]
    return Drawing(figure, plain(numbers), [*shown.remarks, *remarks])


def _layout(problem: Problem, memory: PackedMemory) -> Layout:
    columns = np.array(
        [
            (tensor.first, tensor.last + 1, offset, tensor.size_bytes, problem.space.heads.index(tensor.head))
            for tensor, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
        ],
        np.int64,
    ).reshape(-1, 5)
    return Layout(memory.name, memory.capacity_bytes, *columns.T)
