"""What the profile model says of single choices: is that a lesson for a policy that chooses all of them at once?

    python -m benchmarks.advantages [--workloads resnet101,bert,gpt2] [--seeds 3] [--evals 100]

`egrl` measures so many mappings on the simulator of `nnpi`, and a critic learns from all of them. Then, from the
compiler's mapping, each decision is given each of its other choices, everything else as it is: these changes of the
log cost are the advantages that a learner would be taught. Printed are their rank correlation with the simulator's
own, and speedups over the compiler of mappings that take many at once: for each decision the choice with the largest
advantage; a random third of these, the best of ten draws; and the choices with the largest advantage after a price
per share of a memory, the best of 25 prices. The best of draws and of prices are chosen by the simulator itself, which
flatters them. Beside them: the best mapping that `egrl` measured, and the best single change.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import spearmanr

import egrl
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.op_times import OpTimesModel
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from hwsim.problem import Floats, Mapping16
from workloads.load import load

DRAWS, SHARE = 10, 1 / 3
PRICES = np.geomspace(1e-4, 1.0, 25)
"""Log cost per share of a memory."""


class Lesson:
    """A critic that has learned from an `egrl` search, and what it says of mappings."""

    def __init__(self, problem: NnpiProblem, seed: int, evals: int) -> None:
        with egrl.Search(problem, method="egrl", seed=seed) as search:
            while search.evaluations < evals and (batch := search.ask(limit=evals - search.evaluations)):
                search.tell(batch, problem.evaluate(batch.proposals.mapping, batch.key))
            self.speedup = search.result().speedup
            archive = search._context.archive
            self._critic, thought = OpTimesModel(problem, ProfileModelConfig()), None
            measured = self._critic.gather(archive, np.arange(len(archive)))
        thinking = self._critic.think(measured, set(), np.random.default_rng(seed))
        while thought is None:
            try:
                next(thinking)
            except StopIteration as end:
                thought = end.value
        self._belief = thought[2]

    def log_cost(self, mapping: Mapping16) -> Floats:
        """Predicted log costs [B] of mappings that fit."""
        model = self._critic._model
        assert model is not None
        return np.log(
            np.exp(model.log_seconds(self._belief.parameters, mapping, self._belief.table)).sum(axis=1)
        )


def changes(problem: NnpiProblem, start: Mapping16) -> Mapping16:
    """The mapping [N, H] with decision (n, h) given choice c, as what the compiler makes of it: [N, H, C, N, H]."""
    nodes, heads = start.shape
    choices = problem.space.most_choices
    found = np.broadcast_to(start, (nodes, heads, choices, nodes, heads)).copy()
    for n, h in np.argwhere(problem.space.live):
        found[n, h, :, n, h] = np.arange(choices)
    return problem.rectify(found.reshape(-1, nodes, heads)).reshape(found.shape)


def row(name: str, seed: int, evals: int) -> list[float]:
    """The figures of a network and a seed, in the order of the table."""
    problem = NnpiProblem(load(name), load_chip("nnpi"))
    lesson, start, live = Lesson(problem, seed, evals), problem.baseline.mapping, problem.space.live

    def speedup(mapping: Mapping16) -> float:
        return problem.baseline.cost / problem.model_cost(mapping)

    each = changes(problem, start)
    flat = each.reshape(-1, *start.shape)
    said = (lesson.log_cost(flat) - lesson.log_cost(start[None])).reshape(each.shape[:3])
    true = np.array([-np.log(speedup(one)) for one in flat]).reshape(said.shape)
    moved = live[..., None] & (np.arange(said.shape[2]) != np.maximum(start, 0)[..., None])
    best = np.where(live, said.argmin(axis=2), start).astype(np.int16)
    rng = np.random.default_rng(seed)
    third = [np.where(rng.random(start.shape) < SHARE, best, start) for _ in range(DRAWS)]
    tables = problem.tables
    share = (
        np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)[..., None]
        / tables.capacity_bytes[None, None]
    )
    share[..., 0] = 0.0
    priced = [
        np.where(live, (said + price * share).argmin(axis=2), start).astype(np.int16) for price in PRICES
    ]
    return [
        float(spearmanr(said[moved], true[moved]).statistic),
        float((said[moved] < 0).sum()),
        float(np.exp(-true[moved].min())),
        speedup(best),
        max(map(speedup, third)),
        max(map(speedup, priced)),
        lesson.speedup,
    ]


def main() -> None:
    """Print the table, means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default="resnet101,bert,gpt2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evals", type=int, default=100)
    options = parser.parse_args()
    print("| network | rank correlation | better changes | best one | all | a third | priced | `egrl` |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.workloads.split(","):
        rows = [row(name, seed, options.evals) for seed in range(options.seeds)]
        first, count, *speedups = np.mean(rows, axis=0)
        print(
            f"| {name} | {first:.2f} | {count:.0f} | "
            + " | ".join(f"{value:.4f}" for value in speedups)
            + " |"
        )


if __name__ == "__main__":
    main()
