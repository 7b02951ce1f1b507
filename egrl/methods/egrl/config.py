"""Settings of Algorithm 2, and the paper's values of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from policies.critic import CriticConfig
from policies.network import NetworkConfig

Readout = Literal["place", "greedy", "sample"]


@dataclass(frozen=True)
class PolicyConfig:
    """Settings of the policies of population and learner."""

    network: Annotated[
        NetworkConfig,
        Doc(
            "the policy network of population and learner; a small one (Table 2: depth 4, width 128, 4 heads)"
        ),
    ] = field(default_factory=lambda: NetworkConfig(depth=1, width=16, attention_heads=2))
    readout: Annotated[
        Readout,
        Doc(
            'how policies are read: "place": networks rank tensors for the problem\'s placer, and chromosomes are drawn'
            ' for it with their temperatures; "greedy": networks take their most probable choices; "sample": they draw'
            " them, as in the paper"
        ),
    ] = "place"
    shipped: Annotated[
        bool,
        Doc(
            "if true, networks begin with the rules and the network that come with the package, if there are any"
        ),
    ] = True


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
    imitation: Annotated[
        float,
        Doc(
            "weight of the cross-entropy to the best mappings so far in the actor's loss (own choice;"
            " 0 in the paper)"
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        positive = ("actor_lr", "critic_lr", "reward_scale")
        ranges = {
            **dict.fromkeys(positive, "> 0"),
            "alpha": ">= 0",
            "noise_sigma": ">= 0",
            "imitation": ">= 0",
        }
        for name, expected in ranges.items():
            value = getattr(self, name)
            if not (value >= 0 and np.isfinite(value)) or (expected == "> 0" and value == 0):
                raise ValueError(f"{name}: expected a finite number {expected}, received {value}")
        if not 1 <= self.batch <= 4096:
            raise ValueError(f"batch: expected 1..4096, received {self.batch}")


@dataclass(frozen=True)
class RankingSacConfig:
    """Settings of SAC over rankings (own choices; docs/results/parts.md says what it is worth)."""

    rollouts: Annotated[int, Ge(1), Le(10_000), Doc("mappings that it proposes per round")] = 6
    steps: Annotated[int, Ge(1), Le(10_000), Doc("steps of the actor per round")] = 6
    samples: Annotated[
        int, Ge(2), Le(10_000), Doc("imagined placements per step, an even number; the critic judges them")
    ] = 32
    learning_rate: Annotated[
        float,
        Ge(0),
        Le(10),
        Doc(
            "step size of Adam; a third of it where the actor begins with a trained ranking; 0: it is frozen"
        ),
    ] = 0.01
    entropy: Annotated[
        float,
        Gt(0),
        Le(10),
        Doc("target entropy of what is placed, in nats per tensor: noise is fitted to it"),
    ] = 0.03


@dataclass(frozen=True)
class LearnerConfig:
    """Settings of the learner (SAC over choices: Table 2's values unless it says otherwise)."""

    ranking: Annotated[
        RankingSacConfig,
        Doc("SAC over rankings, where a placer reads networks; the other settings are SAC's over choices"),
    ] = field(default_factory=RankingSacConfig)
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
