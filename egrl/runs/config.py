"""One typed configuration: the flags of `egrl run`, the keys of config.toml and the arguments of egrl.search.

`RunOptions` states each flag once (type, default, help). Problems and methods bring dataclasses of their own,
the tables [problem] and [method], which `--set problem.key=value` reaches; a key of a nested table may be
named alone where it is unique: `--set method.alpha=0.1`.
"""

from __future__ import annotations

import math
import os
import textwrap
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from egrl.core.budget import BUDGETS, DEFAULT_GENERATIONS, GENERATION, Budget
from egrl.core.keys import MOST_SEED
from egrl.core.typed_tables import TABLES, plain_table
from egrl.measure.config import EvaluatorConfig
from egrl.problems import find_problem
from workloads.errors import InputError
from workloads.files import parse_toml
from workloads.nearest import one_of

VERSION = 1
EXECUTORS = ("local", "ray")
MOST_WORKERS = 1024
"""Processes, or threads, of a run."""
MOST_GENERATION = 10**9
BUDGET_HELP = {
    "gens": "stop after this many generations",
    "evals": "stop after exactly this many evaluations",
    "seconds": "start no measurement after this many seconds of searching",
    "requests": "ask --evaluator at most so often, the baseline and naming the best included: --evals and settings"
    " of the evaluator that fit",
}
"""What limits a search, for people."""


def _flag(default: Any, help_: str) -> Any:
    return field(default=default, metadata={"help": help_})


@dataclass(frozen=True)
class RunOptions:
    """What to run. At most one of gens, evals, seconds and requests; none: 200 generations.

    A resolved run has evals instead of requests.
    """

    workload: str = _flag(
        "", "a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2; programs: .hlo, .json.xz)"
    )
    problem: str = _flag("nnpi", "what a mapping costs; see `egrl list problems`, or MODULE:NAME")
    method: str = _flag(
        "",
        "how to search: auto, MODULE:NAME, or of `egrl list methods` [the problem's own: egrl; mmap: revise; fft: tag;"
        " shard: exact]",
    )
    chip: str = _flag("", "a chip of `egrl list chips`, or a chip file (.toml); default: the problem's own")
    gens: int | None = _flag(None, f"{BUDGET_HELP['gens']} (default {DEFAULT_GENERATIONS})")
    evals: int | None = _flag(None, BUDGET_HELP["evals"])
    seconds: float | None = _flag(None, BUDGET_HELP["seconds"])
    requests: int | None = _flag(None, BUDGET_HELP["requests"])
    generation_evals: int = _flag(GENERATION, "evaluations a generation: how often metrics are written")
    seed: int = _flag(0, "seed of everything random")
    workers: int = _flag(1, "processes that measure; never changes a result")
    evaluator: str = _flag(
        "",
        "measure with this command (a board behind a script) instead of the model; see docs/guides/boards.md",
    )
    executor: str = _flag("local", "where to measure: local, or ray (many machines); never changes a result")
    ray_address: str = _flag(
        "", "the Ray cluster: auto, or HOST:PORT; default: one of --workers CPUs is started on this machine"
    )
    start: str = _flag(
        "", "begin with: cold, compiler, exact, or a mapping FILE [compiler; cold with --preset paper]"
    )
    init: str = _flag("", "begin with this saved policy (RUN/policies/….safetensors)")
    threads: int = _flag(1, "threads of a learner's tensor operations (part of what makes runs equal)")
    device: str = _flag(
        "cpu", "where the networks are evaluated: cpu, or cuda with a GPU and a CUDA build of PyTorch"
    )
    bound_seconds: float = _flag(
        10.0, "seconds to spend on proving a bound at the end where none is known (0: none)"
    )
    exact_seconds: float = _flag(30.0, "time limit of the solve for --start exact")
    checkpoint_seconds: float = _flag(20.0, "write a checkpoint when this long has passed since the last")

    def budget(self) -> dict[str, float]:
        """The limits that are set: name of the flag -> its value."""
        return {k: value for k in BUDGETS if (value := getattr(self, k)) is not None}


