"""Capabilities of a problem that is decided step by step: a game, or a graph of partial plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from hwsim.problem import Floats, Mapping16
from workloads.errors import InputError


class Game(Protocol):
    """A problem as a batched, pure, sequential game. S is any pytree of arrays [B, …].

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


@runtime_checkable
class HasGame(Protocol):
    """A problem that is a game, too."""

    game: Game


@dataclass(frozen=True)
class View:
    """How much an agent sees of a game with a memory that fills over time."""

    next_buffers: Annotated[
        int, Doc("decisions after the present one that are shown (k in the MMapGame paper)")
    ] = 5
    same_tensor: Annotated[
        int, Doc("later decisions on the same tensor that are shown (l in the MMapGame paper)")
    ] = 5
    map_cells: Annotated[int, Doc("rows, and columns, of the memory map")] = 128
    map_steps: Annotated[int, Doc("steps that the map covers, a multiple of `map_cells`")] = 256
    profile_cells: Annotated[int | None, Doc("cells of the memory profile; None: one per granule")] = 512
    supply_steps: Annotated[int, Doc("steps that the supply profile covers")] = 128
    offsets: Annotated[
        int | None,
        Doc("buffers before the present one whose offsets are shown; None: all, by their index"),
    ] = 128
    held: Annotated[
        int,
        Doc("steps back within which tensors that still lie in fast memory are shown; 0: they are not shown"),
    ] = 0

    def __post_init__(self) -> None:
        """Raises InputError where a number is out of range."""
        for each in fields(self):
            value = getattr(self, each.name)
            least = 0 if each.name in ("next_buffers", "same_tensor", "held") else 1
            most = 2**24 if each.name == "profile_cells" else 2**16
            unlimited = value is None and each.name in ("profile_cells", "offsets")
            if not unlimited and (type(value) is not int or not least <= value <= most):
                raise InputError(
                    f"{each.name}: expected a whole number from {least} to {most}, found {value!r}"
                )
        if self.map_steps % self.map_cells:
            raise InputError(
                f"map_steps: expected a multiple of map_cells ({self.map_cells}), found {self.map_steps}"
            )


class Arrays(NamedTuple):
    """Which arrays of an observation an agent may read otherwise than as plain numbers; "": there is none.

    Attributes:
        image: [B, height, width].
        rows: [B, rows, columns], a list of things, of which the first is what is decided on.
        names: integers [B, rows, K] that name things, -1 for none; they mean nothing in another program.
    """

    image: str = ""
    rows: str = ""
    names: str = ""


@runtime_checkable
class HasView(Protocol):
    """A game that shows an agent as much as settings say, a `View` or settings of its own.

    Attributes:
        arrays: which arrays of an observation are what.
        view_schema: version of what is seen: another one where a number means something else than before.
    """

    arrays: Arrays
    view_schema: int

    def seen_by(self, view: Any) -> Game:
        """The same game, shown otherwise."""


@runtime_checkable
class Advancing(Protocol):
    """A game that can change a state in place."""

    def advance(self, state: Any, action: NDArray[np.int16]) -> tuple[Floats, NDArray[np.bool_]]:
        """`step` without a copy: (reward [B], done [B])."""


class Revised(NamedTuple):
    """What became of a game that was revised.

    Attributes:
        wish: int16 [N, H], the game to go on with; illegal wishes in it are played as something else.
        present, present_returned: what is decided for it (int16 [N, H], -1 where nothing is), and its return.
        mapping, returned: the same of the best game.
        tried, moves: games begun, and moves played for them.
    """

    wish: Mapping16
    present: Mapping16
    present_returned: float
    mapping: Mapping16
    returned: float
    tried: int
    moves: int


@runtime_checkable
class Revisable(Protocol):
    """A game whose games can be played again with some moves changed, many times a second."""

    def revised(self, wish: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        """Change a game int16 [N, H] until about `moves` moves were played.

        A game is kept by the Metropolis rule, at a temperature from `hot` to `cold`, in units of returns.
        """


@runtime_checkable
class HasGreedy(Protocol):
    """A problem whose game has a player that looks no further than the next move."""

    def greedy(self) -> tuple[Mapping16, int]:
        """(int16 [N, H], the best game of that player; how many games it played to find it)."""


class Derivation(Protocol):
    """A problem as a directed acyclic graph of partial plans (equal = the same vertex)."""

    root: Hashable

    def successors(self, vertex: Hashable) -> Sequence[Hashable]: ...
    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        """int16 [N, H] of a complete plan; None for a partial one. No successors and None: a dead end."""


@runtime_checkable
class HasDerivation(Protocol):
    """A problem that is a derivation graph, too."""

    derivation: Derivation


@runtime_checkable
class HasDomains(Protocol):
    """A problem whose decisions, made one after another, leave the next one fewer choices than it has by itself."""

    @property
    def domains(self) -> Derivation:
        """Its mappings decision by decision, the successors being what is left."""


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
