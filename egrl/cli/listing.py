"""egrl list and chip: what there is by name, and chip files of your own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click

from egrl.cli.output import NamedGroup, OneOf
from egrl.core.typed_tables import meaning
from workloads.errors import InputError
from workloads.text import one_of

if TYPE_CHECKING:
    from egrl.core.registry import ProblemDefinition


LIMITS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
KINDS = ("workloads", "chips", "methods", "problems", "settings")


def entries(kind: str, of: str | None = None) -> list[dict[str, object]]:
    """Name and a line about each entry of a kind; of settings those of the method or problem `of`."""
    from egrl.methods import list_methods
    from egrl.problems import list_problems

    if kind == "methods":
        return list_methods()
    if kind == "problems":
        return list_problems()
    if kind == "settings":
        return _settings(of)
    shown = _chips if kind == "chips" else _workloads
    return [entry for problem in list_problems() for entry in _offered(str(problem["name"]), shown)]


def _offered(
    problem: str, shown: Callable[[str, ProblemDefinition], list[dict[str, object]]]
) -> list[dict[str, object]]:
    """What comes with a problem; of a plug-in that cannot be used what is wrong."""
    from egrl.problems import PROBLEMS, find_problem

    try:
        return shown(problem, find_problem(problem).load())
    except Exception as error:  # whatever code of someone else raises: the others are listed all the same
        if problem in PROBLEMS:
            raise
        if shown is not _chips:
            return []
        why = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return [{"name": "-", "problem": problem, "summary": f"problem {problem} cannot be used: {why}"}]


def _chips(problem: str, definition: ProblemDefinition) -> list[dict[str, object]]:
    return [{"name": chip, "problem": problem, **definition.describe(chip)} for chip in definition.chips()]


def _workloads(problem: str, definition: ProblemDefinition) -> list[dict[str, object]]:
    return list(definition.workloads())


def _settings(of: str | None) -> list[dict[str, object]]:
    """What `--set` can change of a method, a problem or evaluators."""
    from egrl.measure.config import EvaluatorConfig

    given, prefix = (EvaluatorConfig(), "evaluator") if of == "evaluator" else _config_of(of)
    found = list(known(given, prefix))
    columns = [[json.dumps(each["default"]).strip('"'), str(each["allowed"])] for each in found]
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    return [
        {
            "name": each["name"],
            "summary": "  ".join([*map(str.ljust, row, widths), str(each["meaning"])]),
            **each,
        }
        for each, row in zip(found, columns, strict=True)
    ]


def known(given: Any, prefix: str) -> Iterator[dict[str, object]]:
    """Every setting of an instance of a dataclass, nested ones walked: name, default, allowed values and meaning.

    Names begin with `prefix`. A meaning is the `Doc` of the field's type (PEP 727).
    """
    hints = get_type_hints(type(given), include_extras=True)
    for entry in dataclasses.fields(given):
        value, name, hint = getattr(given, entry.name), f"{prefix}.{entry.name}", hints[entry.name]
        if dataclasses.is_dataclass(value):
            yield from known(value, name)
        else:
            yield {"name": name, "default": value, "allowed": _allowed(hint), "meaning": meaning(hint)}


def _allowed(hint: Any) -> str:
    """The words or the range that a setting can take; "" where its type says everything."""
    bounds = [
        f"{sign} {getattr(bound, name):{',' if isinstance(getattr(bound, name), int) else 'g'}}"
        for bound in getattr(hint, "__metadata__", ())
        for name, sign in LIMITS.items()
        if hasattr(bound, name)
    ]
    if bounds:
        return ", ".join(bounds)
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    return "true | false" if hint is bool else ""


def _config_of(name: str | None) -> tuple[Any, str]:
    """The settings of a method or a problem by default, and the table that has them. InputError where it is neither."""
    from egrl import methods, problems
    from workloads import plugins

    if name is not None and methods.KIND.refers(name):
        either = dataclasses.replace(methods.KIND, flag="list settings", expected="a method or a problem")
        found = plugins.find(either, name)
        if methods.is_method(found.thing):
            return methods.definition_of(found).config(), "method"
        return problems.entry_of(found).load().config(), "problem"
    known = {kind: (*kind.own, *plugins.installed(kind)) for kind in (problems.KIND, methods.KIND)}
    if name is not None and name in known[problems.KIND]:
        return problems.find_problem(name).load().config(), "problem"
    if name is not None and name.partition(":")[0] in known[methods.KIND]:
        return methods.find_method(name).config(), "method"
    names = [*known[problems.KIND], *known[methods.KIND], "evaluator"]
    if name is None:
        raise InputError(f"list settings: expected one of {', '.join(names)} or MODULE:NAME, found nothing")
    raise InputError(f"list settings: {one_of(name, names, ' or MODULE:NAME')}")


def _joined(chips: list[dict[str, object]]) -> list[dict[str, object]]:
    """The chips, each once: problems that take the same chip file share a row."""
    rows: dict[tuple[object, str], list[str]] = {}
    for chip in chips:
        text = str(chip["summary"]).removeprefix(f"problem {chip['problem']}")
        rows.setdefault((chip["name"], text), []).append(str(chip["problem"]))
    return [
        {"name": name, "summary": f"problem{'s'[: len(problems) - 1]} {', '.join(problems)}{text}"}
        for (name, text), problems in rows.items()
    ]


@click.command(name="list", short_help="list workloads, chips, methods, problems, or settings of one")
@click.argument("kind", type=OneOf(KINDS))
@click.argument("of", required=False, metavar="[NAME]")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
def list_command(kind: str, of: str | None, as_json: bool) -> int:
    """List workloads, chips, methods or problems; or what `--set` can change of NAME: a method, a problem or
    `evaluator`.

    egrl list settings annealing
    """
    if of is not None and kind != "settings":
        raise InputError(f"list {kind}: expected nothing after it, found {of!r}")
    found = entries(kind, of)
    if as_json:
        click.echo(json.dumps({"kind": "list", "version": 1, "of": kind, "entries": found}))
    else:
        if not found:
            click.echo(f"egrl list: {of} has no settings", err=True)
        found = _joined(found) if kind == "chips" else found
        width = max((len(str(entry["name"])) for entry in found), default=0)
        for entry in found:
            click.echo(f"{entry['name']!s:<{width}}  {entry['summary']}")
            members = entry.get("members")
            for name, summary in members.items() if isinstance(members, dict) else ():
                click.echo(f"{'':<{width}}    {name}: {summary}")
    return 0


@click.group(name="chip", cls=NamedGroup, short_help="make a chip file of your own")
def chip() -> None:
    """Chip files: memories from slowest to fastest, compute engines, overheads; packages of chips."""


@chip.command(name="new", short_help="write a commented chip file to change")
@click.argument("file")
@click.option(
    "--problem",
    type=OneOf(("nnpi", "mcm", "mmap")),
    help="what it is a chip of [that of the chip it is like; of two, nnpi]",
)
@click.option(
    "--like", help="the chip whose values it begins with; see `egrl list chips` [the problem's own]"
)
def new(file: str, problem: str | None, like: str | None) -> int:
    """Write a commented chip file, named after the file.

    \b
    egrl chip new mine.toml --like edge
    egrl chip new mine.toml --problem mmap
    """
    from egrl.problems import find_problem
    from hwsim.mcm.package import package_names

    path = Path(file)
    if path.suffix != ".toml":
        raise InputError(f"FILE {file}: expected a file ending in .toml")
    kind = problem or ("mcm" if like in package_names() else "nnpi")
    text, parse = TEMPLATES[kind](like or find_problem(kind).load().chips()[0], path.stem)
    use = "" if kind == "nnpi" else f"--problem {kind} "
    try:
        parse(text, file)
    except InputError:
        raise InputError(
            f"FILE {file}: expected a name of letters, digits and _ . + - (it names the chip), found {path.stem!r}"
        ) from None
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError(
            f"FILE {file}: expected a new file, found one that is there: delete it, or give another name"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"FILE {file}: expected a file that can be written: {reason}") from error
    model = "MODEL.json" if kind == "mmap" else "MODEL.onnx"
    named = ", and its name, since results tell chips apart by it" if path.stem == "chip" else ""
    click.echo(
        f"{path}: change what is different{named}, then: egrl run {use}--workload {model} --chip {path}"
    )
    return 0


Template = tuple[str, Callable[[str, str], object]]
"""The text of a file, and what reads it."""


def _nnpi(like: str, name: str) -> Template:
    from hwsim.mcm.package import package_names
    from hwsim.nnpi.chip import chip_names, load_chip, parse_chip, template

    if not like.endswith(".toml"):
        _check(like, (*chip_names(), *package_names()), " or a chip file (.toml)")
    return template(load_chip(like), name), parse_chip


def _mcm(like: str, name: str) -> Template:
    from hwsim.mcm.package import package_names, parse_package, template

    _check(like, package_names())
    return template(like, name), parse_package


def _mmap(like: str, name: str) -> Template:
    from hwsim.mmap.chip import chip_names, parse_chip, template

    _check(like, chip_names())
    return template(like, name), parse_chip


def _check(like: str, names: Sequence[str], more: str = "") -> None:
    if like not in names:
        raise InputError(f"--like: {one_of(like, names, more)}")


TEMPLATES = {"nnpi": _nnpi, "mcm": _mcm, "mmap": _mmap}
