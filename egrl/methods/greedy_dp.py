"""Greedy-DP: node after node, the best of all its joint choices while every other node keeps its own.

Source: EGRL (Khadka et al.), section 4, "Baselines": all 9 maps of a node are tried with the other nodes' maps held
static, the best is kept, and several passes over the nodes are conducted.

With H decisions a node the joint choices are the product of the choices of its live decisions. The one that is in
place is not measured again, so that a node of the NNP-I with weight and activation takes 8 evaluations. Beside them
`neighbours` mappings are measured, a few local moves away from the one in place (`population.moves`).

Deviations:
- The walk goes on from what ran for the best candidate (`repaired`), since that is what its reward belongs to: the
  compiler may have moved tensors of other nodes.
- The mapping in place is left only for a better one; of equally good candidates the first wins, and a node's
  candidates are measured in an order drawn from the seed. The paper does not say how ties are broken.
- The neighbours: the paper changes one node at a time, which in full memories leads nowhere. `--preset paper` has none.
- A pass that brings nothing ends the walk, since the next one would measure the same maps again: a new walk begins
  at a mapping drawn uniformly at random. With neighbours a pass measures new maps, and the walk goes on.

A problem with plans made of plans for parts (`RuledDerivation`) gets dynamic programming over the parts instead
(`PartsDp`): the best plans of every part, bottom-up, each measured by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from egrl.core.archive import Proposals, proposals
from egrl.core.contracts import GENERATION
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, serves_all
from hwsim.keys import REPAIR, SAMPLE
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Evaluation, Mapping16, Problem
from hwsim.stepwise import HasDerivation, RuledDerivation
from population.moves import moves_of


@dataclass(frozen=True)
class GreedyDpConfig:
    """Settings of greedy-DP.

    Example:
        >>> import egrl
        >>> from egrl.methods.greedy_dp import GreedyDpConfig
        >>> result = egrl.search("alexnet", method=GreedyDpConfig(neighbours=4), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    neighbours: Annotated[
        int,
        Ge(0),
        Le(1000),
        Doc(
            "mappings a few local moves away that are measured with the candidates of each node; 0:"
            " none, as printed"
        ),
    ] = 8
    keep: Annotated[
        int,
        Ge(1),
        Le(1000),
        Doc("plans kept of each part in the first pass; only for problems with parts"),
    ] = 1
    parallel: Annotated[
        int,
        Ge(1),
        Le(1000),
        Doc(
            "measurements that can be under way at once, for problems with parts; elsewhere all"
            " candidates of a node are"
        ),
    ] = GENERATION


def joint_choices(problem: Problem, node: int, mapping: Mapping16) -> Mapping16:
    """Int16 [B, N, H]: `mapping` with every other joint choice of the node's live decisions, in lexical order.

    B is the product of the live decisions' numbers of choices, less one where the mapping in place is among them.
    """
    heads = np.flatnonzero(problem.space.size_bytes[node] > 0)
    rows = [
        joint
        for joint in itertools.product(*(range(int(problem.space.num_choices[node, h])) for h in heads))
        if joint != tuple(mapping[node, heads].tolist())
    ]
    out = np.repeat(mapping[None], len(rows), axis=0)
    if rows:
        out[:, node, heads] = np.array(rows, dtype=np.int16)
    return out


class GreedyDp(Method):
    """Places one node at a time, trying every combination of its choices.

    `_placed` says whether the mapping in place has been measured; `_node` is the node with
    candidates now, -1 before.
    """

    def __init__(self, context: Context, config: GreedyDpConfig) -> None:
        self._context, self._config, self._problem = context, config, context.problems[0]
        self._moves = moves_of(self._problem)
        start = context.start[0]
        self._mapping = (self._problem.space.initial if start is None else start).copy()
        self._rng = context.generator("greedy-dp 0")
        self._reward, self._speedup = -np.inf, 0.0
        self._node, self._placed, self._improved = -1, False, False
        self._asked, self._passes, self._walks = 0, 0, 1

    def ask(self) -> Proposals:
        """The candidates of the next node; where a walk begins, its mapping."""
        batch = self._candidates() if self._placed else self._mapping[None]
        keys = self._context.keys(REPAIR, self._asked, len(batch))
        self._asked += len(batch)
        return proposals(repair(self._problem, batch, keys), "greedy-dp")

    def _candidates(self) -> Mapping16:
        """Those of the next node that has any, int16 [B, N, H]; a new mapping where a pass has brought nothing."""
        for _ in range(len(self._problem.space.nodes) + 1):
            self._node += 1
            if self._node == len(self._problem.space.nodes):
                self._node = 0
                self._passes += 1
                if not self._improved and not self._config.neighbours:
                    break
                self._improved = False
            found = joint_choices(self._problem, self._node, self._mapping)
            if len(found):
                found = found[self._rng.permutation(len(found))]
                return np.concatenate([found, *self._neighbours()])
        self._mapping = sample_uniformly(self._problem, self._context.keys(SAMPLE, self._asked, 1))[0]
        self._reward, self._speedup = -np.inf, 0.0
        self._node, self._placed, self._improved = -1, False, False
        self._walks += 1
        return self._mapping[None]

    def _neighbours(self) -> list[Mapping16]:
        """Mappings int16 [1, N, H] a few moves away from the one in place."""
        count = self._config.neighbours
        return [self._moves.propose(self._mapping, self._rng)[None] for _ in range(count)]

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Continue from the best candidate, if it is better; a failed measurement is never better."""
        reward = np.where(np.isfinite(evaluation.reward), evaluation.reward, -np.inf)
        best = int(np.argmax(reward))
        if reward[best] > self._reward:
            self._improved |= self._placed
            self._reward, self._speedup = float(reward[best]), float(evaluation.speedup[best])
            self._mapping = evaluation.repaired[best].copy()
        self._placed = True

    def metrics(self) -> Mapping[str, float]:
        """Whole passes, walks begun, and the speedup where the walk is."""
        return {
            "passes": float(self._passes),
            "walks": float(self._walks),
            "walk_speedup": self._speedup,
        }

    def state_dict(self) -> dict[str, Any]:
        """The walk, its generator and counters."""
        return {
            "mapping": self._mapping,
            "rng": self._rng.bit_generator.state,
            "reward": self._reward,
            "speedup": self._speedup,
            "node": self._node,
            "placed": self._placed,
            "improved": self._improved,
            "counts": [self._asked, self._passes, self._walks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._rng.bit_generator.state = state["rng"]
        self._mapping, self._reward, self._speedup = state["mapping"], state["reward"], state["speedup"]
        self._node, self._placed, self._improved = state["node"], state["placed"], state["improved"]
        self._asked, self._passes, self._walks = state["counts"]


def build(context: Context, config: GreedyDpConfig) -> Method:
    """The method for the problem."""
    problem = context.problems[0]
    if isinstance(problem, HasDerivation) and isinstance(problem.derivation, RuledDerivation):
        return PartsDp(context, problem.derivation, config.keep, config.parallel)
    return GreedyDp(context, config)


DEFINITION = MethodDefinition(GreedyDpConfig, build, serves_all, {"neighbours": 0})


MOST_KEPT = 1 << 20
"""Passes end when all plans are measured, or at the latest here."""


class PartsDp(Method):
    """The best plans of every part, bottom-up, up to `parallel` plans of a part at a time.

    Its state is the results so far.

    Source: the search that TAG (de Mesmay et al., ICML 2009) is held against ("DP"), as in FFTW's planner (Frigo and
    Johnson, 2005): the plan of a part is made of the best plans of its parts.

    A pass measures the plans of each part (`RuledDerivation` of hwsim/stepwise.py) in turn and keeps the `keep` best of
    each; the last part is the whole problem. The best part need not make the best whole, which is what other searches
    can gain.

    Deviations: after a pass the next one keeps twice as many plans and measures what that adds, so that any budget is
    used. Nothing is measured twice. Within a part the plans come in an order drawn from the seed.
    """

    def __init__(self, context: Context, derivation: RuledDerivation, keep: int, parallel: int) -> None:
        self._derivation, self._keep, self._parallel = derivation, keep, parallel
        self._rng = context.generator("parts-dp 0")
        self._parts = tuple(derivation.order)
        self._known: dict[bytes, float] = {}
        self._kept: dict[int, list[Mapping16]] = {}
        self._plans: list[Mapping16] = []
        self._to_measure: list[Mapping16] = []
        self._at = -1
        self._pass, self._grew = 1, False

    def ask(self) -> Proposals | None:
        """The next plans of the part in turn; None after the last pass."""
        while not self._to_measure:
            if not self._next_part():
                return None
        count = min(self._parallel, len(self._to_measure))
        return proposals(np.stack([self._to_measure.pop() for _ in range(count)]), "greedy-dp")

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Remember the rewards; NaN where a plan failed."""
        reward = np.where(evaluation.usable, evaluation.reward, np.nan)
        for plan, found in zip(proposals.mapping, reward.tolist(), strict=True):
            self._known[plan.tobytes()] = found

    def _next_part(self) -> bool:
        """Keep the best plans of this part and list those of the next; whether there is a next one."""
        if self._at >= 0:
            self._kept[self._parts[self._at]] = self._best()
        if self._at == len(self._parts) - 1:
            if not self._grew or self._keep >= MOST_KEPT:
                return False
            self._keep, self._at, self._grew, self._pass = 2 * self._keep, -1, False, self._pass + 1
        self._at += 1
        self._plans = list(self._derivation.composed(self._parts[self._at], self._kept))
        fresh = [plan for plan in self._plans if plan.tobytes() not in self._known]
        self._grew |= bool(fresh)
        self._to_measure = [fresh[number] for number in self._rng.permutation(len(fresh))]
        return True

    def _best(self) -> list[Mapping16]:
        """The plans of this part that are kept, best first; one that failed counts as the worst."""
        reward = np.array([self._known[plan.tobytes()] for plan in self._plans])
        order = np.argsort(-np.where(np.isnan(reward), -np.inf, reward), kind="stable")
        return [self._plans[number] for number in order[: self._keep]]

    def metrics(self) -> Mapping[str, float]:
        """The pass and the part in turn, both counted from 1, and the number of plans kept."""
        return {"pass": float(self._pass), "part": float(self._at + 1), "kept": float(self._keep)}
