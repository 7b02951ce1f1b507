"""Proposals, and all evaluations of a run by ticket, in one store that replay buffers, resuming and figures read.

A *ticket* is the number of an evaluation in its run, counted from 0. It is also the evaluation's place in the
archive. Methods get their results strictly in ticket order, in whatever order the executor measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import HasParts
from hwsim.problem import Evaluation, Mapping16, Problem, Profiles

WINDOW_ROWS = 100_000
WINDOW_BYTES = 1 << 30
SLACK = 1024
"""Rows before the window whose scalars are kept, too: rows that the method has not got yet also move the window."""
MOST_ROWS = 1 << 62
PROFILE_BYTES = 1 << 28
"""Most bytes of profiles in memory."""

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


class Column:
    """A scalar per evaluation, by ticket; rows older than the last `keep` are blank (NaN or 0).

    `column[:]` is the array of all rows. The storage grows to at most twice the rows that are kept, in amortised O(1)
    per row.
    """

    def __init__(self, dtype: Any, keep: int, blank: Any = None) -> None:
        """`blank` is what old rows have instead of NaN or zeros."""
        self._data = np.zeros(256, dtype=dtype)
        self._first = 0  # ticket of the first row in storage
        self._rows = 0
        self._keep = keep
        self._blank = (
            blank if blank is not None else np.nan if self._data.dtype.kind == "f" else self._data[0]
        )

    def extend(self, rows: NDArray[Any]) -> None:
        """Add rows, [B]."""
        need = self._rows - self._first + len(rows)
        if need > len(self._data):
            drop = max(0, min(self._rows, self._rows + len(rows) - self._keep) - self._first)
            size = min(max(need, 2 * len(self._data)), max(2 * self._keep, need - drop))
            grown = np.zeros(size, self._data.dtype)
            kept = self._data[drop : self._rows - self._first]
            grown[: len(kept)] = kept
            self._data, self._first = grown, self._first + drop
        at = self._rows - self._first
        self._data[at : at + len(rows)] = rows
        self._rows += len(rows)

    def skip(self, rows: int) -> None:
        """Begin an empty column with so many blank rows, which take no memory."""
        self._first = self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: int | slice | NDArray[np.int64]) -> Any:
        """The rows of a slice or of tickets int64 [B], a new array; the value of one ticket."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self._rows)
            if start >= self._first and step > 0:
                return self._data[start - self._first : max(start, stop) - self._first : step].copy()
            return self._take(np.arange(start, stop, step))
        return self._take(np.asarray(rows))[()]

    def _take(self, tickets: NDArray[np.int64]) -> NDArray[Any]:
        if tickets.size and not -self._rows <= tickets.min() <= tickets.max() < self._rows:
            raise IndexError(f"tickets: expected below {self._rows}, received {tickets.max()}")
        tickets = np.where(tickets < 0, tickets + self._rows, tickets)
        found = self._data[np.maximum(tickets - self._first, 0)]
        old = tickets < self._first
        return np.where(old, np.asarray(self._blank, self._data.dtype), found) if old.any() else found


class _Words:
    """A column of a few different words: each word is kept once, and its number in each row."""

    def __init__(self, keep: int) -> None:
        self._numbers = Column(np.int32, keep, blank=-1)
        self._of: dict[str, int] = {}

    def extend(self, rows: NDArray[np.str_]) -> None:
        words, where = np.unique(rows, return_inverse=True)
        numbers = [self._of.setdefault(word, len(self._of)) for word in words.tolist()]
        self._numbers.extend(np.array(numbers, np.int32)[where.reshape(-1)])

    def skip(self, rows: int) -> None:
        self._numbers.skip(rows)

    def take(self, rows: NDArray[np.int64] | slice) -> NDArray[np.str_]:
        return np.array([*self._of, ""], SCALARS["source"])[
            self._numbers[rows]
        ]  # the last, of number -1, is blank


