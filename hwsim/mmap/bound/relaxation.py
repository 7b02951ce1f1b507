"""The linear program whose optimum no play of the MMapGame beats; proof: docs/log/mmap-bound.md.

Rows are written for a set of steps, the *checkpoints*: room is counted at these only, and between two of them seconds
of copies are summed up. Any set that ends with the last step gives a bound.

Deviations: state variables (room taken, seconds copied so far) stand at each checkpoint and rows say how they change,
which keeps the program sparse; each row of capacity written out would name everything that lives at its step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwsim.linear_program import LinearProgram, Sheet
from hwsim.mmap.bound.gains import add_gains
from hwsim.mmap.bound.uses import ROUNDING, Bools, Floats, Ints, Uses, pieces_of
from hwsim.mmap.tables import Tables


@dataclass(frozen=True)
class Variables:
    """Numbers of the variables between 0 and 1.

    Attributes:
        copied, held, stays: int64 [M], the three ways in which a use may be placed, in the order of their numbers.
        together: int64 [G], whether a group lies in fast memory.
    """

    copied: Ints
    held: Ints
    stays: Ints
    together: Ints

    @property
    def ways(self) -> tuple[Ints, Ints, Ints]:
        """The three ways of each use."""
        return self.copied, self.held, self.stays


def relaxation(tables: Tables, uses: Uses, checkpoints: Ints) -> LinearProgram:
    """The program that minimises minus the return, as a share of the most that fast memory could save.

    Args:
        tables, uses: what is played.
        checkpoints: int64 [Q], steps in rising order, the last one of the program included.
    """
    sheet = Sheet()
    variables = Variables(
        sheet.add(len(uses), 0.0, uses.can_copy, integer=True),
        sheet.add(len(uses), 0.0, uses.before >= 0, integer=True),
        sheet.add(len(uses), 0.0, uses.can_stay, integer=True),
        sheet.add(len(tables.group), 0.0, 1.0, integer=True),
    )
    _add_chains(sheet, uses, variables)
    _add_groups(sheet, uses, variables)
    add_gains(sheet, tables, uses, variables.ways, variables.together)
    waiting = _add_copies(sheet, tables, uses, variables, checkpoints)
    _add_room(sheet, tables, uses, variables, checkpoints, waiting)
    return sheet.finish()


def _add_chains(sheet: Sheet, uses: Uses, variables: Variables) -> None:
    """A use is placed once, and held only where its tensor was before; what stays is held for all its uses."""
    copied, held, stays = variables.copied, variables.held, variables.stays
    once = sheet.row(len(uses), -np.inf, 1.0)
    for part in (copied, held, stays):
        sheet.put(once, part, 1.0)
    # Held only if the use before was placed in any way.
    later = np.flatnonzero(uses.before >= 0)
    source = uses.before[later]
    chain = sheet.row(len(later), -np.inf, 0.0)
    sheet.put(chain, held[later], 1.0)
    for part in (copied, held, stays):
        sheet.put(chain, part[source], -1.0)
    # `head` is the first use of each tensor; if that is an output that stays, all later uses are held.
    head = np.maximum.accumulate(np.where(uses.before < 0, np.arange(len(uses)), 0))
    kept = later[uses.can_stay[head[later]]]
    whole = sheet.row(len(kept), -np.inf, 0.0)
    sheet.put(whole, stays[head[kept]], 1.0)
    sheet.put(whole, held[kept], -1.0)


def _add_groups(sheet: Sheet, uses: Uses, variables: Variables) -> None:
    """All members of an alias group are placed, or none."""
    member = np.flatnonzero(uses.group >= 0)
    together = variables.together[uses.group[member]]
    present = sheet.row(len(member), -np.inf, 0.0)
    sheet.put(present, together, 1.0)
    for part in variables.ways:
        sheet.put(present, part[member], -1.0)
    absent = sheet.row(len(member), -np.inf, 0.0)
    sheet.put(absent, variables.copied[member], 1.0)
    sheet.put(absent, variables.stays[member], 1.0)
    sheet.put(absent, together, -1.0)


def _add_copies(
    sheet: Sheet, tables: Tables, uses: Uses, variables: Variables, checkpoints: Ints
) -> list[Ints]:
    """Seconds of copies against what the steps give; the variables int64 [Q] of room that copies under way take.

    Copies are lumped into classes. What a class has copied by a checkpoint is at least what is due, at most what is
    ready, and all classes together take no more than there is.
    """
    given = np.append(0.0, np.cumsum(tables.step["supply_s"]))[checkpoints + 1]
    supply = np.diff(given, prepend=0.0) * (1.0 + ROUNDING)
    unit = float(given[-1]) / len(checkpoints) or 1.0
    row = sheet.row(len(checkpoints), -np.inf, supply / unit)
    out, shares, copy = uses.is_output, uses.shares, uses.can_copy
    # Classes whose copies certainly take room while they wait: inputs that are in HBM from the start or from a later
    # step on, outputs without a use to come. Tensors in alias groups may share room: nothing is certain of them.
    early = copy & ~out & ~shares & (uses.ready == 0)
    late = copy & ~out & ~shares & (uses.ready > 0)
    final = copy & out & ~shares & (uses.after < 0)
    known = early | late | final
    waiting = []
    for chosen, counts in (
        (early, True),
        (late, True),
        (final, True),
        (copy & ~out & ~known, False),
        (copy & out & ~known, False),
    ):
        mine = np.flatnonzero(chosen)
        if not len(mine):
            continue
        flow = sheet.add(len(checkpoints), 0.0, np.minimum(supply, uses.demand_s[mine].sum() * 2.0) / unit)
        sheet.put(row, flow, 1.0)
        room = _add_class(sheet, uses, variables.copied, mine, flow, checkpoints, unit)
        if counts:
            # Room for a second of copying: the least of the class, so that the row holds for all.
            rate = float((uses.granules[mine] / uses.demand_s[mine]).min()) * (1.0 - ROUNDING)
            taken = sheet.add(len(checkpoints), 0.0, 1.0)
            under_way = sheet.row(len(checkpoints), 0.0, np.inf)
            sheet.put(under_way, taken, 1.0)
            sheet.put(under_way, room, -rate * unit / tables.capacity)
            if out[mine[0]]:
                present = np.flatnonzero(np.diff(checkpoints, prepend=-1) == 1)
                sheet.put(under_way[present], flow[present], -rate * unit / tables.capacity)
            waiting.append(taken)
    return waiting


def _add_class(
    sheet: Sheet, uses: Uses, copied: Ints, mine: Ints, flow: Ints, checkpoints: Ints, unit: float
) -> Ints:
    """Rows of one class of copies, all of inputs or all of outputs; the variables [Q] of its seconds under way.

    Those are the seconds that lie in fast memory beyond what `pieces_of` counts: of inputs copied early, of outputs
    still to be copied after this step. They may be negative: then nothing is certain.
    """
    ends = len(checkpoints)
    demand = uses.demand_s[mine] / unit
    most = float(demand.sum()) + 1.0
    out = bool(uses.is_output[mine[0]])
    first = uses.step[mine] + 1 if out else uses.ready[mine]
    due = np.full(len(mine), checkpoints[-1]) if out else uses.step[mine] - 1
    # Seconds that are ready and not copied yet: grow by the demand of a copy when it may begin.
    ready = sheet.add(ends, 0.0, most)
    rows = sheet.row(ends, 0.0, 0.0)
    _put_change(sheet, rows, ready)
    sheet.put(rows, flow, 1.0)
    _put_events(sheet, rows, np.searchsorted(checkpoints, first, side="left"), copied[mine], -demand)
    # Seconds that are copied and not due yet: fall by the demand of a copy when it must be done.
    ahead = sheet.add(ends, 0.0, most)
    rows = sheet.row(ends, 0.0, 0.0)
    _put_change(sheet, rows, ahead)
    sheet.put(rows, flow, -1.0)
    _put_events(sheet, rows, np.searchsorted(checkpoints, due, side="left"), copied[mine], demand)
    # Seconds under way beyond what `pieces_of` counts, from `reach` on for inputs and up to it for outputs.
    extra = sheet.add(ends, -most, most)
    rows = sheet.row(ends, 0.0, 0.0)
    _put_change(sheet, rows, extra)
    sign = -1.0 if out else 1.0
    sheet.put(rows, flow, -sign)
    counted = uses.reach[mine] + (1 if out else 0)
    _put_events(sheet, rows, np.searchsorted(checkpoints, counted, side="left"), copied[mine], sign * demand)
    return extra


def _put_change(sheet: Sheet, rows: Ints, state: Ints) -> None:
    """Rows [Q] that begin with how much a state [Q] grows from one checkpoint to the next, from 0."""
    sheet.put(rows, state, 1.0)
    sheet.put(rows[1:], state[:-1], -1.0)


def _put_events(sheet: Sheet, rows: Ints, at: Ints, variables: Ints, values: Floats) -> None:
    """Put values [n] of variables [n] into the rows [Q] of checkpoints `at` [n]; Q itself is past the end."""
    inside: Bools = at < len(rows)
    sheet.put(rows[at[inside]], variables[inside], values[inside])


def _add_room(
    sheet: Sheet, tables: Tables, uses: Uses, variables: Variables, checkpoints: Ints, waiting: list[Ints]
) -> None:
    """What is placed and what is under way fits at every checkpoint, in shares of fast memory."""
    pieces = pieces_of(uses)
    number = np.stack(variables.ways)[pieces.kind, pieces.use]
    begins = np.searchsorted(checkpoints, pieces.first, side="left")
    ends = np.searchsorted(checkpoints, pieces.last, side="right")
    seen = begins < ends
    share = pieces.granules / tables.capacity
    taken = sheet.add(len(checkpoints), 0.0, 1.0)
    rows = sheet.row(len(checkpoints), 0.0, 0.0)
    _put_change(sheet, rows, taken)
    _put_events(sheet, rows, begins[seen], number[seen], -share[seen])
    _put_events(sheet, rows, ends[seen], number[seen], share[seen])
    fits = sheet.row(len(checkpoints), -np.inf, 1.0)
    for part in (taken, *waiting):
        sheet.put(fits, part, 1.0)
