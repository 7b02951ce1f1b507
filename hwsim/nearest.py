"""The changes that lead from the baseline to a faster mapping: without those that gain nothing, and in steps.

`nearest` finds, of mappings that are equally fast, the one nearest to the baseline. Source: groups of changes are
undone as in delta debugging (Zeller, Hildebrandt, IEEE TSE 2002): all, then halves. Deviations: a group that cannot
be undone whole is halved at once; a second pass undoes what the first made free.

`best_first` orders the changes in steps that each run and gain. Source: greedy, by gain per change. What does not fit
alone is put in a step with the changes that make room for it: each time the one that leaves the least to repair
(`Evaluation.epsilon`), or the fastest of those that leave nothing. Deviations: where no step buys `LEAST`, or after
`LIMIT` evaluations, all that is left is the last step.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import HasModel, HasPlacement
from hwsim.problem import Evaluation, Floats, Mapping16, Problem, Status

EQUAL = 1e-9
"""Costs that differ by less than this share are equal: what sums in another order differ by is far below."""
PASSES = 3
"""Turns over all changes at most."""
WORK, LEAST_EVALS = 1_000_000, 200
"""`nearest` takes WORK / nodes evaluations at most, or LEAST_EVALS: a moment."""

KNOWN_BYTES, FEW_KNOWN = 2**25, 500
"""The most bytes of mappings whose costs are remembered; how many are remembered even if all are new."""


def unsuitable(problem: Problem) -> str:
    """Why changes of a problem's mappings cannot be counted and undone, in words; "" if they can."""
    about = problem.about
    if about.measured:
        return "its costs are measured"
    if about.compiled:
        return "each evaluation is a compile"
    if not about.alike:
        return "its choices depend on one another"
    beyond = isinstance(problem, HasPlacement) and problem.baseline_placement() is not None
    if beyond or problem.baseline.nearest:
        return f"{about.baseline_name} is not a mapping"
    found = _measured(problem)
    if not isinstance(problem, HasModel) and found.cost[0] != found.cost[1]:
        return "its costs are noisy"
    if not np.allclose(found.reward, found.speedup**2, rtol=EQUAL):
        return "its rewards depend on more than costs"
    return ""


def _measured(problem: Problem) -> Evaluation:
    """The baseline, measured with two keys: noise makes its costs differ."""
    return problem.evaluate(
        np.repeat(problem.baseline.mapping[None], 2, axis=0), np.arange(2, dtype=np.uint64)
    )


