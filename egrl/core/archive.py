"""Every evaluation of a run, by ticket: the one store that replay buffers, resuming and figures read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation, Mapping16, Problem

WINDOW_ROWS = 100_000
WINDOW_BYTES = 1 << 30

SCALARS: dict[str, Any] = {
    "reward": np.float64,
    "cost": np.float64,
    "speedup": np.float64,
    "epsilon": np.float64,
    "status": np.int8,
    "partial": np.bool_,
    "problem": np.int16,
    "source": np.dtype("<U24"),
}


class _Column:
    """An array that grows; amortised O(1) a row."""

    def __init__(self, dtype: Any, shape: tuple[int, ...] = ()) -> None:
        self._data = np.zeros((256, *shape), dtype=dtype)
        self._rows = 0

    def extend(self, rows: NDArray[Any]) -> None:
        need = self._rows + len(rows)
        if need > len(self._data):
            grown = np.zeros((max(need, 2 * len(self._data)), *self._data.shape[1:]), self._data.dtype)
            grown[: self._rows] = self._data[: self._rows]
            self._data = grown
        self._data[self._rows : need] = rows
        self._rows = need

    @property
    def values(self) -> NDArray[Any]:
        return self._data[: self._rows]


class _Words:
    """A column of words, of which there are few: each is kept once, and its number a row."""

    def __init__(self) -> None:
        self._numbers = _Column(np.int32)
        self._of: dict[str, int] = {}

    def extend(self, rows: NDArray[np.str_]) -> None:
        words, where = np.unique(rows, return_inverse=True)
        numbers = [self._of.setdefault(word, len(self._of)) for word in words.tolist()]
        self._numbers.extend(np.array(numbers, np.int32)[where.reshape(-1)])

    def take(self, rows: NDArray[np.int64] | slice) -> NDArray[np.str_]:
        return np.array([*self._of, ""], SCALARS["source"])[self._numbers.values[rows]]


class _Ring:
    """The last `window` rows of an array; row r lies at r % window, and storage grows up to the window."""

    def __init__(self, window: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.window = window
        self.rows = 0
        self._data = np.zeros((min(window, 256), *shape), dtype=dtype)

    def extend(self, rows: NDArray[Any]) -> None:
        need = min(self.window, self.rows + len(rows))
        if need > len(self._data):
            grown = np.zeros(
                (min(self.window, max(need, 2 * len(self._data))), *self._data.shape[1:]), self._data.dtype
            )
            grown[: len(self._data)] = self._data
            self._data = grown
        at = (self.rows + np.arange(len(rows))) % self.window
        self._data[at] = rows
        self.rows += len(rows)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        if len(rows) and (rows.min() < max(0, self.rows - self.window) or rows.max() >= self.rows):
            raise ValueError(
                f"archive rows: expected {max(0, self.rows - self.window)}..{self.rows - 1}, "
                f"received {rows.min()}..{rows.max()}"
            )
        return self._data[rows % self.window]


class Archive:
    """Scalars of every evaluation, and the (repaired) mappings of the last `window` of each problem.

    The window is `WINDOW_ROWS` rows, fewer where they would take more than `WINDOW_BYTES`.
    """

    def __init__(self, problems: Sequence[Problem], window_rows: int = WINDOW_ROWS) -> None:
        self._scalars = {name: _Column(dtype) for name, dtype in SCALARS.items() if name != "source"}
        self._sources = _Words()
        self._row = _Column(np.int64)
        self._mappings: list[_Ring] = []
        for problem in problems:
            shape = problem.space.shape
            dtype = np.int8 if problem.space.most_choices <= np.iinfo(np.int8).max else np.int16
            row_bytes = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
            window = max(1024, min(window_rows, WINDOW_BYTES // len(problems) // row_bytes))
            self._mappings.append(_Ring(window, shape, dtype))

    def __len__(self) -> int:
        return len(self._row.values)

    @property
    def window(self) -> int:
        """Evaluations of each problem whose mappings are kept."""
        return min(ring.window for ring in self._mappings)

    def append(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Add rows in ticket order; ValueError where the next ticket is another."""
        if len(proposals) and proposals.tickets[0] != len(self):
            raise ValueError(f"ticket: expected {len(self)}, received {proposals.tickets[0]}")
        ring = self._mappings[proposals.problem]
        self._row.extend(ring.rows + np.arange(len(proposals)))
        ring.extend(evaluation.repaired)
        for name in ("reward", "cost", "speedup", "epsilon", "status", "partial"):
            self._scalars[name].extend(getattr(evaluation, name))
        self._scalars["problem"].extend(np.full(len(proposals), proposals.problem))
        self._sources.extend(proposals.source)

    def skip(self, rows: int) -> None:
        """Begin an empty archive at ticket `rows`: what came before is blank (reward NaN) and older than the window."""
        for name, column in self._scalars.items():
            blank = np.nan if SCALARS[name] is np.float64 else np.zeros((), dtype=SCALARS[name])
            column.extend(np.full(rows, blank, dtype=SCALARS[name]))
        self._sources.extend(np.full(rows, "", SCALARS["source"]))
        self._row.extend(np.full(rows, -1))

    def column(self, name: str) -> NDArray[Any]:
        """A scalar of every evaluation so far, [rows]; names as in `SCALARS`."""
        return self.sources(slice(None)) if name == "source" else self._scalars[name].values

    def sources(self, tickets: NDArray[np.int64] | slice) -> NDArray[np.str_]:
        """Who proposed some evaluations, str [B]."""
        return self._sources.take(tickets)

    def mappings(self, tickets: NDArray[np.int64]) -> Mapping16:
        """int16 [B, N, H] of evaluations of one problem; ValueError where they are mixed or too old."""
        problems = np.unique(self.column("problem")[tickets])
        if len(problems) > 1:
            raise ValueError(f"tickets: expected one problem, received {problems.tolist()}")
        ring = self._mappings[int(problems[0]) if len(problems) else 0]
        return ring.take(self._row.values[tickets]).astype(np.int16)

    def evaluation(self, ticket: int) -> Evaluation:
        """One archived evaluation as a batch of one row."""
        at = slice(ticket, ticket + 1)
        fields = {
            n: self.column(n)[at] for n in ("reward", "cost", "speedup", "epsilon", "status", "partial")
        }
        return Evaluation(**fields, repaired=self.mappings(np.array([ticket])))
