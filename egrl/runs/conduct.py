"""A run that is prepared, from its first evaluation to its summary: in a run folder, or in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from egrl.core import loop
from egrl.core.archive import Archive
from egrl.core.budget import Budget
from egrl.core.recorder import Observer, Recorder
from egrl.core.state import SearchState
from egrl.core.stopping import HINT, StopSignal
from egrl.measure import executors
from egrl.measure.confirming import ConfirmingBoards
from egrl.runs import progress, summary
from egrl.runs.champion import name_the_best, race_the_best
from egrl.runs.config import RunConfig
from egrl.runs.prepare import Prepared
from hwsim.problem import Mapping16, Problem

if TYPE_CHECKING:
    from egrl.measure.board_executor import BoardExecutor

OnGeneration = Callable[[Mapping[str, Any]], Any]
"""Is told the row of metrics of each generation; what it returns, if true, stops the run."""


@dataclass(frozen=True)
class Conducted:
    """What a run came to.

    Attributes:
        summary: what summary.json holds.
        mapping: the best valid mapping int16 [N, H], or None.
        complete: whether it did all it was asked to, or was stopped by `on_generation`.
        state: how far it came.
    """

    summary: dict[str, Any]
    mapping: Mapping16 | None
    complete: bool
    state: SearchState


class _Told:
    """An observer that also tells `on_generation`, and knows whether it wants the run to stop."""

    def __init__(self, observer: Observer, on_generation: OnGeneration | None) -> None:
        self._observer, self._tell = observer, on_generation
        self.phase, self.evaluations = observer.phase, observer.evaluations
        self.stops = False

    def generation(self, row: dict[str, Any]) -> None:
        self._observer.generation(row)
        if self._tell is not None and self._tell(row):
            self.stops = True


def conduct(
    resolved: RunConfig,
    prepared: Prepared,
    recorder: Recorder,
    state: SearchState | None,
    boards: BoardExecutor | None,
    quiet: bool,
    on_generation: OnGeneration | None = None,
) -> Conducted:
    """Search until the budget is spent or the user stops it, then conclude. KeyboardInterrupt: the user ended it."""
    options, context = resolved.run, prepared.context
    problem, archive = context.problems[0], context.archive
    budget = Budget.of(options.budget(), options.generation_evals)
    if boards is None:
        measure = executors.build([problem], options.workers, options.executor, options.ray_address)
    else:
        boards.follow(archive)
        context.costs.noise = boards.noise
        confirmed = boards.noise > 0 and boards.config.confirm
        measure = ConfirmingBoards(boards) if confirmed else boards
    title = f"{problem.about.workload} {options.method}"
    try:
        with (
            StopSignal("" if quiet else HINT) as stop,
            progress.observer(title, budget, len(archive), quiet) as observer,
        ):
            told = _Told(observer, on_generation)
            reached = loop.search(
                prepared.method,
                context,
                measure,
                budget,
                recorder,
                observer=told,
                state=state,
                stop=lambda: stop() or told.stops,
                checkpoint_seconds=options.checkpoint_seconds,
            )
            stopped = stop() or told.stops
        complete = summary.is_complete(reached, budget, len(archive)) or (
            budget.seconds is not None and not stopped
        )
        document, mapping = _conclude(resolved, problem, archive, reached, complete, boards, quiet)
    finally:
        measure.close()
    return Conducted(document, mapping, complete or told.stops, reached)


def _conclude(
    resolved: RunConfig,
    problem: Problem,
    archive: Archive,
    reached: SearchState,
    complete: bool,
    boards: BoardExecutor | None,
    quiet: bool,
) -> tuple[dict[str, Any], Mapping16 | None]:
    """The summary and the best mapping int16 [N, H], its rivals having been measured again where costs are noisy."""
    baseline_cost, table = None, None
    notes: tuple[str, ...] = ()
    with progress.note_if_slow("measuring the best again, in turn with the baseline", quiet):
        if boards is not None:
            measured = name_the_best(boards, archive, reached, complete)
            baseline_cost, table = measured.baseline_cost, measured.evaluator
        elif complete and (raced := race_the_best(problem, archive, reached)) is not None:
            baseline_cost, notes = raced.baseline_cost, raced.notes
    for text in notes:
        progress.note(text, quiet)
    champion = reached.champions[0]
    with progress.note_if_slow(f"proving a bound, {resolved.run.bound_seconds:g} s at most", quiet):
        document = summary.summarise(resolved, problem, reached, archive, complete, baseline_cost, table)
    return document, None if champion is None else champion.mapping
