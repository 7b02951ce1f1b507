"""Memory maps of one run as bands: the compiler's and the best."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.bands import Band, band_figure, bands
from egrl.figures import Drawing, plain
from egrl.figures.repetitions import together
from egrl.past_run import PastRun


def draw(runs: Sequence[PastRun]) -> Drawing:
    """Where every tensor lies in the compiler's map and in the best mapping; of several runs, in the fastest's.

    InputError where the runs are not of one problem, or none has a valid mapping.
    """
    kept, remarks = together(runs)
    run = max(kept, key=_speedup)
    if len(kept) > 1:
        remarks = [f"shown is {run.path}, the fastest of {len(kept)} runs"]
    problem, best = run.problem, run.best_mapping()
    mappings = {"compiler": problem.baseline.mapping, "best": best}
    found = {
        name: bands(mapping, problem.size_bytes, problem.heads, problem.labels)
        for name, mapping in mappings.items()
    }
    title = f"{problem.workload} on {problem.chip}: best is {_speedup(run):.4f}x the compiler"
    numbers = {
        "workload": problem.workload,
        "chip": problem.chip,
        "run": str(run.path),
        "speedup": _speedup(run),
        "ops": problem.nodes,
        "heads": [
            {
                "head": head,
                "memories": problem.labels[h],
                "tensors": int((problem.size_bytes[:, h] > 0).sum()),
                **{name: _numbers(parts[h]) for name, parts in found.items()},
            }
            for h, head in enumerate(problem.heads)
        ],
    }
    return Drawing(band_figure(found, problem.nodes, title), plain(numbers), remarks)


def _speedup(run: PastRun) -> float:
    """Of the best mapping; 0 where there is none."""
    best = run.summary.get("best")
    return 0.0 if best is None else float(best["speedup"])


def _numbers(band: Band) -> dict[str, object]:
    return {"contiguity": band.contiguity, "byte_share": band.byte_share, "choices": band.choices}
