"""What small searches find, to the last bit: a change that means to change nothing is held to it.

    python tools/golden.py            compare with tests/golden.json; exit code 1 if anything differs
    python tools/golden.py --write    write it anew: say in the commit why results changed

A case is a search of 40 evaluations that leaves a run folder. Kept of each are its key numbers, so that a difference
says what differs, and digests of summary.json, metrics.csv and best_mapping.json without seconds, versions and paths.

Bits hang on libraries, and some on the processor too: PyTorch, and the linear algebra of the twin, add up in another
order with other SIMD registers. The file names both; `reason_to_skip` says which cases cannot be compared elsewhere.
All others gave the same bits with NumPy and numba kept from AVX (NPY_DISABLE_CPU_FEATURES, NUMBA_CPU_NAME=generic).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before libraries are loaded

import egrl
from egrl.runs.summary import COUNTED
from hwsim.kernel_cache import machine_name

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "golden.json"
BOARD = ROOT / "tests" / "fake_board.py"
EVALS, GENERATION = 40, 8
BY_PROCESSOR = ("egrl", "ea", "pg", "ppo", "twin")
"""Methods that give other bits on another processor."""
WITHOUT = ("seconds", "model_seconds", "bound_seconds", "versions", "evaluator")
"""Keys of a summary that differ between equal runs, or name paths; each process counts its own calls of a board."""
WORKLOADS = {
    "nnpi": ("alexnet", "nnpi"),
    "mmap": ("alexnet:backward=1", "tpuv4i"),
    "mcm": ("mobilenet_v2", "edge4"),
}
UNET = ("network.width=8", "network.depth=2", "network.attention_heads=2")
LEARNER = ("learner.critic.width=8", "learner.sac.batch=4")
PROFILE_MODEL = ("profile_model.steps=5", "profile_model.most=16", "profile_model.proposals=3")
SMALL: dict[str, tuple[str, ...]] = {
    "egrl": (*UNET, *LEARNER, *PROFILE_MODEL),
    "ea": UNET,
    "pg": (*UNET, *LEARNER),
    "ppo": (
        "network.layers=1",
        "network.width=8",
        "network.waves=2",
        "learner.epochs=1",
        "learner.minibatches=1",
    ),
    "twin": ("steps=100", "candidates=50"),
    "revise": ("moves=50",),
}
"""Settings of methods that would take seconds."""


@dataclass(frozen=True)
class Case:
    """A search: the arguments of `egrl.search`, and in which generation its cut twin is cut off (0: it has none)."""

    problem: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    board: str = ""
    cut: int = 0

    def arguments(self) -> dict[str, Any]:
        """Of `egrl.search`, for a new run."""
        workload, chip = WORKLOADS[self.problem]
        given = {"workload": workload, "chip": chip, "problem": self.problem, "method": self.method}
        settings = [f"method.{line}" for line in SMALL.get(self.method, ())]
        settings += ["evaluator.exact=true"] if self.board else []
        budget = {
            "evals": EVALS,
            "generation_evals": GENERATION,
            "bound_seconds": 0.0,
            "checkpoint_seconds": 0.0,
        }
        return {**given, "settings": settings, **budget, **self.evaluator(), **self.options}

    def evaluator(self) -> dict[str, str]:
        """The option that names the board, if it has one."""
        return {"evaluator": f"{sys.executable} {BOARD} {self.board}"} if self.board else {}


COLD, PAPER = {"start": "cold"}, {"preset": "paper"}
CASES: dict[str, Case] = {
    "nnpi egrl": Case("nnpi", "egrl", COLD, cut=3),
    "nnpi ea": Case("nnpi", "ea", COLD, cut=2),
    "nnpi pg": Case("nnpi", "pg", COLD, cut=3),
    "nnpi ppo": Case("nnpi", "ppo", COLD, cut=3),
    "nnpi twin": Case("nnpi", "twin", cut=3),
    "nnpi exact": Case("nnpi", "exact"),
    "nnpi annealing": Case("nnpi", "annealing", cut=4),
    "nnpi egrl paper": Case("nnpi", "egrl", PAPER, cut=2),
    "nnpi ea paper": Case("nnpi", "ea", PAPER),
    "nnpi pg paper": Case("nnpi", "pg", PAPER),
    "mmap egrl": Case("mmap", "egrl", cut=3),
    "mmap ea": Case("mmap", "ea"),
    "mmap pg": Case("mmap", "pg", COLD),
    "mmap ppo": Case("mmap", "ppo"),
    "mmap revise": Case("mmap", "revise", cut=3),
    "mmap revise paper": Case("mmap", "revise", PAPER),
    "mcm egrl": Case("mcm", "egrl", COLD, cut=3),
    "mcm ea": Case("mcm", "ea", COLD),
    "mcm pg": Case("mcm", "pg", COLD),
    "mcm ppo": Case("mcm", "ppo", COLD, cut=2),
    "mcm ppo paper": Case("mcm", "ppo", PAPER),
    "mcm twin": Case("mcm", "twin", COLD, cut=3),
    "mcm exact": Case("mcm", "exact"),
    "mcm random": Case("mcm", "random", COLD, cut=4),
    "board egrl": Case("nnpi", "egrl", COLD, "well", cut=3),
    "board egrl with profiles": Case("nnpi", "egrl", COLD, "profile", cut=3),
    "board ea": Case("nnpi", "ea", COLD, "well"),
    "board twin": Case("nnpi", "twin", COLD, "well", cut=3),
    "board twin with profiles": Case("nnpi", "twin", COLD, "profile", cut=3),
}


class CutOffError(Exception):
    """The process ends here, as far as the run folder can tell."""


def whole(case: Case, folder: Path) -> dict[str, Any]:
    """What an uninterrupted run finds, in `folder`, which must not exist."""
    egrl.search(**case.arguments(), out=folder)
    return found(folder)


def cut(case: Case, folder: Path) -> dict[str, Any]:
    """What a run finds that is cut off in generation `case.cut`, and goes on from what the folder has."""

    def stop(row: Mapping[str, Any]) -> None:
        if row["generation"] >= case.cut:
            raise CutOffError

    try:
        egrl.search(**case.arguments(), out=folder, on_generation=stop)
    except CutOffError:
        pass
    else:
        raise ValueError(f"cut: expected a generation that the run has, received {case.cut}")
    egrl.search(resume=folder, **case.evaluator())
    return found(folder)


def found(folder: Path) -> dict[str, Any]:
    """The key numbers of a run folder, and the digests of what equal runs have in common."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    with open(folder / "metrics.csv", encoding="utf-8") as stream:
        rows = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]
    best, kept = summary["best"] or {}, {k: v for k, v in summary.items() if k not in WITHOUT}
    return {
        **{f"best {key}": best.get(key) for key in ("cost", "speedup", "source", "evaluation")},
        "baseline cost": summary["baseline"]["cost"],
        "evaluations": summary["evaluations"],
        "mean reward, last": rows[-1].get("mean_reward"),
        "summary.json": digest(json.dumps(kept, sort_keys=True)),
        "metrics.csv": digest(json.dumps(rows)),
        "best_mapping.json": digest((folder / "best_mapping.json").read_text(encoding="utf-8")),
    }


