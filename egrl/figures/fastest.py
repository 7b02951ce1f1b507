"""Of several runs of one problem the one to draw: the compiler's mapping beside the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egrl.figures.repetitions import check_comparable, distinct, to_plot
from egrl.runs.past import PastRun
from hwsim.problem import Mapping16


@dataclass(frozen=True)
class Fastest:
    """The run with the highest speedup.

    Attributes:
        run: that run; of equal ones the first.
        speedup: of its best mapping.
        remarks: lines about runs that are not shown.
    """

    run: PastRun
    speedup: float
    remarks: tuple[str, ...]

    def mappings(self) -> dict[str, Mapping16]:
        """int16 [N, H] by what figures call them: "compiler", "best". InputError where the run found no valid one."""
        return {"compiler": self.run.problem.baseline.mapping, "best": self.run.best_mapping()}

    @property
    def title(self) -> str:
        """Workload, chip and speedup."""
        about = self.run.problem.about
        return f"{about.workload} on {about.chip}: best is {self.speedup:.4f}x {about.rival}"

    @property
    def numbers(self) -> Mapping[str, Any]:
        """What every such figure says of its run."""
        problem = self.run.problem
        return {
            "workload": problem.about.workload,
            "chip": problem.about.chip,
            "run": str(self.run.path),
            "speedup": self.speedup,
        }


def fastest(runs: Sequence[PastRun]) -> Fastest:
    """The fastest of at least one run. InputError where they are not of one problem."""
    given = [to_plot(run) for run in runs]
    check_comparable(given)
    kept, remarks = distinct(given)
    run = max((each.run for each in kept), key=_speedup)
    if len(kept) > 1:
        remarks = [*remarks, f"shown is {run.path}, the fastest of {len(kept)} runs"]
    return Fastest(run, _speedup(run), tuple(remarks))


def _speedup(run: PastRun) -> float:
    """Of the best mapping; 0 where there is none."""
    best = run.summary.get("best")
    return 0.0 if best is None else float(best["speedup"])
