"""Long runs: what each holds in memory and on disk as it goes on, how long an evaluation takes, how soon it resumes."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.soaking.trial import ROOT, Outcome, Subject
from egrl.core.archive import WINDOW_ROWS

MOST_MEMORY, MOST_DISK = 32.0, 96.0
"""MiB that a run may grow by in memory and on disk per million evaluations, once its window of mappings is full: what
its metrics take, a row per 21 evaluations, also in an event file."""
MOST_FILLING = 64.0
"""MiB that a run may grow by in memory while its window of mappings fills."""
MOST_SLOWER = 1.5
"""How many times as long as in the second tenth of a run an evaluation may take in the last."""
MOST_RESUME_S = 60.0
"""Seconds in which a finished run must go on by a generation, the start of the process included."""
FULL = 2 * WINDOW_ROWS
"""Evaluations after which the window of mappings is full, on disk too, where two checkpoints are kept."""
BLOCKS = 12
"""A slope is that of so many means: single samples, which follow each other closely, would pretend to be many."""
EVERY_S = 2.0
SMALL_NETWORKS = ("network.width=8", "network.depth=2", "network.attention_heads=2")

SETTINGS: dict[str, tuple[str, ...]] = {
    "random": (),
    "annealing": (),
    "ea": SMALL_NETWORKS,
    "egrl": (*SMALL_NETWORKS, "learner.critic.width=8", "learner.sac.batch=4"),
    "twin": ("steps=100", "candidates=50"),
}
"""Method -> what makes it small enough to last; what it keeps of its evaluations is as by default."""


@dataclass(frozen=True)
class Sample:
    """How far a run was, and what it held then: MiB in memory, MiB on disk. `seconds` are of the processor."""

    evaluations: int
    seconds: float
    memory: float
    disk: float


def long_run(
    rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path, method: str = "random"
) -> Iterator[Outcome]:
    """So many evaluations of a method; one outcome, which says what they took. A run that was cut short goes on."""
    out, kept = folder / f"long-{method}", folder / f"long-{method}.jsonl"
    done = _evaluations(out)
    if 0 < done < cases:
        _trim(kept, done)
    elif done < cases:
        kept.unlink(missing_ok=True)
    fault, resume_s = "", 0.0
    if done < cases:
        fault = _watched(_command(out, method, cases), out, kept)
    if not fault:
        fault, resume_s = _resumed(out, method, cases)
    samples = [Sample(**json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []
    outcome = judged(samples, cases, resume_s, method)
    yield Outcome(outcome.what, fault or outcome.fault)


def _command(out: Path, method: str, evaluations: int) -> list[str]:
    egrl = [sys.executable, "-m", "egrl", "run"]
    if (out / "config.toml").exists():
        return [*egrl, "--resume", str(out), "--evals", str(evaluations), "--quiet"]
    settings = [f"method.{setting}" for setting in SETTINGS[method]]
    small = [word for setting in settings for word in ("--set", setting)]
    argv = ["--workload", "alexnet", "--method", method, "--evals", str(evaluations), "--until-gap", "never"]
    return [*egrl, *argv, "--bound-seconds", "0", *small, "--quiet", "--out", str(out)]


def _run(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def _watched(command: list[str], out: Path, kept: Path) -> str:
    """Run it, adding a line to `kept` now and then; what was wrong with its end."""
    process, seen = _run(command), -1
    lines = kept.read_text().splitlines() if kept.exists() else []
    before = json.loads(lines[-1])["seconds"] if lines else 0.0
    try:
        with open(kept, "a") as stream:
            while process.poll() is None:
                sample = _sample(process.pid, out, before)
                if sample is not None and sample.evaluations > seen:
                    seen = sample.evaluations
                    stream.write(json.dumps(asdict(sample)) + "\n")
                    stream.flush()
                time.sleep(EVERY_S if seen > 0 else 0.1)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return f"exit code {process.returncode}" if process.returncode else ""


def _resumed(out: Path, method: str, cases: int) -> tuple[str, float]:
    """What was wrong when a generation was added to a finished run, and the seconds that it took."""
    begun, target = time.monotonic(), max(cases, _evaluations(out)) + 21
    process = _run(_command(out, method, target))
    code, seconds = process.wait(), time.monotonic() - begun
    if code:
        return f"exit code {code} of --resume", seconds
    return (f"{seconds:.0f} s to resume" if seconds > MOST_RESUME_S else ""), seconds


def judged(samples: Sequence[Sample], cases: int, resume_s: float, method: str) -> Outcome:
    """What samples of a run say, and what is wrong with it, from the first tenth on, or once the window is full."""
    first = FULL if cases > 2 * FULL else cases // 10
    settled = [sample for sample in samples if first <= sample.evaluations <= cases]
    if len(settled) < 3:
        return Outcome(
            f"{method}, {cases:,} evaluations", f"expected 3 samples at least, found {len(settled)}"
        )
    at, _, memory, disk = (np.array(column, float) for column in zip(*map(astuple, settled), strict=True))
    grows, low, high = slope(at / 1e6, memory)
    disk_grows, span = slope(at / 1e6, disk)[0], (at[-1] - at[0]) / 1e6
    slower = _slower(samples, cases)
    fault = ""
    if cases > 2 * FULL and (grows > MOST_MEMORY or disk_grows > MOST_DISK):
        fault = "grows too fast"
    elif grows * span > MOST_FILLING:
        fault = "grows too much while its window fills"
    elif slower > MOST_SLOWER:
        fault = "gets slower"
    said = (
        f"{method}, {cases:,} evaluations in {samples[-1].seconds:,.0f} s; from {settled[0].evaluations:,} on"
        f" {memory[0]:.0f} to {memory[-1]:.0f} MiB in memory, {grows:+.0f} ({low:+.0f} to {high:+.0f}) a million;"
        f" {disk[0]:.1f} to {disk[-1]:.1f} MiB on disk, {disk_grows:+.1f} a million; an evaluation took"
        f" {slower:.2f} times as long at the end; resumed in {resume_s:.0f} s"
    )
    return Outcome(said, fault and f"{fault}: {said}")


def slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """The slope of y float64 [N] over x float64 [N], and its 95 % interval, from means of consecutive blocks.

    The interval is infinite where there are fewer than three samples to a slope.
    """
    blocks = np.array_split(np.arange(len(x)), min(BLOCKS, len(x)))
    fit = stats.linregress([x[b].mean() for b in blocks], [y[b].mean() for b in blocks])
    if len(blocks) < 3:
        return float(fit.slope), -math.inf, math.inf
    half = float(stats.t.ppf(0.975, len(blocks) - 2)) * float(fit.stderr)
    return float(fit.slope), float(fit.slope) - half, float(fit.slope) + half


def _slower(samples: Sequence[Sample], cases: int) -> float:
    """Seconds of the processor per evaluation in the last tenth of a run, over those in its second tenth."""
    at, seconds = (np.array([getattr(s, n) for s in samples], float) for n in ("evaluations", "seconds"))
    ends = np.interp([cases * share for share in (0.1, 0.2, 0.9, 1.0)], at, seconds)
    early, late = ends[1] - ends[0], ends[3] - ends[2]
    return float(late / early) if early > 0 else 1.0


def _trim(kept: Path, done: int) -> None:
    """Drop the samples beyond what a run that goes on has kept: it will go through them again."""
    lines = kept.read_text().splitlines() if kept.exists() else []
    left = [line for line in lines if json.loads(line)["evaluations"] <= done]
    kept.write_text("".join(f"{line}\n" for line in left))


def _evaluations(out: Path) -> int:
    """How far the run in a folder is, by the last row of its metrics; 0 where there is none."""
    row = _last_row(out)
    return 0 if row is None else int(row["evaluations"])


def _last_row(out: Path) -> dict[str, str] | None:
    try:
        with open(out / "metrics.csv", "rb") as stream:
            names = stream.readline().decode()
            stream.seek(-min(4000, stream.seek(0, os.SEEK_END)), os.SEEK_END)
            last = stream.read().decode().splitlines()[-1]
    except (OSError, IndexError):
        return None
    row = next(csv.DictReader([names, last]), None)
    return None if row is None or last == names.strip() or None in row.values() else row


def _sample(pid: int, out: Path, before: float) -> Sample | None:
    """How far the run is, with seconds `before` this process; None if it has no whole row, or has ended."""
    row = _last_row(out)
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        if row is None:
            return None
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        evaluations = int(row["evaluations"])
        seconds = before + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return Sample(evaluations, seconds, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, disk / 2**20)
