"""ES: evolution strategies on the weights of one graph network.

Source: Salimans et al. (2017), as in `population.walk`, which is the algorithm: a walk that is never given up.

    round: the centre w of the walk, and w +- sigma * e_i for `pairs` draws e_i ~ N(0, I), each measured once
    w moves by one step of Adam along the estimate

On several workloads, every network of a round is measured on each of them, and its reward is the mean of its log
speedups: one policy for all (`egrl pretrain`).

Deviations:
- Those of `population.walk`.
- The centre is measured every round, as the policy to deploy; its reward does not enter the estimate.
- A network proposes its most probable choices (`readout = "greedy"`), or draws from its probabilities ("sample").
- Where a start mapping was measured, the first round leaves out the centre; weights learn nothing from the start.
- With `scouts`, the walk begins at the best of that many random networks (the policy of `--init` among them).
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
from policies.graph import prepare
from policies.network import NetworkConfig
from policies.stacked import StackedActor
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights
from population.genome import Child, Individual, Network
from population.walk import Walk, WalkConfig


@dataclass(frozen=True)
class EsConfig:
    """Settings of ES."""

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
        Doc("random networks that are measured first: the walk begins at the best; 0: at one random network"),
    ] = 0
    network: Annotated[NetworkConfig, Doc("the actor")] = field(default_factory=NetworkConfig)


METRICS = ("deployable_speedup", "perturbed_reward", "estimate_norm")
SLOWEST = 0.01
"""The speedup that stands for a mapping that did not run, where a mean over workloads is taken."""
FOREVER = 2**62
"""Patience of a walk that is never given up."""


@dataclass
class _Round:
    """K networks on P workloads.

    Attributes:
        mapping: for each workload int16 [K, N, H].
        networks: K.
        scouting: whether the networks are scouts; else they are those of the walk.
        centre: whether the walk's centre is the first of them.
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
        self._walk = Walk(WalkConfig(config.sigma, config.learning_rate, FOREVER))
        first = self._actor.draw(context.generator("es weights")) if self._init is None else self._init
        self._scouts = [first]
        if config.scouts:
            rng = context.generator("es scouts")
            self._scouts += [self._actor.draw(rng) for _ in range(config.scouts - 1)]
        else:
            self._walk.begin_at(first)
        self._proposed = 0
        self._rounds = 0
        self._current: _Round | None = None
        self._metrics: dict[str, float] = {}

    @property
    def _weights(self) -> Weights:
        """The centre float32 [P]; the first of the scouts before there is one."""
        return self._scouts[0] if self._walk.centre is None else self._walk.centre

    def _networks(self, centre: bool) -> list[Child]:
        """The networks of the round: the same whenever they are asked for."""
        if self._walk.centre is None:
            return [Child(Network(weights), (), "random") for weights in self._scouts]
        rng = self._context.generator(f"es round {self._rounds}")
        return self._walk.members(2 * self._config.pairs + centre, None, self._none, rng)

    @staticmethod
    def _none() -> Network:
        raise ValueError("members: expected a walk with a centre, received one without")

    def ask(self) -> Proposals:
        """The current round on the next workload; a new round after the results of all workloads."""
        if self._current is None or self._current.measured:
            self._step()
            self._current = self._next_round()
        return proposals(self._current.mapping[self._current.told], "es", self._current.told)

    def _next_round(self) -> _Round:
        scouting = self._walk.centre is None
        centre = not scouting and (self._proposed > 0 or all(start is None for start in self._context.start))
        weights = np.stack([_weights_of(child) for child in self._networks(centre)])
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
        """Move the walk by what the last round showed."""
        current = self._current
        if current is None:
            return
        children = zip(self._networks(current.centre), current.score(), strict=True)
        self._walk.update(
            [Individual(c.genome, k, (), c.origin).with_fitness(s) for k, (c, s) in enumerate(children)]
        )
        if self._walk.centre is None:  # no scout ran
            self._walk.begin_at(self._scouts[0])
        self._metrics["estimate_norm"] = self._walk.slope
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
        """The centre of the walk."""
        return actor_policy(self._weights, self._config.network, seed=self._context.seed, **self._fit)

    def state_dict(self) -> dict[str, Any]:
        """The walk and the round under way; perturbations and scouts follow from the seed."""
        return {
            "walk": self._walk.state_dict(),
            "proposed": self._proposed,
            "rounds": self._rounds,
            "round": None if self._current is None else vars(self._current),
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._walk.load_state_dict(state["walk"])
        self._proposed, self._rounds = state["proposed"], state["rounds"]
        self._current = None if state["round"] is None else _Round(**state["round"])
        self._metrics = dict(state["metrics"])


def _weights_of(child: Child) -> Weights:
    assert isinstance(child.genome, Network)
    return child.genome.weights


DEFINITION = MethodDefinition(
    EsConfig, Es, needs_graph, {}, takes_policy=True, several=True, pretraining={"scouts": 20}
)
