"""Lines of a command on stderr and its output files; names that flags take, and errors that say which were meant."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from egrl.core.log import LOG
from workloads.errors import InputError
from workloads.text import hint, one_of, repeated, visible

LONGEST_WORD, LONGEST_LINE = 300, 1500
"""Characters of a line on stderr: of a word, such as a path, and of all."""


def readable(message: str) -> str:
    """The message as one line of limited length without control characters, even if it quotes a file."""
    words = " ".join(_cut(visible(word), LONGEST_WORD) for word in message.split())
    return _cut(words, LONGEST_LINE)


def _cut(text: str, most: int) -> str:
    """The text, or its beginning and its end: what comes last often says what to do."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most // 3 - 1) :]}"


def remark(command: str, line: object) -> None:
    """Say a line on stderr, by the name of the command."""
    click.echo(f"egrl {command}: {readable(str(line))}", err=True)


def sayer(command: str, quiet: bool) -> Callable[[str], None]:
    """A function that writes a line to the log, and to stderr unless the command is quiet."""

    def say(line: str) -> None:
        LOG.info("%s", line)
        if not quiet:
            remark(command, line)

    return say


def interrupted(quiet: bool, what: object = "interrupted; the same command goes on") -> int:
    """Print how to resume a command that was interrupted. Returns its exit code."""
    LOG.warning("%s", what)
    if not quiet:
        click.echo(f"egrl: {readable(str(what))}", err=True)
    return 130


def output_file(output: str, *endings: str, flag: str = "--output") -> Path:
    """The path of `--output`, or of another `flag`.

    InputError where it ends in none of `endings`, or lies in no folder that exists and can be written: before any work
    is done.
    """
    path = Path(output)
    if endings and not path.name.lower().endswith(endings):
        raise InputError(f"{flag} {output}: expected a file ending in {', '.join(endings)}")
    if not path.parent.is_dir():
        raise InputError(f"{flag} {output}: expected a file in a folder that exists, found no {path.parent}")
    if not any(os.access(place, os.W_OK) for place in (path, path.parent)):
        raise InputError(f"{flag} {output}: expected a file that can be written: permission denied")
    if path.is_dir():
        raise InputError(f"{flag} {output}: expected a file, found a folder")
    return path


class OneOf(click.Choice[str]):
    """A type for one of several names; an error suggests similar names."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. InputError where it is none of them."""
        if value not in self.choices:
            name = "" if param is None else param.human_readable_name
            flag = max(param.opts, key=len) if isinstance(param, click.Option) else name
            raise InputError(f"{flag}: {one_of(str(value), self.choices)}")
        return super().convert(value, param, ctx)


class NamedGroup(click.Group):
    """A group of commands; an error suggests similar names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's. InputError where there is no such command."""
        if ctx.resilient_parsing:  # a shell asks what could follow
            return super().resolve_command(ctx, args)
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise InputError(f"{ctx.command_path}: {one_of(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def message_of(error: click.ClickException) -> str:
    """The message of a click error, in one line with what was expected."""
    text, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if context is None:
        return text
    if isinstance(error, click.NoSuchOption):
        elsewhere = _commands_with(error.option_name, context)
        known = [name for each in context.command.get_params(context) for name in each.opts]
        like = f", an option of {', '.join(elsewhere)}" if elsewhere else hint(error.option_name, known)
        return (
            f"{context.command_path}: expected an option of `{context.command_path} --help`, found"
            f" {error.option_name}{like}"
        )
    if isinstance(error, click.MissingParameter) and error.param is not None:
        what = getattr(error.param, "help", None)
        name = f"{error.param.opts[0]}, {what}" if what else error.param.make_metavar(context)
        return f"{context.command_path}: expected {name}; found none"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{error.param.opts[0]}: {_expected(error.message)}"
    if isinstance(error, click.BadOptionUsage | click.BadParameter):
        return f"{context.command_path}: {text}"
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    return f"{text}; expected {usage}"


def _commands_with(option: str, context: click.Context) -> list[str]:
    """The other commands that have an option, as they are called; none where they are too many to say."""
    root, found = context.find_root(), []
    if isinstance(root.command, click.Group):
        for name in root.command.list_commands(root):
            with contextlib.suppress(InputError):  # of a plug-in that cannot be used
                command = root.command.get_command(root, name)
                if command is not None and any(option in each.opts for each in command.params):
                    found.append(f"`{root.command_path} {name}`")
    return found if len(found) <= 3 else []


def _expected(message: str) -> str:
    """What click says of a value, "'x' is not a valid integer.", as "expected a valid integer, found 'x'"."""
    for link in ("a valid ", "in the range "):
        found, _, kind = message.rstrip(".").partition(f" is not {link}")
        if kind:
            return f"expected {'a value ' if link == 'in the range ' else ''}{link}{kind}, found {found}"
    return message


def several(text: str, flag: str) -> list[str]:
    """The names in "A,B,C". InputError naming the flag where one is empty or given twice."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{flag}: expected names with single commas between, found {text!r}")
    if len(set(names)) < len(names):
        raise InputError(f"{flag}: expected different names, found {text!r}")
    return names


def several_workloads(text: str, flag: str) -> list[str]:
    """The workloads in "A,B,C", a set (`workloads.zoo.mcm87`) standing for its members.

    InputError as `several`, and where there is no such set or a workload is in it and given, too.
    """
    from workloads.zoo.mcm87 import is_set, members  # loads the zoo, which `egrl --help` does not need

    names = [
        name for given in several(text, flag) for name in (members(given) if is_set(given) else (given,))
    ]
    if (twice := repeated(names)) is not None:
        raise InputError(f"{flag}: expected different workloads, found {twice} twice in {text!r}")
    return names
