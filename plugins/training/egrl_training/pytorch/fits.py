"""Will it fit? The peak of a training step, the least peak and the largest batch, before anything runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_training.pytorch.asked import NEAR_ENOUGH, Limit, size_of
from egrl_training.pytorch.at_peak import largest_at_peak
from egrl_training.pytorch.backend import BACKENDS
from egrl_training.pytorch.estimates import Rates
from egrl_training.pytorch.fit_report import ALL, LEAST, THEIRS, WITHIN, Fit, Row
from egrl_training.pytorch.fit_steps import FitStep, FitSteps
from egrl_training.pytorch.versions import check_version
from egrl_training.simulator.batches import Batches, are_equal, largest, largest_near
from egrl_training.simulator.least import fastest_within, floor_bytes, least_peak
from egrl_training.simulator.rules import plans_by_rule
from workloads.errors import InputError

Plan = NDArray[np.int16]
SHARE = 0.1
"""Of the time limit of a search: for each least peak at another batch."""
KNOWN = 3
"""Plans of other batches, the last ones, with which the search at another begins."""
NAMED = 5
"""Tensors that are named at the peak."""
AS_MEASURED = Rates()


def fits(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    memory: str | int,
    *,
    optimizer: Any = "adamw",
    batch_dim: int = 0,
    rates: Rates = AS_MEASURED,
    seconds: float = 20.0,
    name: str = "",
    backend: str = "aot_eager",
) -> Fit:
    """What a training step takes, whether that fits, and the largest batch that does.

    No step runs, and nothing is allocated: all is known from shapes.

    Args:
        function: a module or a function that returns the loss; one graph, as for `torch.compile(fullgraph=True)`.
            What it was built of may have no data (`no_data.without_data`).
        inputs: what it is called with, with or without data.
        memory: of the device, such as "24 GiB".
        optimizer: a name ("adamw", "sgd", "sgd-momentum", any of `torch.optim`, "none"), a class or an optimizer.
        batch_dim: the dimension of the inputs that is the batch.
        rates: of the device that it will train on; by default as measured on the one at hand.
        seconds: time limit of each search.
        name: of the step [the function's].
        backend: of `torch.compile`: "aot_eager", or "inductor", whose code is generated for each plan, which takes
            seconds; no kernel is compiled.

    Raises:
        InputError: a wrong argument, or the step is no single graph that can be planned.
    """
    check_version()
    if backend not in BACKENDS:
        raise InputError(f"backend: expected {' or '.join(BACKENDS)}, found {backend!r}")
    if not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise InputError(f"seconds: expected a number above 0, found {seconds!r}")
    if not isinstance(batch_dim, int) or batch_dim < 0:
        raise InputError(f"batch_dim: expected a dimension from 0 on, found {batch_dim!r}")
    limit = size_of(memory, "memory")
    steps = FitSteps(function, inputs, batch_dim, optimizer, rates, name, backend)
    question = _Compiled if backend == "inductor" else _Question
    return question(steps, limit, seconds).answer()


class _Question:
    """About the steps of one function, and one limit in bytes."""

    def __init__(self, steps: FitSteps, limit: int, seconds: float) -> None:
        self._steps, self._limit, self._seconds = steps, limit, seconds
        self._found: list[Plan] = []
        """Plans with little peaks."""

    def answer(self) -> Fit:
        given = self._steps.given
        least = least_peak(given.joint.step, given.tables, self._seconds)
        self._found.append(least)
        rows = {
            ALL: Row(ALL, given.peak_bytes(given.everything), 0.0),
            THEIRS: Row(THEIRS, given.peak_bytes(None), given.more_time(given.theirs())),
        }
        within = self._fastest(given, self._limit)
        for name, plan in ((WITHIN, within), (LEAST, self._least(given, [least, within]))):
            if plan is not None:
                rows[name] = Row(name, given.peak_bytes(plan), given.more_time(plan))
        batch, remark = None, ""
        try:
            batch = self._steps.batch
            rows |= self._largest(rows, batch)
        except InputError as error:
            remark = str(error)
        held = largest_at_peak(given.joint, given.tables, given.everything, NAMED)
        return Fit(
            given.joint.step.name,
            self._limit,
            rows,
            given.optimizer,
            given.stepping_bytes,
            held,
            batch,
            remark,
            self._steps.backend,
        )

    def _least(self, step: FitStep, plans: Sequence[Plan | None]) -> Plan | None:
        """The fastest plan found at the peak of the first plan."""
        assert plans[0] is not None
        return self._fastest(step, step.peak_bytes(plans[0]), SHARE)

    def _fastest(self, step: FitStep, limit: int, share: float = 1.0) -> Plan | None:
        """The fastest plan found within a limit in that share of the time of a search; None if none was found."""
        if step.stepping_bytes > limit:
            return None
        rules = plans_by_rule(step.joint.step, step.tables).values()
        known = [plan for plan in self._found if len(plan) == len(step.everything)]
        starts = [step.everything, step.theirs(), *known, *rules]
        return fastest_within(step.tables, starts, limit, share * self._seconds, NEAR_ENOUGH)

    def _largest(self, rows: dict[str, Row], batch: int) -> dict[str, Row]:
        """The rows with their largest batches. InputError if the step cannot be captured at another batch."""
        at = self._affine(batch) or self._steps.at
        found = self._batches(at, batch)
        if at != self._steps.at and not self._is_right(at, max(found.values())):
            at = self._steps.at
            found = self._batches(at, batch)
        there = {name: replace(rows[name], largest_batch=most) for name, most in found.items()}
        if most := found[LEAST]:
            step = at(most)
            plan = self._fastest(step, self._limit)
            assert plan is not None
            there[LEAST] = replace(there[LEAST], more_time_there=step.more_time(plan))
        return there

    def _batches(self, at: Callable[[int], FitStep], first: int) -> dict[str, int]:
        whole = largest(lambda batch: self._fits(at(batch), at(batch).everything), first)
        theirs = largest(lambda batch: self._fits(at(batch), None), max(whole, 1))
        ours = largest(lambda batch: self._any_fits(at(batch)), max(whole, theirs, 1))
        return {ALL: whole, THEIRS: theirs, LEAST: ours}

    def _fits(self, step: FitStep, plan: Plan | None) -> bool:
        return step.peak_bytes(plan) <= self._limit

    def _any_fits(self, step: FitStep) -> bool:
        """True if a plan that fits is found."""
        if max(step.stepping_bytes, floor_bytes(step.tables)) > self._limit:
            return False
        same = [plan for plan in self._found if len(plan) == len(step.everything)]
        if any(self._fits(step, plan) for plan in same):
            return True
        self._found.append(least_peak(step.joint.step, step.tables, SHARE * self._seconds, same[-KNOWN:]))
        return self._fits(step, self._found[-1])

    def _affine(self, batch: int) -> Callable[[int], FitStep] | None:
        """The step at any batch, from two that were captured; None if its sizes do not grow evenly.

        A batch of one may have other ops than larger ones.
        """
        for first in (batch, 2 * batch):
            one, other = self._steps.at(first), self._steps.at(2 * first)
            batches = Batches(first, one.tables, 2 * first, other.tables)
            if batches.is_affine():
                return functools.partial(_at, one, batches)
        return None

    def _is_right(self, at: Callable[[int], FitStep], batch: int) -> bool:
        """True if the step is what is captured at a batch."""
        return not batch or are_equal(at(batch).tables, self._steps.at(batch).tables)


class _Compiled(_Question):
    """The same under inductor, where what a plan takes is known once its code is generated."""

    def _fastest(self, step: FitStep, limit: int, share: float = 1.0) -> Plan | None:
        """The fastest plan found whose code is within a limit; None if none was found."""
        asked = Limit(limit, None, step.optimizer.state, "exact", share * self._seconds, 0)
        if max(step.stepping_bytes, step.optimizer.state + 1) > limit:
            return None
        assert step.compiled is not None
        compiled = step.compiled
        try:
            plan, _ = asked.plan_compiled(step.joint.step, lambda names: compiled(frozenset(names)))
        except InputError:
            return None
        return step.keeping(plan.keep)

    def _least(self, step: FitStep, plans: Sequence[Plan | None]) -> Plan | None:
        """The plan with the least peak: code of a plan that keeps less may take more."""
        return min((plan for plan in (*plans, step.everything) if plan is not None), key=step.peak_bytes)

    def _largest(self, rows: dict[str, Row], batch: int) -> dict[str, Row]:
        peaks: dict[str, Callable[[FitStep], int]] = {
            ALL: lambda step: step.peak_bytes(step.everything),
            THEIRS: lambda step: step.peak_bytes(None),
            LEAST: self._least_bytes,
        }
        there = {}
        for name, peak in peaks.items():
            fits = functools.cache(lambda batch, peak=peak: peak(self._steps.at(batch)) <= self._limit)
            here, twice = (peak(self._steps.at(each)) for each in (batch, 2 * batch))
            guess = batch * (1 + (self._limit - here) / max(twice - here, 1))
            there[name] = replace(rows[name], largest_batch=largest_near(fits, int(guess)))
        if most := there[LEAST].largest_batch:
            step = self._steps.at(most)
            plan = self._fastest(step, self._limit)
            there[LEAST] = replace(
                there[LEAST], more_time_there=None if plan is None else step.more_time(plan)
            )
        return there

    def _least_bytes(self, step: FitStep) -> int:
        same = [plan for plan in self._found if len(plan) == len(step.everything)]
        self._found.append(least_peak(step.joint.step, step.tables, SHARE * self._seconds, same[-KNOWN:]))
        return min(step.peak_bytes(plan) for plan in (self._found[-1], step.everything))


def _at(step: FitStep, batches: Batches, batch: int) -> FitStep:
    """The step at another batch, without a capture."""
    return replace(step, tables=batches.at(batch))
