"""Inputs at the edge of what there can be: an answer or one line, within a time and without much memory."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.soaking.trial import HANGS, ROOT, Outcome, Subject, one_line

LIMIT_S = 400.0
"""Seconds that a command may take; the largest inputs are read for minutes on a busy machine."""
LIMIT_BYTES = 12 << 30
"""Of addresses that a command may use, where the case has none of its own."""
TIGHT_BYTES = 2 << 30
"""As `ulimit -v 2097152` has it: PyTorch loads in it, and has room for small networks."""
LARGE_OPS, WIDE_INPUTS = 10**6, 10**5 - 1
SMALL_OPS = 2000
"""Of the small version, in place of both."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Input:
    """What a command is given, and how much it may use.

    Attributes:
        name: for the table.
        flags: of every command.
        methods: that search it.
        bytes: of addresses that a command may use.
    """

    name: str
    flags: list[str]
    methods: tuple[str, ...]
    bytes: int = LIMIT_BYTES


def op(name: str, inputs: Sequence[str], size: int = 64, weight: int = 64) -> Json:
    """An op of a workload file, with an output and a weight of so many bytes."""
    shape = {"ifm": [8, 8, 1], "ofm": [8, 8, 1], "vector_ops": 64}
    sizes = {"output_bytes": size, "weight_bytes": weight, "weight_read_bytes": weight, "parameters": weight}
    return {"name": name, "kind": "conv", "inputs": list(inputs), **shape, **sizes}


def chain(ops: int, size: int = 64, weight: int = 64) -> list[Json]:
    """Ops one after the other."""
    return [op(f"n{i}", [f"n{i - 1}"] if i else [], size, weight) for i in range(ops)]


def wide(inputs: int) -> list[Json]:
    """An op that reads so many others."""
    names = [f"n{i}" for i in range(inputs)]
    return [*(op(name, []) for name in names), op("all", names)]


def sizes(rng: random.Random, all_of: Sequence[Subject], cases: int, folder: Path) -> Iterator[Outcome]:
    """Each command on each input; fewer `cases` than there are stand for the small version, whose inputs are small."""
    small = cases < len(tried(folder, False, make=False))
    tries = tried(folder, small, make=True)
    for what, argv, limit in tries[:cases]:
        shutil.rmtree(folder / "sized", ignore_errors=True)
        yield _try(what, argv, limit)


def tried(folder: Path, small: bool, make: bool) -> list[tuple[str, list[str], int]]:
    """(what, command, bytes that it may use), in order; `make` writes the inputs that they name."""
    found: list[tuple[str, list[str], int]] = []
    for given in inputs(folder, small, make):
        out = ["--out", str(folder / "sized")]
        own = given.flags
        found.append((f"{given.name}: evaluate", ["evaluate", *own], given.bytes))
        found.append((f"{given.name}: bound", ["bound", *own, "--seconds", "5"], given.bytes))
        for method in given.methods:
            run = ["run", *own, "--method", method, "--evals", "42", "--bound-seconds", "2", "--quiet", *out]
            found.append((f"{given.name}: {method}, and its report", run, given.bytes))
    return found


def inputs(folder: Path, small: bool, make: bool) -> list[Input]:
    """What is tried; files of workloads and chips, which `make` writes."""
    large, across = (SMALL_OPS, SMALL_OPS) if small else (LARGE_OPS, WIDE_INPUTS)
    huge = 2**50 - 1  # the largest that a file may have
    graphs: dict[str, Callable[[], list[Json]]] = {
        "large": lambda: chain(large),
        "wide": lambda: wide(across),
        "huge": lambda: chain(3, huge, huge),
        "heavy": lambda: chain(3, 2**62, 2**62),
        "plain": lambda: chain(4, 1000, 1000),
    }
    files = {name: folder / f"{name}.json" for name in graphs}
    byte = folder / "byte.toml"
    if make:
        for name, ops in graphs.items():
            document = {"kind": "workload", "version": 1, "name": name, "ops": ops()}
            files[name].write_text(json.dumps(document))
        text = (ROOT / "hwsim" / "nnpi" / "chips" / "edge.toml").read_text()
        one = text.replace("1_048_576 ", "1 ").replace('name = "edge"', 'name = "byte"')
        byte.write_text(one)
    both, mcm = ("annealing", "ea"), ["--problem", "mcm"]
    every = (*both, "exact", "egrl")

    def of(name: str) -> list[str]:
        return ["--workload", str(files[name])]

    return [
        Input("an op with 10^5 inputs", of("wide"), every),
        Input("an op with 10^5 inputs, mcm", [*of("wide"), *mcm, "--chip", "profiled"], ("annealing",)),
        Input("sizes near 2^50", of("huge"), every),
        Input("sizes near 2^50, mcm", [*of("huge"), *mcm], both),
        Input("sizes of 2^62", of("heavy"), ("annealing",)),
        Input("a memory of one byte", [*of("plain"), "--chip", str(byte)], every),
        Input("ulimit -v 2 GiB", ["--workload", "bert"], every, TIGHT_BYTES),
        Input("ulimit -v 2 GiB, mcm", ["--workload", "resnet50", *mcm], (*both, "egrl"), TIGHT_BYTES),
        Input(
            "ulimit -v 2 GiB, mmap", ["--problem", "mmap", "--workload", "alexnet"], ("revise",), TIGHT_BYTES
        ),
        Input("10^6 ops", of("large"), every),
        Input("10^6 ops, mcm", [*of("large"), *mcm], ("annealing",)),
    ]


def _try(what: str, argv: list[str], limit: int) -> Outcome:
    """One command, and the report of the run that it made."""
    begun = time.monotonic()
    code, said, peak = _run(argv, limit)
    fault = one_line(code, said, (0, 1, 2)) or (said if code == 0 else "")
    if not fault and code == 0 and argv[0] == "run":
        out = argv[argv.index("--out") + 1]
        code, said, more = _run(["report", out, "-o", f"{out}.html"], limit)
        fault, peak = one_line(code, said, (0, 1, 2)) or (said if code == 0 else ""), max(peak, more)
    took = f"{time.monotonic() - begun:.0f} s, {peak / 2**30:.1f} GiB"
    line = f": {said.splitlines()[-1][:200]}" if code else ""
    return Outcome(f"{what}: {took}, {code}{line}", fault)


def _run(argv: list[str], limit: int) -> tuple[int, str, int]:
    """The exit code of a command, its error or warnings on stderr, and the most memory that it held, in bytes."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "egrl", *argv],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )  # fmt: skip
        deadline, done = time.monotonic() + LIMIT_S, 0
        while not done and time.monotonic() < deadline:
            time.sleep(0.05)
            done, status, used = os.wait4(process.pid, os.WNOHANG)
        if not done:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return HANGS, f"hung for {LIMIT_S:g} s", 0
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    if not process.returncode:
        said = "\n".join(line for line in said.splitlines() if "Warning" in line or "Traceback" in line)
    return process.returncode, said, used.ru_maxrss * 1024
