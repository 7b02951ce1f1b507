"""The plan that speedups are over: the best of named rules that fits the limit.

Where none fits, a plan that the rules become with less kept, or that a search finds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.exact.fits import find_fit
from egrl_training.simulator.least import small_peak
from egrl_training.simulator.repair import relieved
from egrl_training.simulator.rules import plans_by_rule
from egrl_training.simulator.search import annealed
from egrl_training.simulator.simulate import canonical, simulate, trace
from egrl_training.simulator.tables import Tables
from egrl_training.steps.step import TrainingStep
from hwsim.problem import Floats, Mapping16
from workloads.errors import InputError
from workloads.text import exact_size, size_text

Plan = NDArray[np.int16]
MOVES, HOT = 20_000, 0.02
"""Of the search for the least peak: its moves, and its first temperature as a share of the seconds of a step."""
SECONDS = 10.0
"""Time limit of what looks for plans where that finds none."""
NAMED = 4
"""Tensors that an error names, the largest first."""


class Chosen(NamedTuple):
    """A plan int16 [N] that fits, its seconds, and the rule that made it."""

    plan: Plan
    seconds: float
    rule: str


class ShortageError(InputError):
    """No plan within a limit was found.

    Attributes:
        least_bytes: the least peak found.
    """

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes


MOST_RULES = 8
"""Plans of rules that are worth measuring, at most."""


def plans_of_rules(step: TrainingStep, t: Tables, limit_bytes: int) -> dict[str, Mapping16]:
    """The quickest of the rules' plans that fit, int16 [N, 1] each, by name."""
    names, plans, seconds, peak = _simulated_rules(step, t)
    fits = [row for row in np.argsort(seconds, kind="stable") if peak[row] <= limit_bytes]
    return {names[row]: plans[row][:, None] for row in fits[:MOST_RULES]}


def _simulated_rules(step: TrainingStep, t: Tables) -> tuple[list[str], Mapping16, Floats, NDArray[np.int64]]:
    """Names, plans int16 [B, N], seconds [B] and peaks int64 [B] of all rules."""
    rules = plans_by_rule(step, t)
    plans = canonical(t, np.stack(list(rules.values())))
    return list(rules), plans, *simulate(t, plans)


def choose(step: TrainingStep, t: Tables, limit_bytes: int) -> Chosen:
    """The best plan of the rules that fits; without one, a plan that a search for the least peak finds.

    Raises:
        ShortageError: none of them fits; it names the least peak, where that is and the largest tensors there.
    """
    names, plans, seconds, peak = _simulated_rules(step, t)
    fits = peak <= limit_bytes
    if fits.any():
        best = int(np.where(fits, seconds, np.inf).argmin())
        return Chosen(plans[best], float(seconds[best]), names[best])
    for row in np.argsort(peak, kind="stable")[:NAMED]:
        plan, fits_now = relieved(t, plans[row], limit_bytes)
        if fits_now:
            plan = canonical(t, plan[None])[0]
            return Chosen(plan, float(simulate(t, plan[None])[0][0]), f"{names[row]}, with less kept")
    searched = annealed(t, plans[int(peak.argmin())], limit_bytes, 0, MOVES, HOT)
    impossible = False
    if simulate(t, searched[None])[1][0] > limit_bytes:
        searched = _least(step, t, plans[int(peak.argmin())])
    if simulate(t, searched[None])[1][0] > limit_bytes:
        fit, impossible = find_fit(t, limit_bytes, SECONDS)
        searched = searched if fit is None else fit
    plan = canonical(t, searched[None])[0]
    found, peak = simulate(t, plan[None])
    if peak[0] > limit_bytes:
        raise ShortageError(shortage(step, t, plan, limit_bytes, impossible), int(peak[0]))
    return Chosen(plan, float(found[0]), "searched")


def _least(step: TrainingStep, t: Tables, start: Plan) -> Plan:
    """A plan int16 [N] with the least peak found, whatever the limit: one that is named is found again within it."""
    return small_peak(step, t, SECONDS, [annealed(t, start, 1, 0, MOVES, HOT)])


def unread_text(step: TrainingStep) -> str:
    """How much the parameters of a step take that no op reads, and which are the largest."""
    names = ", ".join(value.name for value in step.unread[:NAMED])
    more = len(step.unread) - NAMED
    size = size_text(sum(value.size_bytes for value in step.unread))
    return f"no op reads {size} ({names}{f' and {more} more' if more > 0 else ''})"


def shortage(step: TrainingStep, t: Tables, plan: Plan, limit_bytes: int, impossible: bool) -> str:
    """What is said if even the plan with the least peak is above the limit; `impossible` if no plan can fit."""
    run = trace(t, plan)
    at = int(run.held_bytes.argmax())
    op = step.ops[run.op[at]]
    phase = "forward" if at < run.turn else "backward"
    near = {int(step.owner[n]) for n in (*op.inputs, *op.outputs)}
    largest = sorted(near, key=lambda n: -step.values[n].size_bytes)[:NAMED]
    names = ", ".join(f"{step.label(n)} ({size_text(step.values[n].size_bytes)})" for n in largest)
    unread = f", of which {unread_text(step)}" if step.unread else ""
    return (
        f"{step.name}: expected a limit of at least {exact_size(int(run.held_bytes[at]))}, the least peak found (in the"
        f" {phase} pass at {op.name}: {names}; {size_text(t.fixed_bytes)} are there all the time{unread}), found"
        f" {exact_size(limit_bytes)}"
        f"{', within which no plan fits in which an op runs at most once per pass, by proof' if impossible else ''}"
    )
