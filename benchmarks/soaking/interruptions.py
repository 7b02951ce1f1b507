"""What comes from outside while a run goes on: a full disk."""

from __future__ import annotations

import random
import resource
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.soaking.trial import Outcome, Subject, child, fresh, in_turn, one_line, wait

FULL = ("No space left", "File too large", "too large")


def full_disk(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """No file may grow beyond a random size; the run ends in one line, and goes on where there is room again."""
    for _, subject in zip(range(cases), in_turn(rng, all_of), strict=False):
        if fault := subject.prepare(folder):
            yield Outcome(subject.name, fault)
            continue
        out = fresh(subject, "full")
        largest = max(path.stat().st_size for path in subject.whole.rglob("*") if path.is_file())
        limit = int(2000 * (max(largest, 4000) / 2000) ** rng.random())
        log = out.with_suffix(".log")
        code, said = wait(child(subject.command(out), log, lambda limit=limit: _limit(limit)), log)
        fault = one_line(code, said, (0, 1))
        if code == 1 and not any(word in said for word in FULL):
            fault = fault or f"named otherwise: {said}"
        yield Outcome(f"{subject.name}, files of {limit} bytes", fault or subject.compare(out))


def _limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def full_volume(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """The same on a volume of a random size, where this machine lets one be made; else nothing."""
    volume = folder / "volume"
    volume.mkdir(exist_ok=True)
    for _, subject in zip(range(cases), in_turn(rng, all_of), strict=False):
        if fault := subject.prepare(folder):
            yield Outcome(subject.name, fault)
            continue
        whole = sum(path.stat().st_size for path in subject.whole.rglob("*") if path.is_file()) // 1024
        size = rng.randint(16, max(17, whole))
        if subprocess.run(_mount(f"size={size}k", volume), capture_output=True, check=False).returncode:
            return
        try:
            out, log = volume / "run", folder / "volume.log"
            code, said = wait(child(subject.command(out), log), log)
            fault = one_line(code, said, (0, 1))
            if code == 1 and not any(word in said for word in FULL):
                fault = fault or f"named otherwise: {said}"
            subprocess.run(_mount("remount,size=1g", volume), check=True)
            yield Outcome(f"{subject.name}, {size} KiB", fault or subject.compare(out))
        finally:
            subprocess.run(["umount", str(volume)], check=True)


def _mount(options: str, volume: Path) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(volume)]
