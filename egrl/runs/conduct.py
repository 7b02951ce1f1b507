"""A run that is prepared, from its first evaluation to its result: in a run folder, or in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from egrl.core import loop
from egrl.core.contracts import CONFIRMED, Budget, Memory, Observer, Recorder
from egrl.core.interrupts import HINT, Interrupted, StopSignal
from egrl.core.loop import SearchState
from egrl.measure import local
from egrl.measure.config import LOG
from egrl.runs import checkpoint, progress
from egrl.runs.gap import Gap, HardlyPays, sooner, unbounded
from egrl.runs.progress import Gains
from egrl.runs.run import Run
from egrl.runs.text import counted, opening_lines
from hwsim.problem import Bound, Mapping16

if TYPE_CHECKING:
    from egrl.measure.board_executor import BoardExecutor
    from egrl.runs.past_run import Result

OnGeneration = Callable[[Mapping[str, Any]], Any]
"""Gets the row of metrics of each generation; the run stops if it returns something true."""


class _Asking(Observer):
    """Calls `on_generation`, and knows whether that wants the run to stop."""

    def __init__(self, on_generation: OnGeneration | None) -> None:
        self._call, self.stops = on_generation, False

    def generation(self, row: Mapping[str, Any]) -> None:
        if self._call is not None and self._call(row):
            self.stops = True


def conduct(
    run: Run, boards: BoardExecutor | None, quiet: bool, on_generation: OnGeneration | None = None
) -> Result:
    """Search until the budget is spent or the user stops it, then conclude; the results go to the run folder.

    Interrupted: the user stopped a run that has a folder. (A search in memory gives what it has found.)
    """
    memory = Memory()
    if run.method.on_a_model and not run.context.costs.measured:
        progress.note(run.method.on_a_model, quiet)
    for line in opening_lines(run.method.composition(), run.context.costs.measured):
        progress.note(line, quiet)
    if run.folder is None:
        document, mapping, _ = _search(run, memory, boards, quiet, on_generation)
        return _result(run, document, mapping, memory)
    path, known, again = run.folder.path, len(run.context.archive), run.state is not None
    try:
        document, mapping, over = _search(run, run.folder, boards, quiet, on_generation)
        run.folder.write_results(document, run.problem, mapping)
    except KeyboardInterrupt:
        saved = checkpoint.listing(path / "checkpoint")
        raise _interrupted(run, saved[-1][0] if saved else None, at_once=True) from None
    if boards is not None and (usage := boards.usage()).failures:
        progress.note(
            f"{counted(usage.failures, 'request')} of {usage.requests} failed, after {usage.restarts} of them the"
            f" evaluator was started again; see {path / LOG}",
            quiet,
        )
    assert run.state is not None
    if not over:
        raise _interrupted(run, run.state.generation)
    if again and len(run.context.archive) == known:
        from egrl.runs.resume import nothing_left

        progress.note(nothing_left(run.config, document["stopped"], path), quiet)
    return _result(run, document, mapping)


def _result(
    run: Run, document: dict[str, Any], mapping: Mapping16 | None, memory: Memory | None = None
) -> Result:
    """What the search found; of a search in memory with its rows of metrics."""
    from egrl.runs.past_run import Result

    folder = None if run.folder is None else run.folder.path
    return Result(run.problem, document, mapping, folder, () if memory is None else memory.rows)


def _interrupted(run: Run, generation: int | None, at_once: bool = False) -> Interrupted:
    """How a run with a folder goes on: from its last checkpoint, with the flags that name its code."""
    from egrl.runs.resume import code_flags

    assert run.folder is not None
    return Interrupted(run.folder.path, generation, at_once=at_once, flags=code_flags(run.config))


def _search(
    run: Run,
    recorder: Recorder,
    boards: BoardExecutor | None,
    quiet: bool,
    on_generation: OnGeneration | None,
) -> tuple[dict[str, Any], Mapping16 | None, bool]:
    """Summary; best valid mapping int16 [N, H] or None; whether all was done, or `on_generation` ended it.

    KeyboardInterrupt: the user ended it at once.
    """
    options, context = run.config.run, run.context
    problem, archive = run.problem, context.archive
    budget = Budget.of(options.budget(), options.generation_evals)
    if boards is None:
        measure = local.build([problem], options.workers, options.executor, options.ray_address)
    else:
        boards.follow(archive)
        context.costs.noise = boards.noise
        from egrl.measure.confirming import ConfirmingBoards

        begun = [] if run.folder is None else run.folder.rows()  # of a caller who reported seconds: without
        confirmed = boards.config.confirm and not boards.config.exact
        measure = ConfirmingBoards(boards) if confirmed and has_confirmed(begun) else boards
    title = f"{problem.about.workload} {options.method}"
    best = None if run.state is None else run.state.champions[0]
    rows = [] if run.folder is None else run.folder.rows()
    gains = Gains(options.generation_evals, rows)
    try:
        with (
            StopSignal("" if quiet else HINT) as stop,
            progress.observer(title, budget, len(archive), quiet, gains) as bar,
            Gap(problem, options, best, bar, quiet, run.method.proves) as gap,
        ):
            asking = _Asking(on_generation)
            hardly_pays = HardlyPays(gap, gains, budget, rows, quiet)
            reached = loop.search(
                run.method,
                context,
                measure,
                budget,
                recorder,
                observers=(gains, gap, hardly_pays, bar, asking),
                state=run.state,
                stop=lambda: stop() or asking.stops,
                enough=lambda: gap.reached,
                checkpoint_seconds=options.checkpoint_seconds,
            )
            stopped = stop() or asking.stops
            proved = gap.proved(options.bound_seconds)
        from egrl.runs import summary  # as all that only the end of a search needs

        run.state = reached
        end = summary.end_of(reached, budget, len(archive), gap.reached, stopped)
        document, mapping = _conclude(run, reached, end, boards, quiet, proved)
        if (earlier := sooner(gap, gains, document)) is not None:
            document["sooner"] = earlier
    finally:
        measure.close()
    return document, mapping, end != summary.USER or asking.stops


def has_confirmed(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rows of metrics so far, if there are any, have the columns of what was measured again."""
    return not rows or CONFIRMED[0] in rows[0]


