"""A proven lower bound on the latency of all mappings, and the mapping that the proof suggests.

Source: mixed-integer programming by branch and cut; HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018) through
`scipy.optimize.milp`. The program is a relaxation of the full model (`hwsim/nnpi/exact/model.py`,
`docs/explanations/exact.md`). If the mappings are few enough, `fastest_of_all` tries every one instead.

The feasible set is that of rectified maps: every memory holds, at every step, the weights pinned in it and the
activations live in it.

Deviations: first the linear relaxation gives a bound that holds whatever HiGHS's tolerances (`linear_bound`); that of
the branch and cut is HiGHS's number less a margin, see `margin`. The better one counts. Of a large program whose parts
repeat, neither would end: its multipliers are tied, and its shares rounded, see `hwsim.linear_program`. A program
that would not fit in memory is made smaller by a fixed rule, see `tabulate`.

Branch and cut on the relaxation of a whole inference, with a ceiling on the objective that rises.

Source: HiGHS (Huangfu and Hall, Math. Prog. Comp. 2018) through `scipy.optimize.milp`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from hwsim.linear_program import linear_bound, proven_bound, relax, tied_bound
from hwsim.nnpi.exact.columns import ColumnsOf, scope
from hwsim.nnpi.exact.model import Model, build
from hwsim.nnpi.latency import latencies, trace_latency
from hwsim.nnpi.placer import DEFAULT_RULE, compile_map, rule_named
from hwsim.nnpi.rectify import rectify
from hwsim.nnpi.tables import Ints, Tables, decisions
from hwsim.problem import Bound, Floats, Mapping16

ROUNDING = 1e-9
"""Relative allowance for float rounding in tables, columns and sums."""

MAX_PLACEMENTS = 4096
"""An op with more joint placements of its tensors gets linear rows."""


EXACT_COUNT_TENSORS = 100
"""Tensors whose joint placements need not be counted exactly any more."""


def trivial_bound(tables: Tables, *, max_placements: int = MAX_PLACEMENTS, until: float = math.inf) -> float:
    """Seconds: every op by itself at its fastest placement.

    Its compute time stands for that if there are too many placements, and for all ops that are left at the time
    `until` (of `time.monotonic`): less than the fastest, so still a bound.
    """
    levels, columns = len(tables.capacity_bytes), ColumnsOf(tables)
    total = 0.0
    for i in range(len(tables.weight_bytes)):
        if time.monotonic() > until:
            rest = tables.compute_s[i:]
            total += float(rest.sum()) + len(rest) * tables.launch_s
            break
        of = scope(tables, i)
        if levels ** len(of.tensors) <= max_placements:
            total += float(columns(of).duration_s.min())
        else:
            total += tables.launch_s + float(tables.compute_s[i])
    return total * (1.0 - ROUNDING)


MAX_TRIED_MAPPINGS = 2**17
"""Mappings that are tried at most: about a second."""
AT_ONCE = 4096


def fastest_of_all(tables: Tables) -> tuple[Mapping16, float, int] | None:
    """The fastest mapping int16 [N, 2] that runs, its noise-free latency (s), and how many were tried; None: too many.

    What the compiler makes of all mappings holds every valid one: it leaves those as they are.
    """
    ops, tensors = decisions(tables).T
    levels = len(tables.capacity_bytes)
    if levels ** min(len(ops), MAX_TRIED_MAPPINGS.bit_length()) > MAX_TRIED_MAPPINGS:
        return None
    live = np.stack([tables.weight_bytes, tables.activation_bytes], axis=1) > 0
    count = levels ** len(ops)
    best, best_s = np.empty(0, np.int16), math.inf
    for first in range(0, count, AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, count))
        rows = np.full((len(numbers), len(tables.weight_bytes), 2), -1, np.int16)
        rows[:, live] = 0  # what pins decide follows from the others
        rows[:, ops, tensors] = digits(numbers, levels, len(ops))
        runs, _ = rectify(tables, rows)
        seconds = latencies(tables, runs, np.zeros(len(runs)))
        at = int(np.argmin(seconds))
        if seconds[at] < best_s:
            best, best_s = runs[at].copy(), float(seconds[at])
    return best, best_s, count


def digits(numbers: Ints, base: int, length: int) -> Ints:
    """The last `length` digits of numbers int64 [B] to a base: int64 [B, length]."""
    return numbers[:, None] // base ** np.arange(length, dtype=np.int64) % base


BYTES_AN_ENTRY, BYTES_WRITTEN = 400, 100
"""Memory that HiGHS takes, a nonzero of the program; and that writing it down takes."""

TIED_NONZEROS = 400_000
"""A program of more nonzeros is first tried with multipliers tied; HiGHS would take more than some seconds for it."""

DISTRUST = 1e-6
"""HiGHS's bound may be above a mapping's latency by this share, margin included, before it counts as wrong."""

TRIVIAL_S = 1.0
"""Seconds that the trivial bound has at least; it has half of the time."""

FIRST_RULES = (DEFAULT_RULE, "execution-order", "traffic-density")

TRIVIAL = "each op by itself at its best"
PROVED = "proved"
TIME_LIMIT = "time limit"
TOO_LARGE = "too large"
RELAXED = "relaxation"


@dataclass(frozen=True)
class ExactResult:
    """The result of a solve.

    Attributes:
        bound_s: no capacity-valid mapping has a noise-free latency below this.
        mapping: int16 [N, 2], canonical and valid, the solution as it would run; None if none was found.
        model_cost_s: noise-free latency of `mapping`; infinity if there is none.
        status: "proved" (the program was solved to `gap`), "relaxation" (its linear relaxation was solved, which was
            all that was asked for), "time limit", or "too large".
        seconds: that the solve took.
        proof: how the bound was obtained, in words.
        entries: estimated nonzeros of the program.
    """

    bound_s: float
    mapping: Mapping16 | None
    model_cost_s: float
    status: str
    seconds: float
    proof: str
    entries: int

    @property
    def gap(self) -> float:
        """model_cost_s / bound_s - 1."""
        return self.model_cost_s / self.bound_s - 1.0

    def as_bound(self) -> Bound:
        """For `HasBound.bound`."""
        return Bound(self.bound_s, math.inf, self.proof, self.seconds)


def solve(
    tables: Tables,
    *,
    time_limit_s: float,
    gap: float = 1e-3,
    memory_bytes: int = 2**31,
    max_placements: int = MAX_PLACEMENTS,
    branch: bool = True,
) -> ExactResult:
    """A lower bound on the latency of every valid mapping of a workload on a chip, and a good mapping.

    Args:
        tables: the workload on the chip.
        time_limit_s: of the whole solve; HiGHS looks at the clock now and then, so it may take a little longer.
        gap: stop when solution and bound of the program differ by this share.
        memory_bytes: that HiGHS may take, by estimate.
        max_placements: see `tabulate`.
        branch: False leaves out branch and cut: the bound is the linear relaxation's, and its solution is rounded. That
            is a fixed amount of work, unless the time limit ends it.

    Raises:
        ValueError: a limit is not positive or the gap is negative.
    """
    if not time_limit_s > 0:
        raise ValueError(f"time_limit_s: expected a positive number, received {time_limit_s!r}")
    if not gap >= 0:
        raise ValueError(f"gap: expected a number >= 0, received {gap!r}")
    if memory_bytes <= 0:
        raise ValueError(f"memory_bytes: expected a positive number, received {memory_bytes!r}")
    begun = time.monotonic()
    until = begun + time_limit_s
    trivial_s = trivial_bound(
        tables, max_placements=max_placements, until=begun + max(time_limit_s / 2, TRIVIAL_S)
    )
    case = _Case(tables, trivial_s, reached(tables), gap, begun, until)
    for bytes_an_entry, large in ((BYTES_WRITTEN, True), (BYTES_AN_ENTRY, False)):
        tabulated, entries = tabulate(tables, memory_bytes // bytes_an_entry, max_placements=max_placements)
        if large and entries <= TIED_NONZEROS:
            continue
        if entries * bytes_an_entry > memory_bytes:
            why = (
                f"(about {entries:,} nonzeros, {entries * bytes_an_entry / 2**30:.1f} GiB) exceeds the"
                f" {memory_bytes / 2**30:.1f} GiB allowed"
            )
            return case.without_solution(TOO_LARGE, why, entries)
        scale = OBJECTIVE / trivial_s
        model = build(tables, scale=scale, tabulated=tabulated, reached_s=case.reached_s, until=until)
        if model is None:
            return case.without_solution(
                TIME_LIMIT, f"(about {entries:,} nonzeros) was not written in time", entries
            )
        if not large:
            return case.searched(model, entries) if branch else case.relaxed(model, entries)
        if (found := case.tied(model, entries)) is not None:
            return found if branch else replace(found, status=RELAXED)
    raise AssertionError("the last turn returns")


def reached(tables: Tables) -> float:
    """Seconds of the fastest of a few maps that the compiler's rules make."""
    return min(trace_latency(tables, compile_map(tables, rule_named(name)))[0] for name in FIRST_RULES)


