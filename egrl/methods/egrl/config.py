"""Settings of Algorithm 2, and the paper's values of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from egrl.methods.rank.config import ScoreGradientConfig
from policies.critic import CriticConfig
from policies.network import AUTO, NetworkConfig

Readout = Literal["place", "greedy", "sample"]


@dataclass(frozen=True)
class PolicyConfig:
    """Settings of the policies of population and learner."""

    network: Annotated[NetworkConfig, Doc("the policy network of population and learner")] = field(
        default_factory=lambda: NetworkConfig(name=AUTO)
    )
    readout: Annotated[
        Readout,
        Doc(
            'how networks are read: "place": they rank tensors, which the problem\'s placer places by rank ("greedy" in'
            ' problems without one); "greedy": they take their most probable choices; "sample": they draw them, as in'
            " the paper"
        ),
    ] = "place"


@dataclass(frozen=True)
class SacConfig:
    """Settings of SAC (from EGRL's Table 2 unless stated)."""

    actor_lr: Annotated[float, Doc("step size of the actor's Adam")] = 1e-3
    critic_lr: Annotated[float, Doc("step size of the critics' Adam")] = 1e-3
    alpha: Annotated[
        float, Doc("weight of the entropy beside the value: the larger, the less certain the actor")
    ] = 0.05
    batch: Annotated[int, Doc("transitions per gradient step")] = 24
    reward_scale: Annotated[float, Doc("factor on every reward before the critics learn it")] = 5.0
    noise_sigma: Annotated[
        float,
        Doc(
            "standard deviation of the noise on the actions that the critics learn from (own choice,"
            " after published settings of 0.2)"
        ),
    ] = 0.2
    noise_clip: Annotated[
        float,
        Doc("largest size of that noise (Fujimoto et al. 2018)"),
    ] = 0.5
    clip_norm: Annotated[float, Doc("norm that the gradient of each network is cut to (own choice)")] = 10.0
    imitation: Annotated[
        float,
        Doc(
            "weight of the cross-entropy to the best mappings so far in the actor's loss (own choice;"
            " 0 in the paper)"
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        positive = ("actor_lr", "critic_lr", "reward_scale", "clip_norm")
        ranges = {
            **dict.fromkeys(positive, "> 0"),
            "alpha": ">= 0",
            "noise_sigma": ">= 0",
            "noise_clip": ">= 0",
            "imitation": ">= 0",
        }
        for name, expected in ranges.items():
            value = getattr(self, name)
            if not (value >= 0 and np.isfinite(value)) or (expected == "> 0" and value == 0):
                raise ValueError(f"{name}: expected a finite number {expected}, received {value}")
        if not 1 <= self.batch <= 4096:
            raise ValueError(f"batch: expected 1..4096, received {self.batch}")


@dataclass(frozen=True)
class RankLearnerConfig:
    """Settings of the learner whose network ranks."""

    per_round: Annotated[int, Ge(1), Le(10_000), Doc("mappings that it proposes per round")] = 6
    shipped: Annotated[
        bool, Doc("if true, it begins with the network that ships, if there is one for such features")
    ] = True
    profile: Annotated[
        bool,
        Doc(
            "if true, and costs are measured with profiles, its network also reads the profile of the fastest mapping"
            " so far; it begins with the network that ships for that, if there is one"
        ),
    ] = True
    width: Annotated[
        int, Ge(4), Le(4096), Doc("units of each hidden layer if no network ships, a multiple of 4")
    ] = 48
    training: Annotated[ScoreGradientConfig, Doc("noise and steps")] = field(
        default_factory=lambda: ScoreGradientConfig(
            rounds=20, first_sigma=0.5, last_sigma=0.25, last_rate=1e-3
        )
    )


@dataclass(frozen=True)
class LearnerConfig:
    """Settings of the learner (Table 2's values unless its class says otherwise)."""

    rank: Annotated[
        RankLearnerConfig,
        Doc("the learner where a placer reads networks; the other settings are SAC's"),
    ] = field(default_factory=RankLearnerConfig)
    sac: Annotated[SacConfig, Doc("see `egrl.methods.egrl.sac`")] = field(default_factory=SacConfig)
    critic: Annotated[CriticConfig, Doc("see `policies.critic`")] = field(default_factory=CriticConfig)
    rollouts: Annotated[
        int, Ge(1), Le(10_000), Doc("mappings that SAC's actor proposes per round (Table 2: 1)")
    ] = 1
    rollout_noise: Annotated[
        float,
        Ge(0),
        Le(20),
        Doc("standard deviation of the noise on the log-probabilities of these mappings (own choice)"),
    ] = 0.5
    gradient_steps: Annotated[
        float,
        Ge(0),
        Le(1000),
        Doc(
            "gradient steps per evaluation, which may be a fraction (Table 2: 1; own choice after"
            " papers/egrl/log/egrl.md)"
        ),
    ] = 0.125
    nodes: Annotated[
        int,
        Ge(1),
        Doc(
            "graphs of more nodes get proportionally fewer `gradient_steps`,"
            " so that learning takes no more time per evaluation (own choice)"
        ),
    ] = 400
    replay: Annotated[int, Ge(1), Doc("transitions that the replay buffer holds (Table 2: 100,000)")] = (
        100_000
    )
    shared: Annotated[
        bool,
        Doc(
            "if true, the learner learns from all mappings that ran (Algorithm 2); if false, from its own rollouts"
        ),
    ] = True
    migration: Annotated[
        bool, Doc("if true, the actor's weights join the population now and then (Algorithm 2, line 32)")
    ] = True
    elites: Annotated[
        int,
        Ge(1),
        Le(10_000),
        Doc("best mappings that the actor imitates, all different (own choice)"),
    ] = 10


PAPER_POPULATION: dict[str, Any] = {
    "evolution.boltzmann_fraction": 0.2,
    "evolution.survival": "generational",
    "network.name": "graph_unet",
    "readout": "sample",
    "evolution.generational.boltzmann_mutation.flips": 0.0,
}
"""What `--preset paper` sets in a population: Table 2 and Algorithm 2 as printed."""
PAPER_LEARNER: dict[str, Any] = {
    "readout": "sample",
    "learner.sac.imitation": 0.0,
    "learner.gradient_steps": 1.0,
    "learner.nodes": 1_000_000_000,
}
"""What `--preset paper` sets in a learner: appendix D, Table 2."""
