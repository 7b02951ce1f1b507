"""A linear program of which every plan that fits is a solution: the least seconds, with rows for moments that bind.

Variables in 0..1: `saved` per decision; `again` per op that may run in the backward pass; `forward` per op of phase
`either`, True if it runs in the forward pass; `needed` per storage that is saved if something needs it; `away` per
value that is saved on the host. At a moment of the backward pass `done`, a copy of `again`: the op has run by then.

Rows: what an op of the backward pass reads is saved, or its maker runs again. If an op runs again, each of its inputs
is saved or made again. For moments that were added: what is in memory is not above the limit. What is read both before
and after a moment is there in any case. What is read only after it is there if it is saved, or if its maker has had to
run by then for another op. What is saved only for ops that run again is there until the first of them has run. So the
bound is that of a relaxation. It leaves out how much longer an input lives if several ops that run again read it and
one of these runs late, and some of what is made and freed between two ops of the backward pass.

What is on the host (`host.py`) counts as gone from its last reader in the forward pass to its first one in the backward
pass, but at no moment is more gone than could have been copied by then, or can be copied back after it.

With `saved` in whole numbers all others take whole numbers by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from egrl_training.simulator.exact.facts import NEVER, Facts
from egrl_training.simulator.exact.host import HostRows
from egrl_training.simulator.tables import EITHER, Bools, Ints, Tables
from hwsim.linear_program import Floats, LinearProgram, Numbers, Sheet

OBJECTIVE = 1e4
"""The program is scaled so that the seconds that every plan takes are this many units."""


@dataclass(frozen=True)
class Moment:
    """A moment of the backward pass that has a row.

    Attributes:
        at: the number of an op of the backward pass.
        op: -1: while that op runs. Else an op of the forward pass: while it runs again because the op `at` needs it.
        lowest: ops of the forward pass before this one are not counted as done, which is a weaker row of fewer
            variables.
    """

    at: int
    op: int = -1
    lowest: int = 0


@dataclass
class _Columns:
    """Where the variables are; -1 where there is none.

    Attributes:
        saved: int64 [S]; again, forward: int64 [K]; needed, away: int64 [S].
    """

    saved: Numbers
    again: Numbers
    forward: Numbers
    needed: Numbers
    away: Numbers


@dataclass
class Builder:
    """Writes the program of a step down, for any set of moments."""

    t: Tables
    facts: Facts
    limit_bytes: int
    made_of: list[Ints] = field(init=False)
    outputs_of: list[Ints] = field(init=False)

    def __post_init__(self) -> None:
        t = self.t
        can = np.zeros(len(t.phase), np.bool_)
        can[t.maker[t.decision >= 0]] = True
        self.can: Bools = can
        """bool [K], True for ops that may run again."""
        self.reader = np.repeat(np.arange(len(t.phase)), np.diff(t.input_first))
        decided = t.decision[t.outputs] >= 0
        makers = np.repeat(np.arange(len(t.phase)), np.diff(t.output_first))
        self.single = np.bincount(makers[decided], minlength=len(t.phase)) == 1
        """bool [K], True for ops with one output that has a decision."""
        self.may: Bools = t.to_host_s > 0 if len(t.to_host_s) else np.zeros(len(t.maker), np.bool_)
        """bool [S], True for storages that may be kept on the host."""
        self.direct = (self.facts.last != NEVER) & (t.maker >= 0) & (t.maker < t.turn)
        """bool [S], True for storages of the forward pass that the backward pass itself reads."""
        self.only_again = (t.decision >= 0) & ~self.direct & ~t.is_output
        """bool [S], True for storages with a decision that only ops that run again read."""
        edge = np.flatnonzero(self.only_again[t.inputs] & self.can[self.reader])
        self.waits: dict[int, list[int]] = {int(s): [] for s in np.unique(t.inputs[edge])}
        """These storages with the ops that read them."""
        for s, k in zip(t.inputs[edge], self.reader[edge], strict=True):
            self.waits[int(s)].append(int(k))

    def program(self, moments: list[Moment]) -> LinearProgram:
        """The program with rows for the forward pass and for these moments of the backward pass."""
        sheet = Sheet()
        columns = self._columns(sheet)
        self._needs(sheet, columns)
        both = self._either(sheet, columns)
        self._forced(sheet, columns)
        host = self._host_rows(sheet, columns, *both)
        self._forward_rows(sheet, columns, host)
        done: dict[tuple[int, int], Numbers] = {}
        for moment in moments:
            if moment.op < 0:
                self._backward_row(sheet, columns, moment, done, host)
            else:
                self._again_row(sheet, columns, moment, done, host)
        sheet.add(1, 1.0, 1.0, OBJECTIVE)
        return sheet.finish()

    def plan_of(self, solution: Floats) -> tuple[Floats, Floats]:
        """float64 [N] each: how much of each value is saved in a solution, and how much of it on the host."""
        decided = np.flatnonzero(self.t.decision >= 0)
        away, may = np.zeros(len(decided)), self.may[decided]
        away[may] = solution[len(decided) :][: may.sum()]
        order = np.argsort(self.t.decision[decided])
        return solution[: len(decided)][order], away[order]

    def _columns(self, sheet: Sheet) -> _Columns:
        t, unit = self.t, OBJECTIVE / self.facts.base_s
        decided, again = np.flatnonzero(t.decision >= 0), np.flatnonzero(self.can)
        either = np.flatnonzero(t.phase == EITHER)
        forced = np.flatnonzero(self.facts.forced & ~self.direct & (t.size_bytes > 0))
        storages, ops = len(t.maker), len(t.phase)
        found = _Columns(*(np.full(n, -1) for n in (storages, ops, ops, storages, storages)))
        found.saved[decided] = sheet.add(len(decided), 0, 1, integer=True)
        found.away[self.may] = sheet.add(int(self.may.sum()), 0, 1, integer=True)
        cost = np.where(
            t.phase == EITHER, t.seconds, t.again_s
        )  # one of phase `either` may run in one pass only
        found.again[again] = sheet.add(len(again), 0, 1, cost[again] * unit)
        found.forward[either] = sheet.add(len(either), 0, 1, t.seconds[either] * unit)
        found.needed[forced] = sheet.add(len(forced), 0, 1)
        return found

    def _needs(self, sheet: Sheet, c: _Columns) -> None:
        """Needed values are saved or made again, by the backward pass's own ops and by those that run again."""
        t = self.t
        needed = np.flatnonzero(self.direct & (t.decision >= 0))
        rows = sheet.row(len(needed), 1, np.inf)
        sheet.put(rows, c.saved[needed], 1)
        sheet.put(rows, c.again[t.maker[needed]], 1)
        edge = np.flatnonzero(self.can[self.reader] & (t.decision[t.inputs] >= 0))
        rows, read = sheet.row(len(edge), 0, np.inf), t.inputs[edge]
        sheet.put(rows, c.saved[read], 1)
        sheet.put(rows, c.again[t.maker[read]], 1)
        sheet.put(rows, c.again[self.reader[edge]], -1)
        # What nothing needs is not saved: so it is in canonical plans.
        only = np.flatnonzero(self.only_again)
        place = np.full(len(t.maker), -1)
        place[only] = sheet.row(len(only), 0, np.inf)
        sheet.put(place[only], c.saved[only], -1)
        edge = edge[self.only_again[t.inputs[edge]]]
        sheet.put(place[t.inputs[edge]], c.again[self.reader[edge]], 1)

    def _either(self, sheet: Sheet, c: _Columns) -> tuple[Numbers, Floats]:
        """An op of phase `either` runs in the forward pass if an output is saved or another such op there reads it.

        Returns what `_both` does.
        """
        t = self.t
        maker = np.repeat(np.arange(len(t.phase)), np.diff(t.output_first))
        made = np.flatnonzero((t.phase[maker] == EITHER) & (t.decision[t.outputs] >= 0))
        rows = sheet.row(len(made), 0, np.inf)
        sheet.put(rows, c.forward[maker[made]], 1)
        sheet.put(rows, c.saved[t.outputs[made]], -1)
        always = np.flatnonzero((t.phase[maker] == EITHER) & (self.facts.forced & self.direct)[t.outputs])
        rows = sheet.row(len(always), 1, np.inf)
        sheet.put(rows, c.forward[maker[always]], 1)
        both = self._both(sheet, c)
        source = t.maker[t.inputs]
        edge = np.flatnonzero((source >= 0) & (t.phase[source] == EITHER) & (self.reader < t.turn))
        edge = edge[t.phase[self.reader[edge]] == EITHER]
        rows = sheet.row(len(edge), 0, np.inf)
        sheet.put(rows, c.forward[source[edge]], 1)
        sheet.put(rows, c.forward[self.reader[edge]], -1)
        return both

    def _host_rows(self, sheet: Sheet, c: _Columns, both: Numbers, more: Floats) -> HostRows | None:
        """What is on the host, and who waits; None without a host. `both` and `more` are what `_both` returns."""
        if not self.may.any():
            return None
        rows = sheet.row(int(self.may.sum()), -np.inf, 0)
        sheet.put(rows, c.away[self.may], 1)
        sheet.put(rows, c.saved[self.may], -1)
        t, again = self.t, np.flatnonzero(self.can)
        cost = np.where(t.phase == EITHER, t.seconds, t.again_s)[again]
        later = np.concatenate([c.again[again], both]), np.concatenate([cost, more])
        host = HostRows(t, self.facts, sheet, c.away, c.forward, later, self.limit_bytes)
        host.waits(OBJECTIVE / self.facts.base_s)
        return host

    def _both(self, sheet: Sheet, c: _Columns) -> tuple[Numbers, Floats]:
        """An op of phase `either` that runs in both passes takes other seconds in the second.

        Returns the variables that say so, and how many seconds more.
        """
        t, unit = self.t, OBJECTIVE / self.facts.base_s
        found: list[tuple[Numbers, Floats]] = []
        more = np.where((t.phase == EITHER) & self.can, t.again_s - t.seconds, 0.0) * unit
        for ops, sides in (
            (np.flatnonzero(more < 0), ((0, 1), (1, 0))),
            (np.flatnonzero(more > 0), ((1, 1),)),
        ):
            both = sheet.add(len(ops), 0, 1, more[ops])
            found.append((both, more[ops] / unit))
            for forward, again in sides:
                # Two rows `both` <= each, or one row `both` >= their sum - 1.
                upper = len(sides) == 2
                rows = sheet.row(len(ops), -np.inf if upper else -1, 0 if upper else np.inf)
                sheet.put(rows, both, 1)
                if forward:
                    sheet.put(rows, c.forward[ops], -1)
                if again:
                    sheet.put(rows, c.again[ops], -1)
        return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])

    def _forced(self, sheet: Sheet, c: _Columns) -> None:
        """What must not be made twice is saved if an op that runs again reads it."""
        t = self.t
        edge = np.flatnonzero(self.can[self.reader] & (c.needed[t.inputs] >= 0))
        rows = sheet.row(len(edge), 0, np.inf)
        sheet.put(rows, c.needed[t.inputs[edge]], 1)
        sheet.put(rows, c.again[self.reader[edge]], -1)

    def _forward_rows(self, sheet: Sheet, c: _Columns, host: HostRows | None) -> None:
        """What is saved adds to what the forward pass itself holds, from when that no longer needs it.

        Later ops see all that earlier ones do, so that only an op with less room than all later ones needs a row.
        """
        t = self.t
        room = self.limit_bytes - self.facts.forward_bytes
        least = np.minimum.accumulate(room[::-1])[::-1]
        binding = np.flatnonzero(room < np.concatenate([least[1:], [np.iinfo(np.int64).max]]))
        extra = np.flatnonzero(((c.saved >= 0) | (c.needed >= 0)) & ~t.is_output)
        column = np.where(c.saved[extra] >= 0, c.saved[extra], c.needed[extra])
        for k in binding:
            there = self.facts.free[extra] <= k
            row = sheet.row(1, -np.inf, room[k] / self.limit_bytes)
            size = t.size_bytes[extra[there]] / self.limit_bytes
            sheet.put(np.repeat(row, there.sum()), column[there], size)
            if host is not None:
                host.gone_by(row, int(k), extra[there])

    def _backward_row(
        self,
        sheet: Sheet,
        c: _Columns,
        moment: Moment,
        known: dict[tuple[int, int], Numbers],
        host: HostRows | None,
    ) -> None:
        """While an op of the backward pass runs."""
        t, facts = self.t, self.facts
        room = self.limit_bytes - facts.backward_bytes[moment.at]
        later = np.flatnonzero((t.decision >= 0) & (facts.first > moment.at) & ~t.is_output)
        done = self._done(sheet, c, moment.at, moment.lowest, known)
        row = sheet.row(1, -np.inf, room / self.limit_bytes)
        self._put(sheet, c, row, later, done[t.maker[later]])
        self._waiting(sheet, c, row, [(moment.at, done)] * len(done))
        if host is not None:
            host.gone_after(row, moment.at + 1, later)

    def _again_row(
        self,
        sheet: Sheet,
        c: _Columns,
        moment: Moment,
        known: dict[tuple[int, int], Numbers],
        host: HostRows | None,
    ) -> None:
        """While an op of the forward pass runs again, or at the same place in the order if it does not run then."""
        t, facts, k = self.t, self.facts, moment.op
        room = self.limit_bytes - facts.between_bytes[moment.at]
        later = np.flatnonzero((t.decision >= 0) & (facts.first >= moment.at) & ~t.is_output)
        now = self._done(sheet, c, moment.at, moment.lowest, known)
        before = self._done(sheet, c, moment.at - 1, moment.lowest, known)
        row = sheet.row(1, -np.inf, room / self.limit_bytes)
        early = np.arange(len(now)) <= k
        done = np.where(early, now, before)
        self._put(sheet, c, row, later, done[t.maker[later]])
        if host is not None:
            host.gone_after(row, moment.at, later)
        sets = [(moment.at, now), (moment.at - 1, before)]
        self._waiting(sheet, c, row, [sets[op > k] for op in range(len(now))])
        outputs = t.outputs[t.output_first[k] : t.output_first[k + 1]]
        inputs = t.inputs[t.input_first[k] : t.input_first[k + 1]]
        brief = outputs[(facts.first[outputs] == NEVER) | (t.decision[outputs] < 0)]
        # Inputs that the backward pass itself reads at or after the moment are counted already.
        read = inputs[(facts.last[inputs] < moment.at) & ~t.is_output[inputs]]
        size = t.size_bytes[brief].sum() + t.size_bytes[read].sum() + t.scratch_bytes[k]
        if now[k] >= 0:
            sheet.put(row, now[k : k + 1], size / self.limit_bytes)
            if before[k] >= 0:
                sheet.put(row, before[k : k + 1], -size / self.limit_bytes)
                self._reason(sheet, c, moment.at - 1, k, before)

    def _waiting(self, sheet: Sheet, c: _Columns, row: Numbers, sets: list[tuple[int, Numbers]]) -> None:
        """Add what is saved only for ops that run again, and waits for the first of them.

        It is there if it is saved and none of them has run. `sets` has K pairs: the moment by which an op is asked to
        have run, and the variables that say so of all ops.
        """
        t = self.t
        there: dict[int, int] = {}
        for s, readers in self.waits.items():
            done = [sets[k][1][k] for k in readers]
            if any(column < 0 <= sets[k][0] for k, column in zip(readers, done, strict=True)):
                continue  # it is not known of all of them
            there[s] = int(sheet.add(1, 0, 1)[0])
            rows = sheet.row(1, 0, np.inf)
            columns = np.array([there[s], *(column for column in done if column >= 0)])
            sheet.put(np.repeat(rows, len(columns)), columns, 1)
            sheet.put(rows, c.saved[s : s + 1], -1)
            if c.away[s] >= 0:
                sheet.put(rows, c.away[s : s + 1], 1)
        for k in {k for s in there for k in self.waits[s] if sets[k][1][k] >= 0}:
            self._reason(sheet, c, sets[k][0], k, sets[k][1])
        storages = np.array(list(there), np.int64)
        size = t.size_bytes[storages] / self.limit_bytes
        sheet.put(np.repeat(row, len(there)), np.array(list(there.values()), np.int64), size)

    def _reason(self, sheet: Sheet, c: _Columns, at: int, k: int, done: Numbers) -> None:
        """An op has run by a moment only if an output was read by then and is not saved, or if a reader has run."""
        t, facts = self.t, self.facts
        outputs = t.outputs[t.output_first[k] : t.output_first[k + 1]]
        direct = outputs[self.direct[outputs] & (facts.first[outputs] <= at) & (t.decision[outputs] >= 0)]
        readers = done[np.unique(self.reader[np.isin(t.inputs, outputs)])]
        row = sheet.row(1, -np.inf, len(direct))
        sheet.put(row, done[k : k + 1], 1)
        sheet.put(np.repeat(row, len(direct)), c.saved[direct], 1)
        sheet.put(np.repeat(row, (readers >= 0).sum()), readers[readers >= 0], -1)

    def _put(self, sheet: Sheet, c: _Columns, row: Numbers, storages: Ints, done: Numbers) -> None:
        """Add the bytes of storages to a row: each is there if it is saved, or if its maker has run again (or -1)."""
        t = self.t
        size = t.size_bytes[storages] / self.limit_bytes
        # An op with one output does not run again if that is saved, so that both can be added up.
        alone = self.single[t.maker[storages]] | (done < 0)
        sheet.put(np.repeat(row, alone.sum()), c.saved[storages[alone]], size[alone])
        both = alone & (done >= 0)
        sheet.put(np.repeat(row, both.sum()), done[both], size[both])
        among = storages[~alone]
        there = sheet.add(len(among), 0, 1)
        for column in (c.saved[among], done[~alone]):
            rows = sheet.row(len(among), 0, np.inf)
            sheet.put(rows, there, 1)
            sheet.put(rows, column, -1)
        sheet.put(np.repeat(row, len(among)), there, size[~alone])

    def _done(
        self, sheet: Sheet, c: _Columns, at: int, lowest: int, known: dict[tuple[int, int], Numbers]
    ) -> Numbers:
        """int64 [K], the variable that says whether an op has run again by a moment; -1 if none does."""
        if (at, lowest) not in known:
            known[at, lowest] = self._new_done(sheet, c, at, lowest)
        return known[at, lowest]

    def _new_done(self, sheet: Sheet, c: _Columns, at: int, lowest: int) -> Numbers:
        t, facts = self.t, self.facts
        if at < 0:
            return np.full(len(t.phase), -1)
        number = np.arange(len(t.phase))
        by_then = self.direct & (facts.first <= at) & (t.decision >= 0)
        # An op with one output that was read by then has run if it ever does: its `again` is its `done`.
        done = np.full(len(t.phase), -1)
        asked = np.zeros(len(t.phase), np.bool_)
        asked[t.maker[by_then]] = True
        done[asked & self.single] = c.again[asked & self.single]
        is_new = self.can & (done < 0) & (number >= lowest) & (number < t.turn)
        done[is_new] = sheet.add(int(is_new.sum()), 0, 1)
        needed = np.flatnonzero(by_then & is_new[t.maker])
        rows = sheet.row(len(needed), 1, np.inf)
        sheet.put(rows, c.saved[needed], 1)
        sheet.put(rows, done[t.maker[needed]], 1)
        source = t.maker[t.inputs]
        edge = np.flatnonzero((done[self.reader] >= 0) & (t.decision[t.inputs] >= 0) & (source >= 0))
        edge = edge[is_new[source[edge]]]
        rows = sheet.row(len(edge), 0, np.inf)
        sheet.put(rows, c.saved[t.inputs[edge]], 1)
        sheet.put(rows, done[source[edge]], 1)
        sheet.put(rows, done[self.reader[edge]], -1)
        return done
