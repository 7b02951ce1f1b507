"""Which policy fits which problem: features, heads, feature schema and, for most, numbers of choices must agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context
from hwsim.capabilities import HasObservation, HasPlacer
from hwsim.placing import Placer
from hwsim.problem import Observation, Problem
from workloads.errors import InputError

if TYPE_CHECKING:
    from policies.network import NetworkConfig
    from policies.places import Places
    from policies.ranker import Rankers
    from policies.shipped import ShippedNetwork
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


def ranking_demands(problem: Problem, where: str, seen: Sequence[str] | None = None) -> dict[str, Any]:
    """The metadata that a ranking policy for a problem must have that sees features of the names `seen`.

    InputError if the problem places nothing by rank.
    """
    if not isinstance(problem, HasPlacer):
        raise InputError(
            f"{where}: expected a policy for {problem.about.name}, found one that ranks tensors for a placer"
        )
    names = list(problem.placer.feature_names)
    if seen is not None and len(seen) == len(names) + 1:
        names = list(ranked_names(problem.placer, problem, trained=True))
    return {
        "features": len(names),
        "heads": list(problem.space.heads),
        "choices": problem.space.most_choices,
        "feature_names": names,
    }


def places_of(problem: Problem) -> Places:
    """What ranking networks read of a problem. ValueError if nothing places its tensors by rank."""
    from policies.places import Places

    if not isinstance(problem, HasPlacer):
        raise ValueError(f"problem: expected one with a placer, received {problem.about.name}")
    edges = problem.observation.edge_index if isinstance(problem, HasObservation) else None
    return Places.of(problem.placer, problem.space.shape, edges)


def shipped_network(placer: Placer, heads: int) -> ShippedNetwork | None:
    """The network that ships for the features of a placer, for H decisions; None if there is none."""
    from policies.shipped import network

    return network(placer.feature_names, heads)


def shipped_scores(
    found: ShippedNetwork, placer: Placer, places: Places
) -> tuple[NDArray[np.float32], float]:
    """Its scores float32 [T, L], of mean square 1, and the share that it keeps free; `places` may see more."""
    own = replace(places, features=places.features[:, :, : len(placer.feature_names)])
    scores, share = found.rankers.scores(found.weights[None], own)
    return scores[0], float(share[0])


def ranked_names(placer: Placer, problem: Problem, trained: bool) -> tuple[str, ...]:
    """Names of what the ranking networks of `egrl` see: the placer's features and, if `trained`, the score of the
    network that ships for these, where one does. Its name has a digest of the network: another one is another feature.
    """
    found = shipped_network(placer, len(problem.space.heads)) if trained else None
    return placer.feature_names if found is None else (*placer.feature_names, found.name)


def places_for(problem: Problem, names: Sequence[str]) -> Places:
    """What ranking networks that see features of these names read of a problem."""
    places = places_of(problem)
    assert isinstance(problem, HasPlacer)
    if len(names) == len(problem.placer.feature_names):
        return places
    found = shipped_network(problem.placer, len(problem.space.heads))
    assert found is not None
    return places.with_features(shipped_scores(found, problem.placer, places)[0][:, :, None])


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

    Policies of the kinds "graphsage" and "ranker" read any number of choices.
    """
    kind = policy.metadata.get("kind")
    free = ("choices",) if kind in ("graphsage", "ranker") else ()
    for key, value in (
        ranking_demands(problem, where, policy.metadata.get("feature_names"))
        if kind == "ranker"
        else demands(problem)
    ).items():
        if policy.metadata.get(key) != value and key not in free:
            raise InputError(
                f"{where}: {key}: expected {value!r} as {problem.about.workload} on {problem.about.chip} has it,"
                f" found {policy.metadata.get(key)!r}"
            )


def network_of(policy: StoredPolicy, where: str) -> NetworkConfig:
    """The settings of the network of a policy that names choices or ranks. InputError if it is of another kind."""
    from policies.store import RANKER, config_of, rankers_of

    return rankers_of(policy, where).config if policy.metadata["kind"] == RANKER else config_of(policy, where)


def init_weights(context: Context, network: NetworkConfig, rankers: Rankers | None = None) -> Weights | None:
    """The weights float32 [P] of `--init`, None where there is none. InputError where it does not fit.

    They are those of ranking networks if `rankers` are given.
    """
    from policies.store import RANKER, actor_of, check_network, ranker_weights
    from policies.weight_vector import flatten

    policy = context.init
    if policy is None:
        return None
    kind = "gnn" if rankers is None else RANKER
    if rankers is not None and policy.metadata.get("kind") == "gnn":
        raise InputError(
            "--init: expected a policy that ranks tensors, found one that names a choice for each;"
            " --set method.readout=greedy goes on from it"
        )
    check_network(policy, kind, asdict(network), "--init")
    check(policy, context.problems[0], "--init")
    return (
        flatten(actor_of(policy, "--init")) if rankers is None else ranker_weights(policy, rankers, "--init")
    )
