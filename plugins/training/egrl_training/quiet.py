"""Without what libraries print on stdout, where a command may print a document.

HiGHS prints a line when it improves a solution in a program of its own, whatever it is told of output.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

STDOUT = 1


@contextlib.contextmanager
def no_prints() -> Iterator[None]:
    """What code outside of Python prints within this is lost.

    It is the standard output of the whole process: other threads must not print meanwhile.
    """
    try:
        kept = os.dup(STDOUT)
    except OSError:  # there is none
        yield
        return
    try:
        _flush()
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), STDOUT)
        yield
    finally:
        _flush()
        os.dup2(kept, STDOUT)
        os.close(kept)


def _flush() -> None:
    """Write what C has buffered to where stdout leads now."""
    with contextlib.suppress(OSError, TypeError, AttributeError):  # no C library by that name
        ctypes.CDLL(None).fflush(None)
