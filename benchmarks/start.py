"""How long starting takes: to load the package, to print the help, and from the command to the first measurement.

    python benchmarks/start.py [--repeats 5] [--against OTHER_TREE]

Every row is a process of its own; the figures are medians of the wall time in seconds, after one run that is not
counted, so that files are in memory and numba's machine code is cached. A search makes one evaluation and proves
nothing. With `--against` the rows are measured in another checkout, too, in turn with this one, and the ratio printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
SEARCHES = [
    ("nnpi", "bert"),
    ("mcm", "resnet50"),
    ("mmap", "alexnet"),
    ("fft", "dft-64"),
]
"""Problem, and a workload of it."""
METHODS = {"fft": ("random", "")}
"""Methods that are measured, where not all of `random`, `ea` and `egrl`; "": the problem's own."""


def rows() -> list[tuple[str, list[str]]]:
    """What is measured, and the arguments of Python; a search gets its folder later."""
    found = [("import egrl", ["-c", "import egrl"]), ("egrl --help", ["-m", "egrl", "--help"])]
    for problem, workload in SEARCHES:
        for method in METHODS.get(problem, ("random", "ea", "egrl")):
            argv = ["-m", "egrl", "run", "--problem", problem, "--workload", workload, "--evals", "1"]
            argv += ["--bound-seconds", "0", "--quiet", *(["--method", method] if method else [])]
            found.append((f"egrl run: {problem}, {method or 'its own method'}", argv))
    return found


def seconds(tree: Path, argv: Sequence[str]) -> float:
    """Wall time of a Python process that loads the packages of a tree."""
    with tempfile.TemporaryDirectory() as folder:
        out = ["--out", f"{folder}/run"] if "run" in argv else []
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, *argv, *out],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return time.perf_counter() - begun


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", type=Path)
    args = parser.parse_args(argv)
    trees = [ROOT, *([args.against.resolve()] if args.against else [])]
    print("| what | s |" + (" s there | ratio |" if args.against else ""))
    print("|---|---:|" + ("---:|---:|" if args.against else ""))
    for title, command in rows():
        found: list[list[float]] = [[] for _ in trees]
        for _ in range(args.repeats + 1):
            for tree, taken in zip(trees, found, strict=True):
                taken.append(seconds(tree, command))
        here, *there = (median(taken[1:]) for taken in found)
        rest = "".join(f" {other:.2f} | {other / here:.1f} |" for other in there)
        print(f"| {title} | {here:.2f} |{rest}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
