"""Calls in processes of their own: what they say, how they end, and that none outlives who asked."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from egrl.reproduction import Call, in_processes


def note(path: str, text: str) -> None:
    """Write down the process and a text."""
    Path(path).write_text(f"{os.getpid()} {text}")


def fail() -> None:
    """What fails."""
    raise ValueError("expected more")


def die() -> None:
    """What is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def stay(path: str) -> None:
    """What never ends by itself."""
    note(path, "stays")
    time.sleep(600)


@pytest.mark.slow
def test_each_call_has_a_process_of_its_own_and_says_how_it_ended(tmp_path):
    calls = [Call(f"note {k}", note, (str(tmp_path / str(k)), "done")) for k in range(2)]
    calls += [Call("fail", fail, ()), Call("die", die, ())]
    found = dict(in_processes(calls, 2))
    assert found == {
        **{f"note {k}": None for k in range(2)},
        "fail": "ValueError: expected more",
        "die": "its process was ended from outside",
    }
    processes = {(tmp_path / str(k)).read_text().split()[0] for k in range(2)}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


@pytest.mark.slow
def test_what_still_runs_is_ended_with_who_asked(tmp_path):
    marks = [tmp_path / "a", tmp_path / "b"]
    calls = [Call(mark.name, stay, (str(mark),)) for mark in marks]

    def interrupted(*_: object) -> None:
        if all(mark.is_file() and mark.read_text().endswith("stays") for mark in marks):
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(in_processes(calls, 2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    for mark in marks:
        with pytest.raises(ProcessLookupError):
            os.kill(int(mark.read_text().split()[0]), 0)
