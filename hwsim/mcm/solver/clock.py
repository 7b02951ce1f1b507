"""A time limit for kernels, which cannot ask for the time themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import TIMEOUT_MAX, Timer

import numpy as np
from numpy.typing import NDArray


@contextmanager
def clock(seconds: float | None) -> Iterator[NDArray[np.int64]]:
    """A flag int64 [1], 0 until some seconds are over (None: for ever); for kernels that run without the GIL."""
    stop = np.zeros(1, np.int64)
    if seconds is None:
        yield stop
        return
    timer = Timer(min(seconds, TIMEOUT_MAX), stop.fill, (1,))
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        timer.join()
