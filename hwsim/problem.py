"""The central types between problems and methods: a mapping goes in, an `Evaluation` comes out.

A *mapping* is an int16 array [N, H]: one choice number for each of H decisions at each of N nodes. If a decision is
dead (nothing there has a size), its number is -1. Batches of mappings are [B, N, H].

A *key* is one uint64 per row. Everything random in a problem (measurement noise, sampling) is a pure function of its
arguments and the key: the same key gives the same result, another key another one.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hwsim.space import Space

Mapping16 = NDArray[np.int16]
"""int16 [N, H] or [B, N, H]; -1: the decision is dead."""
Keys = NDArray[np.uint64]
"""uint64 [B]."""
Floats = NDArray[np.float64]
Profiles = NDArray[np.float32]
"""float32 [B, P]: of each row, what each of P parts took, in the unit of the cost; NaN: not known."""


class Status(IntEnum):
    """The outcome of an evaluation. It is judged on the mapping that would run, after any repair."""

    OK = 0
    INVALID = 1
    FAILED = 2
    TIMEOUT = 3


@dataclass(frozen=True)
class Evaluation:
    """Measurements of B proposals.

    Attributes:
        reward: float64 [B]; methods maximise it.
        cost: float64 [B] in the problem's unit (`About.unit`), mostly seconds; NaN if nothing ran.
        speedup: float64 [B], baseline cost / cost; 0 if nothing ran.
        epsilon: float64 [B] in 0..1, the share of the mapped bytes that the compiler had to move.
        status: int8 [B], the number of a `Status`.
        partial: bool [B], True for a part of a plan: it counts as an evaluation, but never becomes the champion.
        repaired: int16 [B, N, H], the mapping that was judged, which a learner should store.
        parts: float32 [B, P] in the unit of the cost, what each part of the problem (`HasParts`) took; NaN where that
            is not known. None: no row has a profile.
    """

    reward: Floats
    cost: Floats
    speedup: Floats
    epsilon: Floats
    status: NDArray[np.int8]
    partial: NDArray[np.bool_]
    repaired: Mapping16
    parts: Profiles | None = None

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """bool [B]: True if the reward can be learned from; a failed measurement says nothing about the mapping."""
        return (self.status <= Status.INVALID) & np.isfinite(self.reward)

    def rows(self, index: slice | NDArray[Any]) -> Evaluation:
        """The evaluation of the rows that `index` selects."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(
            self, **{name: column[index] for name, column in columns.items() if column is not None}
        )

    @staticmethod
    def of_costs(
        cost: Floats,
        baseline_cost: float | Floats,
        ran: NDArray[np.bool_],
        repaired: Mapping16,
        epsilon: Floats,
        *,
        reward: Floats | None = None,
        penalty: Floats | float | None = None,
        otherwise: Status = Status.INVALID,
        partial: NDArray[np.bool_] | None = None,
        parts: Profiles | None = None,
    ) -> Evaluation:
        """The evaluation that follows from B costs, by the rule that all problems share.

        Args:
            cost: float64 [B]; ignored for rows that did not run.
            baseline_cost: the cost that speedups are relative to, one number or float64 [B].
            ran: bool [B], True for rows that ran.
            repaired: int16 [B, N, H], the mappings that were judged.
            epsilon: float64 [B] in 0..1, the share of the bytes that had to move.
            reward: float64 [B]; default: speedup^2 for rows that ran, -penalty for all others.
            penalty: 0 or more, one number or float64 [B]; default: epsilon.
            otherwise: the status of rows that did not run.
            partial: bool [B], True for parts of a plan; default: False everywhere.
            parts: float32 [B, P], the profiles; ignored for rows that did not run.
        """
        below = 0.0 - (epsilon if penalty is None else penalty)  # not -penalty: no row has a reward of -0
        speedup = np.divide(baseline_cost, cost, out=np.zeros(len(cost)), where=ran)
        return Evaluation(
            reward=np.where(ran, speedup * speedup, below) if reward is None else reward,
            cost=np.where(ran, cost, np.nan),
            speedup=speedup,
            epsilon=epsilon,
            status=np.where(ran, Status.OK, otherwise).astype(np.int8),
            partial=np.zeros(len(cost), np.bool_) if partial is None else partial,
            repaired=repaired,
            parts=None if parts is None else np.where(ran[:, None], parts, np.float32(np.nan)),
        )

    @staticmethod
    def concatenate(batches: Sequence[Evaluation]) -> Evaluation:
        """One evaluation with the rows of all batches, in order; rows of a batch without profiles have NaN."""
        required = [f.name for f in fields(Evaluation) if f.name != "parts"]
        return Evaluation(
            **{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in required},
            parts=_all_profiles(batches),
        )


def _all_profiles(batches: Sequence[Evaluation]) -> Profiles | None:
    """The profiles of all batches, in order; None if no row has one."""
    widths = {batch.parts.shape[1] for batch in batches if batch.parts is not None}
    if not widths:
        return None
    blank = np.full((1, max(widths)), np.nan, np.float32)
    found: Profiles = np.concatenate(
        [np.repeat(blank, len(batch), 0) if batch.parts is None else batch.parts for batch in batches]
    )
    return None if np.isnan(found).all() else found


