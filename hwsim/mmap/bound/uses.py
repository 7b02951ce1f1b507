"""Uses of tensors over time, for the bound: windows of their copies, room that they share, and what they save together.

Terms: a *use* is a buffer that may lie in fast memory; the uses of a tensor follow each other in time. All intervals
are closed, N buffers, T steps, M uses.

What a set S of an instruction's buffers saves,

    f(S) = L(none) - L(S) = min(K, sum of d over S),   K = slow seconds - arithmetic, d = seconds saved in the memories,

is a concave function of a sum and so submodular (Nemhauser, Wolsey and Fisher, *An analysis of approximations for
maximizing submodular set functions*, Math. Programming 14, 1978). For any subsets A and S of the members N and
rho_j(S) = f(S + j) - f(S),

    f(A) <= f(S) + sum of rho_j(S) over A - S - sum of rho_j(N - j) over S - A,

which is linear in the indicator of A: the concave part of the linear program. Deviations: of instructions with many
buffers only some sets S get a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from hwsim.linear_program import Sheet
from hwsim.mmap.tables import Tables

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ROUNDING = 1e-9
"""Relative allowance for float rounding wherever seconds are summed or compared."""

SUM_ROUNDING = 1e-11
"""The same for sums over all steps, as a share of the whole sum."""

COPIED, HELD, STAYS = 0, 1, 2
"""How a use may come to lie in fast memory: copied; held there since an earlier use; an output that stays."""


@dataclass(frozen=True)
class Uses:
    """The buffers that could be placed, a tensor's one after the other, in the order of play.

    Attributes:
        number: int64 [M], the buffer.
        tensor, step, granules, group: int64 [M], of the buffer (group -1 = none).
        demand_s: float64 [M], seconds of a copy.
        is_output: bool [M].
        before, after: int64 [M], position of the tensor's use before and after, -1 = none.
        can_copy: bool [M], whether any window covers the demand when nothing else is copied.
        reach: int64 [M], of an input the latest step at which its copy can begin, of an output the earliest at which it
            can end; the step itself if it cannot be copied.
        can_stay: bool [M], outputs that a NoCopy may keep.
        last: int64 [M], last step of the tensor's live range.
        ready: int64 [M], first step of a copy from slow memory.
        shares: bool [M], whether some use of its tensor is in an alias group.
    """

    number: Ints
    tensor: Ints
    step: Ints
    granules: Ints
    group: Ints
    demand_s: Floats
    is_output: Bools
    before: Ints
    after: Ints
    can_copy: Bools
    reach: Ints
    can_stay: Bools
    last: Ints
    ready: Ints
    shares: Bools

    def __len__(self) -> int:
        return len(self.number)


def uses_of(tables: Tables) -> Uses:
    """The uses of a program, without buffers larger than fast memory and members of their alias groups."""
    buffer = tables.buffer
    # Buffers without a group have number -1 and find the last entry, False.
    barred = np.append(tables.group["oversized"], False)[buffer["group"]]
    fits = (buffer["granules"] > 0) & (buffer["granules"] <= tables.capacity) & ~barred
    number = np.flatnonzero(fits)
    number = number[np.lexsort((number, buffer["tensor"][number]))]
    row = buffer[number]
    tensor, step = row["tensor"].astype(np.int64), row["step"].astype(np.int64)
    same = tensor[1:] == tensor[:-1]
    position = np.arange(len(number))
    before = np.where(np.append(False, same), position - 1, -1) if len(number) else position
    after = np.where(np.append(same, False), position + 1, -1) if len(number) else position
    ready = tables.ready[tensor].astype(np.int64)
    reach, can_copy = _shortest_windows(tables, step, ready, row["demand_s"], row["is_output"])
    grouped = np.zeros(len(tables.ready), np.bool_)
    grouped[tensor[row["group"] >= 0]] = True
    return Uses(
        number=number,
        tensor=tensor,
        step=step,
        granules=row["granules"].astype(np.int64),
        group=row["group"].astype(np.int64),
        demand_s=row["demand_s"].copy(),
        is_output=row["is_output"].copy(),
        before=before,
        after=after,
        can_copy=can_copy,
        reach=reach,
        can_stay=row["is_output"] & ~row["leaves"],
        last=row["last"].astype(np.int64),
        ready=ready,
        shares=grouped[tensor],
    )


def _shortest_windows(
    tables: Tables, step: Ints, ready: Ints, demand_s: Floats, is_output: Bools
) -> tuple[Ints, Bools]:
    """`reach` and `can_copy` of uses [M], from what all steps give at first; the game has that or less."""
    supply = np.append(0.0, np.cumsum(tables.step["supply_s"]))
    needed = np.maximum(demand_s * (1.0 - ROUNDING) - SUM_ROUNDING * supply[-1], 0.0)
    steps = len(tables.step)
    start = np.minimum(np.searchsorted(supply, supply[step] - needed, side="right") - 1, step - 1)
    end = np.maximum(np.searchsorted(supply, supply[step + 1] + needed, side="left") - 1, step + 1)
    reach = np.where(is_output, end, start)
    can_copy = np.where(is_output, end < steps, start >= ready)
    return np.where(can_copy, reach, step), can_copy


@dataclass(frozen=True)
class Pieces:
    """Room that is certainly taken: where a use is placed in that way, `granules` are at every step of [first, last].

    Attributes:
        kind: int64 [P], `COPIED`, `HELD` or `STAYS`.
        use: int64 [P]; first, last: int64 [P]; granules: int64 [P].
    """

    kind: Ints
    use: Ints
    first: Ints
    last: Ints
    granules: Ints

    def pick(self, index: Ints, first: Ints, last: Ints) -> Pieces:
        """The pieces at `index` with other times."""
        return Pieces(self.kind[index], self.use[index], first, last, self.granules[index])


def pieces_of(uses: Uses) -> Pieces:
    """What the placements of all uses occupy (docs/explanations/mmap-bound.md), shared room counted once."""
    step, out = uses.step, uses.is_output
    before_step = np.where(uses.before >= 0, step[uses.before], -1)
    next_step = np.where(uses.after >= 0, step[uses.after], np.iinfo(np.int64).max)
    end = np.minimum(uses.reach, next_step - 1)
    copy_first = np.where(
        out, step, np.where(uses.shares, np.maximum(uses.reach, before_step + 1), uses.reach)
    )
    copy_last = np.where(out, end, step)
    after_output = (uses.before >= 0) & out[uses.before]
    held_first = np.where(after_output, end[uses.before], before_step) + 1
    stay_last = np.where(uses.after >= 0, end, uses.last)
    everyone = np.arange(len(uses))
    listed = [
        (COPIED, uses.can_copy, copy_first, copy_last),
        (HELD, uses.before >= 0, held_first, step),
        (STAYS, uses.can_stay, step, stay_last),
    ]
    found = Pieces(
        *(
            np.concatenate(parts).astype(np.int64)
            for parts in zip(
                *(
                    (np.full(int(which.sum()), kind), everyone[which], first[which], last[which],
                     uses.granules[which])
                    for kind, which, first, last in listed
                ),
                strict=True,
            )
        )
    )  # fmt: skip
    keep = np.flatnonzero(found.first <= found.last)
    return _count_once(uses, found.pick(keep, found.first[keep], found.last[keep]))


def _count_once(uses: Uses, pieces: Pieces) -> Pieces:
    """If alias groups may put several tensors at one place at the same time, only the largest counts at a step."""
    sharing = np.flatnonzero(uses.shares[pieces.use])
    if not len(sharing):
        return pieces
    component = _components(uses)
    alone = np.flatnonzero(~uses.shares[pieces.use])
    tensor, part = uses.tensor[pieces.use], component[uses.tensor[pieces.use]]
    steps = int(pieces.last.max()) + 1
    index, first, last = [alone], [pieces.first[alone]], [pieces.last[alone]]
    for which in np.unique(part[sharing]):
        mine = sharing[part[sharing] == which]
        # At each step the largest tensor of the component owns the room: smaller ones are written first, larger ones
        # over them. Then every piece keeps the runs of steps that its tensor owns.
        owner = np.full(steps, -1, np.int64)
        for p in mine[np.argsort(pieces.granules[mine], kind="stable")]:
            owner[pieces.first[p] : pieces.last[p] + 1] = tensor[p]
        edges = np.flatnonzero(np.diff(owner)) + 1
        runs_first, runs_last = np.append(0, edges), np.append(edges, steps) - 1
        for p in mine:
            runs = np.flatnonzero(
                (owner[runs_first] == tensor[p])
                & (runs_last >= pieces.first[p])
                & (runs_first <= pieces.last[p])
            )
            index.append(np.full(len(runs), p))
            first.append(np.maximum(runs_first[runs], pieces.first[p]))
            last.append(np.minimum(runs_last[runs], pieces.last[p]))
    return pieces.pick(np.concatenate(index), np.concatenate(first), np.concatenate(last))


def _components(uses: Uses) -> Ints:
    """int64 [U], a number a tensor; tensors that are tied by alias groups have the same one."""
    grouped = np.flatnonzero(uses.group >= 0)
    tensors = int(uses.tensor.max()) + 1
    size = tensors + int(uses.group.max()) + 1
    # A graph of tensors and groups, an edge for each use of a tensor in a group.
    ties = csr_array(
        (np.ones(len(grouped)), (uses.tensor[grouped], tensors + uses.group[grouped])), shape=(size, size)
    )
    return np.asarray(connected_components(ties, directed=False)[1][:tensors], np.int64)


ALL_SETS = 4
"""Instructions with up to this many buffers get a row for every set; others for sets that lack or have at most one."""


def savings(tables: Tables, uses: Uses) -> tuple[Floats, Floats]:
    """K of each step [T] and d of each use [M] (no more than its K), both as shares of the most that can be saved."""
    buffer, step = tables.buffer[uses.number], tables.step
    most = tables.most_s
    cap = np.maximum(step["traffic_bytes"] / tables.hbm_Bps - step["compute_s"], 0.0) / most
    saved = buffer["read_bytes"] * (1.0 / tables.hbm_Bps - 1.0 / tables.read_Bps)
    saved = saved + buffer["write_bytes"] * (1.0 / tables.hbm_Bps - 1.0 / tables.write_Bps)
    return cap, np.minimum(np.maximum(saved, 0.0) / most, cap[uses.step])


def add_gains(sheet: Sheet, tables: Tables, uses: Uses, parts: tuple[Ints, ...], together: Ints) -> None:
    """Put what each instruction saves into the objective.

    Args:
        parts: int64 [M] each, variables of which at most one is 1 and whose sum says that a use is placed.
        together: int64 [G], variables that say it of an alias group.
    """
    cap, saved = savings(tables, uses)
    order = np.argsort(uses.step, kind="stable")
    starts = np.flatnonzero(np.diff(uses.step[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        # What saves nothing adds nothing to the gain.
        members = members[saved[members] > 0.0]
        if not len(members):
            continue
        most = float(cap[uses.step[members[0]]])
        total = min(most, float(saved[members].sum()))
        gain = sheet.add(1, 0.0, total, -1.0)
        # Of a member of an alias group its group's variable says whether it is placed.
        placed = [
            together[uses.group[m : m + 1]] if uses.group[m] >= 0 else np.array([part[m] for part in parts])
            for m in members
        ]
        for values, side in cuts(saved[members], most):
            row = sheet.row(1, -np.inf, side)
            sheet.put(row, gain, 1.0)
            for which, value in zip(placed, values, strict=True):
                sheet.put(np.repeat(row, len(which)), which, -value)


def cuts(saved: Floats, most: float) -> list[tuple[Floats, float]]:
    """Rows: gain <= side + values [n] . placed [n], of an instruction with d `saved` [n] (no more than K) and K `most`.

    That the gain is at most K needs no row.
    """
    everyone = float(saved.sum())
    if everyone <= most:
        return [(saved, 0.0)]
    # `alone` is what each adds to all the others: rho_j(N - j).
    alone = most - np.minimum(most, everyone - saved)
    members = range(len(saved))
    found = []
    for size in range(len(saved) + 1):
        if len(saved) > ALL_SETS and 1 < size < len(saved) - 1:
            continue
        for chosen in combinations(members, size):
            inside = np.zeros(len(saved), np.bool_)
            inside[list(chosen)] = True
            # f(S), and for those outside what each adds to it: rho_j(S).
            value = min(most, float(saved[inside].sum()))
            values = np.where(inside, alone, np.minimum(most, value + saved) - value)
            if values.any():
                found.append((values, value - float(alone[inside].sum())))
    return found
