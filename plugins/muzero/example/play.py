"""Play the MMapGame as an environment: a random player, and one that takes fast memory wherever it can.

    python plugins/muzero/example/play.py [PROGRAM] [GAMES]

Needs the plug-in's extra: pip install './plugins/muzero[gym]'. The defaults (alexnet_train_batch_32, 5 random games)
take some seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gymnasium

GREEDY = (2, 1, 0)
"""NoCopy if it is legal, else Copy, else Drop."""


def main(argv: Sequence[str]) -> int:
    """Print what each game was worth."""
    program, games = argv[0] if argv else "alexnet_train_batch_32", int(argv[1]) if len(argv) > 1 else 5
    env = gymnasium.make("egrl_muzero.mmap.gym:egrl/MMapGame-v0", program=program, chip="tpuv4i")
    env.action_space.seed(0)
    for player in ["greedy", *["random"] * games]:
        total, over = 0.0, False
        _, info = env.reset()
        while not over:
            mask = info["action_mask"]
            greedy = next(action for action in GREEDY if mask[action])
            action = greedy if player == "greedy" else env.action_space.sample(mask=mask)
            _, reward, terminated, truncated, info = env.step(action)
            total, over = total + float(reward), terminated or truncated
        print(
            f"{player}: return {total:.3f}, {info['speedup']:.2f}x the heuristic, back {info['resets']} times"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
