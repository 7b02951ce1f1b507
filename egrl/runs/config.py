"""One typed configuration of a run: the flags of `egrl run`, the keys of config.toml and the options of `egrl.search`.

`RunOptions` states each flag once: its type, limits, meaning and default. Problems and methods bring dataclasses of
their own, the tables [problem] and [method], which `--set problem.key=value` reaches.

A budget in requests to boards: how many mappings it allows, and how often the best are measured again.

    requests = the baseline, before anything else + one request per evaluation + one per generation, which measures
               the best again + naming the best, at the end

Deviation from what boards are otherwise asked: no mapping is measured again during the search, and a fifth of the
requests names the best. What fails and is tried again comes on top; what comes again is not asked again.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, Predicate
from typing_extensions import Doc

from egrl.core import typed_tables
from egrl.core.contracts import BUDGETS, DEFAULT_GENERATIONS, GENERATION, Budget
from egrl.core.registry import MethodDefinition
from egrl.measure.config import BASELINE_SAMPLES, PATIENCE, EvaluatorConfig
from egrl.methods import find_method
from egrl.problems import find_problem, own_baseline
from hwsim.keys import MOST_SEED
from workloads.errors import InputError, Notice
from workloads.files import parse_toml, read_text
from workloads.text import one_of

VERSION = 1
EXECUTORS = ("local", "ray")
MOST_WORKERS = 1024
"""Processes, or threads, of a run."""
MOST_GENERATION = 10**9
DEFAULT_METHOD = "egrl"
NEVER = "never"
"""The gap of a run that goes on at a proven optimum, too."""
AUTO = "auto"
"""The method that is chosen by what is searched."""

PRINTABLE = Predicate(str.isprintable)


@dataclass(frozen=True)
class RunOptions:
    """What to run. At most one of gens, evals, seconds and requests; none: 200 generations, or what `auto` takes.

    A resolved run has evals instead of requests.
    """

    workload: Annotated[
        str,
        PRINTABLE,
        Doc("a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2; programs: .json.xz)"),
    ] = ""
    problem: Annotated[str, Doc("what a mapping costs; see `egrl list problems`, or MODULE:NAME")] = "nnpi"
    method: Annotated[
        str,
        Doc(
            "how to search: auto, a name of `egrl list methods`, or MODULE:NAME [auto without a budget or a board;"
            " else egrl; mmap: revise; plug-ins: their own, or annealing]"
        ),
    ] = ""
    chip: Annotated[
        str, PRINTABLE, Doc("a chip of `egrl list chips`, or a chip file (.toml); default: the problem's own")
    ] = ""
    gens: Annotated[int | None, Doc(f"stop after this many generations (default {DEFAULT_GENERATIONS})")] = (
        None
    )
    evals: Annotated[int | None, Doc("stop after exactly this many evaluations")] = None
    seconds: Annotated[float | None, Doc("start no measurement after this many seconds of searching")] = None
    requests: Annotated[
        int | None,
        Doc(
            "budget in requests to --evaluator, including those for the baseline and for measuring the best again; it"
            " sets --evals to fit"
        ),
    ] = None
    generation_evals: Annotated[
        int, Ge(1), Le(MOST_GENERATION), Doc("evaluations per generation: how often metrics are written")
    ] = GENERATION
    seed: Annotated[int, Ge(0), Le(MOST_SEED), Doc("seed of everything random")] = 0
    workers: Annotated[
        int, Ge(1), Le(MOST_WORKERS), Doc("processes that measure; never changes a result")
    ] = 1
    evaluator: Annotated[
        str,
        PRINTABLE,
        Doc(
            "measure with this command (a board behind a script) instead of the model; see docs/guides/boards.md"
        ),
    ] = ""
    executor: Annotated[
        str, Doc("where to measure: local, or ray (many machines); never changes a result")
    ] = "local"
    ray_address: Annotated[
        str,
        PRINTABLE,
        Doc("the Ray cluster: auto, or HOST:PORT; default: a local cluster with --workers CPUs is started"),
    ] = ""
    start: Annotated[
        str,
        PRINTABLE,
        Doc(
            "begin with: cold, compiler, rules (the best of all rules, each measured), policy (as `egrl place"
            " --no-model`), exact, or a mapping FILE [compiler; cold with --preset paper]"
        ),
    ] = ""
    baseline: Annotated[
        str,
        PRINTABLE,
        Doc(
            "mapping FILE that speedups are relative to, such as your compiler's, or learned: what a trained rule"
            " places, or what problem.baseline takes; default: the problem's own baseline"
        ),
    ] = ""
    init: Annotated[
        str,
        PRINTABLE,
        Doc(
            "begin with this saved policy (RUN/policies/….safetensors), or with the one that ships (shipped)"
        ),
    ] = ""
    threads: Annotated[
        int,
        Ge(1),
        Le(MOST_WORKERS),
        Doc("threads that a learner computes with; another number may give another result"),
    ] = 1
    device: Annotated[
        str,
        PRINTABLE,
        Doc("where the networks are evaluated: cpu, or cuda with a GPU and a CUDA build of PyTorch"),
    ] = "cpu"
    bound_seconds: Annotated[
        float, Ge(0), Doc("seconds to spend on proving a bound at the end where none is known (0: none)")
    ] = 10.0
    until_gap: Annotated[
        str,
        PRINTABLE,
        Doc(
            "stop when the best is within this share (0.5% or 0.005) of a bound, which a second process proves;"
            " default: stop only at an optimum that is proven at the start; never: not even there"
        ),
    ] = ""
    exact_seconds: Annotated[float, Gt(0), Doc("time limit of the solve for --start exact")] = 30.0
    checkpoint_seconds: Annotated[
        float, Ge(0), Doc("write a checkpoint when this long has passed since the last")
    ] = 20.0

    def budget(self) -> dict[str, float]:
        """The limits that are set: name of the flag -> its value."""
        return {k: value for k in BUDGETS if (value := getattr(self, k)) is not None}


SEARCH_OPTIONS = (
    "problem",
    "generation_evals",
    "seed",
    "start",
    "baseline",
    "init",
    "threads",
    "device",
    "exact_seconds",
    "checkpoint_seconds",
)
"""Options of `egrl.Search`, whose caller measures: those that say what is searched, and how."""


@dataclass(frozen=True)
class RunConfig:
    """A fully resolved run: options, and the problem's, the method's and the evaluator's own settings."""

    run: RunOptions
    problem: Any
    method: Any
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)


