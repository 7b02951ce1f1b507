"""Schedules of Vela's Python core, asked of a process that has read the network (`egrl_vela.legacy`)."""

from __future__ import annotations

import importlib.util
import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egrl_vela.compiler import Target
from workloads.errors import InputError, RunFailure

FIRST_S = 600.0
"""Seconds that the process has to read the network and make Vela's own schedule."""
INSTALL = "schedules need Vela beside egrl: pip install ethos-u-vela==5.2.0"


class Schedules:
    """The process, from its start to `close`.

    Args:
        target: the model and its device.
        time_limit_s: how long a schedule may take; beyond it, it is a failure.

    Attributes:
        described: the ops, and what Vela's own schedule takes (`legacy.Core`).
    """

    def __init__(self, target: Target, time_limit_s: float) -> None:
        if importlib.util.find_spec("ethosu") is None:
            raise InputError(INSTALL)
        self._target, self._time_limit_s = target, time_limit_s
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[str] | None = None
        self.described = self._start()
        if "error" in self.described:
            said = self.described["error"] or "no word"
            self.close()
            raise InputError(f"{target.model}: Vela's Python core fails: {said}")

    def ask(self, shares: Sequence[float]) -> dict[str, Any]:
        """Cycles of each op, and bytes of SRAM; or an error."""
        if self._process is None:
            self._start()
        found = self._answer(list(shares), self._time_limit_s)
        if found is None:
            self._end()
            return {"error": f"ended after {self._time_limit_s:g} s"}
        return found

    def write(self, shares: Sequence[float]) -> Path:
        """The folder with what Vela writes for a schedule; it is gone after `close`. RunFailure if Vela fails."""
        if self._process is None:
            self._start()
        found = self._answer({"write": list(shares)}, FIRST_S)
        if found is None or found.get("code") != 0:
            raise RunFailure(f"{self._target.model}: Vela's Python core wrote no program: {found}")
        return Path(self._folder.name)

    def close(self) -> None:
        """End the process."""
        self._end()
        self._folder.cleanup()

    def _start(self) -> dict[str, Any]:
        words = self._target.words_for(absolute=True)
        argv = [sys.executable, "-m", "egrl_vela.legacy", *words, f"--output-dir={self._folder.name}"]
        self._said = Path(self._folder.name) / "said.txt"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )
        found = self._answer(None, FIRST_S)
        if found is None:
            self._process.kill()
            self._process.wait()
            lines = [line for line in self._said.read_text(errors="replace").splitlines() if line.strip()]
            return {"error": lines[-1] if lines else "no word"}
        return found

    def _answer(self, question: Any, time_limit_s: float) -> dict[str, Any] | None:
        """A line of the process; None if it has ended, or is late."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if question is not None:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
        except BrokenPipeError:
            return None
        ready, _, _ = select.select([process.stdout], [], [], time_limit_s)
        line = process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
