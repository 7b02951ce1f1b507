"""A search for plans: some tables are taken out and laid again, each in its best way; and HiGHS on few ranks.

How good a way to lay a table is, is the rise of the sum over ranks of (cost / target)^8: near the target this is what
the table adds in all, far above it what it adds to the dearest ranks. A plan is accepted if its smooth maximum (with
40) rises by no more than a share that shrinks. From time to time some ranks are laid anew together, by `best_plan`.

Source: ruin and recreate (Schrimpf and others, 2000); the neighbourhoods that a solver searches are those of LNS (Shaw,
1998). Deviations: what is laid again goes to its best place, not to a random one of the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from egrl_torchrec.instance import Instance, Plan
from egrl_torchrec.placing import Ranks
from egrl_torchrec.program import best_plan, part

SMOOTH = 40
MOST = 6
"""Groups of tables that are taken out at once, at most."""
WARM = 0.003
"""The share by which a plan may be worse than the one before at first."""
TOGETHER = 8
"""Ranks that HiGHS lays anew at once: three of the dearest, three of the cheapest, and others."""
EACH_S = 1.0
"""Seconds that it has for them."""
ROUGH = 1e-3
"""The share above its bound at which it may stop."""
FRESH = 50
"""Failed attempts at a better plan before HiGHS is asked."""
Placed = tuple[int, tuple[int, ...]]


class Search:
    """A plan that gets better.

    Args:
        instance: the tables.
        target: a cost of a rank that is nearly in reach.
        first: for each table the options for the first plan, or () for all.
        seed: of what is drawn.

    Attributes:
        plan: the best so far; None while there is none.
        rating: its dearest rank.
    """

    def __init__(self, instance: Instance, target: float, first: Sequence[int], seed: int) -> None:
        self.instance, self.target = instance, target
        self.plan: Plan | None = None
        self.rating = np.inf
        self._draw = np.random.default_rng(seed)
        self._units: dict[int, list[int]] = {}
        for table, group in enumerate(instance.group):
            self._units.setdefault(group, []).append(table)
        self._placed: dict[int, Placed] = {}
        self._ranks = Ranks(instance, target)
        self._on: list[dict[int, None]] = [{} for _ in range(instance.ranks)]
        self._construct(first)

    def start(self, plan: Plan) -> None:
        """Go on from a valid plan."""
        self._take(list(self._placed))
        for table, (number, places) in enumerate(plan):
            self._put(table, (number, tuple(places)))
        self._remember()

    def work(self, seconds: float, enough: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Search until the time is up or the rating is `enough`."""
        begin, failed = clock(), 0
        energy = self._smooth()
        while self.plan and (spent := clock() - begin) < seconds and self.rating > enough:
            known, warm = self.rating, WARM * (1.0 - spent / seconds) ** 2
            tables = self._some()
            before = {table: self._placed[table] for table in tables}
            self._take(tables)
            if self._lay(tables) and (after := self._smooth()) <= energy * (1.0 + warm * self._draw.random()):
                energy = after
                self._remember()
            else:
                self._take([table for table in tables if table in self._placed])
                for table, placed in before.items():
                    self._put(table, placed)
            failed = 0 if self.rating < known else failed + 1
            if failed >= FRESH:
                failed = 0
                self.start(self.plan)
                self._lay_some_ranks(min(EACH_S, seconds - (clock() - begin)))
                energy = self._smooth()

    def _lay_some_ranks(self, seconds: float) -> None:
        """Let HiGHS lay the tables of some ranks anew, of the dearest and of the cheapest among them."""
        cost = self._ranks.cost
        order = np.argsort(-cost, kind="stable").tolist()
        some = dict.fromkeys([*order[:3], *order[-3:], *self._draw.permutation(order).tolist()])
        ranks = sorted(list(some)[:TOGETHER])
        tables = [
            t for t in dict.fromkeys(t for rank in ranks for t in self._on[rank]) if self._within(t, ranks)
        ]
        before = {table: self._placed[table] for table in tables}
        dearest = float(cost[ranks].max())
        self._take(tables)
        small, numbers = part(self.instance, tables, ranks, self._ranks.left, cost)
        plan, _ = best_plan(small, self.target, max(seconds, 0.1), ROUGH)
        if plan is None or small.broken(plan) or small.load(plan)[0].max() >= dearest:
            for table, placed in before.items():
                self._put(table, placed)
            return
        for table, kept, (number, places) in zip(tables, numbers, plan, strict=False):
            self._put(table, (kept[number], tuple(ranks[place] for place in places)))
        self._remember()

    def _within(self, table: int, ranks: Sequence[int]) -> bool:
        number, places = self._placed[table]
        option = self.instance.tables[table][number]
        single = len(self._units[self.instance.group[table]]) == 1 and option.free
        return single and all(place in ranks for place in places)

    def _smooth(self) -> float:
        """The smooth maximum of the costs, as a share of the target."""
        return float(((self._ranks.cost / self.target) ** SMOOTH).mean() ** (1.0 / SMOOTH))

    def _construct(self, first: Sequence[int]) -> None:
        """A first plan, laid in the order of costs or of bytes."""
        tables, room = self.instance.tables, np.maximum(self.instance.capacity.max(axis=0), 1)
        dearest = [-min(o.largest for o in options) for options in tables]
        widest = [-min((o.memory / room).max() for o in options) for options in tables]
        for keys, loose in ((dearest, False), (widest, False), (dearest, True), (widest, True)):
            order = np.argsort(keys, kind="stable").tolist()
            if self._lay(list(self._whole(order)), first, loose):
                self._remember()
                return

    def _remember(self) -> None:
        if (rating := float(self._ranks.cost.max())) < self.rating:
            self.rating = rating
            self.plan = [self._placed[table] for table in range(len(self.instance.tables))]

    def _whole(self, tables: Iterable[int]) -> Iterable[int]:
        """These tables, each with all of its group."""
        return dict.fromkeys(t for table in tables for t in self._units[self.instance.group[table]])

    def _some(self) -> list[int]:
        """Tables to take out: one of the dearest rank, and others; the dearest first, about."""
        on = list(self._on[int(self._ranks.cost.argmax())])
        count = 1 + int(self._draw.integers(MOST))
        drawn = self._draw.integers(len(self.instance.tables), size=count).tolist()
        found = list(self._whole([*([on[int(self._draw.integers(len(on)))]] if on else []), *drawn]))
        keys = np.array([self.instance.tables[t][self._placed[t][0]].largest for t in found])
        order = np.argsort(-keys * self._draw.uniform(0.5, 1.5, len(found)), kind="stable")
        return [found[n] for n in order.tolist()]

    def _put(self, table: int, placed: Placed) -> None:
        self._placed[table] = placed
        self._each(table, placed, 1)

    def _take(self, tables: Iterable[int]) -> None:
        for table in tables:
            self._each(table, self._placed.pop(table), -1)

    def _each(self, table: int, placed: Placed, sign: int) -> None:
        option = self.instance.tables[table][placed[0]]
        self._ranks.put(option, placed[1], sign)
        for piece, place in zip(option.pieces, placed[1], strict=True):
            if len(piece.cost) < self.instance.ranks:
                ranks = self.instance.ranks_of(piece, place)
                for rank in range(ranks.start, ranks.stop):
                    if sign > 0:
                        self._on[rank][table] = None
                    else:
                        self._on[rank].pop(table, None)

    def _lay(self, tables: Sequence[int], first: Sequence[int] = (), loose: bool = True) -> bool:
        """Lay tables one after the other, each in its best way. False, and none of them, if one does not fit.

        `first` has the options that are wanted; if `loose`, a table that does not fit so is laid otherwise.
        """
        done: list[int] = []
        for table in tables:
            options = self.instance.tables[table]
            home = self._home(table)
            ways: list[tuple[float, int, tuple[int, ...]]] = []
            for numbers in ([first[table]] if len(first) else [], range(len(options)) if loose else []):
                found = ((self._ranks.place(options[number], home), number) for number in numbers)
                ways = ways or [(way[0], number, way[1]) for way, number in found if way is not None]
            if not ways:
                self._take(done)
                return False
            self._put(table, min(ways)[1:])
            done.append(table)
        return True

    def _home(self, table: int) -> int | None:
        """The host on which the other tables of the group are, if any is bound to one."""
        for other in self._units[self.instance.group[table]]:
            if other in self._placed:
                number, places = self._placed[other]
                option = self.instance.tables[other][number]
                if option.together:
                    return self.instance.host(option.pieces[0], places[0])
        return None
