"""The subgraph that a search on a derivation graph has seen, with what was measured below each of its vertices.

Source: TAG (de Mesmay et al., ICML 2009), sections 3.1 and 3.3: vertices and arrows are added one at a time, and a
reward is added to a vertex and to all its ancestors.

Deviations:
- A vertex counts an evaluation once, on however many ways it is reached from there. Section 3.3 hands all rewards of
  a vertex that gets a new arrow to those that become its ancestors, also those that such an ancestor already has
  from elsewhere; here evaluations have numbers, and only what is new is added.
- A vertex is *exhausted* when nothing below it is left to be measured (section 3.2 mentions this without saying how):
  a sink that was measured, a dead end, or a vertex whose successors are all exhausted.

An evaluation costs a few operations for each arrow into its ancestors, log n each: membership is by bisection.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from hwsim.stepwise import Derivation

Entry = tuple[float, int]
"""An evaluation as vertices keep it: minus its reward (infinite where it failed) and its number; the best is least."""


@dataclass(slots=True)
class Arrows:
    """The arrows out of a vertex that was descended through.

    Attributes:
        heads: numbers of the successors that are in the subgraph.
        fresh: the other successors; None when there are none.
        live: successors, in the subgraph or not, that are not known to be exhausted.
    """

    heads: list[int]
    fresh: list[Hashable] | None
    live: int


@dataclass(slots=True)
class Vertex:
    """A partial plan.

    Attributes:
        plan: its vertex of the derivation.
        parents: numbers of the vertices with an arrow to it in the subgraph.
        best: the s best evaluations below it, best first.
        count: evaluations below it; ran: those that did not fail; total: the sum of their rewards.
        numbers: all of its evaluations, rising, once there are more than s; until then `best` has them all.
        waiting: descents through it whose results are not told yet.
        exhausted: nothing below it is left to be measured.
        arrows: None until it is descended through.
    """

    plan: Hashable
    parents: list[int] = field(default_factory=list)
    best: list[Entry] = field(default_factory=list)
    count: int = 0
    ran: int = 0
    total: float = 0.0
    numbers: array[int] | None = None
    waiting: int = 0
    exhausted: bool = False
    arrows: Arrows | None = None

    def has(self, entry: Entry) -> bool:
        """Whether an evaluation is counted here."""
        if self.numbers is None:
            at = bisect_left(self.best, entry)
            return at < len(self.best) and self.best[at] == entry
        at = bisect_left(self.numbers, entry[1])
        return at < len(self.numbers) and self.numbers[at] == entry[1]

    def add(self, entry: Entry, keep: int) -> None:
        """Count an evaluation that is not counted here yet."""
        self.count += 1
        if entry[0] < math.inf:
            self.ran += 1
            self.total -= entry[0]
        if self.numbers is None and len(self.best) == keep:
            self.numbers = array("q", sorted(number for _, number in self.best))
        if self.numbers is not None:
            if not self.numbers or entry[1] > self.numbers[-1]:
                self.numbers.append(entry[1])
            else:
                insort(self.numbers, entry[1])
        insort(self.best, entry)
        del self.best[keep:]

    def among(self, limit: Entry) -> int:
        """How many evaluations here ran and are as good as that one or better, s at most."""
        return bisect_right(self.best, min(limit, (math.inf, -1)))

    @property
    def pulls(self) -> int:
        """Evaluations below it, those under way among them."""
        return self.count + self.waiting


class SearchGraph:
    """The subgraph; it begins with the root alone.

    Attributes:
        vertices: by number; 0 is the root.
        entries: the evaluations told so far by number, None where one is under way.
        arrows: how many there are.
        lowest, highest: of the rewards told so far; infinite before the first.
    """

    def __init__(self, derivation: Derivation, keep: int) -> None:
        """`keep` is s, the number of best evaluations that a vertex keeps in order."""
        self._derivation, self._keep = derivation, keep
        self._number: dict[Hashable, int] = {derivation.root: 0}
        self.vertices = [Vertex(derivation.root)]
        self.entries: list[Entry | None] = []
        self._hanging: dict[int, list[int]] = {}
        self.arrows = 0
        self.lowest, self.highest = math.inf, -math.inf

    def __len__(self) -> int:
        return len(self.vertices)

    def find(self, plan: Hashable) -> int | None:
        """The number of a vertex of the derivation; None where it is not in the subgraph."""
        return self._number.get(plan)

    def arrows_of(self, number: int) -> Arrows:
        """The arrows out of a vertex, equal successors once; a dead end has none and becomes exhausted."""
        vertex = self.vertices[number]
        if vertex.arrows is None:
            fresh = list(dict.fromkeys(self._derivation.successors(vertex.plan)))
            vertex.arrows = Arrows([], fresh or None, len(fresh))
            if not fresh:
                self.exhaust(number)
        return vertex.arrows

    def follow(self, number: int, plan: Hashable) -> tuple[int, bool]:
        """Add the arrow from a vertex to a successor that it has no arrow to yet.

        Returns the successor's number, and whether it is new. One that is not hands its evaluations up.
        """
        arrows = self.arrows_of(number)
        assert arrows.fresh is not None
        arrows.fresh.remove(plan)
        if not arrows.fresh:
            arrows.fresh = None
        known = self._number.get(plan)
        head = len(self.vertices) if known is None else known
        if known is None:
            self.vertices.append(Vertex(plan))
            self._number[plan] = head
        arrows.heads.append(head)
        self.vertices[head].parents.append(number)
        self.arrows += 1
        if known is not None:
            self._hand_up([number], self._entries_of(self.vertices[head]))
            if self.vertices[head].exhausted:
                self._lose([number])
        return head, known is None

    def _entries_of(self, vertex: Vertex) -> list[Entry]:
        if vertex.numbers is None:
            return list(vertex.best)
        found = [self.entries[number] for number in vertex.numbers]
        return [entry for entry in found if entry is not None]

    def _hand_up(self, numbers: Iterable[int], entries: Sequence[Entry]) -> None:
        """Add evaluations to vertices and, as far as they are new there, to all ancestors."""
        open_ = [(number, entries) for number in numbers]
        while open_:
            number, above = open_.pop()
            vertex = self.vertices[number]
            new = [entry for entry in above if not vertex.has(entry)]
            for entry in new:
                vertex.add(entry, self._keep)
            if new:
                open_ += [(parent, new) for parent in vertex.parents]

    def exhaust(self, number: int) -> None:
        """Nothing below this vertex is left; its ancestors may then be exhausted, too."""
        vertex = self.vertices[number]
        if not vertex.exhausted:
            vertex.exhausted = True
            self._lose(vertex.parents)

    def _lose(self, numbers: Sequence[int]) -> None:
        """Each of these vertices has one live successor less."""
        open_ = list(numbers)
        while open_:
            vertex = self.vertices[open_.pop()]
            assert vertex.arrows is not None
            vertex.arrows.live -= 1
            if not vertex.arrows.live and not vertex.exhausted:
                vertex.exhausted = True
                open_ += vertex.parents

    def begin(self) -> int:
        """The number of a new evaluation, under way."""
        self.entries.append(None)
        self._hanging[len(self.entries) - 1] = []
        return len(self.entries) - 1

    def hang(self, number: int, evaluation: int) -> None:
        """This vertex leads to that evaluation: it and its ancestors count it, as soon as it is told."""
        entry = self.entries[evaluation]
        if entry is None:
            self._hanging[evaluation].append(number)
        else:
            self._hand_up([number], [entry])

    def tell(self, evaluation: int, reward: float) -> None:
        """The reward of an evaluation under way; NaN where it failed."""
        entry = (math.inf if math.isnan(reward) else -reward, evaluation)
        self.entries[evaluation] = entry
        if not math.isnan(reward):
            self.lowest, self.highest = min(self.lowest, reward), max(self.highest, reward)
        self._hand_up(self._hanging.pop(evaluation), [entry])
