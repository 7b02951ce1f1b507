"""ES: evolution strategies on the weights of one graph network.

Source: Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning" (2017):
Algorithm 1 with mirrored perturbations and rank-shaped fitness (section 2.1), Adam on the estimate (section 4).

    round: the centre w, and w +- sigma e_i for `pairs` draws e_i ~ N(0, I), each measured once
    r = centred ranks of their rewards, from -0.5 to 0.5
    g = sum_i (r_i+ - r_i-) e_i / (2 pairs sigma);  w moves by one step of Adam along g

On several workloads, every network of a round is measured on each of them, and its reward is the mean of its log
speedups: one policy for all (`egrl pretrain`).

Deviations:
- Equal rewards share their mean rank, so that a round in which nothing differs moves nothing (the source's ranking
  breaks ties by position). Failed measurements share the last rank.
- No weight decay, no virtual batch normalisation (layers are normalised by themselves).
- The centre is measured every round, as the policy to deploy; its reward does not enter the estimate.
- A network proposes its most probable choices (`readout = "greedy"`), or draws from its probabilities ("sample").
- Where a start mapping was measured, the first round leaves out the centre; weights learn nothing from the start.
- With `scouts`, the centre begins at the best of that many random networks (the policy of `--init` among them).
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

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods import policy_fit
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16
from policies.adam import Adam
from policies.graph import prepare
from policies.network import NetworkConfig
from policies.stacked import StackedActor
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights


@dataclass(frozen=True)
class EsConfig:
    """Settings of ES.

    Example:
        >>> import egrl
        >>> from egrl.methods.es import EsConfig
        >>> result = egrl.search("alexnet", method=EsConfig(), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    pairs: Annotated[
        int,
        Ge(1),
        Le(10_000),
        Doc("mirrored pairs of perturbations per round; 10 pairs and the centre make 21 evaluations"),
    ] = 10
    sigma: Annotated[float, Gt(0), Lt(100), Doc("standard deviation of the perturbation of each weight")] = (
        0.02
    )
    learning_rate: Annotated[float, Gt(0), Lt(100), Doc("step size of Adam, which moves the centre")] = 0.01
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
        Doc("random networks that are measured first: it begins at the best; 0: at one random network"),
    ] = 0
    network: Annotated[NetworkConfig, Doc("the actor")] = field(default_factory=NetworkConfig)


METRICS = ("deployable_speedup", "perturbed_reward", "estimate_norm")
SLOWEST = 0.01
"""The speedup that stands for a mapping that did not run, where a mean over workloads is taken."""


