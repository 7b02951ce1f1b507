"""The run command as a function: resolve the configuration, build, search, leave a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core import atomic, loop, typed_tables
from egrl.core.archive import Archive
from egrl.core.budget import Budget
from egrl.core.stopping import HINT, Interrupted, StopSignal
from egrl.measure import executors
from egrl.measure import records as measurements
from egrl.measure.evaluator import Function, board_executor, name_of
from egrl.runs import checkpoint, config, progress, summary
from egrl.runs import folder as run_folder
from egrl.runs.champion import name_the_best, race_the_best
from egrl.runs.config import RunConfig, RunOptions
from egrl.runs.new_folder import default_folder
from egrl.runs.past import with_own_inputs
from egrl.runs.prepare import Prepared, build_problem, copies_of, prepare
from egrl.runs.resolve import resolve, resolve_again
from egrl.runs.resume import check_only, fixed_settings, nothing_left
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.nearest import one_of

if TYPE_CHECKING:
    from egrl.measure.board_executor import BoardExecutor


@dataclass(frozen=True)
class Result:
    """What a search leaves.

    Attributes:
        folder: the run folder.
        summary: summary.json.
        mapping: the best valid mapping int16 [N, H], or None.
        problem: what it was measured on.
    """

    folder: Path
    summary: Mapping[str, Any]
    mapping: Mapping16 | None
    problem: Problem

    @property
    def speedup(self) -> float:
        """Of the best mapping over the compiler's; 0 where none is valid."""
        best = self.summary["best"]
        return 0.0 if best is None else float(best["speedup"])


def search(
    workload: str = "",
    *,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    settings: Sequence[str] = (),
    preset: str = "",
    quiet: bool = True,
    evaluator: str | Function | None = None,
    **options: Any,
) -> Result:
    """Search for the best mapping of a workload, and leave a run folder: `egrl run` as a function.

    Args:
        workload: str, a name of `egrl list workloads`, or a workload file (.json). Needed, unless `resume` is given.
        out: path of the run folder, new or empty; default `runs/<workload>-<method>-s<seed>-<n>`.
        resume: path of a run folder to go on with, instead of a workload; default: none. Only gens, evals or seconds
            (whichever the run has, and no smaller), workers, executor, ray_address, checkpoint_seconds and evaluator
            may be given with it.
        settings: list of str, what `--set` takes, e.g. ["method.alpha=0.1", "problem.invalid=penalise"]; default: none.
        preset: "paper" for the paper's values; default "": the package's.
        quiet: bool, nothing on stderr; default True. False shows the progress.
        evaluator: what measures instead of the model: str, a command that speaks JSON lines, or a function of the
            rows of a mapping, [{"node": name, head: choice, …}, …], that returns seconds (docs/evaluators.md);
            default "": none. `workers` is then the number of commands, or of threads that call the function.
        options: the other flags of `egrl run` by name; None stands for the default.
            gens: int, generations to run; default 200. At most one of gens, evals, seconds.
            evals: int, evaluations to run, exactly so many; default: no such limit.
            seconds: float, seconds of searching, after which no measurement starts; starting and the bound at the
                end do not count; default: no such limit.
            generation_evals: int from 1, evaluations a generation, which is how often metrics are written; default 21.
            seed: int from 0, of everything random; default 0.
            method: str, a name of `egrl list methods`; default "": egrl, or the problem's own (fft: tag).
            problem: str, a name of `egrl list problems`; default "nnpi".
            chip: str, a name of `egrl list chips`, or a chip file (.toml); default "": the problem's first.
            start: str, "cold", "compiler", "exact" or a mapping file; default "": compiler, with preset "paper" cold.
            init: str, a policy file to begin with; default "": none.
            workers: int from 1, processes that measure; default 1. Never changes a result.
            executor: str, where to measure, "local" or "ray"; default "local". Never changes a result.
            ray_address: str, the Ray cluster, "auto" or "HOST:PORT"; default "": one of `workers` CPUs is started here.
            threads: int from 1, of a learner's tensor operations; default 1.
            device: str, torch device of the networks, "cpu" or "cuda"; default "cpu".
            bound_seconds: float, seconds for proving a bound at the end where none is known, 0: none; default 10.0.
            exact_seconds: float, limit in seconds of the solve for start "exact"; default 30.0.
            checkpoint_seconds: float, seconds between checkpoints; default 20.0.

    Returns:
        A Result: `.speedup` (over the compiler's map), `.mapping` (int16 [N, H]), `.summary`, `.folder`, `.problem`.

    Raises:
        InputError: an argument, a file or the run folder is wrong.
        RunFailure: the disk, a worker or the evaluator failed.
        Interrupted: the user pressed Ctrl-C; the run can be resumed.
    """
    unknown = sorted(set(options) - set(_option_names()))
    if unknown:
        raise InputError(f"option: {one_of(unknown[0], _option_names())}")
    given = {k: _plain(v) for k, v in options.items() if v is not None}
    if evaluator is not None:
        given["evaluator"] = name_of(evaluator)
    function = None if isinstance(evaluator, str) else evaluator
    workload = _plain(workload)
    if resume is not None:
        check_only(
            {"workload": workload, "out": out, "set": tuple(settings or ()), "preset": preset, **given}
        )
        typed_tables.build(RunOptions, given, "options")
        return _resume(_path(resume, "--resume"), given, function, quiet)
    chosen = typed_tables.build(RunOptions, {"workload": workload, **given}, "options")
    resolved = resolve(chosen, settings or (), preset)
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.compiling(quiet))
        problem = build_problem(resolved)
        prepared = prepare(resolved, problem)
        boards = _boards(resolved, problem, function, stack)
        if boards is not None:
            progress.note(f"measuring the baseline with {resolved.run.evaluator}", quiet)
            boards.measure_baseline()
        path = (
            default_folder(problem.about.workload, resolved.run.method, resolved.run.seed)
            if out is None
            else _path(out, "--out")
        )
        folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.create(path)))
        folder.write_inputs(
            config.to_toml(resolved), [problem], copies_of(resolved.run, problem, prepared.context.start[0])
        )
        if boards is not None:
            boards.attach(path)
        folder.settings = fixed_settings(resolved)
        return _run(resolved, problem, folder, prepared, None, boards, quiet)


