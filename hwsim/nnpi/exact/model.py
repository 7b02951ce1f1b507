"""The relaxation of a whole inference as a mixed-integer program.

`docs/explanations/exact-proof.md` proves that it is one.

Source: a configuration formulation per op (`hwsim/nnpi/exact/columns.py`), one capacity row per memory and step,
and a fluid model of the prefetching DMA, which may choose what it fetches when, and may give up what it holds.

Deviations: an op with too many joint placements gets the roofline as linear rows instead of columns; that is as
tight where all placements are whole, and weaker between them.

Units inside: seconds times `scale`, bytes as shares of the capacity of the memory they are held in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.linear_program import Draft, LinearProgram, Terms
from hwsim.nnpi.exact.columns import (
    ACTIVATION,
    WEIGHT,
    Columns,
    ColumnsOf,
    Scope,
    scope,
    slope,
    streams,
    watched,
)
from hwsim.nnpi.tables import Tables, units
from hwsim.problem import Floats, Mapping16


def live_sets(tables: Tables) -> list[list[int]]:
    """For each step the activations held in it."""
    live: list[list[int]] = []
    held: set[int] = set()
    for i in range(len(tables.weight_bytes)):
        if tables.activation_bytes[i] > 0:
            held.add(i)
        live.append(sorted(held))
        held.difference_update(
            int(j) for j in tables.free_op[tables.free_start[i] : tables.free_start[i + 1]]
        )
    return live


def largest(live: list[list[int]]) -> list[bool]:
    """Whether a step's live set is in none of its neighbours' (one of several equal ones stays)."""
    out = []
    for i, held in enumerate(live):
        mine = set(held)
        after = set(live[i + 1]) if i + 1 < len(live) else None
        before = set(live[i - 1]) if i else None
        inside = (after is not None and mine <= after) or (before is not None and mine < before)
        out.append(not inside)
    return out


INFINITY = float("inf")


@dataclass(frozen=True)
class Model:
    """A program and how to read its solution.

    Attributes:
        program: what HiGHS solves; its objective is seconds * scale.
        scale: see there.
        first: int64 [N, 2], the variable "tensor lies in memory 0" (the other memories follow), -1 = dead.
        levels: L.
    """

    program: LinearProgram
    scale: float
    first: NDArray[np.int64]
    levels: int

    def mapping(self, solution: Floats) -> Mapping16:
        """The canonical mapping int16 [N, 2] nearest to a solution float64 [V]; it may still need rectifying."""
        out = np.full(self.first.shape, -1, np.int16)
        for i, head in zip(*np.nonzero(self.first >= 0), strict=True):
            at = int(self.first[i, head])
            out[i, head] = int(np.argmax(solution[at : at + self.levels]))
        return out

    def rounded(self, shares: Floats, colours: NDArray[np.int64]) -> Mapping16:
        """A canonical mapping int16 [N, 2] whose tensors lie in each memory as often as shares float64 [V] say.

        Tensors whose variables have equal colours int64 [V] are alike and have equal shares: where a third of them
        belongs into a memory, every third of them, in execution order, goes there. It may still need rectifying.
        """
        out = np.full(self.first.shape, -1, np.int16)
        due: dict[bytes, Floats] = {}
        for i, head in zip(*np.nonzero(self.first >= 0), strict=True):
            here = slice(int(self.first[i, head]), int(self.first[i, head]) + self.levels)
            owed = due.setdefault(colours[here].tobytes(), np.zeros(self.levels))
            owed += shares[here]
            out[i, head] = chosen = int(np.argmax(owed))
            owed[chosen] -= 1.0
        return out


def build(
    tables: Tables,
    *,
    scale: float,
    tabulated: NDArray[np.bool_],
    reached_s: float,
    until: float = INFINITY,
) -> Model | None:
    """The relaxation of the problem of `tables`; None if it was not written down in time.

    Args:
        tables: the workload on the chip.
        scale: objective units a second.
        tabulated: bool [N], ops that get columns; the others get linear rows.
        reached_s: latency of some valid mapping. What only slower mappings would do is written down coarsely, so
            that no number is far larger than those that matter: the program bounds min(latency, reached_s).
        until: when to give up, by `time.monotonic`.
    """
    return _Writer(tables, scale, reached_s).write(tabulated, until)


class _Writer:
    """Writes one model; what one op adds is one method."""

    def __init__(self, tables: Tables, scale: float, reached_s: float) -> None:
        floor_s = float((tables.launch_s + tables.compute_s).sum())
        self.slack_s = max(2.0 * (reached_s - floor_s), 0.1 * floor_s)
        self.tables, self.scale, self.draft = tables, scale, Draft()
        self.ops, self.levels = len(tables.weight_bytes), len(tables.capacity_bytes)
        self.sizes = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1)
        self.room = float(tables.capacity_bytes[tables.into])
        self.first: NDArray[np.int64] = np.full((self.ops, 2), -1, np.int64)
        self.fluid = any(streams(tables, i) for i in range(self.ops))
        self.buffer, self.fetch = -1, -1
        self.used: list[Terms] = []
        self.columns = ColumnsOf(tables)

    def write(self, tabulated: NDArray[np.bool_], until: float) -> Model | None:
        self._add_placements()
        if self.fluid:
            self.buffer = self.draft.add(np.ones(self.ops))
            self.fetch = self.draft.add(np.ones(self.ops))
        for i in range(self.ops):
            if time.monotonic() > until:
                return None
            of = scope(self.tables, i)
            self.used.append(self._add_columns(of) if tabulated[i] else self._add_roofline(of))
        if self.fluid:
            self._add_dma()
        self._add_capacities()
        return Model(self.draft.finish(), self.scale, self.first, self.levels)

    def _add_placements(self) -> None:
        """One binary a tensor and memory; a tensor lies in one, and never where it alone would not fit, or where a pin
        forbids it; tensors of a unit lie in the same."""
        pinned = {tensor: memory for memory, tensors in units(self.tables) for tensor in tensors}
        for i, head in zip(*np.nonzero(self.sizes), strict=True):
            fits = self.sizes[i, head] <= self.tables.capacity_bytes
            fits[0] = True
            if (memory := pinned.get((int(i), int(head)), -1)) >= 0:
                fits = np.arange(self.levels) == memory
            at = self.first[i, head] = self.draft.add(fits, integer=True)
            self.draft.row_of(np.arange(at, at + self.levels), np.ones(self.levels), 1.0, 1.0)
        for memory, ((op, head), *others) in units(self.tables):
            for other in others if memory < 0 else ():
                for m in range(1, self.levels):
                    here, there = int(self.first[op, head]) + m, int(self.first[other]) + m
                    self.draft.row({here: 1.0, there: -1.0}, 0.0, 0.0)

    def _add_columns(self, of: Scope) -> Terms:
        """Columns of one op, tied to the placements of its tensors; the bytes it needs prefetched."""
        table = self._possible(of, self.columns(of))
        n = len(table.duration_s)
        longest_s = table.duration_s.min() + self.slack_s
        at = self.draft.add(np.ones(n), np.minimum(table.duration_s, longest_s) * self.scale)
        self.draft.row_of(np.arange(at, at + n), np.ones(n), 1.0, 1.0)
        for k, (op, head) in enumerate(of.tensors):
            for m in range(1, self.levels):
                chosen = at + np.nonzero(table.place[:, k] == m)[0]
                there = np.append(chosen, self.first[op, head] + m)
                self.draft.row_of(there, np.append(np.ones(len(chosen)), -1.0), 0.0, 0.0)
        if not self.fluid:
            return {}
        limit = dict(zip(range(at, at + n), -table.idle_bytes / self.room, strict=True))
        self.draft.row({**limit, self.fetch + of.op: 1.0}, -INFINITY, 0.0)
        return {at + int(c): float(table.used_bytes[c]) / self.room for c in np.nonzero(table.used_bytes)[0]}

    def _possible(self, of: Scope, table: Columns) -> Columns:
        """Without the columns whose own tensors, all held while the op runs, overflow a memory."""
        sizes = np.array([self.sizes[tensor] for tensor in of.tensors], np.int64)
        keep = np.ones(len(table.place), np.bool_)
        for m in range(1, self.levels):
            held = ((table.place == m) * sizes).sum(axis=1)
            keep &= held <= self.tables.capacity_bytes[m]
        return Columns(
            table.place[keep], table.duration_s[keep], table.used_bytes[keep], table.idle_bytes[keep]
        )

    def _add_roofline(self, of: Scope) -> Terms:
        """The roofline of one op as rows in the placements; the bytes it needs prefetched."""
        tables, draft, i = self.tables, self.draft, of.op
        ahead = self._ahead(i)
        moved = self._moved_bytes(of, ahead)
        compute = tables.compute_s[i]
        longest = float(sum(abs(v) for terms, const in moved for v in (*terms.values(), const)))
        starting_s = float(of.transfers.sum() * tables.access_s.max())
        most_s = (1.0 + tables.serial) * (longest * float(tables.inverse_bandwidth[0]) + starting_s)
        longest_s = min(most_s, self.slack_s)
        unit = max(longest_s * self.scale, 1.0)
        extra = draft.add(1.0, unit)
        steady = draft.add(1.0, (tables.launch_s + compute) * self.scale)
        draft.row({steady: 1.0}, 1.0, 1.0)
        for transfers, const_s in self._transfers(of, moved):
            for of_transfers, of_compute in ((1.0, tables.serial), (tables.serial, 1.0)):
                # The larger of both orders: launch + compute + extra is at least either.
                if of_transfers:
                    row = {v: c * (of_transfers * self.scale / unit) for v, c in transfers.items()}
                    left_s = compute - of_compute * compute - of_transfers * const_s
                    draft.row({**row, extra: -1.0}, -INFINITY, left_s * self.scale / unit)
        if self.fluid:
            for m in watched(tables):
                terms, const = moved[m]
                speed = float(tables.bandwidth_Bps[m]) / self.room
                row = {v: c / self.room for v, c in terms.items()}
                row[self.fetch + i] = row.get(self.fetch + i, 0.0) + 1.0
                row[extra] = -speed * unit / self.scale
                draft.row(row, -INFINITY, (tables.launch_s + compute) * speed - const / self.room)
        return {} if ahead is None else {ahead: 1.0}

    def _transfers(self, of: Scope, moved: list[tuple[Terms, float]]) -> Iterator[tuple[Terms, float]]:
        """Seconds as terms and a constant, the largest of which is what all transfers of the op take."""
        tables = self.tables
        streams: list[tuple[Terms, float]] = []
        for m, (terms, const) in enumerate(moved):
            rate, access_s = float(tables.inverse_bandwidth[m]), float(tables.access_s[m])
            stream = {v: c * rate for v, c in terms.items()}
            for tensor, size, count in zip(of.tensors, of.read_bytes, of.transfers, strict=True):
                # Inputs that may stay where they are count as if they did: less than they take, so still a bound.
                if access_s and not (size and tables.moves and tables.rearranges[of.op]):
                    there = int(self.first[tensor]) + m
                    stream[there] = stream.get(there, 0.0) + count * access_s
            streams.append((stream, const * rate))
        shared = tables.shared
        together: Terms = {}
        for stream, _ in streams if shared else ():
            for v, c in stream.items():
                together[v] = together.get(v, 0.0) + shared * c
        for stream, const_s in streams:
            terms = dict(together)
            for v, c in stream.items():
                terms[v] = terms.get(v, 0.0) + (1.0 - shared) * c
            yield terms, (1.0 - shared) * const_s + shared * sum(other for _, other in streams)

    def _ahead(self, i: int) -> int | None:
        """The variable "share of `into` that holds the op's weight when it begins", None if it cannot."""
        if not streams(self.tables, i):
            return None
        most = min(float(self.tables.weight_bytes[i]) / self.room, 1.0)
        ahead = self.draft.add(most)
        self.draft.row({ahead: 1.0, int(self.first[i, WEIGHT]): -most}, -INFINITY, 0.0)
        return ahead

    def _moved_bytes(self, of: Scope, ahead: int | None) -> list[tuple[Terms, float]]:
        """Bytes the op moves over each memory, as terms and a constant."""
        tables, i = self.tables, of.op
        weight = of.column(i, WEIGHT)
        moved: list[tuple[Terms, float]] = []
        for m in range(self.levels):
            terms: Terms = {}
            if weight is not None:
                terms[int(self.first[i, WEIGHT]) + m] = float(tables.weight_read_bytes[i])
            moved.append(({**terms, **self._inputs_and_output(of, m)}, 0.0))
        slowest, const = self._outside(of, moved[0][0])
        moved[0] = (slowest, const)
        # What the slowest memory moves crosses `via`, so its terms are complete before they are added there.
        if tables.cross:
            terms, other = moved[tables.via]
            moved[tables.via] = ({**terms, **slowest}, other + const)
        if ahead is not None:
            change = slope(tables, i)
            for k in np.nonzero(change)[0]:
                moved[k][0][ahead] = float(change[k]) * self.room
        return moved

    def _inputs_and_output(self, of: Scope, m: int) -> Terms:
        """Bytes the op reads from memory m as inputs and writes to it as output."""
        tables, i = self.tables, of.op
        has_output = of.column(i, ACTIVATION) is not None
        home = int(self.first[i, ACTIVATION]) + m
        read: Terms = {}
        written: Terms = {home: float(tables.written_bytes[i])} if has_output else {}
        for (op, head), size in zip(of.tensors, of.read_bytes, strict=True):
            if not size:
                continue
            there = int(self.first[op, head]) + m
            read[there] = float(size)
            if tables.moves and tables.rearranges[i] and has_output:
                # An input stays where it is if it and the output lie in m: then it is neither read nor written.
                stays = self.draft.add(1.0)
                self.draft.row({stays: 1.0, there: -1.0}, -INFINITY, 0.0)
                self.draft.row({stays: 1.0, home: -1.0}, -INFINITY, 0.0)
                read[stays] = written[stays] = -float(size)
        if len(written) > 1:  # bytes written are never negative, however much of them stays
            write = self.draft.add(1.0)
            whole = float(tables.written_bytes[i])
            row = {v: c / whole for v, c in written.items()}
            self.draft.row({**row, write: -1.0}, -INFINITY, 0.0)
            written = {write: whole}
        return {**read, **written}

    def _outside(self, of: Scope, slowest: Terms) -> tuple[Terms, float]:
        """The terms of the slowest memory with the network's own inputs and outputs, and a constant."""
        tables, i = self.tables, of.op
        if not tables.moves:
            return slowest, 0.0
        const = float(tables.external_bytes[i])
        if tables.is_output[i] and of.column(i, ACTIVATION) is not None:
            # An output that already lies there is not written again: size * (1 - "it lies there").
            size, home = float(tables.written_bytes[i]), int(self.first[i, ACTIVATION])
            slowest = {**slowest, home: slowest.get(home, 0.0) - size}
            const += size
        return slowest, const

    def _add_dma(self) -> None:
        """What is buffered after an op: what was before, less what the op used, plus what was fetched."""
        for i in range(self.ops):
            used = self.used[i]
            before: Terms = {self.buffer + i - 1: 1.0} if i else {}
            if used:
                self.draft.row({**before, **{v: -c for v, c in used.items()}}, 0.0, INFINITY)
            after = {self.buffer + i: 1.0, self.fetch + i: -1.0, **used}
            self.draft.row({**after, **{v: -c for v, c in before.items()}}, -INFINITY, 0.0)

    def _add_capacities(self) -> None:
        """At every step what is pinned, live and buffered in a memory fits; steps that add nothing are left out."""
        tables = self.tables
        live = live_sets(tables)
        tight = largest(live)
        weights = np.nonzero(tables.weight_bytes)[0]
        for m in range(1, self.levels):
            capacity = float(tables.capacity_bytes[m])
            buffered = self.fluid and m == tables.into
            pinned = self.draft.add(1.0)
            terms = {
                int(self.first[j, WEIGHT]) + m: float(tables.weight_bytes[j]) / capacity for j in weights
            }
            self.draft.row({**terms, pinned: -1.0}, 0.0, 0.0)
            for i in range(self.ops):
                if not (buffered or tight[i]):
                    continue
                row = {pinned: 1.0}
                for j in live[i]:
                    row[int(self.first[j, ACTIVATION]) + m] = float(tables.activation_bytes[j]) / capacity
                if buffered:
                    row = {**row, self.buffer + i: 1.0, **self.used[i]}
                self.draft.row(row, -INFINITY, 1.0)
