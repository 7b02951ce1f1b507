"""Simulated annealing by flips and swaps.

Source: Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing (Science, 1983).

Energy is minus half the logarithm of the reward, which is the logarithm of cost where rewards are squares of speedups,
so that one temperature fits every workload; a mapping that did not run has the energy `INVALID` plus its epsilon. The
temperature falls with the evaluations made, t0 / (1 + k / tau), and never looks at the budget: a longer run begins like
a shorter one.

Deviations: the walk goes on from the mapping that ran (`repaired`), not from the one proposed. With `chains`
above one, that many independent walks share the evaluations; one chain leaves other workers idle.
Several problems are annealed side by side, a generation each in turn.

With `space = "distributions"` the walk is over what a problem's `sample` draws from, as in the paper on multi-chip
modules (section 5.1): it begins at uniform distributions (from a start mapping: at those that are certain of it), a
step gives some decisions new ones, drawn uniformly from all distributions, and what is drawn from all is measured.
The paper does not say how many decisions a step takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from egrl.core.budget import GENERATION
from egrl.core.keys import REPAIR, SAMPLE, run_keys
from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition, serves_all
from hwsim.capabilities import pipeline_of
from hwsim.mappings import repair, sample
from hwsim.problem import Evaluation, Mapping16, Status
from population.moves import Moves, MovesConfig

if TYPE_CHECKING:
    from policies.store import StoredPolicy

INVALID = 20.0
LEAST = 1e-12
"""Rewards below it, of mappings that ran, count as that much."""
FLIPS_AND_SWAPS = MovesConfig(
    flip=0.5, swap=0.5, block=0.0, kin_swap=0.0, kin_block=0.0, kin_shift=0.0, repack=0.0, extra=0.5
)


@dataclass(frozen=True)
class AnnealingConfig:
    """Settings of annealing.

    Attributes:
        t0: first temperature, in units of log cost (half a log reward).
        tau: evaluations of one chain after which the temperature has halved.
        moves: what a step is made of (flips and swaps in equal parts).
        chains: independent walks, which take turns.
        space: what a step changes, "mappings" or the "distributions" that mappings are drawn from.
        redrawn: mean share of the decisions that a step gives a new distribution, at least one.
    """

    t0: Annotated[float, Gt(0), Le(1e3)] = 0.02
    tau: Annotated[float, Ge(1)] = 300.0
    moves: MovesConfig = field(default_factory=lambda: FLIPS_AND_SWAPS)
    chains: Annotated[int, Ge(1), Le(10_000)] = 1
    space: Literal["mappings", "distributions"] = "mappings"
    redrawn: Annotated[float, Gt(0), Le(1)] = 0.02


@dataclass
class _Chain:
    """One walk with a generator of its own, so that its steps do not depend on how the others are timed.

    Over distributions, `weights` float32 [N, H, C] is where it is and `tried` what the step under way was drawn from.
    """

    mapping: NDArray[np.int16]
    rng: np.random.Generator
    energy: float = math.inf
    steps: int = 0
    waiting: bool = False
    weights: NDArray[np.float32] | None = None
    tried: NDArray[np.float32] | None = None


class Annealing:
    """See the module."""

    metric_names: tuple[str, ...] = ("temperature", "acceptance")

    def __init__(self, setting: Setting, config: AnnealingConfig) -> None:
        self._setting, self._config = setting, config
        self._moves = [
            Moves(p.space.num_choices, p.space.live, config.moves, p.space.size_bytes, pipeline_of(p))
            for p in setting.problems
        ]
        self._chains = [
            [
                _Chain(
                    (problem.space.initial if start is None else start).copy(),
                    setting.generator(f"annealing {p} {c}"),
                )
                for c in range(config.chains)
            ]
            for p, (problem, start) in enumerate(zip(setting.problems, setting.start, strict=True))
        ]
        self._asked = self._told = self._accepted = 0

    def _chain(self, number: int) -> tuple[int, _Chain]:
        """The problem and the chain that the evaluation with this number belongs to."""
        turn, row = divmod(number, GENERATION)
        before, problem = divmod(turn, len(self._chains))
        return problem, self._chains[problem][(before * GENERATION + row) % self._config.chains]

    def ask(self, room: int) -> Proposals | None:
        """The next step of every chain up to the first that waits for a result."""
        problem, _ = self._chain(self._asked)
        first = self._asked
        batch: list[NDArray[np.int16]] = []
        sources: list[str] = []
        while (
            len(batch) < room
            and self._chain(self._asked)[0] == problem
            and self._asked // GENERATION == first // GENERATION
        ):
            chain = self._chain(self._asked)[1]
            if chain.waiting:
                break
            fresh = chain.steps == 0
            if self._config.space == "distributions":
                batch.append(self._draw(problem, chain, fresh))
            else:
                batch.append(
                    chain.mapping if fresh else self._moves[problem].propose(chain.mapping, chain.rng)
                )
            sources.append("start" if fresh and self._setting.start[problem] is not None else "annealing")
            chain.waiting = True
            self._asked += 1
        if not batch:
            return proposals(
                np.zeros((0, *self._setting.problems[problem].space.shape), np.int16), "", problem
            )
        keys = run_keys(self._setting.seed, np.arange(first, self._asked), REPAIR)
        if self._config.space == "distributions":
            return proposals(np.stack(batch), sources, problem)
        return proposals(repair(self._setting.problems[problem], np.stack(batch), keys), sources, problem)

    def _draw(self, number: int, chain: _Chain, fresh: bool) -> Mapping16:
        """A mapping [N, H] drawn from the chain's distributions, after a step unless it is `fresh`."""
        problem, start = self._setting.problems[number], self._setting.start[number]
        shape = (*problem.space.shape, problem.space.most_choices)
        if chain.weights is None:
            chain.weights = np.ones(shape, np.float32)
            if start is not None:
                chain.weights = np.eye(shape[2], dtype=np.float32)[np.maximum(start, 0)]
        chain.tried = chain.weights
        if fresh and start is not None:
            return start
        if not fresh:
            chosen = chain.rng.random(shape[:2]) < self._config.redrawn
            chosen.flat[chain.rng.integers(chosen.size)] = True
            anew = chain.rng.exponential(size=shape).astype(np.float32)
            chain.tried = np.where(chosen[:, :, None], anew, chain.weights)
        key = run_keys(self._setting.seed, np.array([self._asked]), SAMPLE)
        return sample(problem, chain.tried[None], key)[0]

    def learn(self) -> None:
        """Nothing is learned."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Accept or refuse each step by the Metropolis rule."""
        for row in range(len(proposals)):
            _, chain = self._chain(self._told)
            self._told += 1
            self._step(chain, evaluation, row)

    def _step(self, chain: _Chain, evaluation: Evaluation, row: int) -> None:
        ran = evaluation.status[row] == Status.OK and evaluation.speedup[row] > 0
        # The root of a square is exact: of speedups this is the logarithm itself.
        earned = math.sqrt(max(float(evaluation.reward[row]), LEAST))
        energy = -math.log(earned) if ran else INVALID + float(evaluation.epsilon[row])
        rise = energy - chain.energy
        temperature = self._temperature(chain.steps)
        chain.steps += 1
        chain.waiting = False
        if chain.energy == math.inf or rise <= 0 or chain.rng.random() < math.exp(-rise / temperature):
            chain.mapping, chain.energy = evaluation.repaired[row].copy(), energy
            chain.weights = chain.tried
            self._accepted += 1

    def _temperature(self, steps: int) -> float:
        return self._config.t0 / (1.0 + steps / self._config.tau)

    def metrics(self) -> Mapping[str, float]:
        """Temperature of the first chain and share of steps accepted so far."""
        steps = self._chains[0][0].steps
        return {"temperature": self._temperature(steps), "acceptance": self._accepted / max(1, self._told)}

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """Counters, and each chain with its generator (between generations none waits)."""
        return {
            "asked": self._asked,
            "told": self._told,
            "accepted": self._accepted,
            "chains": [
                [{**vars(c), "rng": c.rng.bit_generator.state} for c in chains] for chains in self._chains
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._asked, self._told, self._accepted = state["asked"], state["told"], state["accepted"]
        for chains, saved_chains in zip(self._chains, state["chains"], strict=True):
            for chain, saved in zip(chains, saved_chains, strict=True):
                chain.rng.bit_generator.state = saved["rng"]
                chain.mapping, chain.energy, chain.steps = saved["mapping"], saved["energy"], saved["steps"]
                chain.waiting, chain.weights, chain.tried = saved["waiting"], saved["weights"], saved["tried"]


DEFINITION = MethodDefinition(AnnealingConfig, Annealing, serves_all, {})
