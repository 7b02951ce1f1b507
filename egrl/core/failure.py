"""What ends a run that is not the user's mistake."""

from __future__ import annotations


class RunFailure(RuntimeError):
    """The program, the disk or the board failed (exit code 1); the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
