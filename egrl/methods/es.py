"""ES: evolution strategies on the weights of one Graph U-Net.

Source: Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning" (2017): Algorithm 1
with mirrored (antithetic) perturbations and rank-shaped fitness (section 2.1), Adam on the estimate (section 4).

    round: the mean weights w, and w +- sigma * e_i for `pairs` draws e_i ~ N(0, I), each measured once
    r = centred ranks of the 2 * pairs rewards, from -0.5 to 0.5; g = sum_i (r_i+ - r_i-) * e_i / (2 * pairs * sigma)
    w moves by one step of Adam along g

Deviations:
- The mean is measured every round, as the policy to deploy; its reward does not enter the estimate.
- Equal rewards share their mean rank, so that a round in which nothing differs moves nothing (the paper's ranking
  breaks ties by position). Failed measurements share the last rank.
- No weight decay, no virtual batch normalisation (layers are normalised by themselves).
- A network proposes its most probable choices (`readout = "greedy"`), or draws from its probabilities ("sample").
- The start mapping is measured once, in the place of the first round's mean; weights learn nothing from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

from egrl.keys import SAMPLE, run_keys
from egrl.methods import Definition, needs_graph
from egrl.types import Proposals, Setting, proposals
from hwsim.problem import Evaluation, Mapping16, Status
from policies.graph import prepare
from policies.graph_unet import GraphUNetConfig, draw_weights
from policies.layout import Weights
from policies.stacked import StackedActor
from policies.store import StoredPolicy, actor_of, actor_policy
from policies.weights import flatten
from population.walk import Ascent, estimate
from workloads.errors import InputError


@dataclass(frozen=True)
class EsConfig:
    """Settings of ES.

    Attributes:
        pairs: mirrored pairs of perturbations a round; 10 and the mean make 21 evaluations.
        sigma: standard deviation of the perturbations.
        learning_rate: of Adam.
        readout: what a network proposes: its most probable choices, or a draw from its probabilities.
        network: the actor.
    """

    pairs: Annotated[int, Ge(1), Le(10_000)] = 10
    sigma: Annotated[float, Gt(0), Lt(100)] = 0.02
    learning_rate: Annotated[float, Gt(0), Lt(100)] = 0.01
    readout: Literal["greedy", "sample"] = "greedy"
    network: GraphUNetConfig = field(default_factory=GraphUNetConfig)


@dataclass
class _Round:
    """R mappings: of the mean (where `start`: the start mapping), of all w + sigma e, of all w - sigma e."""

    mapping: Mapping16
    start: bool
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    asked: int = 0
    told: int = 0

    @property
    def measured(self) -> bool:
        return self.told == len(self.mapping)


class Es:
    """See the module."""

    metric_names: tuple[str, ...] = ("deployable_speedup", "perturbed_reward", "estimate_norm")

    def __init__(self, setting: Setting, config: EsConfig) -> None:
        """Raises InputError where there are several problems or `setting.init` does not fit."""
        if len(setting.problems) != 1:
            raise InputError(f"this method takes one workload, found {len(setting.problems)}")
        torch.set_num_threads(setting.threads)
        self._setting, self._config = setting, config
        self._problem = setting.problems[0]
        observation = self._problem.observation
        if observation is None:
            raise ValueError(f"problem: expected one with an observation, received {self._problem.name}")
        self._observation = observation
        self._graph = prepare(observation.edge_index, len(observation.x))
        heads, choices = len(self._problem.heads), int(self._problem.num_choices.max())
        self._actor = StackedActor(config.network, observation.x.shape[1], heads, choices, setting.device)
        self._weights = self._first_weights()
        size = self._actor.layout.size
        self._adam = Ascent.of(size)
        self._proposed = 0
        self._rounds = 0
        self._current: _Round | None = None
        self._metrics: dict[str, float] = {}

    def _first_weights(self) -> Weights:
        policy = self._setting.init
        if policy is None:
            rng = self._setting.generator("es weights")
            return draw_weights(self._actor.layout, self._config.network, rng)
        for key, value in {**self._metadata(), "config": asdict(self._config.network)}.items():
            if policy.metadata.get(key) != value:
                raise InputError(f"--init: {key}: expected {value!r}, found {policy.metadata.get(key)!r}")
        return flatten(actor_of(policy, "--init"))

    def _metadata(self) -> dict[str, Any]:
        return {
            "features": self._actor.features,
            "heads": list(self._problem.heads),
            "choices": self._actor.choices,
            "feature_schema": self._observation.schema,
        }

    def _noise(self, number: int) -> Weights:
        """The perturbations float32 [pairs, P] of a round: the same whenever they are asked for."""
        rng = self._setting.generator(f"es round {number}")
        return rng.standard_normal((self._config.pairs, self._actor.layout.size), dtype=np.float32)

    def ask(self, room: int) -> Proposals | None:
        """The next rows of the current round; a new round once all of it has been told."""
        if self._current is None or self._current.measured:
            self._step()
            self._current = self._next_round()
        current = self._current
        rows = slice(current.asked, min(len(current.mapping), current.asked + room))
        sources = ["start" if current.start and row == 0 else "es" for row in range(rows.start, rows.stop)]
        current.asked = rows.stop
        return proposals(current.mapping[rows], sources)

    def _next_round(self) -> _Round:
        step = np.float32(self._config.sigma) * self._noise(self._rounds)
        weights = np.concatenate([self._weights[None], self._weights + step, self._weights - step])
        probabilities = self._actor.probabilities(
            weights, self._observation.x, self._graph, self._problem.num_choices
        )
        if self._config.readout == "greedy":
            best = probabilities.argmax(axis=-1)[..., None]
            probabilities = (best == np.arange(probabilities.shape[-1])).astype(np.float32)
        numbers = np.arange(self._proposed, self._proposed + len(weights))
        mapping = self._problem.sample(probabilities, run_keys(self._setting.seed, numbers, SAMPLE))
        start = self._setting.start[0] if self._proposed == 0 else None
        self._proposed += len(weights)
        if start is not None:
            mapping[0] = start
        unknown = np.full(len(mapping), np.nan)
        return _Round(mapping, start is not None, unknown, unknown.copy())

    def _step(self) -> None:
        """Move the mean by what the last round showed."""
        current = self._current
        if current is None:
            return
        direction = estimate(current.reward[1:], self._noise(self._rounds), self._config.sigma)
        self._weights = self._weights + self._adam.step(direction, self._config.learning_rate)
        self._metrics["estimate_norm"] = float(np.linalg.norm(direction))
        self._rounds += 1

    def learn(self) -> None:
        """Nothing is owed: the mean moves when the next round begins."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Store what was measured; a failed measurement has no reward."""
        current = self._current
        if current is None:
            raise ValueError("tell: expected results of rows that were asked for, received others")
        rows = slice(current.told, current.told + len(proposals))
        usable = evaluation.status <= Status.INVALID
        current.reward[rows] = np.where(usable, evaluation.reward, np.nan)
        current.speedup[rows] = evaluation.speedup
        current.told = rows.stop
        if current.measured:
            perturbed = current.reward[1:]
            finite = perturbed[np.isfinite(perturbed)]
            if not current.start:
                self._metrics["deployable_speedup"] = float(current.speedup[0])
            self._metrics["perturbed_reward"] = float(finite.mean()) if len(finite) else np.nan

    def metrics(self) -> Mapping[str, float]:
        """The mean's speedup, the perturbed ones' mean reward and the length of the last estimate."""
        return {name: self._metrics.get(name, np.nan) for name in self.metric_names}

    def policy(self) -> StoredPolicy | None:
        """The mean weights."""
        return actor_policy(self._weights, self._config.network, seed=self._setting.seed, **self._metadata())

    def state_dict(self) -> dict[str, Any] | None:
        """Mean, moments, the round under way; perturbations follow from the seed and the round's number."""
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


DEFINITION = Definition(EsConfig, Es, needs_graph, {}, takes_policy=True)