def _conclude(
    run: Run, reached: SearchState, end: str, boards: BoardExecutor | None, quiet: bool, proved: Bound
) -> tuple[dict[str, Any], Mapping16 | None]:
    """The summary and the best mapping int16 [N, H], with noisy costs after the best contenders were measured again."""
    from egrl.runs import summary
    from egrl.runs.champion import name_the_best, nearest_best, race_the_best

    problem, archive, seconds = run.problem, run.context.archive, run.config.run.bound_seconds
    baseline_cost, table, complete = None, None, end != summary.USER
    notes: tuple[str, ...] = ()
    with progress.note_if_slow("measuring the best again, alternating with the baseline", quiet):
        if boards is not None:
            measured = name_the_best(boards, archive, reached, complete)
            baseline_cost, table = measured.baseline_cost, measured.evaluator
        elif complete and (raced := race_the_best(problem, archive, reached)) is not None:
            baseline_cost, notes = raced.baseline_cost, raced.notes
    if boards is None:
        with progress.note_if_slow("undoing changes that gain nothing", quiet):
            reached = nearest_best(problem, reached, run.method.proves)
    for text in notes:
        progress.note(text, quiet)
    champion = reached.champions[0]
    with progress.note_if_slow(f"proving a bound, {seconds:g} s at most", quiet):
        document = summary.summarise(
            run.config,
            problem,
            reached,
            archive,
            end,
            baseline_cost,
            table,
            proved,
            not unbounded(problem),
            run.method.composition(),
        )
    return document, None if champion is None else champion.mapping
