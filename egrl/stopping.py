"""Stopping a run: the first Ctrl-C is a wish, the second one an end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """The user stopped the run; the checkpoint in `folder` stands."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"interrupted; go on with: egrl run --resume {folder}")
        self.folder = folder


class StopSignal:
    """Turns the first Ctrl-C (or SIGTERM) into a wish to stop after this generation; the second one ends at once."""

    def __init__(self) -> None:
        self._wished = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Callable[[], bool]:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._wish)
        return lambda: self._wished

    def _wish(self, number: int, frame: FrameType | None) -> None:
        if self._wished:
            raise KeyboardInterrupt
        self._wished = True

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