class Costs:
    """Noise-free costs of a problem's mappings, and the mappings that run.

    What was evaluated is remembered as long as half of what is asked for is known: walks on small problems come back to
    nearly all mappings.

    Attributes:
        calls: mappings that were asked for so far.
        epsilon: float64 [B], of the last ones the share of their bytes that had to move.
        limit: after so many nothing more is undone.
    """

    def __init__(self, problem: Problem, limit: int = sys.maxsize) -> None:
        self.problem, self.limit, self.calls = problem, limit, 0
        self.epsilon: Floats = np.zeros(0)
        cost = _measured(problem).cost
        self._noisy = bool(cost[0] != cost[1])
        self._known: dict[bytes, tuple[Mapping16, float, float]] | None = {}
        """By a mapping's bytes: what runs, its cost, and the share that had to move."""
        self._most_known = KNOWN_BYTES // problem.baseline.mapping.nbytes

    def __call__(self, mapping: Mapping16) -> tuple[Mapping16, Floats]:
        """What runs for mappings int16 [B, N, H], of that shape, and its costs float64 [B]; infinite: nothing."""
        self.calls += len(mapping)
        runs, cost, self.epsilon = (
            self._evaluated(mapping) if self._known is None else self._recalled(mapping)
        )
        return runs, cost

    def _recalled(self, mapping: Mapping16) -> tuple[Mapping16, Floats, Floats]:
        """As `_evaluated`, which only new mappings are."""
        assert self._known is not None
        known, keys = self._known, [row.tobytes() for row in mapping]
        new = [at for at, key in enumerate(keys) if key not in known]
        if new:
            runs, cost, epsilon = self._evaluated(mapping[new])
            found = zip(runs, cost.tolist(), epsilon.tolist(), strict=True)
            known |= zip((keys[at] for at in new), found, strict=True)
        rows = [known[key] for key in keys]
        if len(known) > min(max(self.calls // 2, FEW_KNOWN), self._most_known):
            self._known = None
        return np.stack([row[0] for row in rows]), *np.array([row[1:] for row in rows]).T

    def _evaluated(self, mapping: Mapping16) -> tuple[Mapping16, Floats, Floats]:
        """For mappings int16 [B, N, H]: what runs, of that shape, the costs and the shares that had to move [B]."""
        found = self.problem.evaluate(mapping, np.zeros(len(mapping), np.uint64))
        ran = (found.status == Status.OK) & ~found.partial
        cost = np.where(ran, found.cost, math.inf)
        if self._noisy:
            model = self.problem
            assert isinstance(model, HasModel)
            cost[ran] = [model.model_cost(each) for each in found.repaired[ran]]
        return found.repaired, cost, found.epsilon.copy()

    def of(self, mapping: Mapping16) -> float:
        """The cost of one mapping int16 [N, H]."""
        return float(self(mapping[None])[1][0])


def changed(problem: Problem, mapping: Mapping16) -> NDArray[np.int64]:
    """int64 [K, 2], node and head of each decision of a mapping int16 [N, H] that differs from the baseline's.

    First those that undo best if several mappings are equally near: to slower places, then to faster ones, the largest
    tensors first, so that more bytes lie in faster memory, and more room is left there.
    """
    base, space = problem.baseline.mapping, problem.space
    found = np.argwhere((mapping != base) & space.live)
    nodes, heads = found.T
    faster = mapping[nodes, heads] > base[nodes, heads]
    return found[np.lexsort((nodes, -space.size_bytes[nodes, heads], faster))]


def undone(costs: Costs, mapping: Mapping16, least: float, most: float) -> Mapping16:
    """A mapping int16 [N, H] with changes undone, one by one and in groups, as long as its cost stays in between.

    `least` and `most` (closed) are in the problem's unit; what would have to be repaired into more changes stays.
    """
    base = costs.problem.baseline.mapping
    for _ in range(PASSES):
        before = int((mapping != base).sum())
        groups = [changed(costs.problem, mapping)]
        while groups and costs.calls < costs.limit:
            group = groups.pop()
            if not len(group):
                continue
            proposal = mapping.copy()
            proposal[group[:, 0], group[:, 1]] = base[group[:, 0], group[:, 1]]
            (runs,), (cost,) = costs(proposal[None])
            if least <= cost <= most and (runs != base).sum() < (mapping != base).sum():
                mapping = runs
            elif len(group) > 1:
                groups += [group[len(group) // 2 :], group[: len(group) // 2]]
        if int((mapping != base).sum()) == before:
            break
    return mapping


def nearest(problem: Problem, mapping: Mapping16) -> Mapping16:
    """The mapping int16 [N, H] nearest to the baseline that undoing changes of a valid one leads to at the same cost.

    Of equally near ones it is the one with more bytes in faster memory, then the one that leaves more room there, as
    far as single changes lead. The mapping itself where the problem is `unsuitable`.
    """
    if unsuitable(problem):
        return mapping
    costs = Costs(problem, max(WORK // len(problem.space.nodes), LEAST_EVALS))
    return nearest_by(costs, mapping, problem.about.place == "memory")


def nearest_by(costs: Costs, mapping: Mapping16, memories: bool) -> Mapping16:
    """As `nearest`, by these costs; `memories`: a choice is a memory, of which later ones are faster."""
    cost = costs.of(mapping)
    if not math.isfinite(cost):
        return mapping
    least, most = cost * (1 - EQUAL), cost * (1 + EQUAL)
    found = undone(costs, mapping, least, most)
    return _faster(costs, found, least, most) if memories else found


def _faster(costs: Costs, mapping: Mapping16, least: float, most: float) -> Mapping16:
    """Each changed tensor in the fastest memory that costs the same and needs no other change."""
    space, base = costs.problem.space, costs.problem.baseline.mapping
    for node, head in changed(costs.problem, mapping):
        for to in range(int(space.num_choices[node, head]) - 1, int(mapping[node, head]), -1):
            proposal = mapping.copy()
            proposal[node, head] = to
            (runs,), (cost,) = costs(proposal[None])
            same = np.array_equal(runs, proposal) and to != base[node, head]
            if same and least <= cost <= most:
                mapping = proposal
                break
    return mapping


Changes = NDArray[np.int64]
"""int64 [K, 2], node and head of each."""
LARGEST = 8
"""Changes of a step that makes room, at most."""
LEAST = 1e-3
"""The least share of the whole gain that a step must buy."""
LIMIT = 12_000
"""Evaluations after which no further step is looked for."""


@dataclass(frozen=True)
class Step:
    """Changes that are made together, and the cost of the baseline's mapping with these and all before them."""

    changes: Changes
    cost: float


def best_first(problem: Problem, mapping: Mapping16) -> list[Step]:
    """The changes of a valid mapping int16 [N, H] in steps; the first k steps make a valid mapping, for every k."""
    costs = Costs(problem, LIMIT)
    now = problem.baseline.mapping
    cost, left = costs.of(now), changed(problem, mapping)
    least = LEAST * (cost - costs.of(mapping))
    steps: list[Step] = []
    while len(left):
        group, cost = _best(costs, now, mapping, left, (cost, least))
        steps.append(Step(left[group], cost))
        now, left = _with(now, mapping, left[group]), np.delete(left, group, axis=0)
    return steps


def _with(now: Mapping16, mapping: Mapping16, changes: Changes) -> Mapping16:
    """A map int16 [N, H] with some choices of another one."""
    out = now.copy()
    out[changes[:, 0], changes[:, 1]] = mapping[changes[:, 0], changes[:, 1]]
    return out


def _best(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes, limits: tuple[float, float]
) -> tuple[list[int], float]:
    """The numbers of the changes `left` that gain the most per change, and the cost with them.

    All, if none gains enough. `limits`: the cost now, and what is enough.
    """
    cost, least = limits
    best, most = list(range(len(left))), 0.0
    after = -1.0
    for group, found in _groups(costs, now, mapping, left):
        gain = (cost - found) / len(group)
        if gain > most and cost - found >= max(least, EQUAL * cost):
            best, most, after = group, gain, found
    return best, after if after >= 0 else costs.of(mapping)


def _groups(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes
) -> Iterator[tuple[list[int], float]]:
    """Groups of the changes `left` that run when they are added, each with the cost then; one per change at most."""
    alone, cost, _ = _tried(costs, now, mapping, left, [])
    for k in range(len(left)):
        if alone[k]:
            yield [k], float(cost[k])
    for k in np.flatnonzero(~alone).tolist():
        if costs.calls >= costs.limit:
            return
        if (found := _completed(costs, now, mapping, left, k)) is not None:
            yield found


def _completed(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes, first: int
) -> tuple[list[int], float] | None:
    """A change with those that make room for it, and the cost then; None if few do not."""
    group, need = [first], np.inf
    while len(group) < LARGEST:
        alone, cost, needs = _tried(costs, now, mapping, left, group)
        alone[group], needs[group] = False, np.inf
        if alone.any():
            at = int(np.argmin(np.where(alone, cost, np.inf)))
            return [*group, at], float(cost[at])
        at = int(np.argmin(needs))
        if not needs[at] < need:
            return None
        group, need = [*group, at], needs[at]
    return None


def _tried(
    costs: Costs, now: Mapping16, mapping: Mapping16, left: Changes, group: list[int]
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """A group with each of the changes `left` [K]: whether it runs as it stands, its cost, what must be repaired."""
    rows = np.stack([_with(now, mapping, left[[*group, k]]) for k in range(len(left))])
    runs, cost = costs(rows)
    return (runs == rows).all(axis=(1, 2)) & np.isfinite(cost), cost, costs.epsilon
