"""The central types between problems and methods: a mapping goes in, an `Evaluation` comes out.

A *mapping* is an int16 array [N, H]: choice numbers of H decisions at each of N nodes; -1 where a decision
is unused (dead: nothing there has a size). Batches of mappings are [B, N, H].

A *key* is a uint64 a row. Everything random in a problem (measurement noise, sampling) is a pure function of
its arguments and the key: another key differs, the same key repeats.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hwsim.space import Space

Mapping16 = NDArray[np.int16]
"""int16 [N, H] or [B, N, H]; -1 = unused."""
Keys = NDArray[np.uint64]
"""uint64 [B]."""
Floats = NDArray[np.float64]


class Status(IntEnum):
    """What became of a proposal, judged on what would run."""

    OK = 0
    INVALID = 1
    FAILED = 2
    TIMEOUT = 3


@dataclass(frozen=True)
class Evaluation:
    """Measurements of B proposals.

    Attributes:
        reward: float64 [B], maximised.
        cost: float64 [B], seconds unless the problem says otherwise; NaN where nothing ran.
        speedup: float64 [B], baseline cost / cost; 0 where nothing ran.
        epsilon: float64 [B], share of the mapped bytes that the compiler had to move, 0..1.
        status: int8 [B], a `Status`.
        partial: bool [B], counted but never a champion (a sub-plan, say).
        repaired: int16 [B, N, H], the mapping that was judged (and that a learner should store).
    """

    reward: Floats
    cost: Floats
    speedup: Floats
    epsilon: Floats
    status: NDArray[np.int8]
    partial: NDArray[np.bool_]
    repaired: Mapping16

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """bool [B]: there is a reward to learn from; a measurement that failed says nothing of the mapping."""
        return (self.status <= Status.INVALID) & np.isfinite(self.reward)

    def rows(self, index: slice | NDArray[Any]) -> Evaluation:
        """The evaluation of some rows."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})

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
    ) -> Evaluation:
        """What B costs mean, as every problem says it.

        Args:
            cost: float64 [B]; looked at only where a row ran.
            baseline_cost: what speedups are over, one number or float64 [B].
            ran: bool [B].
            repaired: int16 [B, N, H], the mappings that were judged.
            epsilon: float64 [B], the share of the bytes that had to move.
            reward: float64 [B]; default: speedup^2 where a row ran, -penalty elsewhere.
            penalty: 0 or more; default: epsilon.
            otherwise: the status of rows that did not run.
            partial: bool [B]; default: every row is whole.
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
        )

    @staticmethod
    def concatenate(parts: Sequence[Evaluation]) -> Evaluation:
        """One evaluation of all rows of the parts, in order."""
        return Evaluation(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Evaluation)}
        )


@dataclass(frozen=True)
class Observation:
    """What a policy sees: x float32 [N, F] and directed edges int64 [2, E] (producer, consumer).

    The last H columns of x hold the current mapping, each choice as its rank in speed scaled to 0..1.
    `schema` is the version of the other columns: policies fit only observations of their own schema.
    """

    x: NDArray[np.float32]
    edge_index: NDArray[np.int64]
    schema: int = 0


@dataclass(frozen=True)
class Baseline:
    """The mapping that every speedup is measured against: int16 [N, H], its noise-free cost, its rule.

    Where `nearest` is true the baseline is no mapping of the problem (a compiler's own plan, made by other rules):
    `cost` is then that plan's, and `mapping` the one that comes near it, whose own cost may be another.
    """

    mapping: Mapping16
    cost: float
    name: str
    nearest: bool = False


@dataclass(frozen=True)
class Violation:
    """One broken constraint: `demanded` > `available` (in `unit`) at `where`."""

    what: str
    where: str
    demanded: float
    available: float
    unit: str

    def __str__(self) -> str:
        return (
            f"{self.what} at {self.where}: demanded {self.demanded:g} {self.unit}, "
            f"available {self.available:g} {self.unit}"
        )


@dataclass(frozen=True)
class Bound:
    """What is proved of all mappings, and how.

    Attributes:
        cost: no mapping has a lower noise-free cost; 0 where nothing is proved of costs.
        reward: no mapping has a higher noise-free reward; inf where nothing is proved but what follows from `cost`.
        proof: how it was obtained, for people.
        seconds: how long that took.
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
    """How a problem speaks of itself.

    Attributes:
        name: "nnpi", "mmap" …
        workload, chip: names for people and for summaries.
        unit: of costs.
        rival: what the baseline is called: "the compiler".
        evaluated: what evaluations evaluate, in the plural: "inferences".
        measured: whether costs are seconds that are measured on this machine, the baseline's anew in each run.
        place: what a choice is where it is a place: "memory", "chip"; "" where choices are no places: actions, rules.
        alike: whether two mappings are the more alike the more of their numbers are equal; not so where a number means
            another thing after other choices, as the rules of a plan do.
        step: what a step of the time axis is: "op", "instruction".
    """

    name: str
    workload: str
    chip: str
    unit: str = "s"
    rival: str = "the baseline"
    evaluated: str = "mappings"
    measured: bool = False
    place: str = ""
    alike: bool = True
    step: str = "node"


class Problem(Protocol):
    """What a mapping costs on some hardware. Everything is fixed after construction; it must pickle.

    What a problem may offer beyond this is a capability each (`hwsim/capabilities.py`, `hwsim/stepwise.py`).

    Attributes:
        about: its name and its words.
        space: what there is to decide.
        baseline: what speedups are relative to.
    """

    @property
    def about(self) -> About: ...
    @property
    def space(self) -> Space: ...
    @property
    def baseline(self) -> Baseline: ...

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Measure mappings [B, N, H]; pure, batched; `key` [B] decides the noise.

        Raises ValueError where shape, dtype or a choice number is out of range.
        """

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every constraint that one mapping [N, H] breaks, by code that shares nothing with `evaluate`."""

    def fingerprint(self) -> str:
        """Hex digest of everything a cost depends on: simulator version, chip, workload, switches."""