def _boards(
    resolved: RunConfig, problem: Problem, function: Function | None, stack: contextlib.ExitStack
) -> BoardExecutor | None:
    """The boards of the evaluator, closed with the stack; None where the model measures."""
    if not resolved.run.evaluator:
        return None
    return stack.enter_context(
        contextlib.closing(
            board_executor(
                problem, resolved.run.evaluator, resolved.run.workers, resolved.evaluator, function
            )
        )
    )


def _plain(value: Any) -> Any:
    """A path as text; anything else as it is, for the types to be checked."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _path(value: Any, flag: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{flag}: expected a path, found {value!r}")
    return Path(value)


def _option_names() -> list[str]:
    return [entry.name for entry in dataclasses.fields(RunOptions)]


def _resume(path: Path, given: Mapping[str, Any], function: Function | None, quiet: bool) -> Result:
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.compiling(quiet))
        folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.reopen(path)))
        checkpoint.check_version(path / "checkpoint")
        old, resolved = resolve_again(path, given)
        folder.settings = fixed_settings(resolved)
        options = resolved.run
        own = resolved
        if folder.begun:
            own = replace(resolved, run=with_own_inputs(options, path))
        problem = build_problem(own)
        prepared = prepare(own, problem)
        boards = _boards(resolved, problem, function, stack)
        if not folder.begun:
            folder.write_inputs(
                config.to_toml(resolved), [problem], copies_of(options, problem, prepared.context.start[0])
            )
        state = loop.resume(prepared.method, folder, prepared.context)
        if options != old:
            atomic.write(path / run_folder.CONFIG, config.to_toml(resolved))
        if boards is not None:
            boards.attach(path)
            boards.measure_baseline()
        return _run(resolved, problem, folder, prepared, state, boards, quiet)


def _run(
    resolved: RunConfig,
    problem: Problem,
    folder: run_folder.RunFolder,
    prepared: Prepared,
    state: loop.SearchState | None,
    boards: BoardExecutor | None,
    quiet: bool,
) -> Result:
    options, archive = resolved.run, prepared.context.archive
    budget = Budget.of(options.budget(), options.generation_evals)
    if boards is None:
        measure = executors.build([problem], options.workers, options.executor, options.ray_address)
    else:
        boards.follow(archive)
        measure = boards
    title = f"{problem.about.workload} {resolved.run.method}"
    known = len(archive)
    stopped = False
    try:
        hint = "" if quiet else HINT
        with StopSignal(hint) as stop, progress.observer(title, budget, known, quiet) as observer:
            reached = loop.search(
                prepared.method,
                prepared.context,
                measure,
                budget,
                folder,
                observer=observer,
                state=state,
                stop=stop,
                checkpoint_seconds=options.checkpoint_seconds,
            )
            stopped = stop()
        complete = summary.is_complete(reached, budget, len(archive)) or (
            budget.seconds is not None and not stopped
        )
        document, mapping = _conclude(resolved, problem, archive, reached, complete, boards, quiet)
        folder.write_results(document, problem, mapping)
    except KeyboardInterrupt:
        saved = checkpoint.listing(folder.path / "checkpoint")
        raise Interrupted(folder.path, saved[-1][0] if saved else None, at_once=True) from None
    finally:
        measure.close()
    if boards is not None and (usage := boards.usage()).failures:
        progress.note(
            f"the evaluator failed {usage.failures} times, {usage.restarts} starts among them; see"
            f" {folder.path / measurements.LOG}",
            quiet,
        )
    if not complete:
        raise Interrupted(folder.path, reached.generation)
    if state is not None and len(archive) == known:
        progress.note(nothing_left(resolved.run, reached.finished, folder.path), quiet)
    return Result(folder.path, document, mapping, problem)


def _conclude(
    resolved: RunConfig,
    problem: Problem,
    archive: Archive,
    reached: loop.SearchState,
    complete: bool,
    boards: BoardExecutor | None,
    quiet: bool,
) -> tuple[dict[str, Any], Mapping16 | None]:
    """The summary and the best mapping int16 [N, H], its rivals having been measured again where costs are noisy."""
    baseline_cost, table = None, None
    if boards is not None:
        measured = name_the_best(boards, archive, reached, complete)
        baseline_cost, table = measured.baseline_cost, measured.evaluator
    elif complete and (raced := race_the_best(problem, archive, reached)) is not None:
        baseline_cost = raced.baseline_cost
        for text in raced.notes:
            progress.note(text, quiet)
    champion = reached.champions[0]
    document = summary.summarise(resolved, problem, reached, archive, complete, baseline_cost, table)
    return document, None if champion is None else champion.mapping
