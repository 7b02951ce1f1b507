"""How many observations of the MMapGame one core makes in a second.

    python benchmarks/mmap_observe.py [--repeat 7] [--batch 64] [--program NAME_OR_FILE ...]

Of each program (those named, and made-up ones of about 300 and 10,000 buffers, see `benchmarks/mmap_moves.py`): random
legal games are stopped at as many states as the batch has rows, spread evenly from the first decision to the last, and
seen again and again. Median observations a second, for the whole batch at once and for one state after the other, with
the default view, with the full memory profile, and with the offsets of all buffers too. "Alone" includes what each call
costs in Python; the last column is what a batch's arrays take.

A second table has the steps a second of the environment (`plugins/muzero/egrl_muzero/mmap/gym.py`, needs its extra
`gym`), default view, for a player who takes NoCopy, else Copy, else Drop; at most 3,000 steps of each program.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from mmap_moves import made_up, seconds

from egrl_muzero.mmap.gym import MmapEnv
from egrl_muzero.mmap.observer import SeenGame
from egrl_muzero.mmap.parts import View
from hwsim.mmap.chip import load_chip
from hwsim.mmap.game import MmapGame
from hwsim.mmap.problem import MmapProblem
from hwsim.mmap.rules.state import GameState
from workloads.load import load_program

VIEWS = {
    "default": View(),
    "full profile": View(profile_cells=None),
    "full profile, all offsets": View(profile_cells=None, offsets=None),
}


def spread(game: MmapGame, batch: int) -> GameState:
    """`batch` states of one random legal game, from its first decision to its last."""
    rng, state, kept = np.random.default_rng(0), game.reset(1), []
    decisions = int(np.count_nonzero(game.tables.buffer["granules"]))
    wanted = set(np.linspace(0, decisions - 1, batch).astype(int).tolist())
    for move in range(decisions):
        if move in wanted:
            kept.append(state)
        if game.done(state)[0]:
            break
        action = rng.choice(np.flatnonzero(game.legal(state)[0]))
        state, _, _ = game.step(state, np.array([action], np.int16))
    return GameState._make(np.concatenate(parts) for parts in zip(*kept, strict=True))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--program", nargs="*", default=[])
    given = parser.parse_args()
    chip = load_chip("tpuv4i")
    print("| program | buffers | view | batch, a second | alone, a second | MiB a batch |")
    print("|---|---:|---|---:|---:|---:|")
    programs = [made_up(300), made_up(10_000), *(load_program(name) for name in given.program)]
    for program in programs:
        game = MmapProblem(program, chip).game
        states = spread(game, given.batch)
        rows = len(states.game)
        single = [game.take(states, np.array([row])) for row in range(rows)]
        for name, view in VIEWS.items():
            seeing = SeenGame(game, view)

            def one_by_one(seeing: SeenGame = seeing, single: list[GameState] = single) -> None:
                for state in single:
                    seeing.observe(state)

            together = seconds(partial(seeing.observe, states), given.repeat)
            alone = seconds(one_by_one, given.repeat)
            size = sum(part.nbytes for part in seeing.observe(states).values()) / 2**20
            head = f"| {program.name} | {len(program)} | {name} |"
            print(f"{head} {rows / together:,.0f} | {rows / alone:,.0f} | {size:.1f} |", flush=True)
    print("\n| program | buffers | steps of the environment, a second |\n|---|---:|---:|")
    for program in programs:
        environment = MmapEnv(program, chip)
        steps = play(environment)
        rate = steps / seconds(partial(play, environment), given.repeat)
        print(f"| {program.name} | {len(program)} | {rate:,.0f} |", flush=True)


def play(environment: MmapEnv, most: int = 3000) -> int:
    """How many steps were made, of one game or of its beginning."""
    _, info = environment.reset()
    for step in range(most):
        if not info["action_mask"].any():
            return step
        _, _, _, _, info = environment.step(np.flatnonzero(info["action_mask"])[-1])
    return most


if __name__ == "__main__":
    main()