def tabulate(tables: Tables, most_entries: int, *, max_placements: int) -> tuple[NDArray[np.bool_], int]:
    """Which ops get columns (bool [N]), and an estimate of the program's nonzeros.

    The rule: ops with more than `max_placements` joint placements never do; of the others those with the most
    placements lose theirs first, until the estimate is at most `most_entries` or none is left.
    """
    ops, levels = len(tables.weight_bytes), len(tables.capacity_bytes)
    tensors = np.array([len(scope(tables, i).tensors) for i in range(ops)])
    placements = float(levels) ** np.minimum(
        tensors, EXACT_COUNT_TENSORS
    )  # beyond, more than any limit, but finite
    as_table = placements * (tensors + 3.0) * (1.0 + 2.0 / levels)
    as_rows = 12.0 * levels * (tensors + 1.0)
    held = np.arange(ops)
    live = float((tables.last_use - held + 1).sum() + 4 * ops) * levels
    chosen = placements <= max_placements
    order = np.argsort(-as_table, kind="stable")
    # What the estimate is once the first of `order` have lost their columns: none, one, two …
    saved = np.where(chosen, as_table - as_rows, 0.0)[order]
    estimates = np.where(chosen, as_table, as_rows).sum() + live - np.concatenate([[0.0], np.cumsum(saved)])
    enough = np.flatnonzero(estimates <= most_entries)
    chosen[order[: enough[0] if len(enough) else ops]] = False
    return chosen, int(np.where(chosen, as_table, as_rows).sum() + live)