def centred_ranks(reward: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of rewards [M] scaled to -0.5 (lowest) .. 0.5; equal ones share their mean, non-finite ones are lowest."""
    _, group, count = np.unique(
        np.where(np.isfinite(reward), reward, -np.inf), return_inverse=True, return_counts=True
    )
    # A group of equal rewards takes consecutive ranks; each of it gets their mean.
    ranks = (np.cumsum(count) - (count - 1) / 2)[group]
    return (ranks - 1.0) / max(1, len(reward) - 1) - 0.5


def estimate(reward: NDArray[np.float64], noise: Weights, sigma: float) -> Weights:
    """The ascent direction float32 [P] from rewards [2 * pairs] (all +, then all -) and noise [pairs, P]."""
    # Ranks, not rewards: one outlier must not decide the direction.
    shaped = centred_ranks(reward)
    pairs = len(noise)
    # The two members of a pair share their noise: what both have in common cancels.
    difference = (shaped[:pairs] - shaped[pairs:]).astype(np.float32)
    return np.asarray(difference @ noise / np.float32(2 * pairs * sigma), dtype=np.float32)


class Ascent:
    """Adam on estimates of P weights."""

    def __init__(self, size: int) -> None:
        """Before the first step of P = `size` weights."""
        self._moved = torch.zeros(size)
        self._adam = Adam([self._moved], 1.0)

    def step(self, gradient: Weights, learning_rate: float) -> Weights:
        """By how much the weights move, float32 [P]; upwards."""
        self._moved.zero_()
        self._moved.grad = torch.from_numpy(-np.asarray(gradient, np.float32))
        self._adam.learning_rate = learning_rate
        self._adam.step()
        return self._moved.numpy().copy()

    def state_dict(self) -> dict[str, Any]:
        """Adam's."""
        return self._adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._adam.load_state_dict(state)


@dataclass
class _Round:
    """K networks on P workloads.

    Attributes:
        mapping: for each workload int16 [K, N, H].
        networks: K.
        scouting: whether the networks are scouts; else they lie around the centre.
        centre: whether the centre is the first of them.
        reward, speedup: float64 [P * K], workload after workload; NaN where a measurement failed.
        told: number of workloads with results.
    """

    mapping: list[Mapping16]
    networks: int
    scouting: bool
    centre: bool
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
    """Evolution strategies on the weights of one network."""

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
        first = self._actor.draw(context.generator("es weights")) if self._init is None else self._init
        self._scouts = [first]
        if config.scouts:
            rng = context.generator("es scouts")
            self._scouts += [self._actor.draw(rng) for _ in range(config.scouts - 1)]
        self._centre: Weights | None = None if config.scouts else first
        self._ascent = Ascent(len(first))
        self._proposed = 0
        self._rounds = 0
        self._current: _Round | None = None
        self._metrics: dict[str, float] = {}

    @property
    def _weights(self) -> Weights:
        """The centre float32 [P]; the first of the scouts before there is one."""
        return self._scouts[0] if self._centre is None else self._centre

    def _noise(self) -> NDArray[np.float32]:
        """The draws float32 [pairs, P] of the round: the same whenever they are asked for."""
        rng = self._context.generator(f"es round {self._rounds}")
        return rng.standard_normal((self._config.pairs, len(self._weights)), dtype=np.float32)

    def _networks(self, centre: bool) -> NDArray[np.float32]:
        """The networks float32 [K, P] of the round; `centre` as in `_Round`."""
        if self._centre is None:
            return np.stack(self._scouts)
        step = np.float32(self._config.sigma) * self._noise()
        return np.concatenate([self._centre[None][: int(centre)], self._centre + step, self._centre - step])

    def ask(self) -> Proposals:
        """The current round on the next workload; a new round after the results of all workloads."""
        if self._current is None or self._current.measured:
            self._step()
            self._current = self._next_round()
        return proposals(self._current.mapping[self._current.told], "es", self._current.told)

    def _next_round(self) -> _Round:
        scouting = self._centre is None
        centre = not scouting and (self._proposed > 0 or all(start is None for start in self._context.start))
        weights = self._networks(centre)
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
        return _Round(mapping, len(weights), scouting, centre, unknown, unknown.copy())

    def _step(self) -> None:
        """Move the centre by what the last round showed; it begins at the newest of the best scouts."""
        current = self._current
        if current is None:
            return
        score = np.where(np.isfinite(current.score()), current.score(), -np.inf)
        if self._centre is None:
            last = len(score) - 1 - int(np.argmax(score[::-1]))
            self._centre = self._scouts[last if np.isfinite(score[last]) else 0]
        else:
            direction = estimate(score[int(current.centre) :], self._noise(), self._config.sigma)
            self._metrics["estimate_norm"] = float(np.linalg.norm(direction))
            self._centre = self._centre + self._ascent.step(direction, self._config.learning_rate)
        self._rounds += not current.scouting

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
        """Metrics of a measured round; the centre's speedup is a geometric mean over workloads."""
        by_network = current.reward.reshape(-1, current.networks)
        perturbed = by_network[:, int(current.centre) :]
        finite = perturbed[np.isfinite(perturbed)]
        if current.centre:
            own = current.speedup.reshape(-1, current.networks)[:, 0]
            self._metrics["deployable_speedup"] = (
                float(np.exp(np.log(own).mean())) if (own > 0).all() else 0.0
            )
        self._metrics["perturbed_reward"] = float(finite.mean()) if len(finite) else np.nan

    def metrics(self) -> Mapping[str, float]:
        """The centre's speedup, the perturbed ones' mean reward and the length of the last estimate."""
        return {name: self._metrics.get(name, np.nan) for name in METRICS}

    def policy(self) -> StoredPolicy | None:
        """The centre."""
        return actor_policy(self._weights, self._config.network, seed=self._context.seed, **self._fit)

    def state_dict(self) -> dict[str, Any]:
        """The centre and the round under way; perturbations and scouts follow from the seed."""
        return {
            "centre": self._centre,
            "ascent": self._ascent.state_dict(),
            "proposed": self._proposed,
            "rounds": self._rounds,
            "round": None if self._current is None else vars(self._current),
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._centre = state["centre"]
        self._ascent.load_state_dict(state["ascent"])
        self._proposed, self._rounds = state["proposed"], state["rounds"]
        self._current = None if state["round"] is None else _Round(**state["round"])
        self._metrics = dict(state["metrics"])


DEFINITION = MethodDefinition(
    EsConfig, Es, needs_graph, {}, takes_policy=True, several=True, pretraining={"scouts": 20}
)
