"""Is SAC's critic worth anything as a filter: of several children of the population, is the one it likes best better?

    python -m benchmarks.critic_filter -o FILE [--workloads resnet101,bert] [--noise 0,0.03] [--children 1,4,16]
                                       [--seeds 10] [--first 0] [--evals 500] [--steps 1.0]

`egrl` without the twin, start at the compiler's map. Each chromosome's child is the best of K by the lower of the two
critics (K = 1: `egrl` as it is), once `FIRST` evaluations are told. Costs are the simulator's with relative noise; the
mapping that measured best so far is judged without noise. Each line of FILE is a run; what is there is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import egrl
from benchmarks.lines import Lines
from egrl.compare.statistics import paired_interval
from egrl.core.method import Context
from egrl.core.registry import MethodDefinition
from egrl.methods import policy_fit
from egrl.methods.egrl.algorithm2 import Algorithm2
from egrl.methods.egrl.sac_learner import SacLearner
from egrl.methods.named import EGRL, EgrlConfig
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from population.genome import Boltzmann, Child, Individual
from population.known import Known
from population.local_search import LocalSearch
from population.population import Population
from workloads.load import load

FIRST = 42
"""Two generations: before that the critic has seen next to nothing."""
MARKS = (100, 200, 500)
SAC = "method.readout=greedy"
"""Networks that a placer reads have another learner, without critics."""


class Filter(LocalSearch):
    """Makes several children, and keeps the best by the critic."""

    def __init__(self, population: Population, learner: SacLearner, context: Context, children: int) -> None:
        super().__init__(population.config, population.decisions, population.operators)
        self._sac, self._context, self._children = learner._sac, context, children
        self._x = torch.as_tensor(policy_fit.observation(context.problems[0]).x)

    def child(
        self, parents: Sequence[Individual], rng: np.random.Generator, known: Known | None = None
    ) -> Child:
        """The child that the critic likes best."""
        made = [super(Filter, self).child(parents, rng, known) for _ in range(self._children)]
        if self._children == 1 or len(self._context.archive) < FIRST:
            return made[0]
        priors = [child.genome.prior for child in made if isinstance(child.genome, Boltzmann)]
        best = np.stack(priors).argmax(-1)[..., None] == np.arange(priors[0].shape[-1])
        live = self._context.problems[0].space.live
        actions = torch.as_tensor((best & live[..., None]).astype(np.float32)).flatten(2)
        with torch.inference_mode():
            value = self._sac.critic(self._x, self._sac.task.graph, actions).amin(dim=0)
        return made[int(value.argmax())]


def filtered(children: int) -> MethodDefinition:
    """`egrl` whose population's children are filtered."""

    def make(context: Context, config: EgrlConfig) -> Algorithm2:
        method = EGRL.make(context, config)
        assert isinstance(method, Algorithm2)
        assert method._population is not None
        assert method._learner is not None
        method._population.local = Filter(method._population, method._learner, context, children)
        return method

    return replace(EGRL, make=make)


def measure(problem: NnpiProblem, children: int, seed: int, evals: int, steps: float) -> dict[str, float]:
    """The noise-free speedup, at each mark, of the mapping that measured best so far."""
    settings = ["method.twin=off", "method.profile_model.use=off", f"method.gradient_steps={steps}", SAC]
    search = egrl.Search(problem, method=filtered(children), seed=seed, settings=settings)
    reward: list[float] = []
    mapping: list[np.ndarray] = []
    while len(reward) < evals and (batch := search.ask(limit=evals - len(reward))) is not None:
        evaluation = problem.evaluate(batch.proposals.mapping, batch.key)
        search.tell(batch, evaluation)
        reward += evaluation.reward.tolist()
        mapping += list(evaluation.repaired)
    found = {}
    for mark in (mark for mark in MARKS if mark <= evals):
        best = mapping[int(np.nanargmax(reward[:mark]))]
        found[str(mark)] = problem.baseline.cost / problem.model_cost(best)
    return found


def table(lines: list[dict[str, Any]]) -> None:
    """Means, and differences to K = 1, paired by seed, with 95 % intervals."""
    print("| network, noise | children | " + " | ".join(map(str, MARKS)) + " |")
    cases = dict.fromkeys((line["workload"], line["noise"], line["children"]) for line in lines)
    for workload, noise, children in cases:
        cells = []
        for mark in map(str, MARKS):
            by_seed = [
                {
                    line["seed"]: line["marks"][mark]
                    for line in lines
                    if (line["workload"], line["noise"], line["children"]) == (workload, noise, number)
                    and mark in line["marks"]
                }
                for number in (children, 1)
            ]
            text = f"{np.mean(list(by_seed[0].values())):.4f}" if by_seed[0] else ""
            found = paired_interval(*by_seed)
            if children != 1 and found is not None:
                text += f" ({found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}])"
            cells.append(text)
        print(f"| {workload}, {noise:.0%} | {children} | " + " | ".join(cells) + " |")


def main() -> None:
    """Run what is not in the file yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--workloads", default="resnet101,bert")
    parser.add_argument("--noise", default="0,0.03")
    parser.add_argument("--children", default="1,4,16")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--evals", type=int, default=500)
    parser.add_argument("--steps", type=float, default=1.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = Lines(options.output, ("workload", "noise", "children", "seed"))
    chip = load_chip("nnpi")
    for seed in range(options.first, options.first + options.seeds):
        for workload in options.workloads.split(","):
            for noise in map(float, options.noise.split(",")):
                own = replace(
                    chip,
                    effects=replace(chip.effects, noise=noise > 0),
                    noise=replace(chip.noise, sigma=noise or chip.noise.sigma),
                )
                problem = NnpiProblem(load(workload), own)
                for children in map(int, options.children.split(",")):
                    case = (workload, noise, children, seed)
                    if case not in lines:
                        marks = measure(problem, children, seed, options.evals, options.steps)
                        lines.add(case, {"marks": marks})
    table(lines.all)


if __name__ == "__main__":
    main()
