"""ES: evolution strategies on the weights of one Graph U-Net.

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
- The start mappings are measured once, in the place of the first round's mean; weights learn nothing from them.
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

from egrl.core.keys import SAMPLE, run_keys
from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods import policy_fit
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16, Status
from policies.graph import prepare
from policies.graph_unet import GraphUNetConfig, draw_weights
from policies.stacked import StackedActor
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights
from population.walk import Ascent, estimate


@dataclass(frozen=True)
class EsConfig:
    """Settings of ES.

    Attributes:
        pairs: mirrored pairs of perturbations a round; 10 and the mean make 21 evaluations.
        sigma: standard deviation of the perturbations.
        learning_rate: of Adam.
        readout: what a network proposes: its most probable choices, or a draw from its probabilities.
        scouts: networks drawn at random, of which the best is the first mean; 0: the first mean is one draw.
        network: the actor.
    """

    pairs: Annotated[int, Ge(1), Le(10_000)] = 10
    sigma: Annotated[float, Gt(0), Lt(100)] = 0.02
    learning_rate: Annotated[float, Gt(0), Lt(100)] = 0.01
    readout: Literal["greedy", "sample"] = "greedy"
    scouts: Annotated[int, Ge(0), Le(10_000)] = 0
    network: GraphUNetConfig = field(default_factory=GraphUNetConfig)


SLOWEST = 0.01
"""The speedup that stands for a mapping that did not run, where a mean over workloads is taken."""


@dataclass
class _Round:
    """K networks on P workloads.

    Attributes:
        mapping: for each workload int16 [K, N, H].
        networks: K.
        scouting: whether the networks are scouts; else they are the mean, all w + sigma e, all w - sigma e.
        start: whether start mappings stand in the place of the first network's.
        reward, speedup: float64 [P * K], workload after workload.
        asked, told: how many of these rows.
    """

    mapping: list[Mapping16]
    networks: int
    scouting: bool
    start: bool
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    asked: int = 0
    told: int = 0

    @property
    def measured(self) -> bool:
        return self.told == len(self.reward)

    def score(self) -> NDArray[np.float64]:
        """Float64 [K], what each network is worth: its reward; on several workloads the mean of its log speedups."""
        if len(self.mapping) == 1:
            return self.reward
        speedup = np.where(np.isfinite(self.reward), np.maximum(self.speedup, SLOWEST), np.nan)
        return np.asarray(np.log(speedup).reshape(-1, self.networks).mean(axis=0))


class Es:
    """See the module."""

    metric_names: tuple[str, ...] = ("deployable_speedup", "perturbed_reward", "estimate_norm")

    def __init__(self, setting: Setting, config: EsConfig) -> None:
        """Raises InputError where no policy fits all workloads, or `setting.init` does not."""
        torch.set_num_threads(setting.threads)
        self._setting, self._config = setting, config
        self._problems = list(setting.problems)
        self._fit = policy_fit.common_demands(self._problems)
        self._seen = [policy_fit.observation(problem) for problem in self._problems]
        self._actor = StackedActor(
            config.network,
            self._fit["features"],
            len(self._fit["heads"]),
            self._fit["choices"],
            setting.device,
        )
        self._init = policy_fit.init_weights(setting, config.network)
        first = setting.generator("es weights")
        self._weights = self._random(first) if self._init is None else self._init
        self._adam = Ascent.of(self._actor.weight_format.size)
        self._proposed = 0
        self._rounds = 0
        self._current: _Round | None = None
        self._metrics: dict[str, float] = {}

    def _random(self, rng: np.random.Generator) -> Weights:
        return draw_weights(self._actor.weight_format, self._config.network, rng)

    def _noise(self, number: int) -> Weights:
        """The perturbations float32 [pairs, P] of a round: the same whenever they are asked for."""
        rng = self._setting.generator(f"es round {number}")
        return rng.standard_normal((self._config.pairs, self._actor.weight_format.size), dtype=np.float32)

    def _scouts(self) -> Weights:
        """The networks float32 [scouts, P] of which the best is the first mean: always the same ones."""
        rng = self._setting.generator("es scouts")
        others = [self._random(rng) for _ in range(self._config.scouts - 1)]
        return np.stack([self._weights, *others])

    def ask(self, room: int) -> Proposals | None:
        """The next rows of the current round, of one workload; a new round once all of it has been told."""
        if self._current is None or self._current.measured:
            self._step()
            self._current = self._next_round()
        current = self._current
        problem, first = divmod(current.asked, current.networks)
        if problem == len(current.mapping):
            return proposals(current.mapping[-1][:0], [], problem - 1)
        last = min(current.networks, first + room)
        current.asked += last - first
        started = current.start and self._setting.start[problem] is not None
        sources = ["start" if started and row == 0 else "es" for row in range(first, last)]
        return proposals(current.mapping[problem][first:last], sources, problem)

    def _next_round(self) -> _Round:
        scouting = self._config.scouts > 0 and self._proposed == 0
        if scouting:
            weights = self._scouts()
        else:
            step = np.float32(self._config.sigma) * self._noise(self._rounds)
            weights = np.concatenate([self._weights[None], self._weights + step, self._weights - step])
        start = self._proposed == 0 and not scouting and any(m is not None for m in self._setting.start)
        mapping = []
        for problem, seen, known in zip(self._problems, self._seen, self._setting.start, strict=True):
            graph = prepare(seen.edge_index, len(seen.x))
            probabilities = self._actor.probabilities(weights, seen.x, graph, problem.space.num_choices)
            if self._config.readout == "greedy":
                best = probabilities.argmax(axis=-1)[..., None]
                probabilities = (best == np.arange(probabilities.shape[-1])).astype(np.float32)
            numbers = np.arange(self._proposed, self._proposed + len(weights))
            rows = sample(problem, probabilities, run_keys(self._setting.seed, numbers, SAMPLE))
            self._proposed += len(weights)
            if start and known is not None:
                rows[0] = known
            mapping.append(rows)
        unknown = np.full(len(mapping) * len(weights), np.nan)
        return _Round(mapping, len(weights), scouting, start, unknown, unknown.copy())

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
        direction = estimate(score[1:], self._noise(self._rounds), self._config.sigma)
        self._weights = self._weights + self._adam.step(direction, self._config.learning_rate)
        self._metrics["estimate_norm"] = float(np.linalg.norm(direction))
        self._rounds += 1

    def learn(self) -> None:
        """Nothing is due: the mean moves when the next round begins."""

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
            self._note(current)

    def _note(self, current: _Round) -> None:
        """Metrics of a measured round; the mean's speedup is a geometric mean over workloads."""
        by_network = current.reward.reshape(-1, current.networks)
        perturbed = by_network[:, 0 if current.scouting else 1 :]
        finite = perturbed[np.isfinite(perturbed)]
        if not current.start and not current.scouting:
            own = current.speedup.reshape(-1, current.networks)[:, 0]
            self._metrics["deployable_speedup"] = (
                float(np.exp(np.log(own).mean())) if (own > 0).all() else 0.0
            )
        self._metrics["perturbed_reward"] = float(finite.mean()) if len(finite) else np.nan

    def metrics(self) -> Mapping[str, float]:
        """The mean's speedup, the perturbed ones' mean reward and the length of the last estimate."""
        return {name: self._metrics.get(name, np.nan) for name in self.metric_names}

    def policy(self) -> StoredPolicy | None:
        """The mean weights."""
        return actor_policy(self._weights, self._config.network, seed=self._setting.seed, **self._fit)

    def state_dict(self) -> dict[str, Any] | None:
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


DEFINITION = MethodDefinition(EsConfig, Es, needs_graph, {}, takes_policy=True, several=True)
