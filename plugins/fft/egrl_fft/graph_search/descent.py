"""Descend, evaluate, back-propagate: the search on a derivation graph, whatever the bandit.

Source: TAG (de Mesmay et al., ICML 2009), sections 3.1 to 3.3 and Algorithm 1.

Deviations:
- No complete plan is measured twice (section 3.2's remark): a completion that draws a plan that was measured brings
  its reward to the new vertex at no cost, and the search descends again.
- Exhausted vertices are never entered; dead ends are exhausted and propose nothing.
- Of several arrows that have not been followed one is drawn uniformly; the paper does not say which comes first.
- Several descents may be made before the first result is told; those under way count as pulls without a reward.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Method
from egrl_fft.graph_search.bandits import Bandit
from egrl_fft.graph_search.completions import Completions, Uniform
from egrl_fft.graph_search.search_graph import SearchGraph
from hwsim.problem import Evaluation, Mapping16
from hwsim.stepwise import Derivation


class GraphSearch(Method):
    """The search for one problem. It is brought back by what was told."""

    def __init__(
        self,
        derivation: Derivation,
        keep: int,
        bandit: Callable[[SearchGraph], Bandit],
        rng: np.random.Generator,
        completions: Completions | None = None,
        *,
        source: str = "tag",
        parallel: int = 1,
        repair: Callable[[Mapping16, int], Mapping16] | None = None,
    ) -> None:
        """Search a derivation.

        Args:
            derivation: the graph.
            keep: how many of its best evaluations a vertex keeps in order, at least as many as the bandit looks at.
            bandit: makes what chooses among arrows.
            rng: draws arrows that have not been followed.
            completions: what draws complete plans; default: uniform choices.
            source: who proposes.
            parallel: descents made before their results are told.
            repair: what is proposed for mappings [B, N, H], of which the first has a number; default: they themselves.
        """
        self._derivation, self._source, self._parallel = derivation, source, parallel
        self._rng, self._repair = rng, repair
        self.graph = SearchGraph(derivation, keep)
        self._choose = bandit(self.graph)
        self._completions = completions or Uniform(derivation, rng)
        self._measured: dict[bytes, int] = {}
        self._paths: list[list[int]] = []
        self._open: deque[Mapping16] = deque()
        self._told = self._reused = 0

    def ask(self) -> Proposals | None:
        """Up to `parallel` plans that were not measured; None when none is left."""
        first = len(self._paths)
        plans: list[Mapping16] = []
        while len(plans) < self._parallel and (plan := self._propose()) is not None:
            plans.append(plan)
        if not plans:
            return None
        mapping = np.stack(plans)
        return proposals(mapping if self._repair is None else self._repair(mapping, first), self._source)

    def _propose(self) -> Mapping16 | None:
        """int16 [N, H] of the next plan to be measured; None when none is left."""
        if len(self.graph) == 1 and not self._derivation.successors(self._derivation.root):
            return self._evaluate(0, self._derivation.root, [])
        while not self.graph.vertices[0].exhausted:
            found = self._descend()
            if found is not None:
                return found
        return None

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Carry the rewards back along their paths; NaN where a plan failed. The start is known, but no vertex's."""
        if proposals.source[0] == START:
            self._begin(proposals.mapping[0], [])
        for reward in np.where(evaluation.usable, evaluation.reward, np.nan).tolist():
            for number in self._paths[self._told]:
                self.graph.vertices[number].waiting -= 1
            self._paths[self._told] = []
            self.graph.tell(self._told, reward)
            self._completions.learn(self._open.popleft(), reward)
            self._told += 1

    def _descend(self) -> Mapping16 | None:
        """Follow arrows until one is new. None where that needs no measurement."""
        vertices, number, path = self.graph.vertices, 0, [0]
        while True:
            arrows = self.graph.arrows_of(number)
            if not arrows.live:
                return None
            if arrows.fresh is not None:
                plan = arrows.fresh[int(self._rng.integers(len(arrows.fresh)))]
                head, new = self.graph.follow(number, plan)
                return self._evaluate(head, plan, [*path, head]) if new else None
            heads = [head for head in arrows.heads if not vertices[head].exhausted]
            number = heads[self._choose(vertices[number], [vertices[head] for head in heads])]
            path.append(number)

    def _evaluate(self, number: int, plan: Hashable, path: list[int]) -> Mapping16 | None:
        """The completion of a new vertex; None where it has none, or one that was measured."""
        mapping = self._derivation.mapping(plan)
        if mapping is not None:
            self.graph.exhaust(number)
        else:
            mapping = self._completions.draw(plan)
        if mapping is None:
            self.graph.exhaust(number)
            return None
        known = self._measured.get(_digest(mapping))
        if known is not None:
            self._reused += 1
            self.graph.hang(number, known)
            return None
        self.graph.hang(number, self._begin(mapping, path))
        return mapping

    def _begin(self, mapping: Mapping16, path: list[int]) -> int:
        evaluation = self.graph.begin()
        self._measured[_digest(mapping)] = evaluation
        for number in path:
            self.graph.vertices[number].waiting += 1
        self._paths.append(path)
        self._open.append(mapping)
        return evaluation

    def metrics(self) -> Mapping[str, float]:
        """Size of the subgraph, and completions that drew a plan that was measured before."""
        return {
            "vertices": float(len(self.graph)),
            "arrows": float(self.graph.arrows),
            "reused": float(self._reused),
        }


def _digest(mapping: Mapping16) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(mapping).tobytes(), digest_size=16).digest()
