"""Signals at random instants: to runs of every problem, method and executor, and to commands that make many runs."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.soaking.trial import Outcome, Subject, child, fresh, in_turn, kill, wait

SIGNALS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", "SIGSTOP")
"""What comes; half as often as the others, each but the first."""
MOST_TIMES = 3
TWICE = 0.3
"""Chance of a second SIGTERM or SIGINT soon after the first."""
STOPPED_S = 0.3
INTERRUPTED = 130
MOST_LINES = 4
"""Lines that an interrupted command may say: that it stops, what stays, and how to go on."""


def kills(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """One to three signals at random instants; the command is given again each time, and equals an undisturbed one.

    Each signal that met a process which had not ended is a case.
    """
    done = 0
    for subject in in_turn(rng, all_of):
        if done >= cases:
            return
        if fault := subject.prepare(folder):
            yield Outcome(subject.name, fault)
            done += 1
            continue
        out = fresh(subject, "killed")
        met, faults = [], list[str]()
        for _ in range(rng.randint(1, MOST_TIMES)):
            name, fault = _disturbed(rng, subject, out)
            if name:
                met.append(name)
            if fault:
                faults.append(f"{name}: {fault}")
        if not met:  # the undisturbed run was slower, as the first of all
            subject.seconds *= 0.7
        fault = "; ".join([*faults, *filter(None, [subject.compare(out)])])
        done += len(met)
        if fault and not met:
            yield Outcome(subject.name, fault)
        for name in met:
            yield Outcome(f"{subject.name}, {name}", fault)
            fault = ""


def _disturbed(rng: random.Random, subject: Subject, out: Path) -> tuple[str, str]:
    """The signal that met a command in `out` on its way ("": it had ended), and what was wrong with its end."""
    log = out.with_suffix(".log")
    pid = child(subject.command(out), log)
    time.sleep(rng.uniform(0.0, subject.seconds))
    name = rng.choice(SIGNALS)
    if not out.exists():
        name = "SIGKILL"  # the handlers of other signals are not installed yet in a process that was forked from here
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
        wait(pid, log)
        return "", ""
    if name == "SIGKILL":
        kill(pid)
        wait(pid, log)
        return name, ""
    if name == "SIGSTOP":
        os.killpg(pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.killpg(pid, signal.SIGCONT)
        code, said = wait(pid, log)
        return name, "" if code == 0 and not said else f"exit code {code}: {said[-300:]}"
    number = signal.Signals[name]
    os.kill(pid, number)
    if rng.random() < TWICE:
        time.sleep(rng.uniform(0.0, 0.3))
        os.kill(pid, number)
    code, said = wait(pid, log)
    good = code in (0, INTERRUPTED, -number) and "Traceback" not in said
    if good and len(said.splitlines()) <= MOST_LINES:
        return name, ""
    return name, f"exit code {code}: {said[-300:]}"
