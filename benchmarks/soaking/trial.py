"""Runs in children of this process, which may be killed, starved or misled, and what is compared afterwards."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egrl.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
FAKE_BOARD = f"{sys.executable} {ROOT / 'tests' / 'fake_board.py'}"
LIMIT_S = 240.0
"""Seconds after which a child hangs."""
HANGS = -999
"""The exit code of a child that hangs."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case: what was done, and what was wrong with it ("": nothing)."""

    what: str
    fault: str = ""


@dataclass
class Subject:
    """A search that is done wrong to.

    Attributes:
        name: problem, method and who measures.
        argv: of `egrl run`, or of another command, which is named first: the same again goes on.
        again: what `egrl run --resume` needs besides.
        documents: files that two equal ones of another command have in common.
        whole: the folder of an undisturbed run, and `seconds` that it took.
    """

    name: str
    argv: list[str]
    again: list[str] = field(default_factory=list)
    documents: tuple[str, ...] = ()
    whole: Path = Path()
    seconds: float = 0.0

    def command(self, out: Path) -> list[str]:
        """Begin the run, or go on with it."""
        if self.documents:
            return [*self.argv, "--quiet", "--out", str(out)]
        if (out / "config.toml").exists():
            return ["run", "--resume", str(out), "--quiet", *self.again]
        return ["run", *self.argv, "--checkpoint-seconds", "0", "--quiet", "--out", str(out)]

    def prepare(self, folder: Path) -> str:
        """Make the undisturbed run, once; what went wrong."""
        if self.whole != Path():
            return ""
        out = folder / self.name.replace(" ", "-").replace(":", "-") / "whole"
        kept = out.with_suffix(".seconds")
        if kept.exists():
            self.whole, self.seconds = out, float(kept.read_text())
            return ""
        shutil.rmtree(out.parent, ignore_errors=True)
        out.parent.mkdir(parents=True)
        begun = time.monotonic()
        fault = self.end(out)
        self.whole, self.seconds = out, time.monotonic() - begun
        if not fault:
            kept.write_text(str(self.seconds))
        return fault

    def end(self, out: Path) -> str:
        """Let the run in `out` come to its end; what is wrong with how it did."""
        code, said = wait(child(self.command(out), out.with_suffix(".log")), out.with_suffix(".log"))
        return "" if code == 0 and not said else f"exit code {code}: {said[-300:]}"

    def compare(self, out: Path) -> str:
        """How a run in `out` that was brought to its end differs from the undisturbed one."""
        return self.end(out) or self.difference(out)

    def difference(self, out: Path) -> str:
        """How a run in `out` that has come to its end differs from the undisturbed one."""
        a, b = (traces(path, self.documents) for path in (self.whole, out))
        return "; ".join(f"other {name}" for name in a if a[name] != b[name])


def subjects(folder: Path) -> list[Subject]:
    """Every problem, and every method on one that it serves."""
    sys.path[:0] = [
        str(ROOT / folder) for folder in ("tests", "tools", "plugins/shard/tests", "plugins/training/tools")
    ]
    from egrl_training.steps.json_file import to_json
    from make_sharding import make
    from make_training import unet
    from subjects import SMALL

    shard, step = folder / "shard.json", folder / "step.json"
    shard.write_text(json.dumps(make(7, nodes=9)))
    step.write_text(to_json(unet(1)))
    problems = {
        "nnpi": ["--workload", "alexnet"],
        "mmap": ["--problem", "mmap", "--workload", "alexnet:backward=1"],
        "mcm": ["--problem", "mcm", "--workload", "mobilenet_v2"],
        "fft": ["--problem", "fft", "--workload", "dft-64", "--set", "problem.cost=model"],
        "shard": ["--problem", "shard", "--workload", str(shard)],
        "banks": ["--problem", "banks", "--workload", "alexnet:backward=1", "--chip", "edge"],
        "training": ["--problem", "training", "--workload", str(step)],
    }
    methods = {
        "nnpi": "egrl ea pg es ppo annealing greedy-dp random exact",
        "mmap": "muzero revise annealing random tag",
        "mcm": "annealing random ea egrl ppo uct",
        "fft": "tag uct random-plans greedy-dp annealing",
        "shard": "annealing ea random tag exact",
        "banks": "annealing random exact",
        "training": "annealing ea random exact",
    }
    found = []
    for problem, names in methods.items():
        for method in names.split():
            settings = [f"method.{key}={value}" for key, value in SMALL.get(method, {}).items()]
            small = [word for setting in settings for word in ("--set", setting)]
            argv = [*problems[problem], "--method", method, "--gens", "6", "--bound-seconds", "0", *small]
            found.append(Subject(f"{problem} {method}", argv))
    alike = {subject.name: subject.argv for subject in found}
    board = ["--evaluator", f"{FAKE_BOARD} well"]
    quick = ["--set", "method.steps=100", "--set", "method.candidates=50"]
    found += [
        Subject("nnpi ea, 2 workers", [*alike["nnpi ea"], "--workers", "2"]),
        Subject("nnpi annealing, Ray", [*alike["nnpi annealing"], "--executor", "ray", "--workers", "2"]),
        Subject("nnpi annealing, 2 boards", [*alike["nnpi annealing"], *board, "--workers", "2"], board),
        Subject("nnpi egrl, 2 boards", [*alike["nnpi egrl"], *board, "--workers", "2"], board),
        Subject(
            "nnpi twin, 2 boards",
            [*problems["nnpi"], "--method", "twin", "--gens", "3", *quick, *board, "--workers", "2"],
            board,
        ),
    ]
    return found


