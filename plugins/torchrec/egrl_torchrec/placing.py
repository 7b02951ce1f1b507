"""Costs and bytes of ranks while tables come and go, and the best places of an option."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egrl_torchrec.instance import Bytes, Floats, Instance, Option, Piece

POWER = 8
HOSTS = 3
"""Hosts that are tried for what must be on one: those with the least cost."""
Way = tuple[float, tuple[int, ...]]
"""By how much a way to lay an option raises the sum over ranks of (cost / target)^POWER, and the places."""


class Ranks:
    """What lies on each rank.

    Attributes:
        cost: float64 [W].
        left: int64 [W, 3], bytes that are free.
    """

    def __init__(self, instance: Instance, target: float) -> None:
        self.instance, self.target = instance, target
        self.cost: Floats = np.zeros(instance.ranks)
        self.left: Bytes = instance.capacity.copy()

    def put(self, option: Option, places: Sequence[int], sign: int = 1) -> None:
        """Lay pieces, or take them away with -1."""
        for piece, place in zip(option.pieces, places, strict=True):
            self._put(piece, place, sign)

    def place(self, option: Option, home: int | None) -> Way | None:
        """The best way to lay an option; None if it does not fit. A `home` is a host for what is `together`."""
        if not option.together or (home is None and option.free):
            return self._place(option, None)
        if home is not None:
            return self._place(option, home)
        local, hosts = self.instance.local, self.instance.hosts
        dearest = self.cost[: hosts * local].reshape(hosts, local).max(axis=1)
        ways = (self._place(option, int(host)) for host in np.argsort(dearest, kind="stable")[:HOSTS])
        return min((way for way in ways if way is not None), default=None)

    def _place(self, option: Option, host: int | None) -> Way | None:
        places: list[int] = []
        rise = 0.0
        for piece in option.pieces:
            apart = places if option.apart and len(option.pieces) <= self.instance.places(piece) else ()
            place = self._best(piece, host, apart)
            if place is None:
                break
            rise += self._rise(piece, place)
            self._put(piece, place, 1)
            places.append(place)
        for piece, place in zip(option.pieces, places, strict=False):
            self._put(piece, place, -1)
        return (rise, tuple(places)) if len(places) == len(option.pieces) else None

    def _put(self, piece: Piece, place: int, sign: int) -> None:
        ranks = self.instance.ranks_of(piece, place)
        self.cost[ranks] += sign * piece.cost
        self.left[ranks] -= sign * piece.memory

    def _best(self, piece: Piece, host: int | None, apart: Sequence[int]) -> int | None:
        """The place at which a piece leaves the dearest of its ranks cheapest, with room for it."""
        size, local = len(piece.cost), self.instance.local
        if self.instance.places(piece) == 1:
            return 0 if (piece.memory <= self.left[:size]).all() else None
        if size == 1:
            first, last = (0, self.instance.ranks) if host is None else (host * local, (host + 1) * local)
            worst = self.cost[first:last]
            at = int(worst.argmin())
            if not apart and (piece.memory[0] <= self.left[first + at]).all():
                return first + at
            fits = (piece.memory[0] <= self.left[first:last]).all(axis=1)
        else:
            first, last = (0, self.instance.hosts) if host is None else (host, host + 1)
            ranks = slice(first * size, last * size)
            fits = (piece.memory <= self.left[ranks].reshape(-1, size, 3)).all(axis=(1, 2))
            worst = (self.cost[ranks].reshape(-1, size) + piece.cost).max(axis=1)
        worst = np.where(fits, worst, np.inf)
        for place in apart:
            if first <= place < last:
                worst[place - first] = np.inf
        at = int(worst.argmin())
        return first + at if np.isfinite(worst[at]) else None

    def _rise(self, piece: Piece, place: int) -> float:
        if len(piece.cost) == 1:
            before = float(self.cost[place]) / self.target
            return float((before + float(piece.cost[0]) / self.target) ** POWER - before**POWER)
        old = self.cost[self.instance.ranks_of(piece, place)] / self.target
        return float(((old + piece.cost / self.target) ** POWER - old**POWER).sum())
