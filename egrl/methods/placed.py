"""Mappings at once: what the shipped network and rules, or a saved policy, make of a problem, without a search.

Where the problem's model may be asked, a local search on it follows, of so many steps that it takes a fraction of a
second: it begins near where it ends, and a model costs microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egrl.core.from_rules import rules_of
from egrl.methods import policy_fit
from egrl.methods.players import Policies
from hwsim.capabilities import HasPlacer
from hwsim.family import HasFamily, Model
from hwsim.nearest import nearest
from hwsim.placing import Scores
from hwsim.problem import Mapping16, Problem
from policies.shipped import ShippedNetwork, network, scored_by_rules
from workloads.errors import InputError


@dataclass(frozen=True)
class Placed:
    """A mapping int16 [N, H] that was placed at once.

    Attributes:
        mapping: valid.
        source: what ranked the tensors: "the network", "rule 3", "the policy" or, if no ranking was better, "baseline".
        candidates: how many mappings were made.
        speedup: over the baseline, by the problem's model; None if no model was asked.
        ranked: the same before the local search.
        steps: of the local search; 0 if there was none.
    """

    mapping: Mapping16
    source: str
    candidates: int
    speedup: float | None
    ranked: float | None = None
    steps: int = 0


SAMPLES, SIGMA = 16, 0.3
"""Mappings that a shipped network proposes: its own, and others placed with noise of so much on scores of size 1."""

STEPS, VISITS, HOT = 8_000, 3_200_000, 2e-3
"""Limits of the local search: steps, nodes that all steps visit (a tenth of a second), first temperature."""


def placed_by_rules(problem: Problem) -> Mapping16:
    """What the shipped rules place, int16 [K, N, H], the best alone first; K = 0 if none ship for the problem."""
    if isinstance(problem, HasPlacer):
        scored = scored_by_rules(problem.placer.feature_names, policy_fit.places_of(problem))
        if scored is not None:
            return problem.placer.place(*scored)
    return np.empty((0, *problem.space.shape), np.int16)


def with_noise(scores: Scores) -> Scores:
    """Scores float32 [S, T, L]: those given, [1, T, L], then the same with noise, which is always the same."""
    found, rng = np.repeat(scores, SAMPLES, axis=0), np.random.default_rng(0)
    found[1:, :, 1:] += SIGMA * rng.standard_normal(found[1:, :, 1:].shape, dtype=np.float32)
    return found


def placed_by_network(problem: Problem) -> Mapping16:
    """What the shipped network places, int16 [K, N, H], its own mapping first; K = 0 if none ships for the problem."""
    found = None
    if isinstance(problem, HasPlacer):
        found = network(problem.placer.feature_names, len(problem.space.heads))
    if not isinstance(problem, HasPlacer) or found is None:
        return np.empty((0, *problem.space.shape), np.int16)
    scores, share = found.rankers.scores(found.weights[None], policy_fit.places_of(problem))
    return problem.placer.place(with_noise(scores), np.repeat(share, SAMPLES))


def shipped_mappings(problem: Problem, where: str = "place") -> tuple[Mapping16, list[str]]:
    """The mappings of the shipped network, then those of the rules, and what made each.

    InputError that begins with `where` if nothing ships for the problem.
    """
    networks, of_rules = placed_by_network(problem), placed_by_rules(problem)
    sources = ["the network", *(f"sample {k} of the network" for k in range(1, SAMPLES))][: len(networks)]
    sources += [f"rule {k}" for k in range(1, len(of_rules) + 1)]
    made = np.concatenate([networks, of_rules])
    if not len(made):
        what = "that rules ship for" if isinstance(problem, HasPlacer) else "that places tensors by rank"
        raise InputError(f"{where}: expected a problem {what}, such as nnpi, found {problem.about.name}")
    return made, sources


def _modelled(problem: Problem, mappings: Mapping16) -> NDArray[np.float64]:
    """Costs float64 [B] by the problem's model. If the chip's noise is on, it is the same for each."""
    return problem.evaluate(mappings, np.zeros(len(mappings), np.uint64)).cost


OF_RULES, OF_NETWORK, OF_SHIPPED = 4, 4, 8
"""`--start rules` takes so many mappings of the problem's rules, the shipped network, all shipped rankings."""


def first_mappings(problem: Problem) -> list[Mapping16]:
    """What `--start rules` measures first, int16 [N, H] each: the baseline and the rules that the problem knows.

    Where rankings ship for it, these are its four best rules, the four best of what the network places, and the best of
    what the rules that ship place, eight of both together, by the problem's own model: two kinds are less alike.
    InputError if the problem knows no rules.
    """
    baseline, *of_rules = rules_of(problem)
    of_network, shipped = placed_by_network(problem), placed_by_rules(problem)
    if not len(of_network) and not len(shipped):
        return [baseline, *of_rules]
    chosen = [baseline, *_fastest(problem, np.stack([baseline, *of_rules]), [baseline], OF_RULES)]
    placed = _fastest(problem, of_network, chosen, OF_NETWORK)
    return [*chosen, *placed, *_fastest(problem, shipped, [*chosen, *placed], OF_SHIPPED - len(placed))]


