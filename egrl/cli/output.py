"""Messages of commands while they work, and their output files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

from egrl.core.log import LOG
from workloads.errors import InputError
from workloads.names import visible

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
