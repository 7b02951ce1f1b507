"""ES: evolution strategies on the weights of one graph network.

Source: Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning" (2017): Algorithm 1
with mirrored (antithetic) perturbations and rank-shaped fitness (section 2.1), Adam on the estimate (section 4).

    round: the mean weights w, and w +- sigma * e_i for `pairs` draws e_i ~ N(0, I), each measured once
    r = centred ranks of the 2 * pairs rewards, from -0.5 to 0.5; g = sum_i (r_i+ - r_i-) * e_i / (2 * pairs * sigma)
    w moves by one step of Adam along g

On several workloads, every network of a round is measured on each of them, and its reward is the mean of its log
speedups: one policy for all (`egrl pretrain`).

Deviations:
- The mean is measured every round, as the policy to deploy; its reward does not enter the estimate.
- Equal rewards share their mean rank, so that a round in which nothing differs moves nothing (the paper's ranking
  breaks ties by position). Failed measurements share the last rank.
- No weight decay, no virtual batch normalisation (layers are normalised by themselves).
- A network proposes its most probable choices (`readout = "greedy"`), or draws from its probabilities ("sample").
- Where a start mapping was measured, the first round leaves out the mean; weights learn nothing from the start.
- With `scouts`, the first mean is the best of that many random networks (the policy of `--init` among them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.keys import SAMPLE
from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods import policy_fit
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16
from policies.graph import prepare
from policies.network import NetworkConfig
from policies.stacked import StackedActor
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights
from population.walk import Ascent, estimate


@dataclass(frozen=True)
class EsConfig:
    """Settings of ES."""

    pairs: Annotated[
        int,
        Ge(1),
        Le(10_000),
        Doc("mirrored pairs of perturbations per round; 10 pairs and the mean make 21 evaluations"),
    ] = 10
    sigma: Annotated[float, Gt(0), Lt(100), Doc("standard deviation of the perturbation of each weight")] = (
        0.02
    )
    learning_rate: Annotated[float, Gt(0), Lt(100), Doc("step size of Adam, which moves the mean")] = 0.01
    readout: Annotated[
        Literal["greedy", "sample"],
        Doc(
            '"greedy": a network proposes its most probable choices; "sample": it draws from its'
            " probabilities"
        ),
    ] = "greedy"
    scouts: Annotated[
        int,
        Ge(0),
        Le(10_000),
        Doc(
            "random networks of which the best becomes the first mean; 0: the first mean is one"
            " random network"
        ),
    ] = 0
    network: Annotated[NetworkConfig, Doc("the actor")] = field(default_factory=NetworkConfig)


METRICS = ("deployable_speedup", "perturbed_reward", "estimate_norm")
SLOWEST = 0.01
"""The speedup that stands for a mapping that did not run, where a mean over workloads is taken."""


@dataclass
class _Round:
    """K networks on P workloads.

    Attributes:
        mapping: for each workload int16 [K, N, H].
        networks: K.
        scouting: whether the networks are scouts; else they are the mean, all w + sigma e, all w - sigma e.
        mean: whether the mean is among them.
        reward, speedup: float64 [P * K], workload after workload; NaN where a measurement failed.
        told: how many workloads.
    """

    mapping: list[Mapping16]
    networks: int
    scouting: bool
    mean: bool
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    told: int = 0

    @property
    def measured(self) -> bool:
        return self.told == len(self.mapping)

    def score(self) -> NDArray[np.float64]:
        """Float64 [K], what each network is worth: its reward; on several workloads the mean of its log speedups."""
        if len(self.mapping) == 1:
            return self.reward
        speedup = np.where(np.isfinite(self.reward), np.maximum(self.speedup, SLOWEST), np.nan)
        return np.asarray(np.log(speedup).reshape(-1, self.networks).mean(axis=0))


class Es(Method):
    """See the module."""

    def __init__(self, context: Context, config: EsConfig) -> None:
        """Raises InputError where no policy fits all workloads, or `context.init` does not."""
        torch.set_num_threads(context.threads)
        self._context, self._config = context, config
        self._problems = list(context.problems)
        self._fit = policy_fit.common_demands(self._problems)
        self._seen = [policy_fit.observation(problem) for problem in self._problems]
        self._actor = StackedActor(
            config.network,
            self._fit["features"],
            len(self._fit["heads"]),
            self._fit["choices"],
            context.device,
        )
        self._init = policy_fit.init_weights(context, config.network)
        first = context.generator("es weights")
        self._weights = self._actor.draw(first) if self._init is None else self._init
        self._adam = Ascent.of(self._actor.weight_format.size)
        self._proposed = 0
        self._rounds = 0
        self._current: _Round | None = None
        self._metrics: dict[str, float] = {}

    def _noise(self, number: int) -> Weights:
        """The perturbations float32 [pairs, P] of a round: the same whenever they are asked for."""
        rng = self._context.generator(f"es round {number}")
        return rng.standard_normal((self._config.pairs, self._actor.weight_format.size), dtype=np.float32)

    def _scouts(self) -> Weights:
        """The networks float32 [scouts, P] of which the best is the first mean: always the same ones."""
        rng = self._context.generator("es scouts")
        others = [self._actor.draw(rng) for _ in range(self._config.scouts - 1)]
        return np.stack([self._weights, *others])

    def ask(self) -> Proposals:
        """The current round on the next workload; a new round once all of it has been told."""
        if self._current is None or self._current.measured:
            self._step()
            self._current = self._next_round()
        return proposals(self._current.mapping[self._current.told], "es", self._current.told)

    def _next_round(self) -> _Round:
        scouting = self._config.scouts > 0 and self._proposed == 0
        if scouting:
            weights = self._scouts()
        else:
            step = np.float32(self._config.sigma) * self._noise(self._rounds)
            weights = np.concatenate([self._weights[None], self._weights + step, self._weights - step])
        mean = scouting or self._proposed > 0 or all(start is None for start in self._context.start)
        if not mean:
            weights = weights[1:]
        mapping = []
        for problem, seen in zip(self._problems, self._seen, strict=True):
            graph = prepare(seen.edge_index, len(seen.x))
            probabilities = self._actor.probabilities(weights, seen.x, graph, problem.space.num_choices)
            if self._config.readout == "greedy":
                best = probabilities.argmax(axis=-1)[..., None]
                probabilities = (best == np.arange(probabilities.shape[-1])).astype(np.float32)
            keys = self._context.keys(SAMPLE, self._proposed, len(weights))
            mapping.append(sample(problem, probabilities, keys))
            self._proposed += len(weights)
        unknown = np.full(len(mapping) * len(weights), np.nan)
        return _Round(mapping, len(weights), scouting, mean, unknown, unknown.copy())

    def _step(self) -> None:
        """Move the mean by what the last round showed."""
        current = self._current
        if current is None:
            return
        score = current.score()
        if current.scouting:
            best = int(np.argmax(np.where(np.isfinite(score), score, -np.inf)))
            self._weights = self._scouts()[best]
            return
        direction = estimate(score[int(current.mean) :], self._noise(self._rounds), self._config.sigma)
        self._weights = self._weights + self._adam.step(direction, self._config.learning_rate)
        self._metrics["estimate_norm"] = float(np.linalg.norm(direction))
        self._rounds += 1

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Keep what was measured on a workload; a failed measurement has no reward."""
        current = self._current
        if current is None:  # the start
            return
        rows = slice(current.told * current.networks, (current.told + 1) * current.networks)
        current.reward[rows] = np.where(evaluation.usable, evaluation.reward, np.nan)
        current.speedup[rows] = evaluation.speedup
        current.told += 1
        if current.measured:
            self._note(current)

    def _note(self, current: _Round) -> None:
        """Metrics of a measured round; the mean's speedup is a geometric mean over workloads."""
        by_network = current.reward.reshape(-1, current.networks)
        perturbed = by_network[:, int(current.mean and not current.scouting) :]
        finite = perturbed[np.isfinite(perturbed)]
        if current.mean and not current.scouting:
            own = current.speedup.reshape(-1, current.networks)[:, 0]
            self._metrics["deployable_speedup"] = (
                float(np.exp(np.log(own).mean())) if (own > 0).all() else 0.0
            )
        self._metrics["perturbed_reward"] = float(finite.mean()) if len(finite) else np.nan

    def metrics(self) -> Mapping[str, float]:
        """The mean's speedup, the perturbed ones' mean reward and the length of the last estimate."""
        return {name: self._metrics.get(name, np.nan) for name in METRICS}

    def policy(self) -> StoredPolicy | None:
        """The mean weights."""
        return actor_policy(self._weights, self._config.network, seed=self._context.seed, **self._fit)

    def state_dict(self) -> dict[str, Any]:
        """Mean, moments, the round under way; perturbations and scouts follow from the seed."""
        return {
            "weights": self._weights,
            "adam": vars(self._adam),
            "proposed": self._proposed,
            "rounds": self._rounds,
            "round": None if self._current is None else vars(self._current),
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._weights, self._adam = state["weights"], Ascent(**state["adam"])
        self._proposed, self._rounds = state["proposed"], state["rounds"]
        self._current = None if state["round"] is None else _Round(**state["round"])
        self._metrics = dict(state["metrics"])


DEFINITION = MethodDefinition(
    EsConfig, Es, needs_graph, {}, takes_policy=True, several=True, pretraining={"scouts": 20}
)
