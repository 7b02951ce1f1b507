"""Problems for tests of executors, in a file that worker processes can import."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from hwsim.problem import Evaluation, Keys, Mapping16, Problem


class Measured:
    """Measures as `inner` does, and may leave files in `folder`."""

    def __init__(self, inner: Problem, folder: Path) -> None:
        self.inner, self.folder = inner, folder

    def fingerprint(self) -> str:
        return self.inner.fingerprint()

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        return self.inner.evaluate(mapping, key)


class Waits(Measured):
    """A call on node NODE of Ray leaves a file NODE-TIME, and measures once there is a file `go-NODE`."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        import ray

        node = ray.get_runtime_context().get_node_id()
        (self.folder / f"{node}-{time.monotonic_ns()}").touch()
        while not (self.folder / f"go-{node}").exists():
            time.sleep(0.02)
        return super().evaluate(mapping, key)


class DiesOnce(Measured):
    """The first process that measures is killed in the middle."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        with contextlib.suppress(FileExistsError):
            (self.folder / "died").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().evaluate(mapping, key)


class Deadly(Measured):
    """Every process that measures is killed."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Changed(Measured):
    """Its code is another in a worker: the fingerprint depends on the process."""

    def fingerprint(self) -> str:
        return str(os.getpid())


class Wrong(Measured):
    """Its measurement has a mistake."""

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        raise ValueError("expected a board, received none")
