"""The one error that a user can cause."""

from __future__ import annotations


class InputError(ValueError):
    """The user's input is wrong. The message is one line: what was given, what was expected, and where.

    The command line prints it as `egrl: error: …` and exits with 2. Anything else that escapes is a bug.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