@dataclass(frozen=True)
class _Case:
    """One solve: what is known before a program is, and the ways to go on from a program.

    Attributes:
        trivial_s: each op by itself; reached_s: latency of some valid mapping.
        gap: at which a program counts as solved.
        begun, until: by `time.monotonic`.
    """

    tables: Tables
    trivial_s: float
    reached_s: float
    gap: float
    begun: float
    until: float

    def tied(self, model: Model, entries: int) -> ExactResult | None:
        """By multipliers tied over what is alike; None if the parts of the program hardly repeat."""
        found = tied_bound(model.program, self.until)
        if found is None or not found.converged:
            return None
        rows, variables = model.program.matrix.shape
        proof = (
            f"multipliers of the linear relaxation of the model, tied over ops that are alike ({rows:,} rows and"
            f" {variables:,} columns as {found.colours.rows.max() + 1:,} and {found.colours.variables.max() + 1:,})"
        )
        mapping = rectify(self.tables, model.rounded(found.shares, found.colours.variables)[None])[0][0]
        bounds = {TRIVIAL: self.trivial_s, proof: found.bound / model.scale * (1.0 - ROUNDING)}
        cost_s = trace_latency(self.tables, mapping)[0]
        return self._result(bounds, mapping, cost_s, cost_s <= max(bounds.values()) * (1 + self.gap), entries)

    def searched(self, model: Model, entries: int) -> ExactResult:
        """By the whole linear relaxation, then branch and cut, as far as the time goes."""
        program = model.program
        rows, variables = program.matrix.shape
        size = f"{rows:,} rows, {variables:,} columns, {program.matrix.nnz:,} nonzeros"
        bounds = {TRIVIAL: self.trivial_s}
        if (left_s := self.until - time.monotonic()) > 0:
            linear_s = linear_bound(program, left_s) / model.scale * (1.0 - ROUNDING)
            bounds[f"multipliers of the linear relaxation of the model ({size})"] = linear_s
        found = search(model, max(bounds.values()) * model.scale, self.gap, self.until)
        proved, mapping, cost_s = found.proved, None, math.inf
        if found.solution is not None:
            mapping = rectify(self.tables, model.mapping(found.solution)[None])[0][0]
            cost_s = trace_latency(self.tables, mapping)[0]
        least_s = min(cost_s, self.reached_s)
        mip_s = (found.bound - margin(model)) / model.scale * (1.0 - ROUNDING)
        if mip_s <= least_s:
            bounds[f"HiGHS's branch and cut on a relaxation of the model ({size})"] = mip_s
        elif found.bound > model.scale * least_s * (1.0 + DISTRUST):
            proved = False  # a mapping contradicts HiGHS, which must have lost it to its tolerances
        return self._result(bounds, mapping, cost_s, proved, entries)

    def relaxed(self, model: Model, entries: int) -> ExactResult:
        """By the linear relaxation alone: each tensor goes where most of it lies in its solution."""
        left_s = self.until - time.monotonic()
        found = relax(model.program, left_s) if left_s > 0 else None
        if found is None:
            return self.without_solution(TIME_LIMIT, "was not solved in time", entries)
        mapping = rectify(self.tables, model.mapping(found.solution)[None])[0][0]
        linear_s = proven_bound(model.program, found.multipliers) / model.scale * (1.0 - ROUNDING)
        bounds = {TRIVIAL: self.trivial_s, "multipliers of the linear relaxation of the model": linear_s}
        result = self._result(bounds, mapping, trace_latency(self.tables, mapping)[0], False, entries)
        return replace(result, status=RELAXED)

    def without_solution(self, status: str, why: str, entries: int) -> ExactResult:
        """No program: the trivial bound, and why."""
        seconds = time.monotonic() - self.begun
        return ExactResult(
            self.trivial_s, None, math.inf, status, seconds, f"{TRIVIAL}; the program {why}", entries
        )

    def _result(
        self,
        bounds: dict[str, float],
        mapping: Mapping16 | None,
        cost_s: float,
        proved: bool,
        entries: int,
    ) -> ExactResult:
        """The best of the bounds, by what proves each."""
        proof = max(bounds, key=bounds.__getitem__)
        bound_s = min(bounds[proof], cost_s, self.reached_s)
        status = PROVED if proved else TIME_LIMIT
        return ExactResult(bound_s, mapping, cost_s, status, time.monotonic() - self.begun, proof, entries)


