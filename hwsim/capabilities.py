"""Capabilities of a problem: what it can say of itself or of a mapping beyond what every `Problem` does.

Who needs one asks for it (`isinstance(problem, HasLifetimes)`), and does without where it is missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hwsim.explanation import Breakdown, OpTimes, Partition
from hwsim.problem import (
    Bound,
    Floats,
    Keys,
    Mapping16,
    Observation,
    Problem,
)

Explained = TypeVar("Explained", bound=OpTimes | Partition | Breakdown)


@runtime_checkable
class HasObservation(Protocol):
    """A problem with a graph that policies can look at."""

    @property
    def observation(self) -> Observation:
        """What a policy sees at the space's `initial`."""


@runtime_checkable
class CanSample(Protocol):
    """A problem that draws mappings by a rule of its own; others are drawn decision by decision.

    Whoever wants a mapping asks `hwsim.mappings.sample` or `sample_uniformly`, which serve all problems.
    """

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        """Draw canonical mappings [B, N, H] from probabilities [B, N, H, C] (rows of dead decisions ignored).

        None: all choices of a decision are equally likely. The keys are uint64 [B].
        """


@runtime_checkable
class CanRepair(Protocol):
    """A problem that cannot express every mapping, or mends some; what others do is `hwsim.mappings.repair`."""

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """The mappings [B, N, H] nearest by the problem's own rule that it can express.

        Raises ValueError where shape, dtype or a choice number is out of range.
        """


@runtime_checkable
class CanMove(Protocol):
    """A problem that knows how one decision changes well: which others change with it."""

    def move(self, mapping: Mapping16, key: np.uint64) -> Mapping16:
        """One mapping [N, H] after a random change that follows from the key; it need not be one that runs."""


@runtime_checkable
class HasFiles(Protocol):
    """A problem with inputs that must be kept beside a run so that it can be repeated."""

    def files(self) -> Mapping[str, str | bytes]:
        """File name -> text, or the bytes of a packed file."""


@dataclass(frozen=True)
class Solution:
    """What a solver made of a problem's model: a valid mapping int16 [N, H], its modelled cost, and a bound."""

    mapping: Mapping16
    cost: float
    bound: Bound


@runtime_checkable
class HasModel(Protocol):
    """A problem whose model can be solved, exactly or to a gap."""

    def solve(self, time_limit_s: float, seed: int) -> Solution:
        """A good mapping and a bound within about `time_limit_s`; `seed` is for the local search."""

    def model_cost(self, mapping: Mapping16) -> float:
        """The noise-free cost of what runs for one mapping [N, H]."""


class Solving(ABC):
    """A solve of a problem's model in steps: its best only improves, its bound only rises."""

    @abstractmethod
    def work(self, seconds: float) -> None:
        """Go on for about that many seconds, unless it is done."""

    @property
    @abstractmethod
    def best(self) -> Mapping16 | None:
        """The best mapping [N, H] so far."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """Its modelled cost; infinite if there is none."""

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What is proved so far."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether nothing is left to do."""


@runtime_checkable
class HasSolving(HasModel, Protocol):
    """A problem whose model is solved little by little, so that there is something to tell at any time."""

    def solving(self, seed: int, threads: int, start: Mapping16 | None) -> Solving:
        """A solve at its beginning, which knows the mapping `start` [N, H]."""

    def prove(self, bound: Bound) -> None:
        """Remember what a solve has proved, so that `bound` need not prove it again."""


@runtime_checkable
class HasBestKnown(Protocol):
    """A problem that ships with the best mappings known, or remembers them."""

    def best_known(self) -> tuple[Mapping16 | None, str]:
        """The best mapping known, or None; and a remark for people ("" where there is nothing to say)."""


@runtime_checkable
class HasBound(Protocol):
    """A problem of which it can be proved how good a mapping can be at most."""

    def bound(self, time_limit_s: float) -> Bound:
        """What no mapping is better than, as far as it is proved within the limit.

        With a limit of 0 nothing is proved: it is what is known at once (what ships with the package).
        """


