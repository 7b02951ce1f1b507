"""Deaths on a Ray cluster of three nodes on this machine: of a worker, of a node's processes, of the driver."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.soaking.trial import ROOT, Outcome, Subject, fresh
from egrl.measure.ray_executor import ENVIRONMENT

NODES = 3
VICTIMS = ("worker", "node", "driver")
MEASURED_ON_RAY = (
    "nnpi annealing",
    "nnpi ea",
    "mcm annealing",
    "mmap random",
    "shard annealing",
    "training ea",
)
LIMIT_S = 240.0


def deaths(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """One of the three at a random instant of a run, which equals one in this process."""
    os.environ |= {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)}
    chosen = [subject for subject in all_of if subject.name in MEASURED_ON_RAY]
    # Before Ray is loaded: a process that is forked afterwards aborts in gRPC.
    faults = [subject.prepare(folder) for subject in chosen]
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [made.add_node(num_cpus=1) for _ in range(NODES)]
        made.wait_for_nodes()
        for case in range(cases if chosen else 0):
            subject, victim = chosen[case % len(chosen)], VICTIMS[(case + case // len(chosen)) % len(VICTIMS)]
            fault, met = faults[case % len(chosen)], False
            if not fault:
                there = replace(
                    subject, argv=_longer(subject.argv, made.address), again=["--ray-address", made.address]
                )
                out = fresh(subject, "on-ray")
                fault, met = _disturbed(rng, there, out, victim, made, nodes)
                fault = fault or subject.difference(out)
            yield Outcome(f"{subject.name}, {victim}{'' if met else ' (it had ended)'}", fault)
    finally:
        made.shutdown()


def _longer(argv: list[str], address: str) -> list[str]:
    return [*argv, "--executor", "ray", "--ray-address", address, "--workers", str(NODES)]


def _disturbed(
    rng: random.Random, subject: Subject, out: Path, victim: str, made: Any, nodes: list[Any]
) -> tuple[str, bool]:
    """Run it to its end, with a death on the way; what was wrong, and whether the death met it."""
    log = out.with_suffix(".log")
    process = _start(subject, out, log)
    deadline = time.monotonic() + LIMIT_S
    while not (out / "metrics.csv").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 0.5))
    met = process.poll() is None
    if victim == "driver":
        if met:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    elif victim == "node":
        made.remove_node(nodes.pop(0), allow_graceful=False)
        nodes.append(made.add_node(num_cpus=1))
    else:
        for pid in _workers()[:1]:
            os.kill(pid, signal.SIGKILL)
    if victim == "driver" and met:
        process = _start(subject, out, log)
    try:
        code = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"hung for {LIMIT_S:g} s", met
    said = log.read_text(errors="replace").strip()
    return ("" if code == 0 and not said else f"exit code {code}: {said[-300:]}"), met


def _start(subject: Subject, out: Path, log: Path) -> subprocess.Popen[bytes]:
    with open(log, "wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "egrl", *subject.command(out)],
            cwd=ROOT, stdout=stream, stderr=stream, start_new_session=True,
        )  # fmt: skip


def _workers() -> list[int]:
    """The processes of Ray that measure, of this user, by their titles; the newest first."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::") and path.stat().st_uid == os.getuid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return sorted(found, reverse=True)
