"""Settings that `egrl`, `ea` and `pg` share, and how population, learner, twin and profile model are combined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from typing_extensions import Doc

from egrl.core.method import Context, Method
from egrl.methods.hybrid.learner import LearnerConfig
from egrl.methods.hybrid.method import Hybrid, Parts
from egrl.methods.hybrid.ranking import Readout, names_choices, network_of, ranking_of
from egrl.methods.hybrid.with_critic import WithCritic
from egrl.methods.hybrid.with_twin import WithTwin
from egrl.methods.profile_model.choice import profile_model_of
from egrl.methods.profile_model.config import ProfileModelConfig
from hwsim.family import HasFamily
from policies.network import AUTO, NetworkConfig
from population.config import EvolutionConfig
from population.operators import Operators
from workloads.errors import InputError

UseTwin = Annotated[
    Literal["auto", "on", "off"],
    Doc(
        '"on": the twin takes turns with population and learner; "off": it does not; "auto": it'
        " does where a board measures and the problem has a family of models"
    ),
]


@dataclass(frozen=True)
class HybridConfig:
    """Settings of a population, a learner or both."""

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
    twin: UseTwin = "off"
    profile_model: Annotated[ProfileModelConfig, Doc("see `egrl.methods.profile_model.op_times`")] = field(
        default_factory=lambda: ProfileModelConfig(use="off")
    )


def build_hybrid(
    context: Context,
    config: HybridConfig,
    evolution: EvolutionConfig | None,
    learner: LearnerConfig | None,
    operators: Operators | None = None,
) -> Method:
    """A population, a learner or both, with twin and profile model if settings and problem allow them.

    InputError if the twin is "on" and the problem has no family of models.
    """
    problem = context.problems[0]
    readout = config.readout
    if readout == "place" and config.network.name == AUTO and names_choices(context.init):
        readout = "greedy"  # the policy to begin with says how it is read
    ranking = ranking_of(problem, config.network, readout)
    network = network_of(problem, config.network, ranking)
    parts = Parts(network, evolution, learner, readout, ranking, operators)
    hybrid = Hybrid(context, parts)
    if config.twin == "on" and not isinstance(problem, HasFamily):
        raise InputError(
            f"method.twin: expected auto or off, since the problem {problem.about.name} has no family of models,"
            " found on"
        )
    inner = hybrid if config.twin == "off" else WithTwin(context, hybrid, always=config.twin == "on")
    settings = config.profile_model
    model = None if settings.use == "off" else profile_model_of(problem, settings)
    return inner if model is None else WithCritic(context, inner, model, settings.first)
