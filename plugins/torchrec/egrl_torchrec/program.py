"""What HiGHS proves and finds: the least average cost of a rank, and whole plans as a mixed-integer program.

Costs are divided by the least average, bytes by GiB: HiGHS' tolerances are absolute. What it returns is checked
by `Instance.broken`, to the byte.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from egrl_torchrec.instance import MEMORIES, Bytes, Floats, Instance, Option, Piece, Plan

GIB = 2.0**30
GAP = 1e-4
"""HiGHS stops where its plan is proven to be at most this share above its bound."""


class _Rows:
    """A program under construction: columns with their bounds, rows with theirs."""

    def __init__(self) -> None:
        self.most: list[float] = []
        self.whole: list[bool] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._value: list[float] = []

    def columns(self, count: int, most: float, whole: bool = True) -> list[int]:
        """New columns from 0 to `most`."""
        first = len(self.most)
        self.most += [most] * count
        self.whole += [whole] * count
        return list(range(first, first + count))

    def row(self, terms: Iterable[tuple[int, float]], low: float, high: float) -> None:
        """A new row; no two terms of one column."""
        at = len(self.low)
        for column, value in terms:
            if value:
                self._row.append(at)
                self._column.append(column)
                self._value.append(value)
        self.low.append(low)
        self.high.append(high)

    def solve(self, goal: int, seconds: float, gap: float) -> tuple[Floats | None, float]:
        """Minimise a column: values, and what is proved; inf if nothing fits."""
        shape = (len(self.low), len(self.most))
        matrix = coo_matrix((self._value, (self._row, self._column)), shape).tocsr()
        cost = np.zeros(len(self.most))
        cost[goal] = 1.0
        found = milp(
            cost,
            constraints=LinearConstraint(matrix, self.low, self.high),
            integrality=np.array(self.whole, np.int8),
            bounds=Bounds(0.0, np.array(self.most)),
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )
        bound = found.get("mip_dual_bound")
        if found.status == 2:  # infeasible
            return None, math.inf
        proved = float(bound) if bound is not None and math.isfinite(bound) else 0.0
        return found.x, proved


def least_average(instance: Instance, seconds: float) -> tuple[float, list[int]]:
    """A cost that no plan is rated below, and an option of each table that nearly attains it, if memory were shared.

    A plan's rating is no less than the average cost of its ranks, nor than its dearest shard; all its shards fit into
    the memory of all ranks together. inf where no options do.
    """
    rows = _Rows()
    (goal,) = rows.columns(1, math.inf, whole=False)
    scale = max(1e-300, sum(min(o.total for o in options) for options in instance.tables) / instance.ranks)
    everything: list[tuple[int, Option]] = []
    at = []
    for options in instance.tables:
        columns = rows.columns(len(options), 1.0)
        at.append(columns)
        rows.row([(c, 1.0) for c in columns], 1.0, 1.0)
        dearest = [(c, o.largest / scale) for c, o in zip(columns, options, strict=True)]
        rows.row([*dearest, (goal, -1.0)], -math.inf, 0.0)
        everything += zip(columns, options, strict=True)
    whole = scale * instance.ranks
    rows.row([*((c, o.total / whole) for c, o in everything), (goal, -1.0)], -math.inf, 0.0)
    for kind, room in enumerate(instance.capacity.sum(axis=0).tolist()):
        rows.row([(c, o.memory[kind] / GIB) for c, o in everything], -math.inf, room / GIB)
    values, proved = rows.solve(goal, seconds, GAP)
    if values is None:
        return (math.inf if math.isinf(proved) else 0.0), []
    return proved * scale, [int(np.argmax(values[columns])) for columns in at]


def size(instance: Instance) -> int:
    """Columns of the program of whole plans, about."""
    return sum(
        sum(instance.places(piece) for piece, _ in _alike(option)) + 1
        for options in instance.tables
        for option in options
    )


def best_plan(
    instance: Instance, scale: float, seconds: float, gap: float = GAP
) -> tuple[Plan | None, float]:
    """The best plan that HiGHS finds, and what it proves of all.

    It gets no cost that is to be beaten: as the goal's upper bound, HiGHS 1.12 has taken one for proved.
    """
    rows = _Whole(instance, scale)
    for options, group in zip(instance.tables, instance.group, strict=True):
        rows.table(options, group)
    rows.ranks()
    values, proved = rows.solve(rows.goal, seconds, gap)
    plan = None if values is None else [rows.read(table, values) for table in range(len(instance.tables))]
    return plan, proved * scale


class _Whole(_Rows):
    """The program of whole plans: a column for each option of a table, and each place of each kind of its pieces."""

    def __init__(self, instance: Instance, scale: float) -> None:
        super().__init__()
        self.instance, self.scale = instance, scale
        (self.goal,) = self.columns(1, math.inf, whole=False)
        self._members = Counter(instance.group)
        self._homes: dict[int, list[int]] = {}
        self._load: list[dict[int, float]] = [{} for _ in range(instance.ranks)]
        self._used: list[list[dict[int, float]]] = [[{} for _ in MEMORIES] for _ in range(instance.ranks)]
        self._chosen: list[list[tuple[int, list[list[int]]]]] = []

    def table(self, options: Sequence[Option], group: int) -> None:
        """One option is taken, and as many places for each kind of its pieces as there are."""
        columns = self.columns(len(options), 1.0)
        self.row([(c, 1.0) for c in columns], 1.0, 1.0)
        self._chosen.append([])
        for column, option in zip(columns, options, strict=True):
            kinds = [self._kind(option, piece, count, column, group) for piece, count in _alike(option)]
            self._chosen[-1].append((column, kinds))

    def _kind(self, option: Option, piece: Piece, count: int, column: int, group: int) -> list[int]:
        """The columns of a kind of pieces, one for each place."""
        places = self.instance.places(piece)
        if places == 1:
            self._lay(column, piece, 0, count)
            return [column]
        at = self.columns(places, 1 if option.apart and len(option.pieces) <= places else count)
        self.row([*((c, 1.0) for c in at), (column, -float(count))], 0.0, 0.0)
        for place, c in enumerate(at):
            self._lay(c, piece, place, 1)
        if option.together and (len(option.pieces) > 1 or self._members[group] > 1):
            if group not in self._homes:
                self._homes[group] = self.columns(self.instance.hosts, 1.0)
                self.row([(c, 1.0) for c in self._homes[group]], 1.0, 1.0)
            hosts = [self.instance.host(piece, place) for place in range(places)]
            for host, home in enumerate(self._homes[group]):
                on = [(c, 1.0) for c, own in zip(at, hosts, strict=True) if own == host]
                self.row([*on, (home, -float(count))], -math.inf, 0.0)
        return at

    def _lay(self, column: int, piece: Piece, place: int, count: int) -> None:
        ranks = self.instance.ranks_of(piece, place)
        for shard, rank in enumerate(range(ranks.start, ranks.stop)):
            more = count * float(piece.cost[shard]) / self.scale
            self._load[rank][column] = self._load[rank].get(column, 0.0) + more
            for kind, size in enumerate(piece.memory[shard].tolist()):
                self._used[rank][kind][column] = self._used[rank][kind].get(column, 0.0) + count * size / GIB

    def ranks(self) -> None:
        """No rank costs more than the goal, or has more bytes than it can."""
        for load, used, room in zip(self._load, self._used, self.instance.capacity.tolist(), strict=True):
            self.row([*load.items(), (self.goal, -1.0)], -math.inf, 0.0)
            for terms, most in zip(used, room, strict=True):
                self.row(terms.items(), -math.inf, most / GIB)

    def read(self, table: int, values: Floats) -> tuple[int, tuple[int, ...]]:
        """The option and the places of a table in a solution."""
        chosen = self._chosen[table]
        number = max(range(len(chosen)), key=lambda n: values[chosen[n][0]])
        left: dict[bytes, list[int]] = {}
        option = self.instance.tables[table][number]
        for (piece, count), columns in zip(_alike(option), chosen[number][1], strict=True):
            one = self.instance.places(piece) == 1
            counts = np.array([count]) if one else np.rint(values[columns]).astype(int)
            left[_key(piece)] = np.repeat(np.arange(len(counts)), counts).tolist()
        return number, tuple(left[_key(piece)].pop(0) for piece in option.pieces)


def part(
    instance: Instance, tables: Sequence[int], ranks: Sequence[int], left: Bytes, cost: Floats
) -> tuple[Instance, list[list[int]]]:
    """The instance of some tables on some ranks, by options that may lie on any rank, and the numbers of these options.

    `left` and `cost` are the free bytes and the costs of all ranks without these tables; a last table has the costs.
    """
    numbers = [[n for n, o in enumerate(instance.tables[table]) if o.free] for table in tables]
    options = [[instance.tables[table][n] for n in own] for table, own in zip(tables, numbers, strict=True)]
    at = list(ranks)
    rest = Option((Piece(cost[at], np.zeros((len(at), 3), np.int64)),))
    small = Instance([*options, [rest]], list(range(len(tables) + 1)), left[at], len(at))
    return small, numbers


def _alike(option: Option) -> list[tuple[Piece, int]]:
    """The different pieces of an option, and how many of each there are."""
    first: dict[bytes, Piece] = {}
    for piece in option.pieces:
        first.setdefault(_key(piece), piece)
    counts = Counter(_key(piece) for piece in option.pieces)
    return [(piece, counts[key]) for key, piece in first.items()]


def _key(piece: Piece) -> bytes:
    return piece.cost.tobytes() + piece.memory.tobytes()
