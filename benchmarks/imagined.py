"""Does SAC save measurements when it learns from what the twin imagines, beside what was measured?

    python -m benchmarks.imagined -o FILE [--workloads resnet101] [--kinds c,queues] [--boards 5] [--requests 200]

`egrl` with the twin on noisy simulated boards (those of `benchmarks/twin.py`). Half of each minibatch is changed
copies of good mappings, with the rewards that the posterior mean of the twin gives them; the other half is the replay
buffer's. The learner has more steps and more rollouts than by default, so that it can show something; `control` has as
many and no imagined rewards; `default` is `egrl` as it is. All requests to the board are counted. `actor` is the
noise-free speedup of the actor's own most likely mapping at the end. Each line of FILE is a run; what is there is not
run again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import egrl
from benchmarks.foreign.boards import board
from benchmarks.lines import Lines
from benchmarks.twin import MARKS, Bench
from egrl.compare.statistics import paired_interval
from egrl.core.method import Context
from egrl.core.registry import MethodDefinition
from egrl.methods.egrl.sac import Transitions
from egrl.methods.egrl.sac_learner import SacLearner
from egrl.methods.named import EGRL, EgrlConfig
from egrl.methods.portfolio import Portfolio
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.load import load

STEPS, ROLLOUTS = 2, 5
SAC = "method.readout=greedy"
"""Networks that a placer reads have another learner, without a replay buffer."""
BEST = 20
MOST_MOVES = 8
ARMS = ("default", "control", "imagined")


class Dreams:
    """What replaces half of a learner's minibatches."""

    def __init__(self, method: Portfolio, learner: SacLearner, context: Context) -> None:
        self._method, self._learner, self._context = method, learner, context
        self._real = learner._transitions
        self._rng = context.generator("dreams")

    def transitions(self, batch: int, elite: NDArray[np.float32] | None) -> Transitions | None:
        """A minibatch, half of it imagined once there is a posterior."""
        real = self._real(batch, elite)
        twin = next((member for member in self._method._joined if member.name == "twin"), None)
        proposer = None if twin is None else twin._surrogate._proposer
        if real is None or proposer is None or proposer.posterior is None:
            return real
        count = len(real.reward) // 2
        archive = self._context.archive
        reward, cost = archive.column("reward")[:], archive.column("cost")[:]
        known = np.flatnonzero(np.isfinite(reward) & np.isfinite(cost) & (cost > 0))
        best = known[np.argsort(-reward[known], kind="stable")[:BEST]]
        mapping = archive.mappings(self._rng.choice(best, count))
        for row in range(count):
            for _ in range(self._rng.integers(1, MOST_MOVES + 1)):
                mapping[row] = proposer._changed(mapping[row], self._rng)
        mean, _ = proposer.posterior.predict(mapping)
        baseline = float(np.median(cost[known] * np.sqrt(reward[known])))
        action = real.action.copy()
        told = real.reward.copy()
        action[:count], told[:count] = mapping, (baseline / np.exp(mean)) ** 2
        return replace(real, action=action, reward=told.astype(np.float32))


def definition(arm: str) -> MethodDefinition:
    """`egrl` whose learner dreams, in the arm `imagined`."""

    def make(context: Context, config: EgrlConfig) -> Portfolio:
        method = EGRL.make(context, config)
        assert isinstance(method, Portfolio)
        learner = method._core._learner
        assert learner is not None
        if arm == "imagined":
            learner.__dict__["_transitions"] = Dreams(method, learner, context).transitions
        MADE.append(method)
        return method

    return replace(EGRL, make=make)


MADE: list[Portfolio] = []
"""The methods made so far: the last one's actor is looked at."""


def run(problem: NnpiProblem, kind: str, number: int, arm: str, requests: int) -> dict[str, Any]:
    """One arm on one board."""
    bench = Bench(problem, kind, number)
    more = (
        [SAC] if arm == "default" else [SAC, f"method.gradient_steps={STEPS}", f"method.rollouts={ROLLOUTS}"]
    )
    search = egrl.Search(problem, method=definition(arm), settings=more, seed=number)
    while search.evaluations < requests:
        batch = search.ask(limit=requests - search.evaluations)
        if batch is None:
            break
        search.tell(batch, [bench.search(mapping) for mapping in batch.mapping])
    learner = MADE[-1]._core._learner
    assert learner is not None
    chosen = learner._sac.probabilities().argmax(axis=-1)
    space = problem.space
    mapping = np.where(space.live, chosen, problem.baseline.mapping).astype(np.int16)
    ran = problem.rectify(mapping[None])[0]
    exact = board(problem, kind, number)
    marks = {str(m): bench.champion(m) for m in MARKS if m <= requests}
    return {"marks": marks, "actor": exact(problem.baseline.mapping) / exact(ran)}


def table(lines: list[dict[str, Any]]) -> None:
    """Geometric means over all boards, and log ratios to `default`, paired by board, with 95 % intervals."""
    marks = list(dict.fromkeys(mark for line in lines for mark in line["marks"]))
    print("| arm | " + " | ".join(marks) + " | actor |")
    for arm in ARMS:
        cells = []
        for mark in [*marks, "actor"]:
            logs = {
                name: {
                    (o["workload"], o["kind"], o["board"]): float(np.log(o["marks"].get(mark, o["actor"])))
                    for o in lines
                    if o["arm"] == name
                }
                for name in (arm, "default")
            }
            own = [logs[arm], logs["default"]]
            text = f"{np.exp(np.mean(list(own[0].values()))):.4f}" if own[0] else ""
            numbered = [{n: logs_[key] for n, key in enumerate(sorted(logs_))} for logs_ in own]
            found = paired_interval(*numbered)
            if arm != "default" and found is not None:
                text += f" ({found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}])"
            cells.append(text)
        print(f"| {arm} | " + " | ".join(cells) + " |")


def main() -> None:
    """Run what is not in the file yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--workloads", default="resnet101")
    parser.add_argument("--kinds", default="c,queues")
    parser.add_argument("--boards", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = Lines(options.output, ("workload", "kind", "board", "arm"))
    for number in range(options.boards):
        for workload in options.workloads.split(","):
            problem = NnpiProblem(load(workload), load_chip("nnpi"))
            for kind in options.kinds.split(","):
                for arm in ARMS:
                    case = (workload, kind, number, arm)
                    if case not in lines:
                        lines.add(case, run(problem, kind, number, arm, options.requests))
    table(lines.all)


if __name__ == "__main__":
    main()
