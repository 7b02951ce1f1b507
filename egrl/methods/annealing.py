"""Simulated annealing by the local moves of the population (`population.moves`).

Source: Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing (Science, 1983).

Energy is minus half the logarithm of the reward. If rewards are squares of speedups, this is the logarithm of the cost,
so one temperature fits every workload. A mapping that did not run has the energy `INVALID` plus its epsilon. The
temperature after k evaluations is t0 / (1 + k / tau). It does not depend on the budget: a longer run begins like a
shorter one.

Deviations: the walk continues from the mapping that ran (`repaired`), not from the proposed one. With `chains`
above one, that many independent walks take turns, so that as many workers have something to measure.
benchmarks/log/neighbourhood.md says how temperatures were chosen.

With `space = "distributions"` the walk is over what a problem's `sample` draws from, as in the paper on multi-chip
modules (section 5.1): it begins at uniform distributions (from a start mapping: at those that are certain of it), a
step gives some decisions new ones, drawn uniformly from all distributions, and what is drawn from all is measured.
The paper does not say how many decisions a step takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, serves_all
from hwsim.keys import REPAIR, SAMPLE
from hwsim.mappings import repair, sample
from hwsim.problem import Evaluation, Mapping16, Status
from population.moves import moves_of

INVALID = 20.0
LEAST = 1e-12
"""Rewards below it, of mappings that ran, count as that much."""


@dataclass(frozen=True)
class AnnealingConfig:
    """Settings of annealing.

    Example:
        >>> import egrl
        >>> from egrl.methods.annealing import AnnealingConfig
        >>> result = egrl.search("alexnet", method=AnnealingConfig(t0=0.05), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    t0: Annotated[
        float, Gt(0), Le(1e3), Doc("first temperature, in units of log cost (half a log reward)")
    ] = 0.005
    tau: Annotated[float, Ge(1), Doc("evaluations per chain after which the temperature has halved")] = 300.0
    chains: Annotated[int, Ge(1), Le(10_000), Doc("independent walks, which take turns")] = 1
    space: Annotated[
        Literal["mappings", "distributions"],
        Doc('what a step changes: "mappings", or the "distributions" that mappings are drawn from'),
    ] = "mappings"
    redrawn: Annotated[
        float,
        Gt(0),
        Le(1),
        Doc("mean share of the decisions that a step gives a new distribution, at least one decision"),
    ] = 0.02


@dataclass
class _Chain:
    """One walk. Its generator is its own, so that its steps do not depend on the other chains.

    Over distributions, `weights` float32 [N, H, C] is where it is and `tried` what the step under way was drawn from.
    """

    mapping: NDArray[np.int16]
    rng: np.random.Generator
    energy: float = math.inf
    steps: int = 0
    weights: NDArray[np.float32] | None = None
    tried: NDArray[np.float32] | None = None


class Annealing(Method):
    """Simulated annealing: one or several chains, one proposal per chain in turn."""

    def __init__(self, context: Context, config: AnnealingConfig) -> None:
        problem, start = context.problems[0], context.start[0]
        self._context, self._config, self._problem = context, config, problem
        self.ahead = (
            config.chains - 1
        )  # a batch is a step of one chain, and needs no result but the chain's own
        self._moves = moves_of(problem)
        first = problem.space.initial if start is None else start
        self._chains = [
            _Chain(first.copy(), context.generator(f"annealing 0 {number}"))
            for number in range(config.chains)
        ]
        self._asked = self._told = self._accepted = 0

    def ask(self) -> Proposals:
        """The next step of the chain in turn; its first step measures its start, unless that was measured."""
        chain = self._chains[self._asked % len(self._chains)]
        fresh = chain.energy == math.inf
        if self._config.space == "distributions":
            mapping = self._draw(chain, fresh)[None]
        else:
            mapping = (chain.mapping if fresh else self._moves.propose(chain.mapping, chain.rng))[None]
            mapping = repair(self._problem, mapping, self._context.keys(REPAIR, self._asked, 1))
        self._asked += 1
        return proposals(mapping, "annealing")

    def _draw(self, chain: _Chain, fresh: bool) -> Mapping16:
        """A mapping [N, H] drawn from the chain's distributions, after a step unless it is `fresh`."""
        chain.tried = weights = self._weights() if chain.weights is None else chain.weights
        if not fresh:
            chosen = chain.rng.random(weights.shape[:2]) < self._config.redrawn
            chosen.flat[chain.rng.integers(chosen.size)] = True
            anew = chain.rng.exponential(size=weights.shape).astype(np.float32)
            chain.tried = np.where(chosen[:, :, None], anew, weights)
        return sample(self._problem, chain.tried[None], self._context.keys(SAMPLE, self._asked, 1))[0]

    def _weights(self) -> NDArray[np.float32]:
        """Float32 [N, H, C], where a chain begins: uniform, or certain of the start mapping."""
        start = self._context.start[0]
        choices = self._problem.space.most_choices
        if start is None:
            return np.ones((*self._problem.space.shape, choices), np.float32)
        return np.eye(choices, dtype=np.float32)[np.maximum(start, 0)]

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Accept or refuse a step by the Metropolis rule; all chains begin at the start mapping."""
        if proposals.source[0] == START:
            for chain in self._chains:
                chain.mapping, chain.energy = evaluation.repaired[0].copy(), self._energy(evaluation)
            return
        chain = self._chains[self._told % len(self._chains)]
        self._told += 1
        energy = self._energy(evaluation)
        rise, temperature = energy - chain.energy, self._temperature(chain.steps)
        chain.steps += 1
        if chain.energy == math.inf or rise <= 0 or chain.rng.random() < math.exp(-rise / temperature):
            chain.mapping, chain.energy = evaluation.repaired[0].copy(), energy
            chain.weights = chain.tried
            self._accepted += 1

    def _energy(self, evaluation: Evaluation) -> float:
        """The energy of the only row of an evaluation."""
        if evaluation.status[0] == Status.OK and evaluation.speedup[0] > 0:
            # The root of a square is exact: of speedups this is the logarithm itself.
            return -math.log(math.sqrt(max(float(evaluation.reward[0]), LEAST)))
        return INVALID + float(evaluation.epsilon[0])

    def _temperature(self, steps: int) -> float:
        return self._config.t0 / (1.0 + steps / self._config.tau)

    def metrics(self) -> Mapping[str, float]:
        """Temperature of the first chain and share of steps accepted so far."""
        steps = self._chains[0].steps
        return {"temperature": self._temperature(steps), "acceptance": self._accepted / max(1, self._told)}

    def state_dict(self) -> dict[str, Any]:
        """Counters, and each chain with its generator."""
        return {
            "asked": self._asked,
            "told": self._told,
            "accepted": self._accepted,
            "chains": [{**vars(chain), "rng": chain.rng.bit_generator.state} for chain in self._chains],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._asked, self._told, self._accepted = state["asked"], state["told"], state["accepted"]
        for chain, saved in zip(self._chains, state["chains"], strict=True):
            if saved["mapping"].shape != chain.mapping.shape:
                raise ValueError(
                    f"mapping: expected shape {chain.mapping.shape}, found {saved['mapping'].shape}"
                )
            chain.rng.bit_generator.state = saved["rng"]
            chain.mapping, chain.energy, chain.steps = saved["mapping"], saved["energy"], saved["steps"]
            chain.weights, chain.tried = saved["weights"], saved["tried"]


DEFINITION = MethodDefinition(AnnealingConfig, Annealing, serves_all, {})
