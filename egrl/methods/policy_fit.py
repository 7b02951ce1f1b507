"""Which policy fits which problem: features, heads, feature schema and, for most, numbers of choices must agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from egrl.core.method import Context
from hwsim.capabilities import HasObservation
from hwsim.problem import Observation, Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.network import NetworkConfig
    from policies.store import StoredPolicy
    from policies.weight_vector import Weights


def observation(problem: Problem) -> Observation:
    """The observation of a problem for a policy. ValueError if the problem has none."""
    if not isinstance(problem, HasObservation):
        raise ValueError(f"problem: expected one with an observation, received {problem.about.name}")
    return problem.observation


def demands(problem: Problem) -> dict[str, Any]:
    """The metadata that a policy for a problem must have: features, heads, choices, feature_schema."""
    seen = observation(problem)
    return {
        "features": seen.x.shape[1],
        "heads": list(problem.space.heads),
        "choices": problem.space.most_choices,
        "feature_schema": seen.schema,
    }


def common_demands(problems: Sequence[Problem], *free: str) -> dict[str, Any]:
    """The `demands` on one policy that serves all problems; those in `free` may differ, and are the first problem's.

    InputError if two problems demand something else.
    """
    first = demands(problems[0])
    for problem in problems[1:]:
        for key, value in demands(problem).items():
            if value != first[key] and key not in free:
                raise InputError(
                    f"workloads {problems[0].about.workload} and {problem.about.workload}: {key}: expected one policy"
                    f" to fit both, found {first[key]!r} and {value!r}"
                )
    return first


def check(policy: StoredPolicy, problem: Problem, where: str) -> None:
    """InputError naming `where` and the first thing in which a policy does not fit a problem.

    A policy of kind "graphsage" reads any number of choices.
    """
    free = ("choices",) if policy.metadata.get("kind") == "graphsage" else ()
    for key, value in demands(problem).items():
        if policy.metadata.get(key) != value and key not in free:
            raise InputError(
                f"{where}: {key}: expected {value!r} as {problem.about.workload} on {problem.about.chip} has it,"
                f" found {policy.metadata.get(key)!r}"
            )


def init_weights(context: Context, network: NetworkConfig) -> Weights | None:
    """The weights float32 [P] of `--init`, None where there is none. InputError where it does not fit."""
    from policies.store import actor_of, check_network
    from policies.weight_vector import flatten

    policy = context.init
    if policy is None:
        return None
    check_network(policy, "gnn", asdict(network), "--init")
    check(policy, context.problems[0], "--init")
    return flatten(actor_of(policy, "--init"))