class _Ring:
    """The last `window` rows of an array; row r lies at r % window, and storage grows up to the window."""

    def __init__(self, window: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.window = window
        self.rows = 0
        self._data = np.zeros((min(window, 256), *shape), dtype=dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self._data.shape[1:]

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
    """Scalars and (repaired) mappings of the last `window` evaluations of each problem.

    The window is `WINDOW_ROWS` rows, fewer where they would take more than `WINDOW_BYTES`. The last profiles are kept,
    too: those of as many rows, fewer where they would take more than `PROFILE_BYTES`. Scalars more than `SLACK` rows
    older than the window are blank, so that memory has an end; those of several problems, whose windows end at
    different tickets, are all kept. No method may depend on rows before the window: a resumed run does not have them.
    """

    def __init__(self, problems: Sequence[Problem], window_rows: int = WINDOW_ROWS) -> None:
        self._mappings: list[_Ring] = []
        self._profiles: list[_Ring] = []
        for problem in problems:
            shape = problem.space.shape
            dtype = np.int8 if problem.space.most_choices <= np.iinfo(np.int8).max else np.int16
            row_bytes = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
            window = max(1024, min(window_rows, WINDOW_BYTES // len(problems) // row_bytes))
            self._mappings.append(_Ring(window, shape, dtype))
            parts = len(problem.parts) if isinstance(problem, HasParts) else 0
            most = PROFILE_BYTES // len(problems) // max(1, 4 * parts)
            self._profiles.append(_Ring(max(1024, min(window, most)), (parts,), np.float32))
        keep = self.window + SLACK if len(problems) == 1 else MOST_ROWS
        self._scalars = {name: Column(dtype, keep) for name, dtype in SCALARS.items() if name != "source"}
        self._sources = _Words(keep)
        self._row = Column(np.int64, keep, blank=-1)
        self._profile = Column(np.int64, keep, blank=-1)  # where in its ring; -1: it has none

    def __len__(self) -> int:
        return len(self._row)

    @property
    def window(self) -> int:
        """Number of evaluations with kept mappings, per problem."""
        return min(ring.window for ring in self._mappings)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """(N, H) of the mappings of each problem."""
        return [ring.shape for ring in self._mappings]

    def append(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Add rows in ticket order; ValueError where the next ticket is another."""
        if len(proposals) and proposals.tickets[0] != len(self):
            raise ValueError(f"ticket: expected {len(self)}, received {proposals.tickets[0]}")
        ring = self._mappings[proposals.problem]
        self._row.extend(ring.rows + np.arange(len(proposals)))
        ring.extend(evaluation.repaired)
        self._profile.extend(self._keep(proposals.problem, evaluation))
        for name in ("reward", "cost", "speedup", "epsilon", "status", "partial"):
            self._scalars[name].extend(getattr(evaluation, name))
        self._scalars["problem"].extend(np.full(len(proposals), proposals.problem))
        self._sources.extend(proposals.source)

    def _keep(self, problem: int, evaluation: Evaluation) -> NDArray[np.int64]:
        """Keep the profiles of an evaluation; where they lie in the ring, int64 [B], -1 for rows without one."""
        where = np.full(len(evaluation), -1)
        if evaluation.parts is None:
            return where
        ring, known = self._profiles[problem], ~np.isnan(evaluation.parts).all(axis=1)
        if evaluation.parts.shape[1:] != ring.shape:
            raise ValueError(f"parts: expected {ring.shape[0]} a row, received {evaluation.parts.shape[1]}")
        where[known] = ring.rows + np.arange(known.sum())
        ring.extend(evaluation.parts[known])
        return where

    def skip(self, rows: int) -> None:
        """Begin an empty archive at ticket `rows`: what came before is blank (reward NaN) and older than the window."""
        for column in (*self._scalars.values(), self._row, self._profile):
            column.skip(rows)
        self._sources.skip(rows)

    def column(self, name: str) -> Column:
        """A scalar of every evaluation so far, by ticket; names as in `SCALARS`, but for "source" (see `sources`)."""
        return self._scalars[name]

    def sources(self, tickets: NDArray[np.int64] | slice) -> NDArray[np.str_]:
        """The sources of some evaluations, str [B]."""
        return self._sources.take(tickets)

    def mappings(self, tickets: NDArray[np.int64]) -> Mapping16:
        """int16 [B, N, H] of evaluations of one problem; ValueError where they are mixed or too old."""
        ring = self._mappings[self._one_problem(tickets)]
        return ring.take(self._row[tickets]).astype(np.int16)

    def parts(self, tickets: NDArray[np.int64]) -> Profiles:
        """float32 [B, P], the profiles of evaluations of one problem; all NaN where one has none or it is too old.

        ValueError where they are mixed.
        """
        number = self._one_problem(tickets)
        ring, of = self._profiles[number], self._mappings[number]
        at = self._profile[tickets]
        kept = (at >= max(0, ring.rows - ring.window)) & (self._row[tickets] >= of.rows - of.window)
        found = np.full((len(at), *ring.shape), np.nan, np.float32)
        found[kept] = ring.take(at[kept])
        return found

    def _one_problem(self, tickets: NDArray[np.int64]) -> int:
        """The problem that all of these evaluations are of; ValueError where they are mixed."""
        problems = np.unique(self.column("problem")[tickets])
        if len(problems) > 1:
            raise ValueError(f"tickets: expected one problem, received {problems.tolist()}")
        return int(problems[0]) if len(problems) else 0

    def evaluation(self, ticket: int) -> Evaluation:
        """One archived evaluation as a batch of one row."""
        at = slice(ticket, ticket + 1)
        fields = {
            n: self.column(n)[at] for n in ("reward", "cost", "speedup", "epsilon", "status", "partial")
        }
        rows = np.array([ticket])
        parts = self.parts(rows)
        return Evaluation(
            **fields, repaired=self.mappings(rows), parts=None if np.isnan(parts).all() else parts
        )


START = "start"
"""The source of a start mapping, which the loop proposes."""


@dataclass(frozen=True)
class Proposals:
    """Mappings that a method wants measured, all for one problem.

    Attributes:
        mapping: int16 [B, N, H]; -1 = unused.
        source: str [B], what proposed each ("network", "boltzmann", "sac", START …).
        problem: index of the problem in the run.
        ticket: int64 [B]; methods leave it out, the loop numbers the rows.
        known: how many evaluations the method had got when it proposed these; the loop sets it.
    """

    mapping: Mapping16
    source: NDArray[np.str_]
    problem: int = 0
    ticket: NDArray[np.int64] | None = None
    known: int = 0

    def __len__(self) -> int:
        return len(self.mapping)

    def numbered(self, first: int, known: int = 0) -> Proposals:
        """The same rows with tickets `first`, `first` + 1, …, and with `known`."""
        return replace(self, ticket=np.arange(first, first + len(self), dtype=np.int64), known=known)

    @property
    def tickets(self) -> NDArray[np.int64]:
        """int64 [B]; ValueError before the loop has numbered the rows."""
        if self.ticket is None:
            raise ValueError("proposals: expected numbered rows, received rows without tickets")
        return self.ticket

    def rows(self, index: slice) -> Proposals:
        """Some of the rows."""
        ticket = None if self.ticket is None else self.ticket[index]
        return replace(self, mapping=self.mapping[index], source=self.source[index], ticket=ticket)


def proposals(mapping: Mapping16, source: str | Sequence[str], problem: int = 0) -> Proposals:
    """Proposals [B, N, H] from one source, or with one source per row. ValueError if there are not B sources."""
    names = [source] * len(mapping) if isinstance(source, str) else list(source)
    if len(names) != len(mapping):
        raise ValueError(f"source: expected {len(mapping)} names, received {len(names)}")
    return Proposals(np.ascontiguousarray(mapping, dtype=np.int16), np.array(names, dtype=np.str_), problem)
