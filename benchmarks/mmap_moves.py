"""How many moves of the MMapGame one core plays in a second, on made-up programs and on those that are named.

    python benchmarks/mmap_moves.py [--repeat 7] [--program NAME_OR_FILE ...] [--cmem-mib 128] [--literal]

For each program whole games by random wishes, by Copy wherever it is legal, and by NoCopy wherever it is legal: median
moves a second, dead ends included, and what share of the moves were dropped, copied and kept. "3 outcomes" plays
random wishes, too, and works out at every move what all three actions would place, as a tree search does.

A made-up program has three buffers an instruction, sizes from 1 KiB to 8 MiB (log-uniform), parameters for every second
instruction, inputs from the last dozen tensors and now and then from far back, and a loop state updated in place.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from hwsim.jit import kernel
from hwsim.mmap.chip import load_chip
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.mmap.rules.moves import find_legal, is_over, leave_dead_end, play, restart
from hwsim.mmap.rules.outcome import outcome_of
from hwsim.mmap.rules.state import new_states, new_words, state_of
from workloads.load import load_program
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

SIZES = (300, 1000, 3000, 10_000)


def made_up(buffers: int, seed: int = 0) -> Program:
    """About that many buffers; see the top of the file."""
    rng = np.random.default_rng(seed)
    steps = round(buffers / 3.5)
    rows: list[list] = []
    uses: list[tuple[int, int, bool, int]] = []
    state = -1

    def tensor(name: str, produced: int) -> int:
        size = int(2.0 ** rng.uniform(10, 23))
        rows.append([name, size, produced, max(produced, 0), False])
        return len(rows) - 1

    for t in range(steps):
        reads = []
        made = [k for k in range(max(0, len(rows) - 18), len(rows)) if 0 <= rows[k][2] < t]
        if made:
            reads += rng.choice(made, min(2, len(made)), replace=False).tolist()
            if rng.random() < 0.05:
                far = int(rng.integers(0, len(rows)))
                reads += [far] if far not in reads else []
        if t % 2 == 0:
            reads.append(tensor(f"p{t}", -1))
        uses += [(k, t, False, NO_ALIAS) for k in reads if k != state]
        if t % 20 == 10:
            old = state if state >= 0 else tensor(f"s{t}", -1)
            rows[old][1], group = 2**20, 0
            state = tensor(f"s{t}.new", t)
            rows[state][1] = 2**20
            uses += [(old, t, False, group), (state, t, True, group)]
        else:
            uses.append((tensor(f"t{t}", t), t, True, NO_ALIAS))
    for k, t, out, _ in uses:
        if not out:
            rows[k][3] = max(rows[k][3], t)
    flops = rng.integers(0, 2 * 10**9, steps)
    return Program(
        f"made-up-{len(uses)}",
        tuple(Instruction(f"i{t}", "fusion", int(flops[t])) for t in range(steps)),
        tuple(Tensor(*row) for row in rows),
        tuple(Buffer(k, t, out, rows[k][1], group) for k, t, out, group in uses),
    )


@kernel
def play_with_all_outcomes(tables, state, wishes, words):  # type: ignore[no-untyped-def]
    """One game in which each move asks for the outcomes of all three actions first; how many were legal."""
    restart(tables, state)
    legal = 0
    while not is_over(tables, state):
        for action in range(3):
            if outcome_of(tables, state, action, words).legal:
                legal += 1
        action, outcome = find_legal(tables, state, wishes[state.game[0].cursor], words)
        if outcome.legal:
            play(tables, state, action, outcome)
        else:
            leave_dead_end(tables, state)
    return legal


def seconds(run: Callable[[], object], repeat: int) -> float:
    """Median of `repeat` runs after one that does not count."""
    run()
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return float(np.median(took))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--program", nargs="*", default=[])
    parser.add_argument("--cmem-mib", type=int, default=128)
    parser.add_argument("--literal", action="store_true")
    given = parser.parse_args()
    chip = load_chip("tpuv4i")
    chip = replace(chip, cmem=replace(chip.cmem, capacity_bytes=given.cmem_mib * 2**20))
    programs = [made_up(size) for size in SIZES] + [load_program(name) for name in given.program]
    print("| program | buffers | wishes | moves a second | drop, copy, nocopy | return | dead ends |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for program in programs:
        measure(MmapProblem(program, chip, MmapConfig(literal_copies=given.literal)), given.repeat)


def measure(problem: MmapProblem, repeat: int) -> None:
    """Print the rows of one program."""
    tables, game, head = (
        problem.tables,
        problem.game,
        f"| {problem.about.workload} | {len(problem.space.nodes)} |",
    )
    decisions = int(problem.space.live.sum())
    random = np.random.default_rng(1).integers(0, 3, (1, len(problem.space.nodes))).astype(np.int16)
    state, words = state_of(new_states(tables, 1), 0), new_words(tables)
    for name, rows in (
        ("random", random),
        ("Copy", np.full_like(random, 1)),
        ("NoCopy", np.full_like(random, 2)),
    ):
        found = problem.evaluate(rows[:, :, None], np.zeros(1, np.uint64))
        took = seconds(partial(game.play, rows), repeat)
        shares = [float((found.repaired[0, :, 0] == action).sum()) / decisions for action in range(3)]
        print(
            f"{head} {name} | {decisions / took:,.0f} | {', '.join(f'{share:.0%}' for share in shares)} |"
            f" {found.reward[0]:.3f} | {int(game.play(rows).resets[0])} |"
        )
    took = seconds(partial(play_with_all_outcomes, tables, state, random[0], words), repeat)
    print(f"{head} random, 3 outcomes | {decisions / took:,.0f} | | | |", flush=True)


if __name__ == "__main__":
    main()
