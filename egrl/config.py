"""One typed configuration: the flags of `egrl run`, the keys of config.toml and the arguments of egrl.search.

`RunOptions` states each flag once (type, default, help). Problems and methods bring dataclasses of their own,
the tables [problem] and [method], which `--set problem.key=value` reaches; a key of a nested table may be
named alone where it is unique: `--set method.alpha=0.1`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Le

from egrl.keys import MOST_SEED
from egrl.problems import find
from egrl.types import GENERATION
from workloads.errors import InputError
from workloads.files import parse_toml

VERSION = 1
DEFAULT_GENERATIONS = 200
TABLES = ("problem", "method", "evaluator")
"""The tables that `--set` reaches."""
BUDGETS = ("gens", "evals", "seconds")
EXECUTORS = ("local", "ray")
MOST_LISTED = 4
"""Keys that a message lists."""
MOST_WORKERS = 1024
"""Processes, or threads, of a run."""
T = TypeVar("T")


def _flag(default: Any, help_: str) -> Any:
    return field(default=default, metadata={"help": help_})


@dataclass(frozen=True)
class RunOptions:
    """What to run. At most one of gens, evals and seconds; none: 200 generations."""

    workload: str = _flag(
        "", "a workload of `egrl list workloads`, or a file (.json, .onnx, .pt2; programs: .hlo, .json.xz)"
    )
    problem: str = _flag("nnpi", "what a mapping costs; see `egrl list problems`")
    method: str = _flag("", "how to search; see `egrl list methods` [the problem's own: egrl; fft: tag]")
    chip: str = _flag("", "a chip of `egrl list chips`, or a chip file (.toml); default: the problem's own")
    gens: int | None = _flag(
        None, f"stop after this many generations of {GENERATION} evaluations (default {DEFAULT_GENERATIONS})"
    )
    evals: int | None = _flag(None, "stop after the last whole generation within this many evaluations")
    seconds: float | None = _flag(
        None, "stop after the last whole generation within this many seconds of searching"
    )
    seed: int = _flag(0, "seed of everything random")
    workers: int = _flag(1, "processes that measure; never changes a result")
    evaluator: str = _flag(
        "", "measure with this command (a board behind a script) instead of the model; see docs/evaluators.md"
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


@dataclass(frozen=True)
class EvaluatorConfig:
    """How an evaluator is used: `--set evaluator.KEY=VALUE`. Nothing of it matters without `--evaluator`.

    Attributes:
        timeout_s: a request that takes longer is a time-out.
        start_timeout_s: allowed on top of it for the first request after a start.
        timeout_factor: nor may it take longer than so many times the request of the best mapping known …
        timeout_floor_s: … and this is allowed in any case.
        retries: further tries of a request that got no usable answer.
        restarts: tries to make a board that died or fell silent measure the baseline; then it is given up.
        warmup: first measurements of the baseline that are thrown away.
        repeats: a mapping that may be the best is measured up to so often, as the noise demands.
        width: half-width of the 95% interval, as a share of the latency, at which repeating ends.
        statistic: what a latency is of its samples.
        contenders: mappings within the noise of the best that are measured again, in turn, at the end (0: none).
        rounds: of that at most.
    """

    timeout_s: Annotated[float, Gt(0), Le(1e6)] = 60.0
    start_timeout_s: Annotated[float, Ge(0), Le(1e6)] = 60.0
    timeout_factor: Annotated[float, Gt(1), Le(1e6)] = 10.0
    timeout_floor_s: Annotated[float, Ge(0), Le(1e6)] = 1.0
    retries: Annotated[int, Ge(0), Le(100)] = 2
    restarts: Annotated[int, Ge(1), Le(100)] = 5
    warmup: Annotated[int, Ge(0), Le(1000)] = 1
    repeats: Annotated[int, Ge(1), Le(1000)] = 5
    width: Annotated[float, Gt(0), Le(1)] = 0.01
    statistic: Literal["median", "minimum"] = "median"
    contenders: Annotated[int, Ge(0), Le(1000)] = 10
    rounds: Annotated[int, Ge(1), Le(1000)] = 10


@dataclass(frozen=True)
class RunConfig:
    """A fully resolved run: options, and the problem's, the method's and the evaluator's own settings."""

    run: RunOptions
    problem: Any
    method: Any
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)


