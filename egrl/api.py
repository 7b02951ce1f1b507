"""The run command as a function: resolve what is given, build, search; in memory, or leaving a run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from egrl.core import typed_tables
from egrl.core.recorder import Memory
from egrl.core.state import SearchState
from egrl.core.stopping import Interrupted
from egrl.measure import records as measurements
from egrl.measure.evaluator import Function, board_executor
from egrl.measure.evaluator import name_of as name_of_evaluator
from egrl.result import Result
from egrl.runs import begin, checkpoint, mapping_file, progress
from egrl.runs import folder as run_folder
from egrl.runs.conduct import OnGeneration, conduct
from egrl.runs.config import Options, RunConfig, RunOptions, describe_options
from egrl.runs.prepare import Prepared
from egrl.runs.resume import check_only, code_flags, nothing_left
from egrl.runs.summary import named_before
from egrl.subjects import MethodLike, asked, options_of
from hwsim.problem import Problem

if TYPE_CHECKING:
    from egrl.measure.board_executor import BoardExecutor


def search(
    workload: Any = "",
    *,
    method: MethodLike = "",
    chip: Any = "",
    out: str | Path | bool | None = None,
    resume: str | Path | None = None,
    settings: Sequence[str] = (),
    preset: str = "",
    quiet: bool = True,
    evaluator: str | Function | None = None,
    on_generation: OnGeneration | None = None,
    **options: Unpack[Options],
) -> Result:
    """Search for the best mapping of a workload, in memory or leaving a run folder: `egrl run` as a function.

    Args:
        workload: str, a name of `egrl list workloads`, or a workload file (.json); a Workload, a Program; or a Problem,
            which then is what is searched. Needed, unless `resume` is given.
        method: str, a name of `egrl list methods` or MODULE:NAME; the settings of a method, `EaConfig(…)` say; a
            MethodDefinition; or a function of a Context that gives a Method; default "": egrl, or the problem's own
            (mmap: revise; fft: tag; shard: exact).
        chip: str, a name of `egrl list chips`, or a chip file (.toml); a Chip or a Package; default "": the problem's
            first.
        out: path of the run folder, new or empty; True: `runs/<workload>-<method>-s<seed>-<n>`, as `egrl run` does;
            default: none, the search is in memory and leaves nothing.
        resume: path of a run folder to go on with, instead of a workload; default: none. Only gens, evals or seconds
            (whichever the run has, and no smaller), workers, executor, ray_address, checkpoint_seconds and evaluator
            may be given with it. Method and problem must be, where they are MODULE:NAME, and the evaluator, where the
            run has one.
        settings: list of str, what `--set` takes, e.g. ["method.alpha=0.1", "problem.invalid=penalise"]; default: none.
        preset: "paper" for the paper's values; default "": the package's.
        quiet: bool, nothing on stderr; default True. False shows the progress.
        on_generation: is called with the row of metrics of each generation, a dict; the search stops where it returns
            something true.
        evaluator: what measures instead of the model: str, a command that speaks JSON lines, or a function of the
            rows of a mapping, [{"node": name, head: choice, …}, …], that returns seconds (docs/guides/boards.md);
            default "": none. `workers` is then the number of commands, or of threads that call the function.
        options: the other flags of `egrl run` by name, see below; None stands for the default.

    Returns:
        A Result: `.speedup` (over the compiler's map), `.mapping` (int16 [N, H]), `.names`, `.cost`, `.bound`, `.gap`,
        `.history`, `.summary`, `.folder`, `.problem`.

    Raises:
        InputError: an argument, a file or the run folder is wrong.
        RunFailure: the disk, a worker or the evaluator failed.
        Interrupted: the user pressed Ctrl-C; the run can be resumed. (A search in memory gives what it has found.)

    Options:
    """
    given = options_of(options, Options.__annotations__, workload, method, chip)
    function = None if isinstance(evaluator, str) else evaluator
    if evaluator is not None:
        given["evaluator"] = name_of_evaluator(evaluator)
    if resume is not None:
        check_only({"out": out, "preset": preset, **given})
        typed_tables.build(RunOptions, given, "options")
        return _resume(resume, given, tuple(settings or ()), function, quiet, on_generation)
    new = asked(given, workload, method, chip, settings, preset)
    kept = out is not None and out is not False
    if kept:
        new.check_kept()
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.compiling(quiet))
        resolved, prepared = new.resolved, new.prepare()
        problem = prepared.context.problems[0]
        boards = _boards(resolved, problem, function, stack)
        if boards is not None:
            progress.note(f"measuring the baseline with {resolved.run.evaluator}", quiet)
            boards.measure_baseline()
        if not kept:
            memory = Memory()
            found = conduct(resolved, prepared, memory, None, boards, quiet, on_generation)
            return Result(problem, found.summary, found.mapping, None, memory.rows)
        folder = begin.create(out, resolved, prepared, stack)
        if boards is not None:
            boards.attach(folder.path)
        return _run(resolved, folder, prepared, None, boards, quiet, on_generation)


search.__doc__ = f"{search.__doc__}    {describe_options(Options, 8)}"  # stated once, with the flags


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


def _resume(
    resume: Any,
    given: Mapping[str, Any],
    settings: Sequence[str],
    function: Function | None,
    quiet: bool,
    on_generation: OnGeneration | None,
) -> Result:
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.compiling(quiet))
        again = begin.reopen(resume, given, stack, settings=settings)
        resolved, prepared = again.resolved, again.prepared
        boards = _boards(resolved, prepared.context.problems[0], function, stack)
        state = again.restore()
        if boards is not None:
            if (before := _named_before(again, state, quiet)) is not None:
                return before
            boards.attach(again.folder.path)
            boards.measure_baseline()
        return _run(resolved, again.folder, prepared, state, boards, quiet, on_generation)


def _named_before(again: begin.Reopened, state: SearchState, quiet: bool) -> Result | None:
    """What a run came to that boards have measured to its end; None where something is left to do."""
    path, context = again.folder.path, again.prepared.context
    summary = named_before(path, len(context.archive), again.resolved.run.budget())
    if summary is None:
        return None
    progress.note(nothing_left(again.resolved.run, state.finished, path), quiet)
    best, problem = path / run_folder.BEST, context.problems[0]
    mapping = mapping_file.read(str(best), problem) if summary.get("best") else None
    return Result(problem, summary, mapping, path)


def _run(
    resolved: RunConfig,
    folder: run_folder.RunFolder,
    prepared: Prepared,
    state: SearchState | None,
    boards: BoardExecutor | None,
    quiet: bool,
    on_generation: OnGeneration | None,
) -> Result:
    """Search, and leave the results in the folder. Interrupted: the user stopped it."""
    problem, archive = prepared.context.problems[0], prepared.context.archive
    known = len(archive)
    try:
        found = conduct(resolved, prepared, folder, state, boards, quiet, on_generation)
        folder.write_results(found.summary, problem, found.mapping)
    except KeyboardInterrupt:
        saved = checkpoint.listing(folder.path / "checkpoint")
        last = saved[-1][0] if saved else None
        raise Interrupted(folder.path, last, at_once=True, flags=code_flags(resolved.run)) from None
    if boards is not None and (usage := boards.usage()).failures:
        progress.note(
            f"the evaluator failed {usage.failures} times, {usage.restarts} starts among them; see"
            f" {folder.path / measurements.LOG}",
            quiet,
        )
    if not found.complete:
        raise Interrupted(folder.path, found.state.generation, flags=code_flags(resolved.run))
    if state is not None and len(archive) == known:
        progress.note(nothing_left(resolved.run, found.state.finished, folder.path), quiet)
    return Result(problem, found.summary, found.mapping, folder.path)
