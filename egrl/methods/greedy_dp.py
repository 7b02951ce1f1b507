"""Greedy-DP: node after node, the best of all its joint choices while every other node keeps its own.

Source: EGRL (Khadka et al.), section 4, "Baselines": all 9 maps of a node are tried with the other nodes' maps held
static, the best is kept, and several passes over the nodes are conducted.

With H decisions a node the joint choices are the product of the choices of its live decisions. The one that is in
place is not measured again, so that a node of the NNP-I with weight and activation takes 8 evaluations.

Deviations:
- The walk goes on from what ran for the best candidate (`repaired`), since that is what its reward belongs to: the
  compiler may have moved tensors of other nodes.
- The mapping in place is left only for a better one; of equally good candidates the first wins, and a node's
  candidates are measured in an order drawn from the seed. The paper does not say how ties are broken.
- A pass that brings nothing ends the walk, since the next one would measure the same maps again: a new walk begins
  at a mapping drawn uniformly at random.
- Several problems are served in turn, a generation each.

A problem whose plans are made of plans for parts (`HasParts`: `fft`) gets dynamic programming over the parts instead,
`egrl/methods/parts_dp.py`; several problems must be of one kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from egrl.core.budget import GENERATION
from egrl.core.keys import REPAIR, SAMPLE, run_keys
from egrl.core.method import Method, Setting
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition, serves_all
from egrl.methods.parts_dp import PartsDp
from egrl.methods.rounds import Rounds
from hwsim.capabilities import HasParts
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Evaluation, Mapping16, Problem

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class GreedyDpConfig:
    """Settings of greedy-DP.

    Attributes:
        keep: plans kept of each part in the first pass; only for problems with parts (`fft`).
        parallel: measurements that can be under way, there; elsewhere it is the candidates of a node.
    """

    keep: Annotated[int, Ge(1), Le(1000)] = 1
    parallel: Annotated[int, Ge(1), Le(1000)] = GENERATION


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


@dataclass
class _Walk:
    """One problem's walk. `batch` [B, N, H] is what the node `node` waits for; the first batch is the mapping itself.

    `best` is the best that was told of this batch, `improved` whether anything was better in this pass.
    """

    mapping: Mapping16
    rng: np.random.Generator
    batch: Mapping16
    reward: float = -np.inf
    best: Mapping16 | None = None
    node: int = -1
    asked: int = 0
    told: int = 0
    passes: int = 0
    walks: int = 1
    improved: bool = False
    speedup: float = 0.0

    def state(self) -> dict[str, Any]:
        return {**vars(self), "rng": self.rng.bit_generator.state}


class GreedyDp:
    """See the module."""

    metric_names: tuple[str, ...] = ("passes", "walks", "walk_speedup")

    def __init__(self, setting: Setting, config: GreedyDpConfig) -> None:
        self._setting = setting
        self._walks = []
        for number, (problem, start) in enumerate(zip(setting.problems, setting.start, strict=True)):
            mapping = problem.space.initial if start is None else start
            self._walks.append(
                _Walk(mapping.copy(), setting.generator(f"greedy-dp {number}"), mapping[None].copy())
            )
        self._asked = self._told = 0

    def _turn(self, number: int) -> int:
        """The problem that the evaluation with this number belongs to."""
        return number // GENERATION % len(self._walks)

    def ask(self, room: int) -> Proposals | None:
        """The candidates of the next node, once all of the last have been told."""
        turn = self._turn(self._asked)
        problem, walk = self._setting.problems[turn], self._walks[turn]
        if walk.told == len(walk.batch):
            self._move_on(turn)
        rows = slice(
            walk.asked, min(len(walk.batch), walk.asked + min(room, GENERATION - self._asked % GENERATION))
        )
        batch = walk.batch[rows]
        numbers = np.arange(self._asked, self._asked + len(batch))
        first = walk.node < 0 and walk.walks == 1 and self._setting.start[turn] is not None
        walk.asked = rows.stop
        self._asked += len(batch)
        repaired = repair(problem, batch, run_keys(self._setting.seed, numbers, REPAIR))
        return proposals(repaired, "start" if first else "greedy-dp", turn)

    def _move_on(self, turn: int) -> None:
        """Keep the best, and go to the next node that has another joint choice."""
        problem, walk = self._setting.problems[turn], self._walks[turn]
        if walk.best is not None:
            walk.mapping, walk.best = walk.best, None
        if walk.node < 0:
            walk.improved = False
        nodes = len(problem.space.nodes)
        walk.asked = walk.told = 0
        for _ in range(nodes + 1):
            walk.node += 1
            if walk.node == nodes:
                walk.node = 0
                walk.passes += 1
                if not walk.improved:
                    break
                walk.improved = False
            candidates = joint_choices(problem, walk.node, walk.mapping)
            if len(candidates):
                walk.batch = candidates[walk.rng.permutation(len(candidates))]
                return
        self._begin_anew(problem, walk)

    def _begin_anew(self, problem: Problem, walk: _Walk) -> None:
        key = run_keys(self._setting.seed, np.array([self._asked]), SAMPLE)
        walk.batch = sample_uniformly(problem, key)
        walk.mapping, walk.reward, walk.speedup = walk.batch[0].copy(), -np.inf, 0.0
        walk.node = -1
        walk.walks += 1

    def learn(self) -> None:
        """Nothing is learned."""

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Remember the best candidate; one whose measurement failed is never better."""
        for row in range(len(proposals)):
            walk = self._walks[self._turn(self._told)]
            self._told += 1
            walk.told += 1
            reward = float(evaluation.reward[row])
            if np.isfinite(reward) and reward > walk.reward:
                walk.reward, walk.speedup = reward, float(evaluation.speedup[row])
                walk.best = evaluation.repaired[row].copy()
                walk.improved = True

    def metrics(self) -> Mapping[str, float]:
        """Whole passes, walks begun, and the speedup where the walk is, all of the first problem."""
        walk = self._walks[0]
        return {
            "passes": float(walk.passes),
            "walks": float(walk.walks),
            "walk_speedup": walk.speedup,
        }

    def policy(self) -> StoredPolicy | None:
        """No policy."""
        return None

    def state_dict(self) -> dict[str, Any] | None:
        """Counters, and each walk with what is left to measure of its node."""
        return {"asked": self._asked, "told": self._told, "walks": [walk.state() for walk in self._walks]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._asked, self._told = state["asked"], state["told"]
        for walk, saved in zip(self._walks, state["walks"], strict=True):
            walk.rng.bit_generator.state = saved["rng"]
            for name, value in saved.items():
                if name != "rng":
                    setattr(walk, name, value)


def build(setting: Setting, config: GreedyDpConfig) -> Method:
    """The method for these problems."""
    searchers = [
        PartsDp(problem, config.keep, setting.generator(f"parts-dp {number}"))
        for number, problem in enumerate(setting.problems)
        if isinstance(problem, HasParts)
    ]
    if len(searchers) < len(setting.problems):
        return GreedyDp(setting, config)
    return Rounds(setting, searchers, config.parallel, "greedy-dp", mend=False)


DEFINITION = MethodDefinition(GreedyDpConfig, build, serves_all, {})
