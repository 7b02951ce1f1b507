"""egrl watch: the progress of running searches, from another terminal."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from egrl.core.contracts import Budget
from egrl.measure import records
from egrl.runs import config
from egrl.runs import folder as run_folder
from egrl.runs.config import RunOptions
from egrl.runs.past_run import problem_in
from egrl.runs.progress import best_text
from egrl.runs.summary import read_summary
from egrl.runs.text import clock_text, sureness
from hwsim.capabilities import HasBound
from workloads.errors import InputError
from workloads.files import read_text
from workloads.text import aligned


@click.command(name="watch", short_help="the progress of running searches, from another terminal")
@click.argument("runs", nargs=-1, required=True)
@click.option("--every", type=float, default=2.0, help="seconds between looks [2]")
@click.option("--once", is_flag=True, help="look once, and end")
def command(runs: tuple[str, ...], every: float, once: bool) -> int:
    """Show best speedup, bound, sources, boards and the time left of runs, until all are finished; Ctrl-C ends it.

    The column `by` says which sources had the best mapping, and in what share of the generations.

    \b
    egrl watch runs/bert-egrl-s0-1 runs/bert-ea-s0-1
    """
    if not 0.1 <= every <= 86400:
        raise InputError(f"--every: expected 0.1 to 86400 seconds, found {every:g}")
    watched = [Watched.read(Path(run)) for run in runs]
    while True:
        rows = table_of(watched)
        if not once:
            click.clear()
        click.echo(rows)
        if once or all(line.endswith("finished") for line in rows.splitlines()[1:]):
            return 0
        time.sleep(every)


COLUMNS = ("run", "evaluations", "best", "bound", "by", "boards busy", "left", "state")


@dataclass(frozen=True)
class Watched:
    """A run folder that is read repeatedly.

    Attributes:
        path: the folder.
        options: its flags.
        most: the highest speedup that a bound known at once leaves possible; NaN where none is known.
    """

    path: Path
    options: RunOptions
    most: float

    @staticmethod
    def read(path: Path) -> Watched:
        """A run folder, finished or not. InputError where it is none, or its inputs are damaged."""
        if not (path / run_folder.CONFIG).is_file():
            raise InputError(f"{path}: expected a run folder with {run_folder.CONFIG}, found none")
        tables, options = config.read_folder(path)
        return Watched(path, options, _most(path, options, tables["problem"]))

    def row(self) -> tuple[str, ...]:
        """A cell for each of `COLUMNS`. InputError if the metrics are damaged."""
        try:
            return self._row()
        except (KeyError, ValueError, OverflowError, csv.Error) as error:
            path = self.path / run_folder.METRICS
            raise InputError(f"{path}: damaged metrics: {type(error).__name__}: {error}") from error

    def _row(self) -> tuple[str, ...]:
        rows = _metrics(self.path / run_folder.METRICS)
        if not rows:
            return (self.path.name, "0", "–", self._bound(), "–", "–", "–", "begins")
        last = rows[-1]
        evaluations, seconds = int(last["evaluations"]), float(last["seconds"])
        sources = Counter(row["champion_source"] for row in rows if row["champion_source"])
        by = ", ".join(f"{name} {count / len(rows):.0%}" for name, count in sources.most_common(2))
        finished = self._finished(evaluations)
        left = "–" if finished else self._left(evaluations, seconds)
        ago = time.time() - (self.path / run_folder.METRICS).stat().st_mtime
        state = "finished" if finished else f"{clock_text(ago)} since the last generation"
        best = (self._named() if finished else "") or best_text(last, 4).removeprefix("best ")
        return (
            self.path.name,
            str(evaluations),
            best,
            self._bound(),
            by or "–",
            self._busy(seconds),
            left,
            state,
        )

    def _bound(self) -> str:
        """The bound that was known at once, or the one that the run proved at its end."""
        most = self.most
        if math.isnan(most):
            with contextlib.suppress(InputError, KeyError, TypeError):
                summary = read_summary(self.path)
                most = float(summary["baseline"]["cost"]) / float(summary["bound"])
        return "–" if math.isnan(most) else f"{most:.4f}x"

    def _named(self) -> str:
        """What a board's run says of its best at its end; "" if a model measured it."""
        summary = read_summary(self.path)
        if not summary.get("evaluator") or summary["best"] is None:
            return ""
        return ", ".join(filter(None, (f"{summary['best']['speedup']:.4f}x", sureness(summary))))

    def _finished(self, evaluations: int) -> bool:
        """Whether there is a summary, and it is not of a run that has been gone on with since."""
        try:
            return int(read_summary(self.path)["evaluations"]) >= evaluations
        except InputError:  # none yet
            return False

    def _left(self, evaluations: int, seconds: float) -> str:
        """What is left of the budget, at the mean speed so far."""
        budget = Budget.of(self.options.budget(), self.options.generation_evals)
        if budget.seconds is not None:
            return clock_text(budget.seconds - seconds)
        assert budget.evaluations is not None
        return clock_text((budget.evaluations - evaluations) * seconds / max(evaluations, 1))

    def _busy(self, seconds: float) -> str:
        """The share of the time that boards measured, all together."""
        if not self.options.evaluator or seconds <= 0:
            return "–"
        spent = 0.0
        try:
            lines = read_text(self.path / records.FILE, "measurements").splitlines()
        except InputError:
            return "–"
        for line in lines:
            try:
                spent += float(json.loads(line).get("request_s", 0.0))
            except (ValueError, TypeError, AttributeError, RecursionError):  # a line that is being written
                continue
        return f"{min(spent / seconds / self.options.workers, 1.0):.0%}"


def _most(path: Path, options: RunOptions, settings: dict[str, object]) -> float:
    try:
        problem = problem_in(path, options, settings)
    except InputError:  # code that was not given, or inputs that are not written yet
        return math.nan
    if options.evaluator or not isinstance(problem, HasBound):
        return math.nan
    bound = problem.bound(0.0).cost
    return problem.baseline.cost / bound if bound > 0 else math.nan


def _metrics(path: Path) -> list[dict[str, str]]:
    """The rows that are whole: the last one may be being written."""
    if not path.is_file():  # none yet, or a pipe, which would be waited for
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    rows = list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))
    return [row for row in rows if None not in row.values()]


def table_of(runs: Sequence[Watched]) -> str:
    """The runs as a table."""
    cells = [COLUMNS, *(run.row() for run in runs)]
    return "\n".join(aligned(cells, range(len(COLUMNS))))