def digest(text: str) -> str:
    """Sixteen digits of a text's digest."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made_with() -> dict[str, str]:
    """What bits hang on: the libraries that compute, and the processor."""
    return {**{name: version(name) for name in COUNTED}, "processor": machine_name()}


def reason_to_skip(name: str, theirs: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Why a case that was written with one set of libraries cannot be compared with another; "" if it can."""
    hangs_on = [
        key for key in here if CASES[name].method in BY_PROCESSOR or key not in ("torch", "processor")
    ]
    differ = [
        f"{key} {theirs.get(key)}, here {here[key]}" for key in hangs_on if theirs.get(key) != here[key]
    ]
    return f"written with {'; '.join(differ)}" if differ else ""


def differences(name: str, expected: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, one line each; digests alone if no key number does."""
    return [
        f"{name}: {key}: expected {expected.get(key)}, found {now[key]}"
        for key in now
        if expected.get(key) != now[key]
    ]


def read() -> dict[str, Any]:
    """The committed file: "made_with", and "cases" by name."""
    document: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return document


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {FILE.relative_to(ROOT)}")
    write = parser.parse_args(argv).write
    with tempfile.TemporaryDirectory() as folder:
        now = {name: whole(case, Path(folder) / name.replace(" ", "-")) for name, case in CASES.items()}
    if write:
        document = {"kind": "golden", "version": 1, "made_with": made_with(), "cases": now}
        FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return 0
    then, here = read(), made_with()
    for name in CASES:
        skipped = reason_to_skip(name, then["made_with"], here)
        lines = (
            [f"{name}: skipped: {skipped}"] if skipped else differences(name, then["cases"][name], now[name])
        )
        print("\n".join(lines or [f"{name}: equal"]))
    return int(
        any(not reason_to_skip(n, then["made_with"], here) and then["cases"][n] != now[n] for n in CASES)
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