def _fastest(problem: Problem, mappings: Mapping16, known: list[Mapping16], count: int) -> list[Mapping16]:
    """The first different ones of mappings [B, N, H] by the problem's model that are not known, at most so many."""
    seen = {mapping.tobytes() for mapping in known}
    found: list[Mapping16] = []
    for row in np.argsort(_modelled(problem, mappings), kind="stable") if len(mappings) else ():
        if len(found) < count and mappings[row].tobytes() not in seen:
            seen.add(mappings[row].tobytes())
            found.append(mappings[row])
    return found


def place(
    problem: Problem, policy: Path | None = None, judged: bool = True, steps: int | None = None
) -> Placed:
    """The best mapping of the shipped network and rules and of the problem's own heuristics, or that of a saved policy.

    If `judged`, the problem's model chooses, the baseline is kept where nothing is faster, and `steps` of local search
    on the model follow (None: `usual_steps`, none after a policy). What differs from the baseline and gains nothing is
    undone, which matters where the model is wrong. If not, no model is asked: the mapping is that of the policy, or of
    the network (of the first shipped rule where no network ships).

    Raises:
        InputError: the problem places nothing by rank, no rules ship for it, or the policy does not fit.
    """
    if policy is None:
        made, sources = shipped_mappings(problem)
        if judged and (own := problem.baseline.rules()):
            made = np.concatenate([made, *(mapping[None] for mapping in own.values())])
            sources += [f"the built-in heuristic {name}" for name in own]
    else:
        made, sources = Policies([policy]).greedy(problem), ["the policy"]
    if not judged:
        return Placed(made[0], sources[0], 1, None)
    cost = _modelled(problem, np.concatenate([made, problem.baseline.mapping[None]]))
    speedup = np.where(np.isfinite(cost), cost[-1] / cost, 0.0)
    best = int(np.argmax(speedup[:-1]))
    ranked = Placed(made[best], sources[best], len(made), float(speedup[best]), float(speedup[best]))
    if not speedup[best] > 1:
        ranked = Placed(problem.baseline.mapping, "baseline", len(made), 1.0, 1.0)
    if steps is None:
        steps = usual_steps(problem) if policy is None else 0
    found = improved(problem, ranked, steps) if isinstance(problem, HasFamily) else ranked
    return replace(found, mapping=nearest(problem, found.mapping))


def network_for_profiles(problem: Problem) -> ShippedNetwork:
    """The network that ships and reads profiles. InputError if there is none for the problem."""
    found = None
    if isinstance(problem, HasPlacer) and problem.placer.profile_names:
        names = problem.placer.feature_names + problem.placer.profile_names
        found = network(names, len(problem.space.heads))
    if found is None:
        raise InputError(
            "--profile: expected a problem for which a network ships that reads profiles, such as nnpi, found"
            f" {problem.about.name}"
        )
    return found


def place_after(
    problem: Problem, shipped: ShippedNetwork, mapping: Mapping16, profile: NDArray[np.float32]
) -> Placed:
    """What a network places that has read the profile float32 [P] of a mapping int16 [N, H].

    No model is asked: a profile is read because the chip file may be wrong.
    """
    assert isinstance(problem, HasPlacer)
    places = policy_fit.places_of(problem).with_features(problem.placer.of_profile(mapping, profile))
    placed = problem.placer.place(*shipped.rankers.scores(shipped.weights[None], places))[0]
    return Placed(placed, "the network that reads profiles", 1, None)


def usual_steps(problem: Problem) -> int:
    """Steps of local search that take about a tenth of a second, since a step visits every node."""
    return min(STEPS, max(VISITS // problem.space.shape[0], 1))


def improved(problem: Problem, ranked: Placed, steps: int) -> Placed:
    """What so many steps of local search on the model of the description make of it; always the same."""
    if steps == 0:
        return ranked
    assert isinstance(problem, HasFamily)
    nominal = Model(problem.family.nominal, np.zeros(len(problem.family.parameters)))
    found = problem.family.improve(nominal, ranked.mapping, steps=steps, hot=HOT, key=0)
    cost = _modelled(problem, np.stack([found, ranked.mapping]))
    if not cost[0] < cost[1]:
        return replace(ranked, steps=steps)
    assert ranked.speedup is not None
    return replace(ranked, mapping=found, speedup=float(ranked.speedup * cost[1] / cost[0]), steps=steps)
