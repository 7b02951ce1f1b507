"""`egrl run` as a function: it builds a run from names, files or objects, and searches in memory or in a run folder."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from egrl.core.contracts import BUDGETS, REQUESTS, Budget
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, serves_all
from egrl.measure.config import EvaluatorConfig, Function
from egrl.measure.config import name_of as name_of_evaluator
from egrl.methods import METHODS
from egrl.problems import build_problem, find_problem, with_baseline_of
from egrl.runs import folder as run_folder
from egrl.runs import progress
from egrl.runs.conduct import OnGeneration, conduct
from egrl.runs.config import AUTO, DEFAULT, RunOptions, resolve, words_of_requests
from egrl.runs.run import Run, prepare, reopen
from egrl.runs.text import clock_text, counted
from hwsim.paired import confirmable
from hwsim.problem import About
from hwsim.space import Space
from workloads.errors import InputError, Notice
from workloads.plugins import NoSettings
from workloads.text import one_of

if TYPE_CHECKING:
    from egrl.measure.board_executor import BoardExecutor
    from egrl.runs.past_run import Result

MethodLike = str | MethodDefinition | Callable[[Context], Method] | Any
"""A name, a definition, the settings of a registered method, or a function from a Context to a Method."""
OPTIONS = frozenset(entry.name for entry in fields(RunOptions)) - {"workload", "method", "chip", "evaluator"}
"""Names of the keyword options of `search` beyond its own arguments."""


def search(
    workload: Any = "",
    *,
    method: MethodLike = "",
    chip: Any = "",
    out: str | Path | bool | None = None,
    resume: str | Path | None = None,
    new_board: bool = False,
    settings: Sequence[str] = (),
    preset: str = "",
    quiet: bool = True,
    evaluator: str | Function | None = None,
    on_generation: OnGeneration | None = None,
    **options: Any,
) -> Result:
    """Search for the best mapping of a workload, in memory or leaving a run folder: `egrl run` as a function.

    Args:
        workload: str, a name of `egrl list workloads`, or a workload file (.json); a Workload, a Program; or a Problem,
            which is then searched as it is. Required unless `resume` is given.
        method: str, a name of `egrl list methods` or MODULE:NAME; the settings of a method, such as `EaConfig(…)`; a
            MethodDefinition; or a function from a Context to a Method. Default "": "auto" if neither a budget nor an
            evaluator is given, else the problem's own default (nnpi, mcm: egrl; mmap: revise; plug-ins: theirs, or
            annealing).
        chip: str, a name of `egrl list chips`, or a chip file (.toml); a Chip or a Package; default "": the problem's
            first.
        out: path of the run folder, new or empty; True: `runs/<workload>-<method>-s<seed>-<n>`, as `egrl run` does;
            default: none, the search is in memory and leaves nothing.
        resume: path of a run folder to continue, instead of a workload; default: none. Allowed with it: a larger
            budget of the kind that the run has (gens, evals or seconds; requests to a board), workers, executor,
            ray_address, checkpoint_seconds, until_gap and evaluator. Required with it: method and problem if they are
            MODULE:NAME, and the evaluator if the run has one, which must measure the baseline as before.
        new_board: bool, with `resume`: another board measures. What the old one measured is put aside, and the run
            begins anew at its best mapping; default False.
        settings: list of str, what `--set` takes, e.g. ["problem.invalid=penalise"]; default: none.
        preset: "paper" for the paper's values; default "": the package's.
        quiet: bool, nothing on stderr; default True. False shows the progress.
        on_generation: called after each generation with its row of metrics, a dict; a true result ends the search.
        evaluator: measures instead of the model: str, a command that speaks JSON lines, or a function from the rows of
            a mapping, [{"node": name, head: choice, …}, …], to seconds (docs/guides/boards.md); default: none.
            `workers` is then the number of commands, or of threads that call the function.
        options: the other flags of `egrl run` by name (`seed=1, gens=50, until_gap=0.005`), which `egrl.RunOptions`
            describes; None means the default.

    Returns:
        A Result: `.speedup` (over the baseline's mapping), `.mapping` (int16 [N, H]), `.names`,
        `.cost`, `.bound`, `.gap`, `.history`, `.summary`, `.folder`, `.problem`.

    Example:
        >>> import egrl
        >>> result = egrl.search("alexnet", method="annealing", evals=200)
        >>> result.names[0]
        {'node': 'conv1', 'weight': 'sram', 'activation': 'llc'}

    Raises:
        InputError: an argument, a file or the run folder is wrong.
        RunFailure: the disk, a worker or the evaluator failed.
        Interrupted: the user pressed Ctrl-C; the run can be resumed. (A search in memory returns what it has found.)
    """
    given = options_of(options, OPTIONS, workload, method, chip)
    if evaluator is not None:
        given["evaluator"] = name_of_evaluator(evaluator)
    function = None if isinstance(evaluator, str) else evaluator
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.compiling(quiet))
        if resume is not None:
            from egrl.runs.resume import check_only

            check_only({"out": out, "preset": preset, **given})
            run = reopen(resume, given, stack, tuple(settings or ()), new_board=new_board)
            return _resume_search(run, function, quiet, on_generation, stack)
        if new_board:
            raise InputError("--new-board: expected --resume RUN, found none")
        if not (preset or on_generation or is_problem(workload)) and _is_left_open(given, settings):
            given["method"] = AUTO
        kept = out is not None and out is not False
        run = new_run(given, workload, method, chip, settings, preset, kept)
        boards = _boards(run, function, stack)
        if boards is not None:
            measure_baseline(run, boards, given, quiet)
        if kept:
            run.keep(out, stack)
        say_chosen(given, workload, run)
        for remark in filter(None, (_chip_taken(given, workload, run), *_remarks(run.problem.about))):
            progress.note(remark, quiet)
        if boards is not None and run.folder is not None:
            boards.attach(run.folder.path)
        return conduct(run, boards, quiet, on_generation)


def _resume_search(
    run: Run,
    function: Function | None,
    quiet: bool,
    on_generation: OnGeneration | None,
    stack: contextlib.ExitStack,
) -> Result:
    """Go on with a run that was reopened."""
    boards = _boards(run, function, stack)
    run.restore()
    if boards is not None:
        if (before := _named_before(run, quiet)) is not None:
            return before
        assert run.folder is not None
        boards.attach(run.folder.path)
        boards.measure_baseline()  # after `attach`: the folder has what it was
    run.write_config()
    return conduct(run, boards, quiet, on_generation)


SEARCHES = frozenset(
    {"method", "gens", "evals", "seconds", "requests", "generation_evals", "evaluator", "start", "init"}
    | {"workers", "executor", "ray_address", "device"}
)
"""Options that ask for a search. If none of them is given, a problem's model is solved, which takes less time."""


def _is_left_open(given: Mapping[str, Any], settings: Sequence[str] | None) -> bool:
    """True if no option says how to search, and the problem has a model that can be solved."""
    asked = SEARCHES & given.keys() or any(text.strip().startswith("method.") for text in settings or ())
    return not asked and find_problem(str(given.get("problem", RunOptions.problem))).modelled is not None


def new_run(
    given: Mapping[str, Any],
    workload: Any,
    method: MethodLike,
    chip: Any,
    settings: Sequence[str] | None,
    preset: str,
    kept: bool,
) -> Run:
    """A new run; `given` is the result of `options_of`. InputError if something is wrong.

    `kept`: True if it will have a run folder, which needs method and problem by name.
    """
    meant, built = method_of(method), is_problem(workload)
    config = resolve(given, settings or (), preset, meant.definition, built, meant.config)
    if kept and (meant.definition is not None or built):
        raise InputError(
            "out: expected method and problem by name, so that the run can go on; found an object"
        )
    run, names = config.run, str | os.PathLike | None
    if built:
        problem = with_baseline_of(workload, run.baseline)
    else:
        on = run.chip if isinstance(chip, names) else chip
        what = run.workload if isinstance(workload, names) else workload
        problem = build_problem(run.problem, what, on, config.problem, run.baseline)
    return prepare(config, problem, meant.definition)


def measure_baseline(run: Run, boards: BoardExecutor, given: Mapping[str, Any], quiet: bool) -> None:
    """Measure the baseline of a new run, and say how long the budget takes, which is ours where none is `given`."""
    options = run.config.run
    if options.evals is not None and not set(given).intersection((*BUDGETS, REQUESTS)):
        budget = words_of_requests(DEFAULT, options.evals, options.method)
        progress.note(f"no budget is given: {budget}", quiet)
    progress.note(f"measuring the baseline with {options.evaluator}", quiet)
    boards.measure_baseline(lambda seconds: say_time(run, seconds, quiet))
    say_confirmable(boards.config, boards.noise, quiet)


def say_confirmable(config: EvaluatorConfig, noise: float, quiet: bool) -> None:
    """Note how small a gain the comparison at the end can tell from none, under the noise of the baseline."""
    if noise and config.contenders:
        least = confirmable(noise, config.comparisons)
        times = counted(config.comparisons, "time")
        progress.note(
            f"the noise is {noise:.2%}: the best and the baseline, measured {times} each at the end, are told apart by"
            f" {least:.2%} or more",
            quiet,
        )


def say_time(run: Run, request_s: float, quiet: bool) -> None:
    """Note how long the budget takes on the boards, from the seconds of one request."""
    options = run.config.run
    evaluations = Budget.of(options.budget(), options.generation_evals).evaluations
    if evaluations is not None:
        least_s = evaluations * request_s / options.workers
        least = f"{clock_text(least_s)} at least" if least_s >= 1 else "less than a second"
        what = counted(evaluations, "evaluation")
        progress.note(f"a request takes {request_s:.2g} s: {what} take {least}", quiet)


def _remarks(about: About) -> tuple[str, str]:
    """What a problem says once, before the search."""
    return about.widths, about.uncounted


def _chip_taken(given: Mapping[str, Any], workload: Any, run: Run) -> str:
    """Which chip costs are of, where a file of the user's comes without one; "" where a chip was given, or none is."""
    own = isinstance(workload, str | os.PathLike) and Path(workload).is_file()
    if not own or given.get("chip") or not run.config.run.chip:
        return ""
    return f"no --chip is given: costs are those of {run.config.run.chip}; `egrl chip new` makes a file of your own"


def say_chosen(given: Mapping[str, Any], workload: Any, run: Run) -> None:
    """If `auto` chose the method, a `Notice` with the method and the reason."""
    if given.get("method") == AUTO and not is_problem(workload):
        options = run.config.run
        taken = find_problem(options.problem).choose(bool(options.evaluator))
        warnings.warn(Notice(f"--method auto: {taken.method}, since {taken.reason}"), stacklevel=3)


def _boards(run: Run, function: Function | None, stack: contextlib.ExitStack) -> BoardExecutor | None:
    """The boards of the evaluator, closed with the stack; None if the model measures."""
    options = run.config.run
    if not options.evaluator:
        return None
    from egrl.measure.evaluator import board_executor

    boards = board_executor(run.problem, options.evaluator, options.workers, run.config.evaluator, function)
    return stack.enter_context(contextlib.closing(boards))


def _named_before(run: Run, quiet: bool) -> Result | None:
    """The result of a run that boards have measured to its end; None if something is left to do."""
    assert run.folder is not None
    assert run.state is not None
    path, options = run.folder.path, run.config.run
    from egrl.runs.summary import BUDGET, METHOD, named_before

    summary = named_before(path, len(run.context.archive), options.budget())
    if summary is None:
        return None
    from egrl.core import mapping_file
    from egrl.runs.past_run import Result
    from egrl.runs.resume import nothing_left

    progress.note(nothing_left(run.config, METHOD if run.state.finished else BUDGET, path), quiet)
    best = mapping_file.read(str(path / run_folder.BEST), run.problem) if summary.get("best") else None
    return Result(run.problem, summary, best, path)


# ---- objects instead of names


@dataclass(frozen=True)
class GivenMethod:
    """A method that a caller gives, in any of its forms.

    Attributes:
        name: the name that is shown; of a registered method the one that `--method` takes.
        definition: None for a registered method.
        config: its settings, if they are given as an object; else None.
    """

    name: str
    definition: MethodDefinition | None = None
    config: Any = None


def method_of(given: MethodLike) -> GivenMethod:
    """The method that is given. InputError if it is none."""
    if given is None or isinstance(given, str):
        return GivenMethod(given or "")
    if isinstance(given, MethodDefinition):
        known = next((name for name, entry in METHODS.items() if entry.load() is given), None)
        return GivenMethod(known or "given", None if known else given)
    if is_dataclass(given) and not isinstance(given, type):
        for name, entry in METHODS.items():
            if entry.load().config is type(given):
                return GivenMethod(name, config=given)
    elif callable(given):
        build = cast(Callable[[Context], Method], given)
        made = MethodDefinition(NoSettings, lambda context, config: build(context), serves_all, {})
        return GivenMethod(getattr(given, "__name__", "given"), made, NoSettings())
    raise InputError(
        "method: expected a name, a MethodDefinition, the settings of a method or a function of a Context, found"
        f" {given!r}"
    )


def is_problem(given: Any) -> bool:
    """True for a problem; False for a name, a file, a workload or a program."""
    return isinstance(getattr(given, "about", None), About) and isinstance(
        getattr(given, "space", None), Space
    )


def name_of(given: Any, what: str) -> str:
    """The text for `RunOptions` of a workload or a chip: its name or path, or an object's own name; "" for None.

    InputError if it has no name.
    """
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    name = given.about.workload if is_problem(given) else getattr(given, "name", None)
    if not isinstance(name, str) and given is not None:
        raise InputError(f"{what}: expected a name, a path or an object with a name, found {given!r}")
    return name or ""


def options_of(
    options: Mapping[str, Any], known: Collection[str], workload: Any, method: MethodLike, chip: Any
) -> dict[str, Any]:
    """The options that are given, by the names of `RunOptions`, without None and "". Paths and objects become texts.

    InputError if an option is not among those `known`.
    """
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"option: {one_of(unknown[0], known)}")
    given = {name: _plain(name, value) for name, value in options.items() if value is not None}
    names = {
        "workload": name_of(workload, "workload"),
        "method": method_of(method).name,
        "chip": name_of(chip, "chip"),
    }
    if is_problem(workload):
        given["problem"], names["chip"] = workload.about.name, workload.about.chip
    return given | {name: value for name, value in names.items() if value}


def _plain(name: str, value: Any) -> Any:
    """A path, or a gap that is a number, as a text; anything else unchanged, since its type is checked later."""
    if name == "until_gap" and isinstance(value, int | float):
        return str(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value
