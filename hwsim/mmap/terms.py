"""What the times of instructions are nearly sums of: what each takes with its buffers in CMEM, and what HBM adds.

Where buffers lie, a game says. How large the terms are is not said here: measured times of instructions teach it. The
rules of the game, and what copies want and are given, are known to every player.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hwsim.keys import derive
from hwsim.mmap.game import MmapGame
from hwsim.mmap.players import COPY_PRICES, ROOM_PRICES, greedy
from hwsim.mmap.rules.state import DROP
from hwsim.mmap.tables import Tables
from hwsim.problem import Floats, Mapping16

UNIT_S, MOST_UNITS = 1e-13, 1 << 60
"""The kernels count whole bytes. A term is so many of them that HBM moves one in this time, or in more if all terms
together would be more than the second number of bytes."""
MOVES, MOST_MOVES, GAMES = 4, 250_000, 64
"""A search plays so many moves per step; at most the second number, some 0.4 s, or so many games if that is more."""
DRAFTS = 0.25
"""The share of the moves that greedy play may take, whose games the search may begin with."""
TRIED = 3
"""A greedy move looks at so many actions."""
HOT = 0.01
"""First temperature, in shares of the most that CMEM can save, for one of 1 in shares of the cost."""


@dataclass(frozen=True)
class InstructionTerms:
    """See `hwsim.capabilities.Terms`: K = 2 T + N terms.

    Of each instruction one in proportion to its arithmetic and one to its traffic, then one of each buffer, which is
    held where the buffer lies in HBM. An instruction of which much lies there may take less than the sum, and one that
    waits for copies more.
    """

    game: MmapGame
    exact = False

    @property
    def _tables(self) -> Tables:
        return self.game.tables

    @cached_property
    def block(self) -> NDArray[np.int64]:
        """int64 [K]: the instruction."""
        steps = np.arange(len(self._tables.step))
        return np.concatenate([steps, steps, self._tables.buffer["step"].astype(np.int64)])

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """int64 [K]: 0 for arithmetic, 1 for traffic, 2 for buffers."""
        steps = len(self._tables.step)
        return np.repeat(np.arange(3), [steps, steps, len(self._tables.buffer)])

    @cached_property
    def size(self) -> Floats:
        """float64 [K]: arithmetic; bytes that an instruction moves; those of each buffer, in shares of their means."""
        buffer, step = self._tables.buffer, self._tables.step
        sizes = (step["compute_s"], step["traffic_bytes"], buffer["read_bytes"] + buffer["write_bytes"])
        means = [size.mean() if size.any() else 1.0 for size in sizes]
        return np.concatenate(
            [np.maximum(size / mean, 1e-6) for size, mean in zip(sizes, means, strict=True)]
        )

    def held(self, mapping: Mapping16) -> sparse.csr_array:
        """Float64 [B (T + 1), K], of actions int16 [B, N, 1] as they were played; the last copies hold no term."""
        steps, games = len(self._tables.step), len(mapping)
        row = np.arange(games)[:, None] * (steps + 1)
        every = np.broadcast_to(np.arange(2 * steps), (games, 2 * steps))
        game, buffer = np.nonzero(mapping[:, :, 0] <= DROP)
        rows = [(row + every % steps).ravel(), row[game, 0] + self._tables.buffer["step"][buffer]]
        columns = [every.ravel(), 2 * steps + buffer]
        place = np.concatenate(rows), np.concatenate(columns)
        return sparse.csr_array((np.ones(len(place[0])), place), shape=(games * (steps + 1), len(self.size)))

    def improve(self, seconds: Floats, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """From a greedy game, where these terms like it better than `start`."""
        game = MmapGame(self.known(seconds), self.game.granule_bytes)
        moves = min(MOVES * steps, max(MOST_MOVES, GAMES * len(start)))
        begin = self._draft(game, start, int(DRAFTS * moves), np.uint64(key))
        found = game.revised(begin, np.uint64(key), moves, HOT * hot, 0.0)
        best: Mapping16 = found.mapping
        return best

    def known(self, seconds: Floats) -> Tables:
        """The tables of a program whose times are these terms; rules, demands and supplies stay as they are."""
        count = len(self._tables.step)
        unit_s = max(UNIT_S, float(seconds.sum()) / MOST_UNITS)
        units = np.rint(np.maximum(seconds, 0.0) / unit_s).astype(np.int64)
        buffer, step = self._tables.buffer.copy(), self._tables.step.copy()
        added = units[2 * count :]
        buffer["read_bytes"] = np.where(buffer["is_output"], 0, added)
        buffer["write_bytes"] = np.where(buffer["is_output"], added, 0)
        least = units[:count] + units[count : 2 * count]
        step["compute_s"] = 0.0
        step["traffic_bytes"] = least + np.bincount(buffer["step"], added, count).astype(np.int64)
        all_s = float(least.sum()) * unit_s
        return self._tables._replace(
            buffer=buffer,
            step=step,
            hbm_Bps=1.0 / unit_s,
            read_Bps=np.inf,
            write_Bps=np.inf,
            none_s=all_s + float(added.sum()) * unit_s,
            all_s=all_s,
        )

    def _draft(self, game: MmapGame, start: Mapping16, moves: int, key: np.uint64) -> Mapping16:
        """The best of `start` and of greedy games at as many prices as there are moves for, which the key draws."""
        prices = [(room, copy) for room in ROOM_PRICES for copy in COPY_PRICES]
        order = np.argsort(derive(np.arange(len(prices), dtype=np.uint64), int(key)))
        tried = [prices[k] for k in order[: moves // (TRIED * len(start))]]
        rows = np.stack([start[:, 0], *(greedy(game, *price) for price in tried)])
        returned = game.play(rows)
        best: Mapping16 = rows[int(np.nanargmin(returned.cost_s))][:, None]
        return best
