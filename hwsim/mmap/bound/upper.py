"""A proven upper bound on the return: how much of its time any play of the MMapGame can save a program.

Source: a linear program whose optimum no play of the MMapGame beats. HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018)
suggests multipliers, from which the bound is computed anew, so that it holds whatever HiGHS's tolerances
(`hwsim.linear_program.linear_bound`). Of programs with few decisions, then branch and cut over whole decisions; that
bound is HiGHS's less a margin. The better one counts. The proof is in docs/explanations/mmap-bound.md.

Rows are written for a set of steps, the *checkpoints*: room is counted at these only, and between two of them seconds
of copies are summed up. Any set that ends with the last step gives a bound.

Deviations: programs of many steps are solved with few checkpoints first, so that there is a bound when time runs out.
State variables (room taken, seconds copied so far) stand at each checkpoint and rows say how they change,
which keeps the program sparse; each row of capacity written out would name everything that lives at its step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from hwsim.linear_program import LinearProgram, Sheet, linear_bound
from hwsim.mmap.bound.uses import ROUNDING, Bools, Floats, Ints, Uses, add_gains, pieces_of, savings, uses_of
from hwsim.mmap.tables import Tables
from hwsim.problem import Bound


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


DEFAULT_SECONDS = 60.0

SIMPLEX, INTERIOR = "highs-ds", "highs-ipm"

FIRST = ((300, SIMPLEX), (1200, INTERIOR))
"""Checkpoints of the programs that are solved first, if there are more than twice as many steps, and how: on 300
the dual simplex was ahead, on all the interior point."""

SEARCHED = 1500
"""Programs with up to this many uses are searched by branch and cut."""

OBJECTIVE = 1e4
"""Units of the objective of branch and cut that are a reward of 1."""

DUAL_TOLERANCE = 1e-7
"""HiGHS allows a reduced cost the wrong sign by this many units."""

LATENCY_ROUNDING = 1e-12
"""What the bound on the cost gives away for sums in another order."""

GAP = 1e-4
"""Branch and cut stops when bound and solution differ by this share."""


def upper_bound(tables: Tables, time_limit_s: float = DEFAULT_SECONDS) -> Bound:
    """What no legal play returns more than, as a share of the most that fast memory could save; and costs less than.

    It holds with and without `drop_backup` and for both rules of copies.

    Args:
        tables: the program on the chip.
        time_limit_s: HiGHS looks at the clock now and then, so it may take a little longer.

    Raises:
        ValueError: the limit is not positive.
    """
    if not time_limit_s > 0:
        raise ValueError(f"time_limit_s: expected a positive number, received {time_limit_s!r}")
    begun = time.monotonic()
    until = begun + time_limit_s
    uses = uses_of(tables)
    best, proof = trivial_bound(tables, uses), "each instruction by itself at its best"
    steps = len(tables.step)
    for number, method in (*(few for few in FIRST if 2 * few[0] < steps), (steps, INTERIOR)):
        # A program on few steps is quick and gives a bound early; a later one counts only if it is lower.
        left_s = until - time.monotonic()
        if best <= 0.0 or left_s <= 0:
            break
        program = relaxation(tables, uses, spread(steps, number))
        found = -linear_bound(program, left_s, method)
        size = _describe_size(program, number, steps)
        if found < best:
            best, proof = found, f"multipliers of the linear relaxation of the game {size}"
        left_s = until - time.monotonic()
        if number == steps and len(uses) <= SEARCHED and left_s > 0:
            found = -_branch_and_cut(program, left_s)
            if found < best:
                best, proof = found, f"HiGHS's branch and cut on a relaxation of the game {size}"
    return _bound(tables, best, proof, time.monotonic() - begun)


def known_at_once(tables: Tables) -> Bound:
    """What needs no search: no play returns more than everything in fast memory would, which is 1."""
    return _bound(tables, 1.0, "everything in fast memory", 0.0)


def _bound(tables: Tables, best: float, proof: str, seconds: float) -> Bound:
    """No latency is below the sum of L_I(S), and no return above the best: so no cost is below what that leaves."""
    reward = max(best, 0.0) + ROUNDING * max(tables.none_s / tables.most_s, 1.0)
    least_s = tables.none_s * (1 - LATENCY_ROUNDING) - reward * tables.most_s
    return Bound(max(least_s, 0.0), reward, proof, seconds)


def _describe_size(program: LinearProgram, number: int, steps: int) -> str:
    """How large a program is, for the text of a proof."""
    rows, columns = program.matrix.shape
    entries = program.matrix.nnz
    return f"({number:,} of {steps:,} steps; {rows:,} rows, {columns:,} columns, {entries:,} nonzeros)"


def _branch_and_cut(program: LinearProgram, time_limit_s: float) -> float:
    """A lower bound on the program's objective where whole decisions are whole; -infinity where none came in time.

    What is taken off: HiGHS's tolerance of reduced costs times the range of each variable, summed, and its gap, within
    which of the best solution it may drop nodes without lowering the bound that it reports.
    """
    found = milp(
        program.cost * OBJECTIVE,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=[LinearConstraint(program.matrix, program.row_lower, program.row_upper)],
        options={"time_limit": time_limit_s, "mip_rel_gap": GAP, "disp": False},
    )
    if found.mip_dual_bound is None:
        return -float("inf")
    reached = float(found.mip_dual_bound)
    if found.x is not None:
        value = float(program.cost @ found.x) * OBJECTIVE
        reached = min(reached, value - GAP * abs(value))
    return (reached - DUAL_TOLERANCE * float((program.upper - program.lower).sum())) / OBJECTIVE


def trivial_bound(tables: Tables, uses: Uses) -> float:
    """The return if every buffer that can be placed at all lay in fast memory."""
    cap, saved = savings(tables, uses)
    total = np.bincount(uses.step, saved, len(tables.step))
    return float(np.minimum(total, cap).sum())


def spread(steps: int, number: int) -> Ints:
    """int64 [number], steps at equal distances, the last one included."""
    return np.asarray((np.arange(1, number + 1) * steps) // number - 1, np.int64)
