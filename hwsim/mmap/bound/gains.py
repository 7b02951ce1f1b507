"""What the buffers of an instruction save together: the concave part of the bound's linear program.

Source: Nemhauser, Wolsey and Fisher, *An analysis of approximations for maximizing submodular set functions*, Math.
Programming 14, 1978. What a set S of an instruction's buffers saves,

    f(S) = L(none) - L(S) = min(K, sum of d over S),   K = slow seconds - arithmetic, d = seconds saved in the memories,

is a concave function of a sum and so submodular. For any subsets A and S of the members N and
rho_j(S) = f(S + j) - f(S),

    f(A) <= f(S) + sum of rho_j(S) over A - S - sum of rho_j(N - j) over S - A,

which is linear in the indicator of A. Deviations: of instructions with many buffers only some sets S get a row.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from hwsim.linear_program import Sheet
from hwsim.mmap.bound.uses import Floats, Ints, Uses
from hwsim.mmap.tables import Tables

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