def resolve(
    given: Mapping[str, Any],
    settings: Sequence[str] = (),
    preset: str = "",
    definition: MethodDefinition | None = None,
    built: bool = False,
    method_settings: Any = None,
) -> RunConfig:
    """Options by name, preset and `--set` settings as one typed config: here all of them are checked, once.

    `definition` is the method, unless it is a registered one. `built`: the problem is an object, and has its settings.
    `method_settings`: an object with those of the method, instead of its defaults.

    InputError if something is wrong.
    """
    options = typed_tables.build(RunOptions, given, typed_tables.FLAGS)
    entry = None if built else find_problem(options.problem)
    taken = entry.choose(bool(options.evaluator)) if entry and options.method == AUTO else None
    if taken or options.method in ("", AUTO):
        own = taken.method if taken else entry.method if entry else DEFAULT_METHOD
        options = replace(options, method=own)
    method = definition or find_method(options.method)
    problem = entry.load() if entry else None
    if preset not in ("", "paper"):
        raise InputError(f"--preset: expected paper, found {preset!r}")
    tables = typed_tables.parse_set(settings)
    options, evaluator = _measuring(options, tables["evaluator"])
    paper = preset == "paper"
    if not options.chip and problem is not None:
        options = replace(options, chip=problem.chips()[0])
    if tables["problem"] and problem is None:
        raise InputError("--set problem: expected no settings of a problem that is an object, found some")
    if not options.start:
        options = replace(options, start="cold" if paper else "compiler")
    check_options(options)
    first, where = (method.paper if paper else {}), "--set method"
    if method_settings is not None:
        first, where = typed_tables.dotted_keys(typed_tables.plain_table(method_settings)), "method"
    settings_of_problem: Any = None
    if problem is not None:
        table = (problem.paper if paper else {}) | tables["problem"]
        settings_of_problem, baseline = own_baseline(
            typed_tables.build(problem.config, table, "--set problem"), options.baseline
        )
        options = replace(options, baseline=baseline)
    resolved = RunConfig(
        options,
        settings_of_problem,
        typed_tables.build(method.config, first | tables["method"], where),
        evaluator,
    )
    typed_tables.check_code(resolved.method)
    return resolved


