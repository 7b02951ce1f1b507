"""egrl chip: a chip file of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from workloads.errors import InputError


@click.group(name="chip", short_help="make a chip file of your own")
def command() -> None:
    """Chip files: memories from slowest to fastest, compute engines, overheads; packages of chips."""


@command.command(name="new", short_help="write a commented chip file to change")
@click.argument("file")
@click.option(
    "--like", default="nnpi", help="the chip whose values it begins with; see `egrl list chips` [nnpi]"
)
def new(file: str, like: str) -> int:
    """Write a commented chip file, named after the file.

    egrl chip new mine.toml --like edge
    """
    from hwsim.mcm.package import package_names

    path = Path(file)
    if path.suffix != ".toml":
        raise InputError(f"FILE {file}: expected a file ending in .toml")
    text, parse, use = _package(like, path.stem) if like in package_names() else _chip(like, path.stem)
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
        raise InputError(f"FILE {file}: expected a new file, found one that is there already") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"FILE {file}: expected a file that can be written: {reason}") from error
    click.echo(f"{path}: change what is different, then: egrl run {use}--workload resnet50 --chip {path}")
    return 0


Template = tuple[str, Callable[[str, str], object], str]
"""The text of a file, what reads it, and the flags that a run needs for it."""


def _chip(like: str, name: str) -> Template:
    from hwsim.mcm.package import package_names
    from hwsim.nnpi.chip import chip_names, load_chip, parse_chip
    from hwsim.nnpi.chip_template import template

    if like not in chip_names() and not like.endswith(".toml"):
        raise InputError(
            f"--like {like}: expected one of {', '.join((*chip_names(), *package_names()))} or a chip file (.toml)"
        )
    return template(load_chip(like), name), parse_chip, ""


def _package(like: str, name: str) -> Template:
    from hwsim.mcm.package import parse_package, template

    return template(like, name), parse_package, "--problem mcm "
