"""Settings of Algorithm 2, and the paper's values of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from egrl.methods.egrl.sac import SacConfig
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
class LearnerConfig:
    """Settings of the learner (Table 2's values unless its class says otherwise)."""

    sac: Annotated[SacConfig, Doc("see `egrl.methods.egrl.sac`")] = field(default_factory=SacConfig)
    critic: Annotated[CriticConfig, Doc("see `policies.critic`")] = field(default_factory=CriticConfig)
    rollouts: Annotated[
        int, Ge(1), Le(10_000), Doc("mappings that the learner proposes per round (Table 2: 1)")
    ] = 1
    rollout_noise: Annotated[
        float,
        Ge(0),
        Le(20),
        Doc(
            "standard deviation of the noise on the log-probabilities of these mappings; scale of the Gumbel noise on"
            " the scores of a ranking network (own choice)"
        ),
    ] = 0.5
    gradient_steps: Annotated[
        float,
        Ge(0),
        Le(1000),
        Doc(
            "gradient steps per evaluation, which may be a fraction (Table 2: 1; own choice after"
            " docs/log/egrl.md)"
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
    "learner.sac.imitation": 0.0,
    "learner.gradient_steps": 1.0,
    "learner.nodes": 1_000_000_000,
}
"""What `--preset paper` sets in a learner: appendix D, Table 2."""
