"""The log of the package, `logging.getLogger("egrl")`: generations, notes, warnings and errors.

Nothing is kept of it unless a program sets up `logging`, or a command is given `--log FILE`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import cast

from workloads.atomic import at_once
from workloads.errors import InputError

LOG = logging.getLogger("egrl")
LOG.addHandler(
    logging.NullHandler()
)  # else logging itself prints warnings to stderr, where they stand already
ROW, NAMES = "egrl_row", "egrl_names"
"""Attributes of a record of a generation: its row of metrics, and the workloads it is of."""
FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _File(logging.FileHandler):
    """A log that is not written any more once the disk refuses a line: it never harms a command."""

    _refused = False

    def _open(self) -> TextIOWrapper:
        """Without waiting for a reader, where it is a pipe."""
        return cast(TextIOWrapper, open(self.baseFilename, self.mode, encoding=self.encoding, opener=at_once))

    def emit(self, record: logging.LogRecord) -> None:
        if not self._refused:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._refused = True
        with contextlib.suppress(OSError):
            print(
                f"egrl: --log {self.baseFilename!r}: {error.strerror}; nothing more is logged",
                file=sys.stderr,
            )

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what is left of the line that was refused
            super().close()


def open_file(path: Path) -> None:
    """Append what is logged from now on to a file, a line with its time each. InputError where that cannot be done."""
    try:
        handler = _File(path, encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"--log {str(path)!r}: expected a file that can be written: {why}") from error
    handler.setFormatter(logging.Formatter(FORMAT))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)


@contextlib.contextmanager
def files_closed() -> Iterator[None]:
    """Close, at the end, the files that were opened within."""
    before, level = list(LOG.handlers), LOG.level
    try:
        yield
    finally:
        for handler in [each for each in LOG.handlers if each not in before]:
            LOG.removeHandler(handler)
            handler.close()
        LOG.setLevel(level)