@dataclass(frozen=True)
class Observation:
    """The graph that a policy sees.

    Attributes:
        x: float32 [N, F], one row per node. The last H columns hold the current mapping: each choice as its rank in
            speed, scaled to 0..1.
        edge_index: int64 [2, E], directed edges (producer, consumer).
        schema: the version of the columns before the last H. A policy fits only observations of its own schema.
    """

    x: NDArray[np.float32]
    edge_index: NDArray[np.int64]
    schema: int = 0


@dataclass(frozen=True)
class Baseline:
    """The mapping that speedups are relative to.

    Attributes:
        mapping: int16 [N, H].
        cost: noise-free, in the problem's unit.
        name: of the rule that made it.
        nearest: True if the baseline is a compiler's own plan that no mapping of the problem can express. Then `cost`
            is the cost of that plan, and `mapping` only comes near it: its own cost may differ.
        rules: returns the valid mappings int16 [N, H] of the rules that the problem knows, by name, within a moment:
            those that the baseline was chosen from, or others like it. It can be pickled.
    """

    mapping: Mapping16
    cost: float
    name: str
    nearest: bool = False
    rules: Callable[[], Mapping[str, Mapping16]] = dict


@dataclass(frozen=True)
class Violation:
    """One broken constraint: at `where`, `demanded` exceeds `available` (both in `unit`)."""

    what: str
    where: str
    demanded: float
    available: float
    unit: str

    def __str__(self) -> str:
        # Whole numbers, bytes say, to the last digit.
        demanded, available = (
            f"{x:.0f}" if float(x).is_integer() else f"{x:g}" for x in (self.demanded, self.available)
        )
        return (
            f"{self.what} at {self.where}: demanded {demanded} {self.unit}, available {available} {self.unit}"
        )


@dataclass(frozen=True)
class Bound:
    """A proven limit on all mappings.

    Attributes:
        cost: no mapping has a lower noise-free cost; 0 if nothing is proved about costs.
        reward: no mapping has a higher noise-free reward; inf if nothing is proved beyond what follows from `cost`.
        proof: the kind of proof, for people.
        seconds: how long the proof took.
    """

    cost: float
    reward: float
    proof: str
    seconds: float

    def _repr_html_(self) -> str:
        """The bound as a table, for notebooks."""
        rows = {"proof": self.proof, "time": f"{self.seconds:.1f} s"}
        if math.isfinite(self.reward):
            rows = {"no reward is above": f"{self.reward:.6g}", **rows}
        if self.cost > 0:
            rows = {"no cost is below": f"{self.cost:.6g}", **rows}
        cells = "".join(
            f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items()
        )
        return f"<table>{cells}</table>"


UNPROVED = Bound(0.0, math.inf, "nothing is proved", 0.0)


@dataclass(frozen=True)
class About:
    """The names of a problem and its parts in texts and figures.

    Attributes:
        name: the name on the command line: "nnpi", "mmap" …
        workload: name of the workload.
        chip: name of the chip.
        unit: the unit of costs; "s" for seconds.
        baseline_name: what texts call the baseline, such as "the compiler".
        model_error: relative error of the cost model on mappings that were not used to fit it; 0: not known.
        stands_for: what the baseline stands in for, if it is a rule of egrl's, such as "a compiler"; "" if it is what
            `baseline_name` names.
        evaluated: what is evaluated, in the plural, such as "inferences".
        measured: True if costs are seconds measured on this machine; the baseline is then measured anew in each run.
        place: what a choice is if it is a place, such as "memory" or "chip"; "" if choices are actions or rules.
        alike: True if mappings with more equal numbers are more alike. False if the meaning of a number depends on the
            choices before it, as with the rules of a plan.
        step: what one step of the time axis is, such as "op" or "instruction".
        plan_file: the file of a run folder that has the plan of the best mapping alone (`HasPlanText`), for other
            programs; "": there is none.
        uncounted: what of the workload was guessed or not counted, if it was imported; "": nothing.
        widths: how wide its numbers are counted, if not as in the workload; "": as there.
        compiled: True if an evaluation takes about a second, as a compile does: none is made beyond a search's budget.
    """

    name: str
    workload: str
    chip: str
    unit: str = "s"
    baseline_name: str = "the baseline"
    evaluated: str = "mappings"
    measured: bool = False
    place: str = ""
    alike: bool = True
    step: str = "node"
    model_error: float = 0.0
    stands_for: str = ""
    plan_file: str = ""
    uncounted: str = ""
    widths: str = ""
    compiled: bool = False

    @property
    def names(self) -> dict[str, str]:
        """Problem, workload and chip, as documents name what they are of."""
        return {"problem": self.name, "workload": self.workload, "chip": self.chip}


class Problem(Protocol):
    """A workload on some hardware, and the cost of each mapping.

    A problem does not change after construction, and it can be pickled. What a problem may offer beyond this is one
    capability each (`hwsim/capabilities.py`, `hwsim/stepwise.py`).

    Attributes:
        about: names and words for texts.
        space: the decisions.
        baseline: the mapping that speedups are relative to.
    """

    @property
    def about(self) -> About: ...
    @property
    def space(self) -> Space: ...
    @property
    def baseline(self) -> Baseline: ...

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Measure mappings [B, N, H]. The result depends on the mappings and on `key` [B], which decides the noise.

        Raises ValueError if the shape, the dtype or a choice number is wrong.
        """

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every constraint that one mapping [N, H] breaks, by code that shares nothing with `evaluate`."""

    def fingerprint(self) -> str:
        """Hex digest of everything that a cost depends on: simulator version, chip, workload and settings."""
