"""Capabilities: what some problems offer beyond what every `Problem` must.

Code that needs one asks for it by `isinstance(problem, HasLifetimes)`, and does without if the problem lacks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hwsim.explanation import Breakdown, OpTimes, Partition
from hwsim.placing import Placer
from hwsim.problem import (
    Bound,
    Floats,
    Keys,
    Mapping16,
    Observation,
    Problem,
)

if TYPE_CHECKING:
    from scipy import sparse

Explained = TypeVar("Explained", bound=OpTimes | Partition | Breakdown)


@runtime_checkable
class HasObservation(Protocol):
    """A problem with a graph that a policy network can read."""

    @property
    def observation(self) -> Observation:
        """What a policy sees if the current mapping is the space's `initial`."""


@runtime_checkable
class HasPlacer(Protocol):
    """A problem with a placer: it puts tensors into memories by score (`hwsim.placing`)."""

    @property
    def placer(self) -> Placer: ...


@runtime_checkable
class CanSample(Protocol):
    """A problem that draws mappings by a rule of its own; for all others every decision is drawn by itself.

    To draw mappings of any problem, call `hwsim.mappings.sample` or `sample_uniformly`.
    """

    def sample(self, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
        """Draw canonical mappings [B, N, H] with keys uint64 [B].

        The probabilities are [B, N, H, C]; those of dead decisions are ignored. With None, all choices of a decision
        are equally likely.
        """


@runtime_checkable
class CanRepair(Protocol):
    """A problem with a repair rule of its own. To repair mappings of any problem, call `hwsim.mappings.repair`."""

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """The nearest mappings [B, N, H] that the problem can express, by its own rule.

        Raises ValueError if the shape, the dtype or a choice number is wrong.
        """


@runtime_checkable
class CanMove(Protocol):
    """A problem with a local move of its own: if one decision changes, it knows which others should follow."""

    def move(self, mapping: Mapping16, key: np.uint64) -> Mapping16:
        """The mapping [N, H] after a random change, which the key decides; the result need not be valid."""


@runtime_checkable
class HasFiles(Protocol):
    """A problem with input files, which a run keeps so that it can be repeated."""

    def files(self) -> Mapping[str, str | bytes]:
        """The content by file name: text, or the bytes of a packed file."""


@dataclass(frozen=True)
class Solution:
    """The result of a solve: a valid mapping int16 [N, H], its modelled cost, and a bound on all mappings.

    Attributes:
        complete: False if the time limit ended the work: another call may give another solution.
    """

    mapping: Mapping16
    cost: float
    bound: Bound
    complete: bool = True


@runtime_checkable
class HasModel(Protocol):
    """A problem with a model that can be solved, exactly or to a gap."""

    def solve(self, time_limit_s: float, seed: int, start: Mapping16 | None = None) -> Solution:
        """A good mapping and a bound within about `time_limit_s` seconds; `seed` seeds the local search.

        The solve may begin with the mapping `start` [N, H], such as the solution of a similar problem. If one is given
        and the problem supports it, the amount of work is fixed: the solve ends before the limit, and can be repeated.
        """

    def model_cost(self, mapping: Mapping16) -> float:
        """The noise-free cost of one mapping [N, H], after any repair."""


class Solving(ABC):
    """A solve of a problem's model in steps: its best only improves, its bound only rises."""

    @abstractmethod
    def work(self, seconds: float) -> None:
        """Continue for about that many seconds, unless the solve is done."""

    @property
    @abstractmethod
    def best(self) -> Mapping16 | None:
        """The best mapping [N, H] so far; None if there is none."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """The modelled cost of `best`; infinite if there is none."""

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """The bound that is proved so far."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if nothing is left to do."""


@runtime_checkable
class HasSolving(HasModel, Protocol):
    """A problem with a model that is solved in steps, so that an intermediate result is there at any time."""

    def solving(self, seed: int, threads: int, start: Mapping16 | None) -> Solving:
        """A new solve with so many threads, which begins with the mapping `start` [N, H], if one is given."""

    def prove(self, bound: Bound) -> None:
        """Keep a bound that a solve has proved, so that `bound` need not prove it again."""


@runtime_checkable
class HasBestKnown(Protocol):
    """A problem that ships with the best mappings known, or remembers them."""

    def best_known(self) -> tuple[Mapping16 | None, str]:
        """The best mapping known, or None; and a remark for people, or ""."""


def shipped_cost(problem: Problem) -> float | None:
    """The cost of the best mapping that ships for the problem; None where there is none."""
    if not isinstance(problem, HasBestKnown) or not isinstance(problem, HasModel):
        return None
    mapping, _ = problem.best_known()
    return None if mapping is None else problem.model_cost(mapping)


@runtime_checkable
class HasBound(Protocol):
    """A problem that can prove a bound on all mappings."""

    def bound(self, time_limit_s: float) -> Bound:
        """The best bound that can be proved within the limit, in seconds.

        With a limit of 0 nothing is proved: the answer is a bound that is known already, such as one that ships.
        """


@runtime_checkable
class HasExplanation(Protocol[Explained]):
    """A problem that explains where the cost of a mapping comes from; ask for it by `explainer`.

    Attributes:
        explained: the class of its explanations.
    """

    explained: type[Explained]

    def explain(self, mapping: Mapping16) -> Explained:
        """The noise-free explanation of one mapping [N, H], after any repair. Raises ValueError as `evaluate` does."""


def explainer(problem: Problem, form: type[Explained]) -> Callable[[Mapping16], Explained] | None:
    """The problem's `explain` if its explanations are of the class `form`; else None."""
    if isinstance(problem, HasExplanation) and problem.explained is form:
        return problem.explain
    return None


class Terms(Protocol):
    """What the parts of a cost are sums of: K terms of unknown size, such as what each node adds to its chip's load.

    A mapping says which terms a part holds. How large they are is for measured parts to teach.
    """

    @property
    def exact(self) -> bool:
        """True if parts are these sums; False if they are nearly."""

    @property
    def block(self) -> NDArray[np.int64]:
        """int64 [K]: no part ever holds terms of two blocks."""

    @property
    def group(self) -> NDArray[np.int64]:
        """int64 [K], in 0..G - 1: terms of one group are of one nature."""

    @property
    def size(self) -> Floats:
        """float64 [K], above 0: terms of a group are thought to be in proportion to it."""

    def held(self, mapping: Mapping16) -> sparse.csr_array:
        """float64 [B P, K]: how often each part of valid mappings [B, N, H] holds each term."""

    def improve(self, seconds: Floats, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """The best valid mapping [N, H] of a local search from a valid one, with terms float64 [K], 0 or more.

        Of the terms' sizes it knows nothing else. It takes about so many steps, fewer where a step takes long; `hot`
        is the first temperature, as a share of the cost. Equal keys give equal results.
        """


@dataclass(frozen=True)
class Parts:
    """The parts that a cost is made of, P of them, in the order of `Evaluation.parts`.

    Attributes:
        names: P different names. If a part is the time of a node, it has that node's name.
        whole: how parts make the cost: their "sum", or the largest of them ("max").
        node: int32 [P], the node of the space that each part belongs to; -1: to none.
        kinds: P kinds of ops, such as "conv", one for each part; empty if parts are not times of ops.
        terms: the terms that parts are sums of, such as what each node adds to the load of its chip; None: no sums.
    """

    names: tuple[str, ...]
    whole: Literal["sum", "max"]
    node: NDArray[np.int32]
    kinds: tuple[str, ...] = ()
    terms: Terms | None = None

    def __len__(self) -> int:
        return len(self.names)

    @staticmethod
    def of_nodes(names: Sequence[str], kinds: Sequence[str] = ()) -> Parts:
        """A part for each node; their sum is the cost."""
        return Parts(tuple(names), "sum", np.arange(len(names), dtype=np.int32), tuple(kinds))


@runtime_checkable
class HasParts(Protocol):
    """A problem with costs made of parts that a profiler can measure, such as the time of every op.

    If `evaluate` computes costs by a model, it fills `Evaluation.parts` for every row that ran. If a board measures
    them, it may (`op_seconds`, docs/guides/boards.md).
    """

    @property
    def parts(self) -> Parts:
        """What the cost is made of; it is the same for all mappings."""


@dataclass(frozen=True)
class Occupancy:
    """The bytes that each of L memories holds at each of T steps, for one mapping with H heads.

    Attributes:
        memories: L names, slowest first.
        by_head: int64 [T, L, H], bytes of the tensors that each head places.
        capacity_bytes: int64 [L], bytes that each memory can hold.
    """

    memories: tuple[str, ...]
    by_head: NDArray[np.int64]
    capacity_bytes: NDArray[np.int64]

    @property
    def occupied_bytes(self) -> NDArray[np.int64]:
        """int64 [T, L], bytes of all heads together."""
        return self.by_head.sum(axis=2)


@runtime_checkable
class HasOccupancy(Protocol):
    """A problem that knows what its memories hold over time; `About.step` says what a step is."""

    def occupancy(self, mapping: Mapping16) -> Occupancy:
        """What one mapping [N, H] puts into each memory, without repair: it may be more than the memory can hold."""


@dataclass(frozen=True)
class Lifetime:
    """A tensor that a mapping places: its size, its memory, and the steps during which it is held.

    Attributes:
        node: name of the node that the tensor belongs to.
        head: name of the decision that places it.
        memory: number of the memory, 0 = slowest.
        size_bytes: more than 0.
        first: the first step at which it is held.
        last: the last step at which it is held.
    """

    node: str
    head: str
    memory: int
    size_bytes: int
    first: int
    last: int


@runtime_checkable
class HasLifetimes(Protocol):
    """A problem that knows in which memory each tensor is held, and when, so that addresses can be assigned."""

    def memories(self) -> Sequence[tuple[str, int]]:
        """Name and capacity in bytes of each memory, slowest first."""

    def lifetimes(self, mapping: Mapping16) -> Sequence[Lifetime]:
        """The tensors of one mapping [N, H], without repair, in the order of nodes and heads."""


@runtime_checkable
class HasPlacement(Protocol):
    """A problem that derives a place for each node from a whole mapping; a place says more than a choice."""

    def placement(self, mapping: Mapping16) -> Sequence[Mapping[str, Any] | None]:
        """The places of one mapping [N, H]: one JSON object per node, or None for a node without a place."""

    def baseline_placement(self) -> Sequence[Mapping[str, Any] | None] | None:
        """The places of the baseline if no mapping leads to them; None if `baseline.mapping` does."""

    def placed_in(self) -> tuple[str, int]:
        """Name and capacity in bytes of the memory in which places with `offset_bytes`, `first` and `last` lie."""


@runtime_checkable
class HasPlanText(Protocol):
    """A problem with mappings that people write as one text, a plan; mapping files hold it under `plan`."""

    def plan_text(self, mapping: Mapping16) -> str:
        """The text of one mapping [N, H]."""

    def read_plan(self, text: str, where: str) -> Mapping16:
        """The mapping [N, H] that a text writes. Raises InputError, beginning with `where`, if it fits no mapping."""


class Race(ABC):
    """The best mappings of a run, measured again, alternating, before one is chosen as the best."""

    @abstractmethod
    def costs(self, mapping: Mapping16) -> Floats:
        """The costs [B] of mappings [B, N, H], measured in turn with one another."""

    @abstractmethod
    def known(self) -> Mapping16 | None:
        """The mapping [N, H] that the last race kept, which races with the others; None if there is none."""

    @abstractmethod
    def remember(self, mapping: Mapping16, cost: float) -> str:
        """Keep the mapping [N, H] that won a race, with its cost there. Returns a sentence about it for people."""


@runtime_checkable
class HasRace(Protocol):
    """A problem that measures on this machine: the best mappings of a run are measured again."""

    @property
    def race(self) -> Race: ...
