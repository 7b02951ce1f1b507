"""The quick attempts of the MCM solver in plain Python, everything worked out anew from what is placed so far.

Same random numbers, same partitions as the kernels of `hwsim/mcm/solver/attempts.py`; the steps are specified there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hwsim import keys
from hwsim.mcm.graph import Graph
from hwsim.mcm.package import Package

Arrow = tuple[int, int]


def longest(arrows: set[Arrow], first: int, last: int) -> int:
    """Arrows on the longest path between two chips; 0: there is none."""
    lengths = [1 + longest(arrows, b, last) for a, b in arrows if a == first and b < last]
    through = max((n for n in lengths if n > 1), default=0)
    return max(through, int((first, last) in arrows))


def reduced(arrows: set[Arrow]) -> bool:
    """Whether no arrow has a detour."""
    return all(longest(arrows, a, b) == 1 for a, b in arrows)


class Twin:
    """The graph by position, and attempts on it."""

    def __init__(self, graph: Graph, package: Package) -> None:
        rules = package.constraints
        self.rules, self.chips, n = rules, package.chips, len(graph)
        edges = [tuple(e) for e in graph.edges.tolist()] if rules.acyclic else []
        self.node: list[int] = []
        while len(self.node) < n:
            left = [v for v in range(n) if v not in self.node]
            self.node.insert(0, max(v for v in left if not any(u == v and w in left for u, w in edges)))
        self.at = {v: i for i, v in enumerate(self.node)}
        self.edges = [(self.at[u], self.at[w]) for u, w in edges]
        self.weight = [int(graph.weight_bytes[v]) for v in self.node]
        self.capacity = package.chip.sram_bytes if rules.memory else sum(self.weight) + 1
        self.before = [self._reached(i, lambda e: (e[1], e[0])) for i in range(n)]
        self.after = [self._reached(i, lambda e: e) for i in range(n)]
        self.earliest = [0] * n
        self.latest = [n - 1 - len(d) if rules.no_skip else self.chips - 1 for d in self.after]
        self.latest = [min(c, self.chips - 1) for c in self.latest]
        for i in range(n if rules.memory else 0):
            needs = [
                -(-(self.weight[i] + sum(self.weight[j] for j in group[i])) // self.capacity)
                for group in (self.before, self.after)
            ]
            self.earliest[i] = max(needs[0] - 1, 0)
            self.latest[i] = min(self.latest[i], self.chips - needs[1])
        inner = [(u, w, self.after[u] & self.before[w]) for u, w in self.edges]
        self.doubled = [e for e in inner if e[2]] if rules.triangle else []

    def _reached(self, i: int, turn: Callable[[Arrow], Arrow]) -> set[int]:
        found: set[int] = set()
        fresh = {i}
        while fresh:
            fresh = {b for a, b in map(turn, self.edges) if a in fresh} - found
            found |= fresh
        return found

    def attempts(
        self, weights: np.ndarray, wished: Sequence[int] | None, key: np.uint64, first_limit: int, most: int
    ) -> tuple[list[int] | None, int]:
        """The partition by node of `most` attempts, or None; and placements taken back."""
        n, failures, limit = len(self.node), 0, first_limit
        self.key, self.counter, self.weights = key, 0, weights
        order = list(range(n))
        for _ in range(most):
            for i in range(n - 1, 0, -1):
                j = int(self.uniform() * (i + 1))
                order[i], order[j] = order[j], order[i]
            chip, more = self.sweep(self.draw_assignment(order, wished), limit)
            failures += more
            if chip:
                return [chip[self.at[v]] for v in range(n)], failures
            limit *= 2
        return None, failures

    def uniform(self) -> float:
        """The next random number."""
        self.counter += 1
        return float(keys.uniform(self.key, np.uint64(self.counter - 1)))

    def pick(self, domain: list[int], node: int) -> int:
        """A chip in proportion to its weight; equally likely where none has any."""
        row = self.weights[min(node, len(self.weights) - 1)]
        share = {c: float(row[c]) for c in domain if row[c] > 0} or dict.fromkeys(domain, 1.0)
        total = 0.0
        for size in share.values():
            total += size
        left = self.uniform() * total
        for c, size in share.items():
            left -= size
            if left < 0:
                return c
        return c

    def draw_assignment(self, order: list[int], wished: Sequence[int] | None) -> list[int]:
        """Chips by position, drawn in the order of nodes: SAMPLE or FIX under the acyclic rule."""
        chip: dict[int, int] = {}
        for keeping in (True, False) if wished is not None else (False,):
            for node in order:
                i = self.at[node]
                if i in chip:
                    continue
                first = max([self.earliest[i], *(chip[j] for j in self.before[i] & set(chip))])
                final = min([self.latest[i], *(chip[j] for j in self.after[i] & set(chip))])
                held = [sum(self.weight[j] for j in chip if chip[j] == c) for c in range(self.chips)]
                roomy = [c for c in range(first, final + 1) if held[c] + self.weight[i] <= self.capacity]
                if keeping:
                    if wished is not None and wished[node] in roomy:
                        chip[i] = wished[node]
                elif first == final:
                    chip[i] = first
                else:
                    chip[i] = self.pick(
                        roomy if roomy and self.weight[i] else list(range(first, final + 1)), node
                    )
        return [chip[i] for i in range(len(self.node))]

    def sweep(self, wish: list[int], limit: int) -> tuple[list[int] | None, int]:
        """A partition by position near the wishes, or None; and placements taken back."""
        n, chip, failures, careful = len(wish), [], 0, 0
        tried: list[set[int]] = [set()]
        carried: list[set[int]] = [set()]
        while len(chip) < n:
            i, blamed = len(chip), set(carried[-1])
            reads = {chip[u] for u, w in self.edges if w == i}
            first = max(reads, default=0)
            left = [c for c in self.allowed(chip, i)[0] if c >= first and c not in tried[-1]]
            until = min((wish[w] for u, w in self.edges if u == i), default=self.chips - 1)
            arrows = self.arrows(chip)
            c = wish[i]
            heard = i >= careful and c in left
            while left:
                if not heard:
                    pool = [d for d in left if d <= max(first, until)]
                    if i < careful:
                        quiet = [d for d in pool if all(q == d or (q, d) in arrows for q in reads)]
                        pool = quiet or pool
                    c = self.pick(pool or left[:1], self.node[i])
                heard = False
                left.remove(c)
                against = self.against(chip, c)
                if against is None:
                    break
                blamed |= against
                tried[-1].add(c)
            else:
                blamed |= self.read_or_limiting(chip, i)
                failures += 1
                careful = max(careful, i + 1)
                latest = sorted(j for j in blamed if 0 <= j < i)[-2:]
                if failures > limit or not latest:
                    return None, failures
                back = latest[-1]
                del tried[back + 1 :], carried[back + 1 :]
                tried[back].add(chip[back])
                carried[back] = set(sorted(carried[back] | set(latest[:-1]))[-1:])
                del chip[back:]
                continue
            chip.append(c)
            tried.append(set())
            carried.append(set())
        if self.rules.no_skip:
            used = sorted(set(chip))
            chip = [used.index(c) for c in chip]
        return chip, failures

    def arrows(self, chip: list[int]) -> set[Arrow]:
        """Arrows between the chips of placed nodes."""
        both = [(chip[u], chip[w]) for u, w in self.edges if max(u, w) < len(chip)]
        return {(a, b) for a, b in both if a != b} if self.rules.triangle else set()

    def allowed(self, chip: list[int], w: int) -> tuple[list[int], int]:
        """Chips that bounds and doubled edges leave a node; and the node that left it one (-1: none)."""
        chips, limiter = list(range(self.earliest[w], self.latest[w] + 1)), -1
        for u, reader, inner in self.doubled:
            away = [x for x in sorted(inner) if x < len(chip) and chip[x] != chip[u]]
            if reader == w and away:
                chips, limiter = [c for c in chips if c == chip[away[0]]], max(limiter, away[0])
        return chips, limiter

    def read_or_limiting(self, chip: list[int], w: int) -> set[int]:
        """Who is to blame where node w finds no chip."""
        return {u for u, v in self.edges if v == w} | {self.allowed(chip, w)[1]}

    def holder(self, chip: list[int], chips: set[int]) -> set[int]:
        """The latest node with weights on one of these chips."""
        return set([j for j, c in enumerate(chip) if c in chips and self.weight[j]][-1:])

    def author(self, chip: list[int]) -> set[int]:
        """The latest node that drew an arrow."""
        return set([j for j in range(len(chip)) if self.arrows(chip[:j]) != self.arrows(chip[: j + 1])][-1:])

    def against(self, chip: list[int], c: int) -> set[int] | None:
        """Who is to blame that the next node cannot be on chip c; None: it can."""
        i, then = len(chip), [*chip, c]
        size = self.weight[i]
        room = [
            self.capacity - sum(w for w, on in zip(self.weight, chip, strict=False) if on == d)
            for d in range(self.chips)
        ]
        if room[c] < size:
            return self.holder(chip, {c})
        limited: set[int] = set()
        for u, w, inner in self.doubled:
            if i not in inner:
                continue
            away = [chip[x] for x in sorted(inner) if x < i and chip[x] != chip[u]]
            allowed, limiter = self.allowed(chip, w)
            two = {chip[u], *away[:1]}
            if c not in two:
                if away or c not in allowed:
                    return {u} | (set() if w in limited else {limiter})
                two.add(c)
                limited.add(w)
            owed = sum(self.weight[x] for x in inner if x > i)
            space = sum(room[d] for d in two) + (self.capacity if len(two) == 1 else 0)
            if size and owed > space - size:
                return {u} | (set() if w in limited else {limiter}) | self.holder(chip, two)
        old, new = self.arrows(chip), self.arrows(then)
        if self.rules.triangle and new != old and not reduced(new):
            return self.author(chip)
        waiting = [w for w in range(i + 1, len(self.node)) if any(v == w and u <= i for u, v in self.edges)]
        for w in waiting if self.rules.triangle else []:
            if not self.may_find_chip(then, w, new):
                return self.author(chip) | self.read_or_limiting(then, w)
        return None

    def may_find_chip(self, chip: list[int], w: int, arrows: set[Arrow]) -> bool:
        """Whether a waiting node may still find a chip."""
        asks = sorted({chip[u] for u, v in self.edges if v == w and u < len(chip)})
        allowed = self.allowed(chip, w)[0]
        if not allowed or allowed[-1] < asks[-1]:
            return False
        apart = {(a, b): longest(arrows, a, b) for a in asks for b in asks if a < b}
        if any(length > 1 for length in apart.values()):
            return False
        seconds = {b for (_, b), length in apart.items() if length}
        if not seconds:
            return True
        late = asks[-1]
        return seconds == {late} and late in allowed and all(reduced(arrows | {(a, late)}) for a in asks[:-1])