def commands() -> list[Subject]:
    """Commands that make many runs; the same command goes on."""
    networks = [
        word
        for setting in ("width=8", "depth=2", "attention_heads=2")
        for word in ("--set", f"method.network.{setting}")
    ]
    grid = ["--vary", "memories.sram.capacity_bytes=1MiB,4MiB", "--seconds-per-point", "60"]
    trained = [
        "--workloads",
        "alexnet,resnet18",
        "--validation",
        "vgg16",
        "--method",
        "es",
        "--gens",
        "4",
        "--save-every",
        "2",
    ]
    compared = ["--workload", "alexnet", "--methods", "annealing,random", "--seeds", "2", "--evals", "84"]
    return [
        Subject("compare", ["compare", *compared], documents=("comparison.json",)),
        Subject(
            "explore", ["explore", "--workload", "alexnet", *grid], documents=("explore.json", "explore.csv")
        ),
        Subject(
            "pretrain",
            ["pretrain", *trained, *networks],
            documents=("pretraining.json", "policy.safetensors"),
        ),
    ]


def child(argv: Sequence[str], log: Path, before: Callable[[], object] = lambda: None) -> int:
    """Run a command of egrl in a forked child, a session of its own, that says what it says to `log`; its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(handle, stream)
            before()
            code = main(list(argv))
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return pid


def wait(pid: int, log: Path, limit_s: float = LIMIT_S) -> tuple[int, str]:
    """The exit code of a child, negative for a signal, and all that it said. What it started ends with it."""
    deadline = time.monotonic() + limit_s
    done, status = os.waitpid(pid, os.WNOHANG)
    while not done and time.monotonic() < deadline:
        time.sleep(0.005)
        done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        kill(pid)
        os.waitpid(pid, 0)
    elif os.WIFSIGNALED(status):
        kill(pid)  # boards and workers
    said = log.read_text(errors="replace") if log.exists() else ""
    return (os.waitstatus_to_exitcode(status) if done else HANGS), said.strip()


def kill(pid: int) -> None:
    """End a child and what it has started, at once."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
        except OSError:
            continue


def traces(out: Path, documents: Sequence[str] = ()) -> dict[str, Any]:
    """What two equal runs have in common: all but times, how often boards were asked, and which libraries the process
    had loaded; of another command, its `documents` but for their times.
    """
    if documents:
        return {name: _timeless(out / name) for name in documents}
    with open(out / "metrics.csv") as stream:
        rows = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]
    summary = json.loads((out / "summary.json").read_text())
    kept = {
        k: v for k, v in summary.items() if not k.endswith("seconds") and k not in ("evaluator", "versions")
    }
    best = out / "best_mapping.json"
    return {"metrics": rows, "summary": kept, "best": best.read_text() if best.exists() else ""}


def _timeless(path: Path) -> Any:
    """The content of a JSON document without its seconds; the bytes of another file."""
    if not path.exists():
        return None
    return _without_seconds(json.loads(path.read_text())) if path.suffix == ".json" else path.read_bytes()


def _without_seconds(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _without_seconds(v) for k, v in node.items() if not k.endswith("seconds")}
    return [_without_seconds(value) for value in node] if isinstance(node, list) else node


def in_turn(rng: random.Random, all_of: Sequence[Subject]) -> Iterator[Subject]:
    """One subject after the other, each round in another order."""
    while True:
        yield from rng.sample(all_of, len(all_of))


def one_line(code: int, said: str, codes: tuple[int, ...]) -> str:
    """What is wrong with how a command ended: it must be one line, with one of these exit codes; 0 may say nothing."""
    if code not in codes:
        return f"exit code {code}: {said[-300:]}"
    lines = said.splitlines()
    if code and (len(lines) != 1 or not lines[0].startswith("egrl: error: ") or len(lines[0]) > 1600):
        return f"exit code {code} in {len(lines)} lines: {said[-300:]}"
    return ""


def fresh(subject: Subject, label: str) -> Path:
    """A path for another run of a subject, where nothing is."""
    out = subject.whole.parent / label
    shutil.rmtree(out, ignore_errors=True)
    return out
