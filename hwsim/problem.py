"""The central types between problems and methods: a mapping goes in, an `Evaluation` comes out.

A *mapping* is an int16 array [N, H]: choice numbers of H decisions at each of N nodes; -1 where a decision
is unused (dead: nothing there has a size). Batches of mappings are [B, N, H].

A *key* is a uint64 a row. Everything random in a problem (measurement noise, sampling) is a pure function of
its arguments and the key: another key differs, the same key repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hwsim.stages import Pipeline

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

    def rows(self, index: slice | NDArray[Any]) -> Evaluation:
        """The evaluation of some rows."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})

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
    """A proven lower bound on the cost of every valid mapping, and how it was obtained."""

    cost: float
    proof: str
    seconds: float


@dataclass(frozen=True)
class RewardBound:
    """A proven upper bound on the reward of every mapping, and how it was obtained."""

    reward: float
    proof: str
    seconds: float


class Problem(Protocol):
    """What a mapping costs on some hardware. Everything is fixed after construction; it must pickle.

    Attributes:
        name: "nnpi", "mmap" …
        workload, chip: names for people and for summaries.
        nodes: N names; heads: H names.
        labels: for each head the names of its choices, slowest first where speed means something.
        num_choices: int16 [N, H]; a decision's choices are 0 .. num_choices-1.
        choice_rank: float32 [H, C], a choice's rank in speed scaled to 0..1.
        size_bytes: int64 [N, H]; 0 = dead decision, always -1 in canonical mappings.
        initial: int16 [N, H], the canonical mapping an episode begins with.
        observation: what a policy sees at `initial`; None where there is no graph to see.
        baseline: what speedups are relative to.
        unit: unit of cost.
    """

    @property
    def name(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def chip(self) -> str: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...
    @property
    def heads(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> tuple[tuple[str, ...], ...]: ...
    @property
    def num_choices(self) -> NDArray[np.int16]: ...
    @property
    def choice_rank(self) -> NDArray[np.float32]: ...
    @property
    def size_bytes(self) -> NDArray[np.int64]: ...
    @property
    def initial(self) -> Mapping16: ...
    @property
    def observation(self) -> Observation | None: ...
    @property
    def baseline(self) -> Baseline: ...
    @property
    def unit(self) -> str: ...

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Measure mappings [B, N, H]; pure, batched; `key` [B] decides the noise.

        Raises ValueError where shape, dtype or a choice number is out of range.
        """

    def sample(self, probabilities: NDArray[np.floating[Any]], key: Keys) -> Mapping16:
        """Draw canonical mappings [B, N, H] from probabilities [B, N, H, C] (rows of dead decisions ignored)."""

    def repair(self, mapping: Mapping16, key: Keys) -> Mapping16:
        """The mappings [B, N, H] nearest by the problem's own rule that it can express (identity by default)."""

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every constraint that one mapping [N, H] breaks, by code that shares nothing with `evaluate`."""

    def bound(self, time_limit_s: float) -> Bound | None:
        """A proven lower bound on the noise-free cost of every valid mapping, or None where there is none.

        A time limit gives the bound reached by then.
        """

    def fingerprint(self) -> str:
        """Hex digest of everything a cost depends on: simulator version, chip, workload, switches."""

    def files(self) -> Mapping[str, str]:
        """File name -> text of the inputs that must be kept beside a run so that it can be repeated."""


class Game(Protocol):
    """Optional view of a problem as a batched, pure, sequential game. S is any pytree of arrays [B, …].

    Games of a batch may end after different numbers of moves; one that is over stays as it is, for a reward of 0.

    A *place* is which decision a game has come to: 0 .. P, P being its end. A move usually goes on to the place that
    follows; a game may also go back.

    Attributes:
        num_actions: A; max_moves: the most moves a game can take.
        first_place: where a game begins.
        following: int64 [P + 1], the place after each; the end follows itself.
    """

    num_actions: int
    max_moves: int

    @property
    def first_place(self) -> int: ...
    @property
    def following(self) -> NDArray[np.int64]: ...

    def reset(self, batch: int) -> Any: ...
    def legal(self, state: Any) -> NDArray[np.bool_]:
        """bool [B, A]; no legal action means that the game is over."""

    def step(self, state: Any, action: NDArray[np.int16]) -> tuple[Any, Floats, NDArray[np.bool_]]:
        """(next state, reward [B], done [B])."""

    def observe(self, state: Any) -> dict[str, NDArray[Any]]: ...
    def place(self, state: Any) -> NDArray[np.int64]:
        """int64 [B], the place that each game has come to."""

    def mapping(self, state: Any) -> Mapping16:
        """int16 [B, N, H], what has been decided; -1 where nothing is (yet)."""

    def take(self, state: Any, index: NDArray[np.int64]) -> Any:
        """The games at `index` [B'], copies."""


class Revised(NamedTuple):
    """What became of a game that was revised.

    Attributes:
        wish: int16 [N, H], the game to go on with; illegal wishes in it are played as something else.
        mapping, returned: what the best game decided (int16 [N, H], -1 where nothing was), and its return.
        tried, moves: games begun, and moves played for them.
    """

    wish: Mapping16
    mapping: Mapping16
    returned: float
    tried: int
    moves: int


@runtime_checkable
class Revisable(Protocol):
    """Optional view of a game whose games can be played again with some moves changed, many times a second."""

    def revised(self, wish: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        """Change a game int16 [N, H] until about `moves` moves were played.

        A game is kept by the Metropolis rule, at a temperature from `hot` to `cold`, in units of returns.
        """


class Derivation(Protocol):
    """Optional view of a problem as a directed acyclic graph of partial plans (equal = the same vertex)."""

    root: Hashable

    def successors(self, vertex: Hashable) -> Sequence[Hashable]: ...
    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        """int16 [N, H] of a complete plan; None for a partial one. No successors and None: a dead end."""


@runtime_checkable
class HasDomains(Protocol):
    """A problem whose decisions, made one after another, leave the next one fewer choices than it has by itself."""

    @property
    def domains(self) -> Derivation | None:
        """Its mappings decision by decision, the successors being what is left; None where nothing is left out."""


@runtime_checkable
class HasCompletion(Protocol):
    """A derivation that draws complete plans faster than by choosing successors one after another."""

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        """int16 [N, H] of a complete plan below a vertex, or of itself, with the probability that uniform choices among
        successors give it; None where there is none.
        """


Pick = Callable[[Hashable, int], int]
"""(sub-problem, how many rules it has) -> the number of a rule."""


@runtime_checkable
class HasSubproblems(Protocol):
    """A derivation whose plans are made by rules for open sub-problems, equal ones being equal wherever they occur."""

    def guided(self, vertex: Hashable, pick: Pick) -> Mapping16 | None:
        """int16 [N, H] of the complete plan below a vertex that these rules make; None where there is none."""

    def chosen(self, mapping: Mapping16) -> Sequence[tuple[Hashable, int, int]]:
        """(sub-problem, how many rules it has, the number of the rule) at each step of one complete plan."""

    def closing(self, goal: Hashable) -> Sequence[int]:
        """The numbers of the rules that leave nothing of a sub-problem open."""


@runtime_checkable
class HasDecisions(Protocol):
    """A derivation that makes D decisions one after another, always in the same order."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 [D], how many choices each has."""

    def drawn(
        self, vertex: Hashable, probabilities: NDArray[np.float64], rng: np.random.Generator
    ) -> Mapping16 | None:
        """int16 [N, H] of a complete plan below a vertex, the decisions that are left drawn from float64 [D, C], as far
        as what was decided before allows; None where there is none.
        """

    def chosen(self, mapping: Mapping16) -> NDArray[np.int64]:
        """int64 [D], the choices of one mapping [N, H]."""


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


@runtime_checkable
class HasBestKnown(Protocol):
    """A problem that ships with the best mappings known, or remembers them."""

    def best_known(self) -> tuple[Mapping16 | None, str]:
        """The best mapping known, or None; and a remark for people ("" where there is nothing to say)."""


@runtime_checkable
class HasProvedBound(Protocol):
    """A problem of which the package may hold a bound that was proved before."""

    def proved_bound(self) -> Bound | None:
        """That bound, without any solving; None where there is none."""


@runtime_checkable
class HasRewardBound(Protocol):
    """A problem whose rewards are bounded: games, say, that are played for something else than the cost."""

    def reward_bound(self, time_limit_s: float) -> RewardBound | None:
        """An upper bound on the noise-free reward of every mapping, the best that was reached within the limit.

        None where its settings leave nothing that is bounded.
        """


@runtime_checkable
class HasExplanation(Protocol):
    """A problem that can say where the cost of a mapping [N, H] comes from: a dataclass with one row an op in `ops`.

    A row has at least `name`, `duration_s`, and `bound_by`, the name of what set the duration.
    """

    def explain(self, mapping: Mapping16) -> Any: ...


@runtime_checkable
class HasPipeline(Protocol):
    """A problem whose choices may be stages of a pipeline: then along the order of the nodes they mostly do not
    fall."""

    @property
    def pipeline(self) -> Pipeline | None: ...

    def stage_heat(self, mapping: Mapping16) -> NDArray[np.float64]:
        """Float64 [B, H, C] in 0..1 of whole mappings [B, N, H]: how near each stage is to setting the pace; 1 where it
        has to hold more than it can."""


def pipeline_of(problem: Problem) -> Pipeline | None:
    """The pipeline whose stages the choices of a problem are; None where they are none."""
    return problem.pipeline if isinstance(problem, HasPipeline) else None


def stage_heat_of(problem: Problem, mapping: Mapping16) -> NDArray[np.float64] | None:
    """`HasPipeline.stage_heat` of whole mappings [B, N, H]; None where choices are no stages."""
    if isinstance(problem, HasPipeline) and problem.pipeline is not None:
        return problem.stage_heat(mapping)
    return None


@runtime_checkable
class HasPartition(Protocol):
    """A problem that splits nodes over chips and can say what that makes of each: a dataclass, a row a chip in
    `chips`."""

    def partition(self, mapping: Mapping16) -> Any: ...


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


@runtime_checkable
class HasPlanText(Protocol):
    """A problem whose mappings people write as one text, a plan: mapping files hold it under `plan`."""

    def plan_text(self, mapping: Mapping16) -> str:
        """The text of one mapping [N, H]."""

    def read_plan(self, text: str, where: str) -> Mapping16:
        """The mapping [N, H] of a text; InputError, beginning with `where`, where it is none of this problem."""


@runtime_checkable
class HasParts(Protocol):
    """A problem whose plans are made of plans for *parts*, which can be measured by themselves (`partial`)."""

    @property
    def parts(self) -> Sequence[int]:
        """Every part after those that its plans are made of; the last is the whole."""

    def composed(self, part: int, kept: Mapping[int, Sequence[Mapping16]]) -> Sequence[Mapping16]:
        """The plans int16 [N, H] of a part that are made of the `kept` plans of other parts, each once."""


@runtime_checkable
class HasRace(Protocol):
    """A problem that measures on this machine: who was the best of a run is measured again, in turn, and remembered."""

    @property
    def races(self) -> bool:
        """Whether its costs are measured (and not modelled)."""

    def race(self, mapping: Mapping16) -> Floats:
        """The costs [B] of mappings [B, N, H], measured in turn with one another."""

    def known(self) -> Mapping16 | None:
        """The mapping [N, H] that was remembered last, which races with the others; None where there is none."""

    def remember(self, mapping: Mapping16, cost: float) -> str:
        """Keep the mapping [N, H] that won a race, with its cost there; what became of it, for people."""


@runtime_checkable
class HasGame(Protocol):
    """A problem that is a game, too."""

    game: Game


@runtime_checkable
class HasDerivation(Protocol):
    """A problem that is a derivation graph, too."""

    derivation: Derivation
