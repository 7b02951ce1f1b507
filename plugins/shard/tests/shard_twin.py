"""The kernels of sharding in plain Python: everything worked out anew, in the order in which the kernels take it."""

from __future__ import annotations

import math

from egrl_shard.sharding import FORBIDDEN_FROM, Sharding

Choice = list[int]


class Twin:
    """An instance as lists."""

    def __init__(self, sharding: Sharding) -> None:
        s, self.limit = sharding, sharding.limit
        bounds = list(zip(s.first[:-1].tolist(), s.first[1:].tolist(), strict=True))
        self.cost = [s.cost[a:b].tolist() for a, b in bounds]
        self.usage = [s.usage[a:b].tolist() for a, b in bounds]
        self.ends = [tuple(pair) for pair in s.edge_nodes.tolist()]
        flat, at = s.edge_cost.tolist(), s.edge_first.tolist()
        self.pair: list[dict[tuple[int, int], int]] = []
        for e, (a, b) in enumerate(self.ends):
            pairs = [(i, j) for i in range(len(self.cost[a])) for j in range(len(self.cost[b]))]
            self.pair.append(dict(zip(pairs, flat[at[e] : at[e + 1]], strict=True)))
        self.spans = list(zip(s.start.tolist(), s.end.tolist(), strict=True))
        self.times = range(max(end for _, end in self.spans) + 1)
        self.nodes = range(len(s))

    def held(self, choice: Choice, time: int) -> int:
        """What is used at a time."""
        return sum(
            self.usage[n][choice[n]] for n in self.nodes if self.spans[n][0] <= time < self.spans[n][1]
        )

    def most(self, choice: Choice, node: int) -> int:
        """The most that is used while a node is in use."""
        return max((self.held(choice, time) for time in range(*self.spans[node])), default=0)

    def paid(self, choice: Choice) -> list[int]:
        """Every cost of a choice."""
        own = [self.cost[n][choice[n]] for n in self.nodes]
        return own + [self.pair[e][choice[a], choice[b]] for e, (a, b) in enumerate(self.ends)]

    def totals(self, choice: Choice) -> tuple[int, int, int]:
        """Allowed costs, how many forbidden ones, and the most that is used at any time."""
        paid = self.paid(choice)
        allowed = [c for c in paid if c < FORBIDDEN_FROM]
        return sum(allowed), len(paid) - len(allowed), max(self.held(choice, time) for time in self.times)

    def edges(self, node: int) -> list[int]:
        """The edges at a node."""
        return [e for e, pair in enumerate(self.ends) if node in pair]

    def near(self, choice: Choice, node: int, strategy: int) -> tuple[int, int]:
        """Allowed cost of a strategy and of its edges, and how many are forbidden."""
        new = [*choice[:node], strategy, *choice[node + 1 :]]
        paid = [self.cost[node][strategy]]
        paid += [self.pair[e][new[self.ends[e][0]], new[self.ends[e][1]]] for e in self.edges(node)]
        allowed = [c for c in paid if c < FORBIDDEN_FROM]
        return sum(allowed), len(paid) - len(allowed)

    # ---- greedy

    def goes(self, edge: int, node: int, strategy: int, open: list[list[int]]) -> bool:
        """Whether an open strategy of the other node goes with a node's."""
        a, b = self.ends[edge]
        pairs = [(strategy, j) for j in open[b]] if a == node else [(i, strategy) for i in open[a]]
        return any(self.pair[edge][pair] < FORBIDDEN_FROM for pair in pairs)

    def propagate(self, waiting: list[int], open: list[list[int]], least: Choice) -> None:
        """Close strategies without support; a node never loses all."""
        while waiting:
            node = waiting.pop(0)
            for edge in self.edges(node):
                other = sum(self.ends[edge]) - node
                left = [s for s in open[other] if self.goes(edge, other, s, open)]
                if left and left != open[other]:
                    if least[other] not in left:
                        least[other] = min(left, key=lambda s, n=other: self.usage[n][s])
                    open[other] = left
                    if other not in waiting:
                        waiting.append(other)

    def greedy(self, price: float, length: list[int]) -> Choice:
        """As `egrl_shard.baseline.greedy`; `length` is the number of binding points in each node's interval."""
        open = [[s for s, cost in enumerate(row) if cost < FORBIDDEN_FROM] for row in self.cost]
        least = [min(open[n], key=lambda s, n=n: self.usage[n][s]) for n in self.nodes]
        self.propagate(list(self.nodes), open, least)
        for n in self.nodes:
            room = self.limit - self.most(least, n) + self.usage[n][least[n]]
            best, lowest = least[n], math.inf
            for s in open[n]:
                if length[n] and self.usage[n][s] > room:
                    continue
                cost = float(self.cost[n][s]) + price * length[n] * self.usage[n][s]
                for edge in self.edges(n):
                    a, b = self.ends[edge]
                    if sum((a, b)) - n < n:
                        cost += self.pair[edge][(s, least[b]) if a == n else (least[a], s)]
                if cost < lowest:
                    best, lowest = s, cost
            least[n] = best
            if open[n] != [best]:
                open[n] = [best]
                self.propagate([n], open, least)
        return least

    # ---- repair

    def valid(self, choice: Choice) -> bool:
        """Whether it breaks nothing."""
        _, forbidden, peak = self.totals(choice)
        return forbidden == 0 and peak <= self.limit

    def answer(self, choice: Choice, n: int) -> int:
        """As `best_answer`."""
        held = self.usage[n][choice[n]]
        room = max(held, self.limit - self.most(choice, n) + held)
        idle = self.spans[n][0] == self.spans[n][1]
        fitting = [s for s in range(len(self.cost[n])) if idle or self.usage[n][s] <= room]
        return min(fitting, key=lambda s: (*self.near(choice, n, s)[::-1], s != choice[n], s))

    def settle(self, choice: Choice) -> bool:
        """As `_take_best_answers`."""
        changed = False
        for n in self.nodes:
            best = self.answer(choice, n)
            if self.near(choice, n, best)[1] < self.near(choice, n, choice[n])[1]:
                choice[n], changed = best, True
        return changed

    def relieve(self, choice: Choice, points: list[int]) -> bool:
        """As `_relieve`; `points` are the binding times."""
        above = [time for time in points if self.held(choice, time) > self.limit]
        wishes = []
        for n in self.nodes:
            over = sum(self.spans[n][0] <= time < self.spans[n][1] for time in above)
            now, forbidden_now = self.near(choice, n, choice[n])
            found = []
            for s in range(len(self.cost[n])):
                less = self.usage[n][choice[n]] - self.usage[n][s]
                cost, forbidden = self.near(choice, n, s)
                if over and less > 0 and forbidden <= forbidden_now:
                    found.append(((cost - now) / (float(less) * over), s))
            if found:
                price = min(found)[0]
                wishes.append((price, n, next(s for p, s in found if p == price)))
        changed = False
        for _, n, s in sorted(wishes):
            no_worse = self.near(choice, n, s)[1] <= self.near(choice, n, choice[n])[1]
            if no_worse and self.most(choice, n) > self.limit:
                choice[n], changed = s, True
        return changed

    def repaired(self, given: Choice, baseline: Choice, gives_way: bool, points: list[int]) -> Choice:
        """As `egrl_shard.repair.repaired`, for one choice."""
        choice = list(given)
        if self.valid(choice):
            return choice
        changes = True
        while changes:
            settled = self.settle(choice)
            changes = self.relieve(choice, points) or settled
        while gives_way and (self.yield_pairs(choice, baseline) or self.yield_memory(choice, baseline)):
            pass
        return choice

    def yield_pairs(self, choice: Choice, to: Choice) -> bool:
        """As `_yield_pairs`."""
        before = list(choice)
        for n in self.nodes:
            if self.near(choice, n, choice[n])[1]:
                choice[n] = to[n]
        return choice != before

    def yield_memory(self, choice: Choice, to: Choice) -> bool:
        """As `_yield_memory`."""
        before = list(choice)
        for n in self.nodes:
            if self.usage[n][choice[n]] > self.usage[n][to[n]] and self.most(choice, n) > self.limit:
                choice[n] = to[n]
        return choice != before
