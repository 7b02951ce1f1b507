"""The run command as a function: resolve what is given, build, search; in memory, or leaving a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from egrl.core import atomic, loop, typed_tables
from egrl.core.recorder import Memory
from egrl.core.state import SearchState
from egrl.core.stopping import Interrupted
from egrl.measure import records as measurements
from egrl.measure.evaluator import Function, board_executor
from egrl.measure.evaluator import name_of as name_of_evaluator
from egrl.result import Result
from egrl.runs import checkpoint, config, progress
from egrl.runs import folder as run_folder
from egrl.runs.conduct import OnGeneration, conduct
from egrl.runs.config import Options, RunConfig, RunOptions, describe_options
from egrl.runs.new_folder import default_folder
from egrl.runs.past import with_own_inputs
from egrl.runs.prepare import Prepared, build_problem, copies_of, prepare
from egrl.runs.resolve import resolve, resolve_again
from egrl.runs.resume import check_only, code_flags, fixed_settings, nothing_left
from egrl.subjects import GivenMethod, MethodLike, is_problem, method_of, name_of, object_of
from hwsim.problem import Problem
from workloads.errors import InputError
from workloads.nearest import one_of

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
            (fft: tag).
        chip: str, a name of `egrl list chips`, or a chip file (.toml); a Chip or a Package; default "": the problem's
            first.
        out: path of the run folder, new or empty; True: `runs/<workload>-<method>-s<seed>-<n>`, as `egrl run` does;
            default: none, the search is in memory and leaves nothing.
        resume: path of a run folder to go on with, instead of a workload; default: none. Only gens, evals or seconds
            (whichever the run has, and no smaller), workers, executor, ray_address, checkpoint_seconds and evaluator
            may be given with it; method and problem must be, where they are MODULE:NAME.
        settings: list of str, what `--set` takes, e.g. ["method.alpha=0.1", "problem.invalid=penalise"]; default: none.
        preset: "paper" for the paper's values; default "": the package's.
        quiet: bool, nothing on stderr; default True. False shows the progress.
        on_generation: is called with the row of metrics of each generation, a dict; the search stops where it returns
            something true.
        evaluator: what measures instead of the model: str, a command that speaks JSON lines, or a function of the
            rows of a mapping, [{"node": name, head: choice, …}, …], that returns seconds (docs/evaluators.md);
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
    unknown = sorted(set(options) - set(_option_names()))
    if unknown:
        raise InputError(f"option: {one_of(unknown[0], _option_names())}")
    given = {k: _plain(v) for k, v in options.items() if v is not None}
    if evaluator is not None:
        given["evaluator"] = name_of_evaluator(evaluator)
    function = None if isinstance(evaluator, str) else evaluator
    meant = method_of("" if method is None else method)
    given |= {k: v for k, v in (("method", meant.name), ("chip", name_of(chip or "", "chip"))) if v}
    name = name_of("" if workload is None else workload, "workload")
    if resume is not None:
        check_only({"workload": name, "out": out, "set": tuple(settings or ()), "preset": preset, **given})
        typed_tables.build(RunOptions, given, "options")
        return _resume(_path(resume, "--resume"), given, function, quiet, on_generation)
    if is_problem(workload):
        given["problem"] = workload.about.name
        given["chip"] = workload.about.chip
    chosen = typed_tables.build(RunOptions, {"workload": name, **given}, "options")
    resolved = _resolved(chosen, meant, settings or (), preset, workload)
    out = None if out is False else out
    if out is not None and (meant.definition is not None or is_problem(workload)):
        raise InputError(
            "out: expected method and problem by name, so that the run can go on; found an object"
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.compiling(quiet))
        problem = (
            workload
            if is_problem(workload)
            else build_problem(resolved, object_of(workload), object_of(chip))
        )
        prepared = prepare(resolved, problem, meant.definition)
        boards = _boards(resolved, problem, function, stack)
        if boards is not None:
            progress.note(f"measuring the baseline with {resolved.run.evaluator}", quiet)
            boards.measure_baseline()
        if out is None:
            memory = Memory()
            found = conduct(resolved, prepared, memory, None, boards, quiet, on_generation)
            return Result(problem, found.summary, found.mapping, None, memory.rows)
        path = (
            default_folder(problem.about.workload, resolved.run.method, resolved.run.seed)
            if out is True
            else _path(out, "--out")
        )
        folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.create(path)))
        folder.write_inputs(
            config.to_toml(resolved), [problem], copies_of(resolved.run, problem, prepared.context.start[0])
        )
        if boards is not None:
            boards.attach(path)
        folder.settings = fixed_settings(resolved)
        return _run(resolved, folder, prepared, None, boards, quiet, on_generation)


search.__doc__ = f"{search.__doc__}    {describe_options(8)}"  # stated once, with the flags


def _resolved(
    options: RunOptions, method: GivenMethod, settings: Sequence[str], preset: str, workload: Any
) -> RunConfig:
    """The typed configuration of a run."""
    resolved = resolve(options, settings, preset, method.definition, is_problem(workload))
    return resolved if method.config is None else replace(resolved, method=method.config)


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


def _resume(
    path: Path,
    given: Mapping[str, Any],
    function: Function | None,
    quiet: bool,
    on_generation: OnGeneration | None,
) -> Result:
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
        return _run(resolved, folder, prepared, state, boards, quiet, on_generation)


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
