"""Settings of the method `ppo`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from egrl.methods.ppo.learner import PpoLearnerConfig
from policies.graphsage import GraphSageConfig


@dataclass(frozen=True)
class PpoConfig:
    """Settings of the method."""

    rollouts: Annotated[
        int,
        Ge(2),
        Le(10_000),
        Doc("mappings drawn per round (the paper's 20; with the deployed one they make a generation)"),
    ] = 20
    passes: Annotated[
        int,
        Ge(1),
        Le(64),
        Doc("passes of the policy per rollout, each of which sees the mapping of the one before"),
    ] = 1
    begin: Annotated[
        Literal["best", "outset"],
        Doc('what the first pass of a rollout sees: the "best" mapping so far, or the "outset"'),
    ] = "best"
    drafts: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("share of the rollouts that see no mapping, as the deployed one does"),
    ] = 0.1
    outset: Annotated[
        Literal["even", "nothing"],
        Doc(
            'what rollouts see before any result: "nothing", or the "even" split of the nodes in'
            " order, if choices are stages"
        ),
    ] = "even"
    ordered: Annotated[
        bool, Doc("draw stages along the execution order, move by move, if choices are stages")
    ] = True
    coupling: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("how alike the draws of neighbouring nodes are, if choices are stages: 0 independent, 1 smooth"),
    ] = 0.0
    draw: Annotated[
        Literal["own", "problem"],
        Doc(
            '"own": decisions are drawn independently and the problem repairs them; "problem": the'
            " problem draws a valid mapping"
        ),
    ] = "own"
    credit: Annotated[
        Literal["drawn", "ran"],
        Doc('which mapping gets the reward: the one "drawn", or the repaired one that "ran"'),
    ] = "drawn"
    learner: Annotated[PpoLearnerConfig, Doc("see `egrl.methods.ppo.learner`")] = field(
        default_factory=PpoLearnerConfig
    )
    network: Annotated[GraphSageConfig, Doc("see `policies.graphsage`")] = field(
        default_factory=GraphSageConfig
    )


PAPER: dict[str, Any] = {
    "passes": 2,
    "begin": "outset",
    "outset": "nothing",
    "ordered": False,
    "coupling": 0.0,
    "learner.imitation": 0.0,
    "learner.minibatches": 4,
    "learner.epochs": 10,
    "network.layers": 8,
    "network.width": 128,
    "network.crowds": False,
    "network.slope": 0.0,
    "network.stay": 0.0,
    "network.leave": 0.0,
}
"""Sections 4.1 and 5.1. The paper does not state its number of passes; with two, one pass sees another's mapping."""
