"""Proposals: mappings that a method wants measured, the source and the ticket of each.

A *ticket* is the number of an evaluation in its run, counted from 0. It is also the evaluation's place in the
archive. Methods get their results strictly in ticket order, in whatever order the executor measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16

START = "start"
"""The source of a start mapping, which the loop proposes."""


@dataclass(frozen=True)
class Proposals:
    """Mappings that a method wants measured, all for one problem.

    Attributes:
        mapping: int16 [B, N, H]; -1 = unused.
        source: str [B], what proposed each ("network", "boltzmann", "learner", START …).
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
