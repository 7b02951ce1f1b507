"""Problems for tests of executors, in a file that worker processes can import."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from hwsim.problem import Evaluation, Keys, Mapping16, Problem


class Slow:
    """Measures as `inner` does, after `seconds` a row; leaves a file in `folder` at each call."""

    def __init__(self, inner: Problem, folder: Path, seconds: float) -> None:
        self.inner, self.folder, self.seconds = inner, folder, seconds

    def fingerprint(self) -> str:
        return self.inner.fingerprint()

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(self.seconds * len(mapping))
        return self.inner.evaluate(mapping, key)


class DiesOnce(Slow):
    """The first process that measures is killed in the middle."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        with contextlib.suppress(FileExistsError):
            (self.folder / "died").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().evaluate(mapping, key)


class Deadly(Slow):
    """Every process that measures is killed."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Changed(Slow):
    """Its code is another in a worker: the fingerprint depends on the process."""

    def fingerprint(self) -> str:
        return str(os.getpid())


class Wrong(Slow):
    """Its measurement has a mistake."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        raise ValueError("expected a board, received none")