class SearchOptions(TypedDict, total=False):
    """Options of `egrl.Search` as keywords: those of `RunOptions` that say what is searched, and how."""

    problem: str | None
    generation_evals: int | None
    seed: int | None
    start: str | os.PathLike[str] | None
    init: str | os.PathLike[str] | None
    threads: int | None
    device: str | None
    exact_seconds: float | None
    checkpoint_seconds: float | None


class Options(SearchOptions, total=False):
    """Options of `egrl.search` as keywords: those of `RunOptions` that are no arguments of their own."""

    gens: int | None
    evals: int | None
    seconds: float | None
    requests: int | None
    workers: int | None
    executor: str | None
    ray_address: str | None
    bound_seconds: float | None


def describe_options(kind: type, indent: int) -> str:
    """A paragraph for each option of `kind`, as `RunOptions` states it: type, meaning, default."""
    lines = []
    for entry in fields(RunOptions):
        if entry.name in kind.__annotations__:
            name = str(entry.type).removesuffix(" | None")
            default = "none" if entry.default is None else repr(entry.default)
            text = f"{entry.name}: {name}, {entry.metadata['help']}; default: {default}."
            lines.append(
                textwrap.fill(text, 110, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4))
            )
    return "\n".join(lines).lstrip() + "\n"


@dataclass(frozen=True)
class RunConfig:
    """A fully resolved run: options, and the problem's, the method's and the evaluator's own settings."""

    run: RunOptions
    problem: Any
    method: Any
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)


def check_options(options: RunOptions) -> RunOptions:
    """The options, or InputError naming the flag, what was expected and what was found."""
    Budget.of(options.budget())
    if not options.workload:
        raise InputError(f"--workload: expected {find_problem(options.problem).workloads}, found none")
    for name, least, most in (
        ("seed", 0, MOST_SEED),
        ("generation_evals", 1, MOST_GENERATION),
        ("workers", 1, MOST_WORKERS),
        ("threads", 1, MOST_WORKERS),
    ):
        if not least <= getattr(options, name) <= most:
            expected = f"at least {least}" if getattr(options, name) < least else f"at most {most}"
            raise InputError(
                f"--{name.replace('_', '-')}: expected {expected}, found {getattr(options, name)}"
            )
    for name in ("checkpoint_seconds", "bound_seconds", "exact_seconds"):
        value = getattr(options, name)
        if not 0 <= value < math.inf or (name == "exact_seconds" and value == 0):
            raise InputError(
                f"--{name.replace('_', '-')}: expected a finite number of seconds, found {value}"
            )
    for name in ("workload", "chip", "start", "init", "device", "ray_address", "evaluator"):
        text = getattr(options, name)
        if not text.isprintable():
            flag = name.replace("_", "-")
            raise InputError(f"--{flag}: expected a name or path of printable UTF-8, found {text!r}")
    _check_executor(options)
    return options


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

    tables = {name: plain_table(getattr(config, name)) for name in ("run", *TABLES)}
    return tomli_w.dumps({"kind": "config", "version": VERSION, **tables})


def read_toml(text: str, where: str) -> dict[str, dict[str, Any]]:
    """The tables run and `TABLES` of a config.toml; InputError where it is malformed or of another version."""
    document = parse_toml(text, where)
    if document.get("kind") == "pretraining":
        raise InputError(
            f"{where}: expected a run, found a pre-training; `egrl pretrain` with its --out goes on"
        )
    if document.get("kind") != "config" or document.get("version") != VERSION:
        found = f"{document.get('kind')!r} version {document.get('version')!r}"
        raise InputError(f"{where}: expected kind 'config' version {VERSION}, found {found}")
    tables = {name: document.get(name, {}) for name in ("run", *TABLES)}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{where}: {name}: expected a table, found {table!r}")
    return tables