@runtime_checkable
class HasExplanation(Protocol[Explained]):
    """A problem that can say where the cost of a mapping comes from; ask for it by `explainer`.

    Attributes:
        explained: the form of its explanations.
    """

    explained: type[Explained]

    def explain(self, mapping: Mapping16) -> Explained:
        """The noise-free account of what runs for one mapping [N, H]; ValueError as of `evaluate`."""


E = TypeVar("E", OpTimes, Partition, Breakdown)


def explainer(problem: Problem, form: type[E]) -> Callable[[Mapping16], E] | None:
    """What explains a mapping [N, H] of a problem in that form; None if the problem has none in it."""
    if isinstance(problem, HasExplanation) and problem.explained is form:
        return problem.explain
    return None


@dataclass(frozen=True)
class Occupancy:
    """What each of L memories holds at each of T steps under one mapping with H heads.

    Attributes:
        memories: L names, slowest first.
        by_head: int64 [T, L, H], bytes of the tensors that each head places.
        capacity_bytes: int64 [L].
    """

    memories: tuple[str, ...]
    by_head: NDArray[np.int64]
    capacity_bytes: NDArray[np.int64]

    @property
    def occupied_bytes(self) -> NDArray[np.int64]:
        """int64 [T, L], all heads together."""
        return self.by_head.sum(axis=2)


@runtime_checkable
class HasOccupancy(Protocol):
    """A problem that can say what its memories hold over time; a step is a node unless the problem says otherwise."""

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        """What is held under one mapping [N, H] as it stands, even where that is more than a memory can hold."""


@dataclass(frozen=True)
class Lifetime:
    """A tensor that a mapping places: how much room it needs, where, and from which step to which.

    Attributes:
        node, head: whose it is.
        memory: its number, 0 = slowest.
        size_bytes: more than 0.
        first, last: steps, closed.
    """

    node: str
    head: str
    memory: int
    size_bytes: int
    first: int
    last: int


@runtime_checkable
class HasLifetimes(Protocol):
    """A problem that can say where each tensor lives and when, so that it can be given an address."""

    def memories(self) -> Sequence[tuple[str, int]]:
        """Name and capacity in bytes of the memories, slowest first."""

    def lifetimes(self, mapping: Mapping16) -> Sequence[Lifetime]:
        """The tensors of one mapping [N, H] as it stands, in the order of nodes and heads."""


@runtime_checkable
class HasPlacement(Protocol):
    """A problem in which a mapping is played out to more than its choices: a place for each node."""

    def placement(self, mapping: Mapping16) -> Sequence[Mapping[str, Any] | None]:
        """What one mapping [N, H] leads to, a JSON object a node (None where there is nothing to say)."""

    def baseline_placement(self) -> Sequence[Mapping[str, Any] | None] | None:
        """The same of the baseline, where no mapping leads to it; None where `baseline.mapping` does."""


@runtime_checkable
class HasPlanText(Protocol):
    """A problem whose mappings people write as one text, a plan: mapping files hold it under `plan`."""

    def plan_text(self, mapping: Mapping16) -> str:
        """The text of one mapping [N, H]."""

    def read_plan(self, text: str, where: str) -> Mapping16:
        """The mapping [N, H] of a text; InputError, beginning with `where`, where it is none of this problem."""


class Race(ABC):
    """Measuring mappings again, in turn, before one of them is named the best."""

    @abstractmethod
    def costs(self, mapping: Mapping16) -> Floats:
        """The costs [B] of mappings [B, N, H], measured in turn with one another."""

    @abstractmethod
    def known(self) -> Mapping16 | None:
        """The mapping [N, H] that was remembered last, which races with the others; None where there is none."""

    @abstractmethod
    def remember(self, mapping: Mapping16, cost: float) -> str:
        """Keep the mapping [N, H] that won a race, with its cost there; what became of it, for people."""


@runtime_checkable
class HasRace(Protocol):
    """A problem that measures on this machine: who was the best of a run is measured again, and remembered."""

    @property
    def race(self) -> Race: ...
