"""Embedding tables, the ways to shard each, and ranks with limited memory: numbers alone, without TorchRec.

A way to shard a table is an `Option`: pieces that are placed one by one. A piece has one shard, a shard for each rank
of a host, or a shard for each rank of all. A plan gives every table an option, and every piece a place: a rank, a host,
or 0. The rating of a plan is TorchRec's (`NoopPerfModel`): the largest sum of costs over the shards of a rank.

Memory is counted as TorchRec does: a shard takes HBM, DDR and SSD of its rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.int64]
Plan = Sequence[tuple[int, tuple[int, ...]]]
"""For each table its option, and the places of its pieces."""
MEMORIES = ("hbm", "ddr", "ssd")


@dataclass(frozen=True)
class Piece:
    """Shards that are placed together.

    Attributes:
        cost: float64 [k], TorchRec's cost of each of k shards: 1, the ranks of a host, or all ranks.
        memory: int64 [k, 3], bytes of `MEMORIES`.
    """

    cost: Floats
    memory: Bytes


@dataclass(frozen=True)
class Option:
    """A way to shard a table.

    Attributes:
        pieces: what is placed.
        together: True if all its pieces, and those of all tables of its group, must be on one host.
        apart: True if no two pieces may have one place while there are as many places.
    """

    pieces: tuple[Piece, ...]
    together: bool = False
    apart: bool = False

    @property
    def free(self) -> bool:
        """True if each piece is one shard that may lie on any rank, as far as other tables are not concerned."""
        one = len(self.pieces) == 1 or not (self.together or self.apart)
        return one and all(len(piece.cost) == 1 for piece in self.pieces)

    @cached_property
    def total(self) -> float:
        """Costs of all shards."""
        return float(sum(piece.cost.sum() for piece in self.pieces))

    @cached_property
    def memory(self) -> Bytes:
        """int64 [3], bytes of all shards."""
        found: Bytes = np.sum([piece.memory.sum(axis=0) for piece in self.pieces], axis=0)
        return found

    @cached_property
    def largest(self) -> float:
        """The cost of its dearest shard: no plan with it is rated lower."""
        return float(max(piece.cost.max() for piece in self.pieces))

    def covers(self, other: Option) -> bool:
        """True if wherever the other is placed, this one can be, and costs no more and takes no more memory."""
        if len(self.pieces) != len(other.pieces) or (self.together and not other.together):
            return False
        if self.apart and not other.apart:
            return False
        return all(
            len(a.cost) == len(b.cost) and (a.cost <= b.cost).all() and (a.memory <= b.memory).all()
            for a, b in zip(self.pieces, other.pieces, strict=True)
        )


@dataclass(frozen=True)
class Instance:
    """Tables on ranks.

    Attributes:
        tables: the options of each table.
        group: of each table, the number of the tables with which it shares a host if they are `together`.
        capacity: int64 [W, 3], bytes that each rank has for tables.
        local: ranks of a host; host h has ranks h * local to (h + 1) * local - 1.
    """

    tables: Sequence[Sequence[Option]]
    group: Sequence[int]
    capacity: Bytes
    local: int

    @property
    def ranks(self) -> int:
        """How many."""
        return len(self.capacity)

    @property
    def hosts(self) -> int:
        """How many whole hosts there are; ranks beyond them take single shards alone."""
        return self.ranks // self.local

    def ranks_of(self, piece: Piece, place: int) -> slice:
        """The ranks on which the shards of a piece lie."""
        size = len(piece.cost)
        if size == 1:
            return slice(place, place + 1)
        return slice(0, size) if size == self.ranks else slice(place * size, (place + 1) * size)

    def load(self, plan: Plan) -> tuple[Floats, Bytes]:
        """Costs float64 [W] and bytes int64 [W, 3] of each rank."""
        cost, memory = np.zeros(self.ranks), np.zeros((self.ranks, 3), np.int64)
        for options, (number, places) in zip(self.tables, plan, strict=True):
            for piece, place in zip(options[number].pieces, places, strict=True):
                ranks = self.ranks_of(piece, place)
                cost[ranks] += piece.cost
                memory[ranks] += piece.memory
        return cost, memory

    def broken(self, plan: Plan) -> str:
        """The first rule that a plan breaks; "" if it is valid."""
        homes: dict[int, int] = {}
        for table, (options, (number, places)) in enumerate(zip(self.tables, plan, strict=True)):
            option = options[number]
            if len(places) != len(option.pieces):
                return f"table {table} has {len(places)} places for {len(option.pieces)} pieces"
            for piece, place in zip(option.pieces, places, strict=True):
                if not 0 <= place < (1 if len(piece.cost) == self.ranks else self.places(piece)):
                    return f"table {table} lies on none of the ranks"
            if option.apart and len(set(places)) < min(len(places), self.places(option.pieces[0])):
                return f"table {table} has two pieces in one place"
            if option.together:
                on = {self.host(piece, place) for piece, place in zip(option.pieces, places, strict=True)}
                if len(on | {homes.setdefault(self.group[table], min(on))}) > 1:
                    return f"the group of table {table} is not on one host"
        _, memory = self.load(plan)
        over = memory > self.capacity
        if over.any():
            rank, kind = np.argwhere(over)[0].tolist()
            return f"rank {rank} has {memory[rank, kind]} of {self.capacity[rank, kind]} bytes of {MEMORIES[kind]}"
        return ""

    def places(self, piece: Piece) -> int:
        """How many places a piece may have."""
        size = len(piece.cost)
        return self.ranks if size == 1 else 1 if size == self.ranks else self.hosts

    def host(self, piece: Piece, place: int) -> int:
        """The host of a place."""
        return place // self.local if len(piece.cost) == 1 else place

    def without_dominated(self) -> tuple[Instance, list[list[int]]]:
        """The instance without options that another of the table covers, and the numbers that those left have here."""
        kept = []
        for options in self.tables:
            least = np.argsort([option.total for option in options], kind="stable").tolist()
            left: list[int] = []
            for number in least:
                if not any(options[other].covers(options[number]) for other in left):
                    left.append(number)
            kept.append(left)
        tables = [[options[n] for n in left] for options, left in zip(self.tables, kept, strict=True)]
        return Instance(tables, self.group, self.capacity, self.local), kept


def groups(names: Sequence[str]) -> list[int]:
    """A number for each different name."""
    numbers: Mapping[str, int] = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]
