"""The table of all instances of a folder: `python -m mlsys2026.reproduce DIR [--seconds S] [--cores C] [--seed N]`.

DIR has instances (.json) and may have results.csv with the columns instance (the number at the end of the file's
name) and winner_cost. Every schedule is replayed by the judge; the cost is what the judge says.
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from hwsim.jit import clock
from mlsys2026.instance import load_instance
from mlsys2026.judge import replay
from mlsys2026.problem import Mlsys2026, contest_seconds
from workloads.errors import InputError

PROOF_S = 900.0
"""Seconds for the bound of a small instance, after those of the contest; the schedule stays what it was."""
FORMS = {
    "instance": "", "ops": "", "steps": "", "cost": ".10g", "winner": ".10g", "winner / cost": ".5f", "bound": ".10g",
    "gap": ".2%", "seconds": ".1f", "cores": "",
}  # fmt: skip
"""The columns, and how their numbers are written."""


def winners(folder: Path) -> dict[str, float]:
    """The winner's cost by number, of results.csv; empty if there is none. InputError if it has other columns."""
    file = folder / "results.csv"
    if not file.is_file():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        try:
            return {row["instance"]: float(row["winner_cost"]) for row in csv.DictReader(lines)}
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{file}: expected columns instance and winner_cost, found none: {error}"
            ) from error


def number_of(file: Path) -> int:
    """The number at the end of a file's name; 0 if there is none."""
    found = re.search(r"(\d+)$", file.stem)
    return int(found[1]) if found else 0


def row(file: Path, winner: float | None, seconds: float | None, cores: int, seed: int) -> dict[str, object]:
    """Solve one instance within the contest's seconds, or those given, which count reading. The bound has its own."""
    begun = clock()
    problem = Mlsys2026(load_instance(str(file)))
    limit = contest_seconds(file.stem) if seconds is None else seconds
    solving = problem.solving(seed, cores)
    solving.work(max(0.0, limit - (clock() - begun)))
    took = clock() - begun
    steps = problem.steps(solving.best)
    solving.close()
    solving.prove_for(PROOF_S)
    verdict = replay(problem.instance, steps)
    if verdict.violations:
        raise RuntimeError(f"{file}: the schedule breaks a rule: {verdict.violations[0]}")
    cost = float(verdict.total)
    ratio = None if winner is None else winner / cost
    gap = max(0.0, 1 - solving.bound.cost / cost)
    name, ops = number_of(file) or file.stem, len(problem.instance)
    cells = (name, ops, len(steps), cost, winner, ratio, solving.bound.cost, gap, took, cores)
    return dict(zip(FORMS, cells, strict=True))


def line(cells: Sequence[object]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table. Exit code 2 if the input is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m mlsys2026.reproduce", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, help="for every instance; default: the contest's")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    try:
        known = winners(given.folder)
        files = sorted(given.folder.glob("*.json"), key=lambda file: (number_of(file), file.name))
        if not files:
            raise InputError(f"{given.folder}: expected a folder with instances (.json), found none")
        print(line(tuple(FORMS)))
        print(line(["---"] * len(FORMS)), flush=True)
        rows = []
        for file in files:
            rows.append(row(file, known.get(str(number_of(file))), given.seconds, given.cores, given.seed))
            cells = ["" if v is None else format(v, FORMS[name]) for name, v in rows[-1].items()]
            print(line(cells), flush=True)
    except InputError as error:
        print(f"mlsys2026: error: {error}", file=sys.stderr)
        return 2
    ratios = [float(str(found["winner / cost"])) for found in rows if found["winner / cost"] is not None]
    gaps = [float(str(found["gap"])) for found in rows]
    print(
        f"\nsum of winner / cost: {sum(ratios):.3f} of {len(ratios)}; median gap: {statistics.median(gaps):.2%}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
