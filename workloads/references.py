"""MODULE:NAME: code from outside the package, imported by name, with errors of one line.

A setting may name code, too: its type is then `Annotated` with a `NamesCode`. Code that reads settings from a file must
first look for these (`missing_code` in `egrl/core/typed_tables.py`): a file runs no code that the user did not name.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.errors import InputError


@dataclass(frozen=True)
class NamesCode:
    """Marks a setting whose text names code.

    Attributes:
        checker: MODULE:FUNCTION, called with (text, where): it imports what the text names, and raises InputError
            naming `where` if that cannot be used. Given by name, so that it is imported when it is needed.
        refers: True if the text names code that is not part of an installed dependency of the package.
    """

    checker: str
    refers: Callable[[str], bool]

    def check(self, text: str, where: str) -> None:
        """Import what a setting names. InputError naming `where` if it cannot be used."""
        imported(self.checker, where)(text, where)


def is_reference(name: str) -> bool:
    """Whether a name has the form MODULE:NAME."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(map(str.isidentifier, module.split(".")))


def look_here() -> None:
    """Let modules of the current folder be imported, too, after all installed ones."""
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())


_OUTSIDE: set[str] = set()
"""Top-level packages and modules that plug-ins and MODULE:NAME were imported from."""


def imported(reference: str, where: str) -> Any:
    """What MODULE:NAME names. InputError naming `where` if it is not there, or its module fails."""
    name, _, attribute = reference.partition(":")
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
        _OUTSIDE.add(name.partition(".")[0])
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise InputError(f"{where}: {_place(error)}: {error}") from error
        raise InputError(f"{where}: expected a module {name}, here or installed, found none") from error
    except (Exception, SystemExit) as error:  # whatever a module of someone else raises
        raise failed(where, error) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        near = difflib.get_close_matches(attribute, vars(module), 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        file = getattr(module, "__file__", None) or name
        raise InputError(f"{where}: expected {attribute} in {_shown(file)}, found none{hint}") from error


def ran_outside(error: BaseException) -> bool:
    """Whether code of a plug-in, or of a MODULE:NAME, was running when an error was raised."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__")).partition(".")[0] in _OUTSIDE for frame in frames)


def failed(where: str, error: BaseException) -> InputError:
    """The error that says in one line where code outside the package failed, and how."""
    text = " ".join(str(error).split())
    return InputError(f"{where}: {_place(error)}: {type(error).__name__}: {text}")


def _place(error: BaseException) -> str:
    """File and line where an import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}, line {error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    return f"{_shown(frames[-1].filename)}, line {frames[-1].lineno}"


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
