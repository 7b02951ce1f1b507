"""egrl chip: a chip file of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from egrl.cli.output import NamedGroup, OneOf
from workloads.errors import InputError
from workloads.text import one_of


@click.group(name="chip", cls=NamedGroup, short_help="make a chip file of your own")
def command() -> None:
    """Chip files: memories from slowest to fastest, compute engines, overheads; packages of chips."""


@command.command(name="new", short_help="write a commented chip file to change")
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