def _measuring(options: RunOptions, settings: dict[str, Any]) -> tuple[RunOptions, EvaluatorConfig]:
    """The options, with a budget in requests as one in evaluations, and the settings of the evaluator."""
    if settings and not options.evaluator:
        raise InputError(f"--set evaluator.{next(iter(settings))}: expected --evaluator, found none")
    limited = options.requests is not None or options.budget() or "repeats" in settings
    unlimited = bool(options.evaluator) and not limited
    if unlimited:
        options = replace(options, requests=DEFAULT)
    counted = settings_of_requests(options.requests) if options.requests is not None else {}
    evaluator = typed_tables.build(EvaluatorConfig, counted | settings, "--set evaluator")
    if options.requests is None:
        return options, evaluator
    evals = _in_evaluations(options, evaluator)
    if not unlimited:  # else whoever begins the search says so, once there is a board
        warnings.warn(Notice(words_of_requests(options.requests, evals, options.method)), stacklevel=3)
    return replace(options, evals=evals, requests=None), evaluator


def _in_evaluations(options: RunOptions, evaluator: EvaluatorConfig) -> int:
    """The evaluations of a budget in requests. InputError where it cannot be one."""
    assert options.requests is not None
    if not options.evaluator:
        raise InputError(f"--requests {options.requests}: expected --evaluator, found none")
    if limits := options.budget():
        raise InputError(f"--requests: expected no other budget, found --{next(iter(limits))}")
    return evaluations_of_requests(options.requests, evaluator, options.generation_evals)


# ---- what a type cannot say


def share_of(until_gap: str) -> float | None:
    """The share that `--until-gap` means, 0 where it is not given, None for `NEVER`. InputError where it is none."""
    if until_gap in ("", NEVER):
        return None if until_gap else 0.0
    number, percent = until_gap.removesuffix("%"), until_gap.endswith("%")
    with contextlib.suppress(ValueError):
        share = float(number) / (100 if percent else 1)
        if 0 <= share < 1:
            return share
    raise InputError(
        f"--until-gap: expected a share below 1, 0.5% or 0.005 say, or never; found {until_gap!r}"
    )


def check_options(options: RunOptions) -> None:
    """InputError that names the flag, what was expected and what was found, if options do not fit together."""
    Budget.of(options.budget())
    if not options.workload:
        raise InputError(f"--workload: expected {find_problem(options.problem).workloads}, found none")
    _check_executor(options)
    if share_of(options.until_gap) is not None and options.until_gap and options.evaluator:
        raise InputError(
            f"--until-gap {options.until_gap}: expected no --evaluator: a bound is the chip's model's, and says"
            " nothing of what a board measures"
        )


def _check_executor(options: RunOptions) -> None:
    if options.executor not in EXECUTORS:
        raise InputError(f"--executor: {one_of(options.executor, EXECUTORS)}")
    if options.executor != "local" and options.evaluator:
        raise InputError("--executor ray: expected no --evaluator: boards are spoken to from this machine")
    address = options.ray_address
    if address and options.executor != "ray":
        raise InputError(f"--ray-address {address}: expected --executor ray, found {options.executor}")
    host, colon, port = address.rpartition(":")
    known = host and colon and "/" not in host and port.isdecimal() and 0 < int(port) < 2**16
    if address and address != "auto" and not known:
        raise InputError(f"--ray-address: expected auto or HOST:PORT, found {address!r}")


# ---- config.toml


def to_toml(config: RunConfig) -> str:
    """The resolved config as config.toml holds it (unset limits are left out)."""
    import tomli_w

    tables = {name: typed_tables.plain_table(getattr(config, name)) for name in ("run", *typed_tables.TABLES)}
    return tomli_w.dumps({"kind": "config", "version": VERSION, **tables})


def read_folder(folder: Path) -> tuple[dict[str, dict[str, Any]], RunOptions]:
    """The tables of a run folder's config.toml, and its options. InputError where it is missing or damaged."""
    where = str(folder / "config.toml")
    tables = read_toml(read_text(where, "a config file"), where)
    return tables, typed_tables.build(RunOptions, tables["run"], f"{where}: run")


def read_toml(text: str, where: str) -> dict[str, dict[str, Any]]:
    """The tables [run], [problem], [method] and [evaluator] of a config.toml.

    InputError if it is malformed or of another version.
    """
    document = parse_toml(text, where)
    if document.get("kind") == "pretraining":
        raise InputError(
            f"{where}: expected a run, found a pre-training; `egrl pretrain` with its --out goes on"
        )
    if document.get("kind") != "config" or document.get("version") != VERSION:
        found = f"{document.get('kind')!r} version {document.get('version')!r}"
        raise InputError(f"{where}: expected kind 'config' version {VERSION}, found {found}")
    tables = {name: document.get(name, {}) for name in ("run", *typed_tables.TABLES)}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{where}: {name}: expected a table, found {table!r}")
    return tables


