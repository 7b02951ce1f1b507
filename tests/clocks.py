"""Clocks instead of the module `time`, which go on by events: no outcome hangs on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Ticking:
    """Every look at it is a second: a limit of so many seconds is one of so many looks."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Waiting:
    """It stands until something has happened, and goes on from there: a limit begins with the event."""

    def __init__(self, happened: Callable[[], bool]) -> None:
        self._happened, self._begun_s = happened, 0.0

    def monotonic(self) -> float:
        if not self._begun_s:
            if not self._happened():
                return 0.0
            self._begun_s = time.monotonic()
        return time.monotonic() - self._begun_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
