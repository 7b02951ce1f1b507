"""What a linear program of a step says of copies to the host and back: what is gone at a moment, and who waits.

All rows hold for the true simulation. A copy to the host begins when the last op of the forward pass that reads the
value has ended; before a run of that pass nothing is gone whose copy has not ended by then. In the backward pass, what
is not there while an op runs is planned to be copied after it, before the pass ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from egrl_training.simulator.exact.facts import NEVER, Facts
from egrl_training.simulator.tables import FORWARD, Ints, Tables
from hwsim.linear_program import Floats, Numbers, Sheet

CUTS = 16
"""Moments of either pass, at most, for which a row says that what waits from then on is copied by its end."""


@dataclass(frozen=True)
class HostRows:
    """Writes rows of one program.

    Attributes:
        away: int64 [S], variables: the storage is kept on the host; -1 where it may not be.
        forward: int64 [K], variables: an op of phase `either` runs in the forward pass; -1 for others.
        later: variables int64 [n] and seconds float64 [n]: ops outside the phase `backward` that run in the backward
            pass, and what they take there.
    """

    t: Tables
    facts: Facts
    sheet: Sheet
    away: Numbers
    forward: Numbers
    later: tuple[Numbers, Floats]
    limit_bytes: int

    def waits(self, unit: float) -> None:
        """Two variables, at the cost of seconds times `unit`: what each pass waits for copies.

        After a moment of the forward pass, the copies of what is read later take place one after another; before a
        moment of the backward pass, those of what was read earlier.
        """
        t, facts = self.t, self.facts
        may = np.flatnonzero(self.away >= 0)
        most = float(t.to_host_s[may].sum())
        wait = self.sheet.add(1, 0, 1, most * unit)
        last = facts.free[may] - 1
        for cut in _cuts(last, t.to_host_s[may]):
            left = np.flatnonzero(last >= cut)
            ops, seconds = self._forward_seconds(cut + 1, t.turn)
            row = self.sheet.row(1, -np.inf, seconds)
            self._put(row, self.away[may[left]], t.to_host_s[may[left]])
            self._put(row, self.forward[ops], -t.seconds[ops])
            self._put(row, wait, -most)
        most = float(t.from_host_s[may].sum())
        wait = self.sheet.add(1, 0, 1, most * unit)
        first = np.where(facts.first[may] == NEVER, len(t.phase) - t.turn, facts.first[may])
        for cut in _cuts(first, t.from_host_s[may]):
            read = np.flatnonzero(first <= cut)
            row = self.sheet.row(1, -np.inf, float(t.seconds[t.turn : t.turn + cut].sum()))
            self._put(row, self.away[may[read]], t.from_host_s[may[read]])
            self._put(row, self.later[0], -self.later[1])
            self._put(row, wait, -most)

    def gone_by(self, row: Numbers, k: int, saved: Ints) -> None:
        """Take off a row of bytes what of `saved` is gone before op k of the forward pass; k = turn: after its end."""
        ops, seconds = self._forward_seconds(0, k)
        self._gone(
            row,
            saved,
            self.t.to_host_s,
            np.inf if k == self.t.turn else seconds,
            self.forward[ops],
            self.t.seconds[ops],
        )

    def gone_after(self, row: Numbers, at: int, saved: Ints) -> None:
        """The same of what comes back while op `at` of the backward pass runs, or later."""
        seconds = float(self.t.seconds[self.t.turn + at :].sum())
        self._gone(row, saved, self.t.from_host_s, seconds, *self.later)

    def _forward_seconds(self, begin: int, end: int) -> tuple[Ints, float]:
        """Of these ops of the forward pass: those that may not run in it, and the seconds of the others."""
        ops = np.arange(begin, end)
        always = self.t.phase[ops] == FORWARD
        return ops[~always], float(self.t.seconds[ops[always]].sum())

    def _gone(
        self, row: Numbers, saved: Ints, copy_s: Floats, seconds: float, ops: Numbers, more: Floats
    ) -> None:
        """Take off what is away of `saved`, but no more than is copied in `seconds` and, if `ops` run, `more`."""
        saved = saved[self.away[saved] >= 0]
        if not len(saved):
            return
        size = self.t.size_bytes[saved] / self.limit_bytes
        if copy_s[saved].sum() <= seconds:
            self._put(row, self.away[saved], -size)
            return
        gone = self.sheet.add(1, 0, float(size.sum()))
        self._put(row, gone, -1.0)
        below = self.sheet.row(1, -np.inf, 0)
        self._put(below, gone, 1.0)
        self._put(below, self.away[saved], -size)
        rate = float((size / copy_s[saved]).max())  # the same for all
        below = self.sheet.row(1, -np.inf, rate * seconds)
        self._put(below, gone, 1.0)
        self._put(below, ops, -rate * more)

    def _put(self, row: Numbers, columns: Numbers, values: Floats | float) -> None:
        self.sheet.put(np.repeat(row, len(columns)), columns, values)


def _cuts(moment: Ints, seconds: Floats) -> Ints:
    """Moments between which about equal seconds of copies lie, with the first and the last."""
    order = np.argsort(moment, kind="stable")
    share = np.cumsum(seconds[order]) / seconds.sum()
    at = np.searchsorted(share, np.linspace(0, 1, CUTS))
    return np.unique(moment[order[np.minimum(at, len(order) - 1)]])
