"""What a process that was started for measuring does first."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys

from egrl.core.interrupts import leave_to_parent

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Leave Ctrl-C to the parent process, and end when it has ended."""
    leave_to_parent()
    if sys.platform == "linux":  # a parent killed by SIGKILL cannot stop its workers
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
