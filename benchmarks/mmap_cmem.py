"""What fast memory is worth: the production heuristic's layouts of the shipped programs for several sizes of CMEM.

    python benchmarks/mmap_cmem.py [--program NAME_OR_FILE ...] [--mib 0 16 72 112 128] [--correlation] [--seed 0]

For each program its speed (1 / latency on the simulated device) at each size, over that at the last size, beside the
curve that is published for the chip (Jouppi et al., ISCA 2021, figure 13, production apps). "estimated" is the same
by the sum of L_I(S), as if copies cost nothing. 0 MiB is everything in HBM.

With `--correlation` instead: Pearson's and Spearman's correlation of reward (return) and latency on the whole chip
over 10 random games, 10 greedy ones at prices on a grid, and the heuristic's projection. The paper's table 5 has
such numbers over ten solutions from training runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from egrl_muzero.mmap.random_play import random_legal
from hwsim.mmap.chip import Chip, load_chip
from hwsim.mmap.device import RUN_S, latency_parts_s, latency_s
from hwsim.mmap.players import best_greedy, greedy
from hwsim.mmap.problem import MmapProblem
from workloads.load import load_program
from workloads.programs import program_names
from workloads.programs.program import Program

PUBLISHED = {0: 69, 16: 82, 72: 90, 112: 98, 128: 100}
"""MiB of CMEM -> performance in % of that at 128 MiB."""
PRICES = tuple((room, copy) for copy in (0.0, 0.25) for room in (0.06, 0.12, 0.25, 0.5, 1.0))


def sized(chip: Chip, mib: int) -> Chip:
    """The chip with another CMEM."""
    return replace(chip, cmem=replace(chip.cmem, capacity_bytes=mib * 2**20))


def seconds(program: Program, chip: Chip, mib: int) -> tuple[float, float]:
    """Latency, and the sum of L_I(S), of the heuristic's layout."""
    if mib == 0:
        none_s = MmapProblem(program, chip).tables.none_s
        return none_s, none_s
    problem = MmapProblem(program, sized(chip, mib))
    parts = latency_parts_s(problem.tables, problem.own_layout)
    return latency_s(problem.tables, problem.own_layout), float(parts[RUN_S])


def sizes(programs: Sequence[str], chip: Chip, mib: Sequence[int]) -> None:
    """Print the table of sizes."""
    print("| program | " + " | ".join(f"{size} MiB" for size in mib) + " | estimated |")
    print("|---|" + "---:|" * len(mib) + "---|")
    rows = []
    for name in programs:
        program = load_program(name)
        found = np.array([seconds(program, chip, size) for size in mib])
        rows.append(100 * found[-1] / found)
        print(
            f"| `{name}` | {cells(rows[-1][:, 0])} | {', '.join(f'{v:.0f}' for v in rows[-1][:, 1])} |",
            flush=True,
        )
    mean = np.exp(np.log(rows).mean(axis=0))
    print(f"| geometric mean | {cells(mean[:, 0])} | {', '.join(f'{v:.0f}' for v in mean[:, 1])} |")
    print("| published | " + " | ".join(str(PUBLISHED.get(size, "")) for size in mib) + " | |")


def cells(values: np.ndarray) -> str:
    """Percentages as cells of a table."""
    return " | ".join(f"{value:.0f}" for value in values)


def ranks(values: np.ndarray) -> np.ndarray:
    """Position of each value in order; equal ones share the mean of theirs."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2


def correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Pearson's; NaN where one of them does not vary."""
    if left.std() == 0 or right.std() == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])


def correlations(programs: Sequence[str], chip: Chip, seed: int) -> None:
    """Print the table of rewards and latencies."""
    print(
        "| program | random: return, speedup | greedy | projection | heuristic's own return | Pearson | Spearman |"
        " Pearson, good half |"
    )
    print("|---|---|---|---|---:|---:|---:|---:|")
    for name in programs:
        problem = MmapProblem(load_program(name), chip)
        tables, game = problem.tables, problem.game
        draws = np.random.default_rng(seed).random((10, len(problem.space.nodes)))
        priced = [greedy(game, room, copy) for room, copy in PRICES]
        rows = np.stack(
            [*random_legal(game, draws).action, *priced, problem.baseline.mapping[:, 0], best_greedy(game)]
        )
        found = problem.evaluate(rows[:, :, None], np.zeros(len(rows), np.uint64))
        own = (tables.none_s - latency_parts_s(tables, problem.own_layout)[RUN_S]) / tables.most_s
        reward, cost = found.reward[:-1], found.cost[:-1]
        good = reward >= np.median(reward)
        print(
            f"| `{name}` | {found.reward[:10].mean():.2f}, {found.speedup[:10].mean():.2f} |"
            f" {found.reward[-1]:.2f}, {found.speedup[-1]:.2f} | {found.reward[-2]:.2f}, {found.speedup[-2]:.2f} |"
            f" {own:.2f} | {correlation(reward, cost):.3f} | {correlation(ranks(reward), ranks(cost)):.3f} |"
            f" {correlation(reward[good], cost[good]):.3f} |",
            flush=True,
        )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", nargs="*", default=list(program_names()))
    parser.add_argument("--mib", nargs="+", type=int, default=list(PUBLISHED))
    parser.add_argument("--correlation", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chip = load_chip("tpuv4i")
    if given.correlation:
        correlations(given.program, chip, given.seed)
    else:
        sizes(given.program, chip, given.mib)


if __name__ == "__main__":
    main()