NAMING, LEAST_NAMING = 0.2, 5
"""Share of the requests that name the best and confirm its speedup, and how many these are at least; assumption: one in
five keeps a champion from being luck."""
RACE = 1 / 3
"""The share of these that the race of the contenders takes; the rest compares the winner with the baseline."""
MOST = EvaluatorConfig.contenders
"""Contenders, at most: as without a budget in requests."""
DEFAULT = 100
"""Requests to a board where no budget is given: minutes on most, where evaluations by the thousand would take days."""
FEW = 40
"""Below so many there are no two contenders: the best of the search is the one that is confirmed."""
LEARNING = ("egrl", "twin")
"""Methods that learn a model of the board, which takes measurements."""
COUNTED = ("repeats", "contenders", "rounds", "comparisons")
"""Settings of an evaluator that follow from how many requests there are."""


def settings_of_requests(requests: int) -> dict[str, Any]:
    """The settings of an evaluator by name, unless the user sets others.

    Few contenders in few rounds, so that most of the share is left to compare the winner with the baseline.
    """
    share = max(int(NAMING * requests), LEAST_NAMING)
    contenders = max(min(math.isqrt(share // 2), MOST), 1)
    rounds = max(int(RACE * share / contenders), 1)
    comparisons = (share - contenders * rounds) // 2
    return {"repeats": 1, "contenders": contenders, "rounds": rounds, "comparisons": comparisons}


def words_of_requests(requests: int, evaluations: int, method: str) -> str:
    """A budget in words: what of it goes where, and what is lost where it is below `FEW`."""
    others = requests - evaluations
    text = (
        f"--requests {requests}: {evaluations} evaluations; measuring the baseline, and the best again, takes at most"
        f" the other {others}"
    )
    if requests >= FEW:
        return text
    model = f", and the model of the board that {method} learns has little data" if method in LEARNING else ""
    return f"{text}; with fewer than {FEW} the best is chosen by one measurement of each mapping{model}"


def _naming(config: EvaluatorConfig) -> int:
    """Requests that name the best, at most: the contenders in turn, then the best of them and the baseline."""
    if config.exact or not config.contenders:
        return 0
    return config.contenders * config.rounds + 2 * config.comparisons


def evaluations_of_requests(requests: int, config: EvaluatorConfig, generation_evals: int) -> int:
    """Evaluations that leave enough of so many requests for everything else.

    InputError where there are none, or a mapping may be measured more than once.
    """
    if config.repeats != 1:
        raise InputError(
            f"--set evaluator.repeats: expected 1 with --requests, which counts them, found {config.repeats}"
        )
    others = config.warmup + BASELINE_SAMPLES + _naming(config)
    if requests <= others:
        raise InputError(
            f"--requests: expected more than {others}, which measuring the baseline and confirming the best may need,"
            f" found {requests}"
        )
    left = requests - others
    # One after every whole generation but the last: the most n with n + (n - 1) // generation_evals <= left.
    return left - left // (generation_evals + 1) if config.confirm and not config.exact else left


RESUMABLE = (*BUDGETS, "workers", "executor", "ray_address", "checkpoint_seconds", "evaluator", "until_gap")
"""Options that may change when a run is resumed: a larger budget, and what changes no result."""
AT_THE_ENDS = ("bound_seconds", "exact_seconds")
"""Options of what comes before and after the search: the start is kept in the folder, the bound is proved anew."""


AT_THE_END = ("contenders", "rounds", "comparisons")
"""Settings of an evaluator that count what is measured at the end, which follow from a budget in requests."""


def fixed_settings(resolved: RunConfig) -> dict[str, Any]:
    """Dotted key of config.toml -> value, of all that may not change when the run is resumed."""
    free = {f"run.{name}" for name in (*RESUMABLE, *AT_THE_ENDS)}
    free |= {f"evaluator.{name}" for name in (*PATIENCE, *AT_THE_END)}
    return {
        key: value
        for key, value in typed_tables.dotted_keys(typed_tables.plain_table(resolved)).items()
        if key not in free
    }
