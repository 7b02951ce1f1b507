"""Memory maps of one run as bands: the baseline's (the compiler's, say) and the best.

A band is one head (weights, activations) of one map. Each bar is an op's tensor, in execution order: the darker, the
slower its memory. White is no tensor. At the right stands the spread of bytes. Figure 6, bottom, of the EGRL paper.

*Contiguity* is the share of neighbouring tensors of a head in the same memory. The paper says that EGRL favours it;
where the compiler keeps all activations in one memory, EGRL's cannot be higher.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.bands import Band, band_figure, bands
from egrl.figures.drawing import Drawing, plain
from egrl.figures.repetitions import check_places, fastest
from egrl.runs.past_run import PastRun


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Where every tensor lies in the baseline's map and in the best mapping; of several runs, in the fastest's.

    InputError where the runs are not of one problem, or none has a valid mapping.
    """
    shown = fastest(runs)
    problem = shown.run.problem
    check_places("bands", problem)
    found = {
        name: bands(mapping, problem.space.size_bytes, problem.space.heads, problem.space.labels)
        for name, mapping in shown.mappings().items()
    }
    numbers = {
        **shown.numbers,
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
    return Drawing(band_figure(named, problem.space.nodes, shown.title), plain(numbers), shown.remarks)


def _numbers(band: Band) -> dict[str, object]:
    return {"contiguity": band.contiguity, "byte_share": band.byte_share, "choices": band.choices}