OBJECTIVE = 1e4
"""The program is scaled so that the trivial bound is this many units."""

DUAL_TOLERANCE = 1e-7
"""HiGHS allows a reduced cost the wrong sign by this many units."""

FIRST_STEP = 1e-3
"""The first ceiling is at least this share above the bound."""

LAST_STEP = 0.5
"""A ceiling this share above the bound is no longer put."""

SHARE_OF_A_STEP = 0.5
"""The share of the time left for one ceiling."""

QUICK = 0.05
"""A ceiling done within this share of the time left makes the next one half as high again."""

INFEASIBLE = 2
"""`scipy.optimize.milp`: status of a program without solutions."""


def margin(model: Model) -> float:
    """Objective units that are taken off HiGHS's dual bound.

    A dual solution whose reduced costs have the wrong sign by up to the tolerance proves a bound that is too
    high by at most the tolerance times the range of each variable, summed.
    """
    program = model.program
    return DUAL_TOLERANCE * float((program.upper - program.lower).sum())


@dataclass(frozen=True)
class Search:
    """A bound in objective units before the margin, the best solution float64 [V], whether they met."""

    bound: float
    solution: Floats | None
    proved: bool


def search(model: Model, bound: float, gap: float, until: float) -> Search:
    """Branch and cut with a ceiling on the objective a little above the bound, raised as long as nothing is below.

    Under a low ceiling most columns price out, and what is left is quickly searched. A ceiling that nothing
    reaches is itself a bound. `bound` is the one known so far, in objective units.
    """
    step = max(gap, FIRST_STEP)
    best, best_value = None, np.inf
    while (left_s := until - time.monotonic()) > 0:
        ceiling = bound * (1.0 + step)
        last = step >= LAST_STEP
        limit_s = left_s if last else min(left_s, max(left_s * SHARE_OF_A_STEP, 1.0))
        reached, solution, done = _branch_and_cut(model, limit_s, gap / 2, np.inf if last else ceiling)
        bound = max(bound, min(reached, np.inf if last else ceiling))
        if solution is not None and (value := float(model.program.cost @ solution)) < best_value:
            best, best_value = solution, value
        if last or (done and solution is not None) or best_value <= bound * (1.0 + gap):
            return Search(min(bound, best_value), best, done or best_value <= bound * (1.0 + gap))
        if not done:
            step *= 8.0
        elif time.monotonic() - (until - left_s) < QUICK * left_s:
            step *= 1.5
    return Search(min(bound, best_value), best, False)


def _branch_and_cut(
    model: Model, time_limit_s: float, gap: float, ceiling: float
) -> tuple[float, Floats | None, bool]:
    """A bound below the ceiling in objective units, a solution float64 [V] if any, and whether HiGHS finished.

    HiGHS may drop nodes within its gap of the incumbent without lowering the bound it reports, so the gap is
    taken off.
    """
    program = model.program
    constraints = [LinearConstraint(program.matrix, program.row_lower, program.row_upper)]
    if np.isfinite(ceiling):
        constraints.append(LinearConstraint(program.cost[None] / OBJECTIVE, -np.inf, ceiling / OBJECTIVE))
    found = milp(
        program.cost,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=constraints,
        options={"time_limit": time_limit_s, "mip_rel_gap": gap, "disp": False},
    )
    if found.status == INFEASIBLE:
        return ceiling, None, True
    reached = -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
    if found.x is None:
        return reached, None, False
    reached = min(reached, float(program.cost @ found.x) * (1.0 - gap))
    return reached, np.asarray(found.x, np.float64), found.status == 0
