"""Compiles in parallel, each in a folder of its own. What they gave is kept on disk: the same command goes on."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from egrl.core import atomic
from egrl_vela.compiler import Outcome, Setting, Target, Vela, digest
from egrl_vela.written import Written, program
from workloads.errors import InputError
from workloads.files import read_text

KIND = "vela-compile"


class Runner:
    """What settings compile to. `outcomes` has all that were asked for, in their order; `read` those from the disk.

    Args:
        vela: the compiler.
        target: the model and its device.
        folder: results are kept in a folder in it, named after the model, the device and Vela's version.
        jobs: how many compiles run at once.
        time_limit_s: how long each may take.
    """

    def __init__(self, vela: Vela, target: Target, folder: Path, jobs: int, time_limit_s: float) -> None:
        self.vela, self.target = vela, target
        self.folder = folder / f"{Path(target.model).stem}-{digest(vela.version, target)[:16]}"
        self.outcomes: dict[Setting, Outcome] = {}
        self.read: set[Setting] = set()
        self._jobs, self._time_limit_s = jobs, time_limit_s
        atomic.make_folder(self.folder)

    def run(self, settings: Sequence[Setting]) -> None:
        """Compile with each setting that was not asked for before, or take what is on disk.

        Raises:
            RunFailure: Vela cannot be started, or the disk is full.
            KeyboardInterrupt: all compiles are ended; what had been done is on disk.
        """
        wanted = list(dict.fromkeys(setting for setting in settings if setting not in self.outcomes))
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                futures = [pool.submit(self._outcome, setting) for setting in wanted]
                for setting, future in zip(wanted, futures, strict=True):
                    outcome = future.result()
                    idle = outcome.written is not None and outcome.written.cycles <= 0
                    self.outcomes[setting] = Outcome(None, "it runs no op on the NPU") if idle else outcome
            except BaseException:
                self.vela.end()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def again(self, setting: Setting) -> tuple[Outcome, bytes]:
        """Compile once more, whatever is on disk: the outcome, and the program."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            folder = Path(place).absolute()  # Vela runs in it
            outcome = self.vela.compile(self.target, setting, folder, self._time_limit_s)
            return outcome, program(folder).read_bytes() if outcome.written else b""

    def _outcome(self, setting: Setting) -> Outcome:
        words = " ".join(setting.words())
        path = self.folder / f"{hashlib.sha256(words.encode()).hexdigest()[:16]}.json"
        if path.exists():
            kept = _kept(path)
            if not 0 < kept.limit_s < self._time_limit_s:
                self.read.add(setting)
                return kept
        outcome, _ = self.again(setting)
        document = {
            "kind": KIND,
            "version": 1,
            "options": words,
            "error": outcome.error,
            "limit_s": outcome.limit_s,
            "written": outcome.written and outcome.written.document(),
        }
        atomic.write(path, json.dumps(document))
        return outcome


def _kept(path: Path) -> Outcome:
    """The outcome in a file that `Runner` has written. InputError where it is another."""
    try:
        document: dict[str, Any] = json.loads(read_text(path, "a compile's result"))
        if (document["kind"], document["version"]) != (KIND, 1):
            raise KeyError("kind")
        made = document["written"]
        return Outcome(made and Written.of(made), str(document["error"]), float(document["limit_s"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: expected a compile's result, found another file; delete it") from error
