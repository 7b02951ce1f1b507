"""Errors of one line: what the user can cause, and what ends a run otherwise; and notices, where nothing fails."""

from __future__ import annotations


class InputError(ValueError):
    """The user's input is wrong. The message is one line: what was given, what was expected, and where.

    The command line prints it as `egrl: error: …` and exits with 2. Anything else that escapes is a bug.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Fault(Exception):
    """What is wrong with an input, without its name."""


def wrong(field: str, expected: str, found: object) -> Fault:
    """What is wrong with a field."""
    return Fault(f"{field}: expected {expected}, found {short(found)}")


def short(value: object) -> str:
    """A value as Python writes it, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Notice(UserWarning):
    """What a user should hear of though nothing fails, in one line. The command line prints it as `egrl: …`, once."""


class RunFailure(RuntimeError):
    """The program, the disk or the board failed (exit code 1); the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
