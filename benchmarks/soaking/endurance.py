"""A long run of a cheap method: what it holds in memory and on disk as it goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from soaking.trial import ROOT, Outcome, Subject

MOST_MEMORY, MOST_DISK = 64.0, 16.0
"""MiB that a run may grow by in memory and on disk per million evaluations, once its window of mappings is full."""
FULL = 200_000
"""Evaluations after which the window of mappings (100,000) is full, on disk too, where two checkpoints are kept."""


def long_run(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """So many evaluations at random; one outcome, which says what they took."""
    out = folder / "long"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "random",
        "--evals",
        str(cases),
        "--bound-seconds",
        "0",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "egrl", *argv, "--quiet", "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    begun, seen = time.monotonic(), []
    while process.poll() is None:
        if (sample := _sample(process.pid, out)) is not None:
            seen.append(sample)
        time.sleep(0.5)
    seconds = time.monotonic() - begun
    settled = [sample for sample in seen if sample[0] >= min(FULL, cases // 2)]
    fault = f"exit code {process.returncode}" if process.returncode else ""
    if not settled:
        yield Outcome(f"{cases:,} evaluations", fault or "no sample")
        return
    (first, memory, disk), (last, memory_at_end, disk_at_end) = settled[0], settled[-1]
    share = max(last - first, 1) / 1e6
    grown = (memory_at_end - memory) / share, (disk_at_end - disk) / share
    if cases > 2 * FULL and (grown[0] > MOST_MEMORY or grown[1] > MOST_DISK):
        fault = fault or "grows too fast"
    said = (
        f"{cases:,} evaluations in {seconds:.0f} s; from {first:,} to {last:,} memory {memory:.0f} to"
        f" {memory_at_end:.0f} MiB, disk {disk:.1f} to {disk_at_end:.1f} MiB: by {grown[0]:.0f} and {grown[1]:.0f} MiB"
        " a million"
    )
    yield Outcome(said, fault and f"{fault}: {said}")


def _sample(pid: int, out: Path) -> tuple[int, float, float] | None:
    """Evaluations so far, MiB in memory, MiB on disk; None where the run has not come so far."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        with open(out / "metrics.csv", "rb") as stream:
            stream.seek(-min(2000, stream.seek(0, os.SEEK_END)), os.SEEK_END)
            evaluations = int(stream.read().splitlines()[-1].split(b",")[1])
        disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    except (OSError, ValueError, IndexError):
        return None
    return evaluations, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, disk / 2**20
