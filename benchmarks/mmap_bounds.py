"""How far plays of the MMapGame are from the upper bound on their return, for the programs that ship.

    python benchmarks/mmap_bounds.py [--seconds 60] [--program NAME_OR_FILE ...] [--plays 200] [--literal]

A program a row: its decisions; the bound and the seconds that it took; the share of steps at which its linear program
counted room (0: the trivial bound); the return if everything that fits lay in fast memory, which is the trivial bound;
the best return of random plays, of the plays that wish Copy or NoCopy everywhere, of the heuristic's projection and of
the best greedy play; the best of these over the bound, and what is at most to gain.
"""

from __future__ import annotations

import argparse
import re

import numpy as np

from hwsim.mmap.bound.upper import trivial_bound, upper_bound
from hwsim.mmap.bound.uses import uses_of
from hwsim.mmap.chip import load_chip
from hwsim.mmap.players import best_greedy
from hwsim.mmap.problem import MmapConfig, MmapProblem
from workloads.load import load_program
from workloads.programs import program_names

AT_ONCE = 20


def random_return(problem: MmapProblem, plays: int) -> float:
    """The best reward of random proposals."""
    rng, best = np.random.default_rng(0), 0.0
    for first in range(0, plays, AT_ONCE):
        count = min(AT_ONCE, plays - first)
        mapping = rng.integers(0, 3, (count, *problem.space.initial.shape)).astype(np.int16)
        best = max(best, float(problem.evaluate(mapping, np.zeros(count, np.uint64)).reward.max()))
    return best


def row(problem: MmapProblem, seconds: float, plays: int) -> str:
    """A row of the table."""
    bound = upper_bound(problem.tables, seconds)
    counted = re.search(r"\(([\d,]+) of ([\d,]+) steps", bound.proof)
    steps = [int(number.replace(",", "")) for number in counted.groups()] if counted else [0, 1]
    same = np.stack([np.full_like(problem.space.initial, choice) for choice in (1, 2)])
    copy, no_copy = problem.evaluate(same, np.zeros(2, np.uint64)).reward
    found = random_return(problem, plays)
    plays_of = np.stack([problem.baseline.mapping, best_greedy(problem.game)[:, None]])
    projection, greedy = problem.evaluate(plays_of, np.zeros(2, np.uint64)).reward
    best = max(found, copy, no_copy, projection, greedy)
    return (
        f"| {problem.about.workload} | {int(problem.space.live.sum()):,} |"
        f" {trivial_bound(problem.tables, uses_of(problem.tables)):.3f} | {bound.reward:.4f} |"
        f" {steps[0] / steps[1]:.0%} | {bound.seconds:.1f} | {found:.3f} | {copy:.3f} | {no_copy:.3f} |"
        f" {projection:.3f} | {greedy:.3f} | {best / bound.reward:.1%} | {bound.reward / best - 1:.1%} |"
    )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--program", nargs="*", default=list(program_names()))
    parser.add_argument("--plays", type=int, default=200)
    parser.add_argument("--literal", action="store_true")
    given = parser.parse_args()
    chip, config = load_chip("tpuv4i"), MmapConfig(literal_copies=given.literal)
    print(
        f"| program | decisions | trivial | bound | steps | seconds | {given.plays} random | Copy | NoCopy |"
        " projection | greedy | best / bound | at most to gain |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in given.program:
        print(row(MmapProblem(load_program(name), chip, config), given.seconds, given.plays), flush=True)


if __name__ == "__main__":
    main()