@dataclass(frozen=True)
class Budget:
    """When to stop; each limit may be None. A run ends after the last whole generation that fits."""

    generations: int | None
    seconds: float | None

    @staticmethod
    def of(options: RunOptions) -> Budget:
        """The budget that the options name. InputError where they name two, or less than one generation."""
        given = options.budget()
        if len(given) > 1:
            raise InputError(
                f"expected one of --gens, --evals and --seconds, found {', '.join('--' + k for k in given)}"
            )
        for key, value in given.items():
            least = GENERATION if key == "evals" else 1 if key == "gens" else 0
            if not (value >= least and math.isfinite(value)):
                raise InputError(f"--{key}: expected at least {least}, found {value}")
        if options.seconds is not None:
            return Budget(None, options.seconds)
        if options.evals is not None:
            return Budget(options.evals // GENERATION, None)
        return Budget(options.gens if options.gens is not None else DEFAULT_GENERATIONS, None)


def check_options(options: RunOptions) -> RunOptions:
    """The options, or InputError naming the flag, what was expected and what was found."""
    Budget.of(options)
    if not options.workload:
        raise InputError(f"--workload: expected {find(options.problem).workloads}, found none")
    for name, least, most in (
        ("seed", 0, MOST_SEED),
        ("workers", 1, MOST_WORKERS),
        ("threads", 1, MOST_WORKERS),
    ):
        if not least <= getattr(options, name) <= most:
            expected = f"at least {least}" if getattr(options, name) < least else f"at most {most}"
            raise InputError(f"--{name}: expected {expected}, found {getattr(options, name)}")
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
        raise InputError(f"--executor: expected one of {', '.join(EXECUTORS)}, found {options.executor!r}")
    if options.executor != "local" and options.evaluator:
        raise InputError("--executor ray: expected no --evaluator: boards are spoken to from this machine")
    address = options.ray_address
    if address and options.executor != "ray":
        raise InputError(f"--ray-address {address}: expected --executor ray, found {options.executor}")
    host, colon, port = address.rpartition(":")
    known = host and colon and "/" not in host and port.isdecimal() and 0 < int(port) < 2**16
    if address and address != "auto" and not known:
        raise InputError(f"--ray-address: expected auto or HOST:PORT, found {address!r}")


# ---- typed tables


def leaves(kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, type) of every setting of a dataclass, nested dataclasses walked."""
    hints = get_type_hints(kind)
    for entry in dataclasses.fields(kind):
        hint = hints[entry.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from leaves(hint, f"{prefix}{entry.name}.")
        else:
            yield f"{prefix}{entry.name}", hint


def _resolve(key: str, kind: type, where: str) -> str:
    """The full dotted key that `key` names: itself, or the one nested key that ends in it."""
    names = [name for name, _ in leaves(kind)]
    if key in names:
        return key
    matches = [name for name in names if name.endswith("." + key)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f"{where}: {key!r} is ambiguous: expected one of {', '.join(matches)}")
    near = difflib.get_close_matches(key, dict.fromkeys(n.rsplit(".", 1)[-1] for n in names), 3)
    hint = f"did you mean {', '.join(near)}?" if near else f"expected {_listed(names)}"
    raise InputError(f"{where}: unknown key {key!r}; {hint}")


def _listed(names: Sequence[str]) -> str:
    """The names, or the first of many and where to find the rest."""
    if len(names) <= MOST_LISTED:
        return f"one of {', '.join(names)}" if names else "none: there is nothing to set"
    more = len(names) - MOST_LISTED
    return f"one of {', '.join(names[:MOST_LISTED])} or {more} more (the config.toml of a run has all)"


def _flatten(table: Mapping[str, Any], kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    nested = {name for name, _ in leaves(kind)}
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, Mapping) and any(n.startswith(name + ".") for n in nested):
            yield from _flatten(value, kind, name + ".")
        else:
            yield name, value


def build(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """A dataclass from its defaults and a table of (possibly nested or dotted) keys, types checked.

    Raises InputError naming the key, what was expected and what was found.
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    tree: dict[str, Any] = _plain(kind())
    for key, value in _flatten(table, kind):
        *parents, leaf = _resolve(key, kind, where).split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    hints = dict(leaves(kind))
    try:
        for key, value in _flatten(tree, kind):
            TypeAdapter(hints[key], config=ConfigDict(allow_inf_nan=False)).validate_python(
                value, strict=True
            )
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"]) or (key if len(hints) else "")
        message = first["msg"].removeprefix("Value error, ")
        found = "" if first["type"] == "value_error" else f", found {str(first['input'])[:60]!r}"
        raise InputError(f"{where}: {location}: {message}{found}") from error


def parse_set(settings: Sequence[str], *names: str) -> dict[str, dict[str, Any]]:
    """{"problem": {key: value}, "method": {…}, "evaluator": {…}} from `--set problem.invalid=penalise …`.

    A value is TOML or, where it is not, a plain word. Raises InputError where a setting is not of that form, or of
    another table than those in `names` (none: of all).
    """
    tables: dict[str, dict[str, Any]] = {name: {} for name in names or TABLES}
    for setting in settings:
        path, equals, text = setting.partition("=")
        table, dot, key = path.strip().partition(".")
        if not equals or not dot or table not in tables or not key:
            raise InputError(
                f"--set {setting}: expected {' or '.join(f'{name}.KEY=VALUE' for name in tables)}"
            )
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text.strip()
        tables[table][key] = value
    return tables


def dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value of nested tables."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= dotted(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


# ---- config.toml


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: _plain(v) for f in dataclasses.fields(value) if (v := getattr(value, f.name)) is not None
        }
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def to_toml(config: RunConfig) -> str:
    """The resolved config as config.toml holds it (unset limits are left out)."""
    import tomli_w

    tables = {name: _plain(getattr(config, name)) for name in ("run", *TABLES)}
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
