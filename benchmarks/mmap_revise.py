"""What revising games alone finds in the MMapGame: no networks, no play, rounds as the agent has them.

    python benchmarks/mmap_revise.py [--program NAME_OR_FILE ...] [--seconds 60] [--seeds 3] [--round 32] [--hot 0.5]

One program and seed per row: games begun per second; the best return after an eighth, a quarter, half and all of the
time; beside them the heuristic's own return and the upper bound. The first game proposes to keep everything. Seconds
are of the processor, so that several of these can run side by side; one core each.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods.revise import NO_SLOT, Elites, Finished, ReviseConfig, Reviser
from hwsim.mmap.bound.upper import upper_bound
from hwsim.mmap.chip import load_chip
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.mmap.rules.state import NO_COPY
from workloads.load import load_program

PARTS = (1 / 8, 1 / 4, 1 / 2, 1)
SLICE = 512
"""Moves that the agent plans between two times of revising."""


def first(problem: MmapProblem) -> Finished:
    """The game that proposes to keep everything."""
    game = problem.game
    proposal = np.full((1, len(problem.space.nodes)), NO_COPY, np.int16)
    mapping = game.play(proposal).action[0][:, None].astype(np.int16)
    decided = mapping[problem.space.live]
    returned = float(problem.evaluate(np.maximum(mapping, 0)[None], np.zeros(1, np.uint64)).reward[0])
    return Finished(0, NO_SLOT, mapping, returned, tuple(decided.tolist()))


def revised(
    problem: MmapProblem, config: ReviseConfig, seed: int, seconds: float
) -> tuple[float, list[float]]:
    """Games begun a second; the best return after each of `PARTS` of the time."""
    context = Context([problem], Archive([problem]), seed, [None])
    reviser, elites = Reviser([problem.game], config, context), Elites(1, 4, np.random.default_rng(seed))
    elites.keep(first(problem))
    proposal = elites.games[0][0].mapping
    problem.game.revised(proposal, np.uint64(0), 10, 0.0, 0.0)  # compiled before the clock starts
    begin, best = time.process_time(), list[float]()
    while len(best) < len(PARTS):
        reviser.work(SLICE, elites)
        gone = time.process_time() - begin
        best += [elites.games[0][0].returned] * (sum(gone >= part * seconds for part in PARTS) - len(best))
    return reviser.tried / gone, best


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", nargs="*", default=["alexnet_train_batch_32", "alphatensor"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--round", type=float, default=ReviseConfig.round)
    parser.add_argument("--hot", type=float, default=ReviseConfig.hot)
    given = parser.parse_args()
    config, chip = ReviseConfig(round=given.round, hot=given.hot), load_chip("tpuv4i")
    parts = " | ".join(f"{part * given.seconds:g} s" for part in PARTS)
    print(f"| program | seed | games a second | {parts} | heuristic | bound |")
    print("|---|---:|---:|" + "---:|" * (len(PARTS) + 2))
    for name in given.program:
        problem = MmapProblem(load_program(name), chip, MmapConfig())
        heuristic, bound = problem.heuristic_return, upper_bound(problem.tables, 60.0).reward
        for seed in range(given.seeds):
            speed, best = revised(problem, config, seed, given.seconds)
            found = " | ".join(f"{each:.4f}" for each in best)
            row = f"| {problem.about.workload} | {seed} | {speed:,.0f} | {found} | {heuristic:.4f} | {bound:.4f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
