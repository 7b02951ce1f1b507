"""The result of a search, for Python and for notebooks."""

from __future__ import annotations

import csv
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.mapping_file import names_of
from egrl.runs.folder import METRICS
from egrl.runs.text import baseline_text, compared, cost_text, counted
from egrl.runs.verdict import distance, percent_up
from hwsim.problem import Mapping16, Problem


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a search.

    Attributes:
        problem: the problem that was searched.
        summary: the content of summary.json.
        mapping: the best valid mapping int16 [N, H], or None.
        folder: the run folder; None where the search was in memory.
    """

    problem: Problem
    summary: Mapping[str, Any]
    mapping: Mapping16 | None
    folder: Path | None = None
    _rows: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def speedup(self) -> float:
        """Of the best mapping over the baseline; 0 where none is valid."""
        best = self.summary["best"]
        return 0.0 if best is None else float(best["speedup"])

    @property
    def cost(self) -> float | None:
        """Of the best mapping, in the problem's unit; None where none is valid."""
        best = self.summary["best"]
        return None if best is None else float(best["cost"])

    @property
    def bound(self) -> float | None:
        """No mapping costs less: what was proved; None where nothing was."""
        return self._number("bound")

    @property
    def gap(self) -> float | None:
        """Cost / bound - 1: the best possible costs at most so much less; None where that is unknown."""
        return self._number("gap")

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of a measured speedup, low and high (closed); None where it is not known."""
        found = (self.summary.get("evaluator") or {}).get("speedup_interval")
        return None if found is None else (float(found[0]), float(found[1]))

    def _number(self, key: str) -> float | None:
        found = self.summary[key]
        return None if found is None else float(found)

    @cached_property
    def names(self) -> list[dict[str, Any]]:
        """The best mapping by names, one object per node: {"node": "conv1", "weight": "sram", …}; empty where there is
        none.
        """
        return [] if self.mapping is None else names_of(self.problem, self.mapping)

    @cached_property
    def history(self) -> dict[str, NDArray[Any]]:
        """Metrics by name, one value per generation: "evaluations", "best_speedup" … (docs/reference/run-folder.md)."""
        rows: Sequence[Mapping[str, Any]] = self._rows
        if self.folder is not None and (self.folder / METRICS).is_file():
            with open(self.folder / METRICS, newline="", encoding="utf-8") as stream:
                rows = list(csv.DictReader(stream))
        return {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}

    def __repr__(self) -> str:
        what = f"{self.problem.about.workload} on {self.problem.about.chip}"
        about, baseline = self.problem.about, baseline_text(self.problem.about, self.problem.baseline.name)
        found = "nothing valid" if self.mapping is None else compared(self.speedup, baseline, about.unit)
        sure = self.interval
        between = "" if sure is None else f"95% interval {sure[0]:.4f}x to {sure[1]:.4f}x"
        parts = [found, between, distance(self.gap), counted(self.summary["evaluations"], "evaluation")]
        return f"<Result {what}: {', '.join(part for part in parts if part)}>"

    def _repr_html_(self) -> str:
        """The result as a table, for notebooks."""
        unit, best = self.problem.about.unit, self.cost
        rows = {
            "workload": f"{self.problem.about.workload} on {self.problem.about.chip}",
            "method": f"{self.summary['method']}, {counted(self.summary['evaluations'], 'evaluation')}",
            "best": "none" if best is None else f"{cost_text(best, unit)}, {self.speedup:.4f}x",
            self.problem.about.baseline_name: cost_text(float(self.summary["baseline"]["cost"]), unit),
            "gap": "unknown" if self.gap is None else f"at most {percent_up(self.gap)}",
        }
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        return f"<table>{cells}</table>"


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Numbers as float64, or int64 where all are whole numbers; names as they are."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return np.array([str(value) for value in values])
    whole = all(isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) for value in values)
    return numbers.astype(np.int64) if whole else numbers
