"""Mappings at once: what the shipped rules, or a saved ranking policy, make of a problem, without a search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from egrl.methods import policy_fit
from hwsim.capabilities import HasPlacer
from hwsim.problem import Mapping16, Problem
from policies.network import LINEAR, NetworkConfig
from policies.ranker import Rankers
from policies.shipped import rules
from policies.weight_vector import Weights
from workloads.errors import InputError


@dataclass(frozen=True)
class Placed:
    """A mapping int16 [N, H] that was placed at once.

    Attributes:
        mapping: valid.
        source: what ranked the tensors: "rule 3", "the policy" or, if no ranking was better, "baseline".
        candidates: how many mappings were made.
        speedup: over the baseline, by the problem's model; None if no model was asked.
    """

    mapping: Mapping16
    source: str
    candidates: int
    speedup: float | None


def placed_by_rules(problem: Problem) -> Mapping16:
    """What the shipped rules place, int16 [K, N, H], the best alone first; K = 0 if none ship for the problem."""
    found: list[Weights] = []
    if isinstance(problem, HasPlacer):
        found = rules(problem.placer.feature_names, len(problem.space.heads))
    if not isinstance(problem, HasPlacer) or not found:
        return np.empty((0, *problem.space.shape), np.int16)
    rankers = Rankers(NetworkConfig(name=LINEAR), problem.placer.feature_names, len(problem.space.heads))
    return problem.placer.place(*rankers.scores(np.stack(found), policy_fit.places_of(problem), None))


def shipped_mappings(problem: Problem, where: str = "place") -> Mapping16:
    """As `placed_by_rules`; InputError that begins with `where` if there are none."""
    made = placed_by_rules(problem)
    if not len(made):
        what = "that rules ship for" if isinstance(problem, HasPlacer) else "that places tensors by rank"
        raise InputError(f"{where}: expected a problem {what}, such as nnpi, found {problem.about.name}")
    return made


def place(problem: Problem, policy: Path | None = None, judged: bool = True) -> Placed:
    """The mapping of the best of the shipped rules, or of a saved policy.

    If `judged`, the problem's model chooses, and the baseline is kept where nothing is faster. If not, no model is
    asked: the mapping is that of the policy, or of the rule that is best alone.

    Raises:
        InputError: the problem places nothing by rank, no rules ship for it, or the policy does not fit.
    """
    if policy is None:
        made, names = shipped_mappings(problem), "rule {}"
    else:
        from egrl.methods.players import Policies

        made, names = Policies([policy]).greedy(problem), "the policy"
    if not judged:
        return Placed(made[0], names.format(1), len(made), None)
    # One key for all, the baseline among them: if the chip's noise is on, it is the same for each.
    all_ = np.concatenate([made, problem.baseline.mapping[None]])
    cost = problem.evaluate(all_, np.zeros(len(all_), np.uint64)).cost
    speedup = np.where(np.isfinite(cost), cost[-1] / cost, 0.0)
    best = int(np.argmax(speedup[:-1]))
    if not speedup[best] > 1:
        return Placed(problem.baseline.mapping, "baseline", len(made), 1.0)
    return Placed(made[best], names.format(best + 1), len(made), float(speedup[best]))
