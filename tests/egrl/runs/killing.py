"""A process that runs `egrl` commands in children and kills them with SIGKILL; used by test_killed.py.

usage: python killing.py OUT SEED KILLS TIMES… — interrupts one run in OUT KILLS times, each a little after the run is
further on, up to its middle, then once before each of the TIMES-th calls into fsync, rename and truncate, resuming it
each time, and lets it finish.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable

import egrl.methods.named  # noqa: F401  (imported once here, not in each child)
import hwsim.nnpi.problem  # noqa: F401
from egrl.cli.main import main

GENS = 10
ARGS = [
    "--workload", "alexnet", "--gens", str(GENS), "--checkpoint-seconds", "0.0", "--quiet",
    "--set", "method.network.width=8", "--set", "method.network.depth=1", "--set", "method.network.attention_heads=2",
    "--set", "method.critic.width=8", "--set", "method.batch=2",
    "--set", "method.profile_model.use=off",
]  # fmt: skip
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


def command(out: str) -> list[str]:
    """Begin the run, or go on with it."""
    started = os.path.exists(os.path.join(out, "config.toml"))
    return ["run", "--resume", out, "--quiet"] if started else ["run", *ARGS, "--out", out]


def generations(out: str) -> int:
    """How many are written."""
    try:
        with open(os.path.join(out, "metrics.csv")) as stream:
            return max(0, len(stream.readlines()) - 1)
    except FileNotFoundError:
        return 0


def child(argv: list[str], before: Callable[[], None]) -> int:
    """Run a command in a forked child; the pid."""
    pid = os.fork()
    if pid == 0:
        before()
        os._exit(main(argv))
    return pid


def die_at_call(number: int) -> Callable[[], None]:
    """Make this process die by SIGKILL just before its number-th call into fsync, rename or truncate."""

    def install() -> None:
        left = [number]

        def deadly(name: str) -> None:
            real = getattr(os, name)

            def call(*args: object) -> object:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args)

            setattr(os, name, call)

        for name in ("fsync", "replace", "truncate"):
            deadly(name)

    return install


def run() -> int:
    out, seed, kills, *calls = sys.argv[1:]
    rng = random.Random(int(seed))
    died = 0
    for number in range(int(kills)):
        pid = child(command(out), lambda: None)
        while (
            generations(out) < GENS * number // (2 * int(kills)) and os.waitid(os.P_PID, pid, ENDED) is None
        ):
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))  # wherever it is by then: most of the run is left
        os.kill(pid, signal.SIGKILL)
        died += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    for number in calls:
        pid = child(command(out), die_at_call(int(number)))
        died += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    print(died)
    return main(command(out))


if __name__ == "__main__":
    sys.exit(run())
