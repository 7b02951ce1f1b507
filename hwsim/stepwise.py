"""Capabilities of a problem that is decided step by step: a game, or a graph of partial plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Floats, Mapping16


class Arrays(NamedTuple):
    """The arrays of an observation that are more than plain numbers, by name; "": there is none.

    Attributes:
        image: [B, height, width].
        rows: [B, rows, columns], a list of things; the first is the one that the present decision is about.
        names: integers [B, rows, K] that identify things, -1 for none; in another program they identify other things.
    """

    image: str = ""
    rows: str = ""
    names: str = ""


class Game(ABC):
    """A problem as a batched, pure, sequential game. S is any pytree of arrays [B, …].

    The games of a batch may end after different numbers of moves. A further move leaves a finished game as it is; its
    reward is 0.

    A *place* is the number of the next decision of a game: 0 .. P; P is the end. A move usually leads to the place that
    follows; a game may also go back.

    Attributes:
        num_actions: A, the number of actions.
        max_moves: the most moves that a game can take.
        first_place: the place at which a game begins.
        following: int64 [P + 1], the place after each; the end follows itself.
        arrays: the arrays of an observation that are more than plain numbers.
        view_schema: version of the observations; it changes if the meaning of a number changes.
    """

    arrays: Arrays = Arrays()
    view_schema: int = 1
    num_actions: int
    max_moves: int
    first_place: int
    following: NDArray[np.int64]

    @abstractmethod
    def reset(self, batch: int) -> Any:
        """`batch` new games."""

    @abstractmethod
    def legal(self, state: Any) -> NDArray[np.bool_]:
        """bool [B, A], True for legal actions; without a legal action a game is over."""

    @abstractmethod
    def step(self, state: Any, action: NDArray[np.int16]) -> tuple[Any, Floats, NDArray[np.bool_]]:
        """(next state, reward [B], done [B])."""

    def advance(self, state: Any, action: NDArray[np.int16]) -> tuple[Any, Floats, NDArray[np.bool_]]:
        """As `step`, but it may change the state in place."""
        return self.step(state, action)

    def observe(self, state: Any) -> dict[str, NDArray[Any]]:
        """What an agent sees, arrays [B, …] by name; default: which actions are legal."""
        return {"legal": self.legal(state)}

    def seen_by(self, view: Any) -> Game:
        """The same game with observations as settings of an agent describe them; default: everything."""
        return self

    @abstractmethod
    def place(self, state: Any) -> NDArray[np.int64]:
        """int64 [B], the place of each game."""

    @abstractmethod
    def mapping(self, state: Any) -> Mapping16:
        """int16 [B, N, H], the decisions so far; -1 where nothing is decided."""

    @abstractmethod
    def take(self, state: Any, index: NDArray[np.int64]) -> Any:
        """Copies of the games at `index` [B']."""


@runtime_checkable
class HasGame(Protocol):
    """A problem that is a game, too."""

    game: Game


class Revised(NamedTuple):
    """The result of revising a game.

    Attributes:
        proposal: int16 [N, H], the game to go on with; an illegal choice in it is played as another one.
        present, present_returned: its decisions (int16 [N, H], -1 where nothing is decided), and its return.
        mapping, returned: the same of the best game.
        tried, moves: games begun, and moves played for them.
    """

    proposal: Mapping16
    present: Mapping16
    present_returned: float
    mapping: Mapping16
    returned: float
    tried: int
    moves: int


class RevisableGame(Game):
    """A game that can be played again with some moves changed, many times per second.

    Attributes:
        greedy: returns the best game int16 [N, H] of a player that looks only one move ahead, and how many games it
            played; None if the game has no such player.
    """

    greedy: Callable[[], tuple[Mapping16, int]] | None = None

    @abstractmethod
    def revised(self, proposal: Mapping16, key: np.uint64, moves: int, hot: float, cold: float) -> Revised:
        """Change a game int16 [N, H] until about `moves` moves were played.

        A game is kept by the Metropolis rule, at a temperature from `hot` to `cold`, in units of returns.
        """


Pick = Callable[[Hashable, int], int]
"""(sub-problem, how many rules it has) -> the number of a rule."""


class Derivation(ABC):
    """A problem as a directed acyclic graph of partial plans (equal = the same vertex).

    Attributes:
        root: the empty plan.
    """

    root: Hashable

    @abstractmethod
    def successors(self, vertex: Hashable) -> Sequence[Hashable]:
        """The vertices that one more decision leads to."""

    @abstractmethod
    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        """int16 [N, H] of a complete plan; None for a partial one. No successors and None: a dead end."""

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        """int16 [N, H] of a complete plan below a vertex, or of itself, by uniform choices among successors.

        None if there is none. If a choice leads to a dead end, another one is drawn.
        """
        dead: set[Hashable] = set()
        trail: list[Hashable] = []
        while True:
            successors = self.successors(vertex)
            choices = [choice for choice in successors if choice not in dead]
            if choices:
                trail.append(vertex)
                vertex = choices[int(rng.integers(len(choices)))]
                continue
            plan = None if successors else self.mapping(vertex)
            if plan is not None:
                return plan
            dead.add(vertex)
            if not trail:
                return None
            vertex = trail.pop()


@runtime_checkable
class HasDerivation(Protocol):
    """A problem that is a derivation graph, too."""

    derivation: Derivation


class RuledDerivation(Derivation):
    """A derivation whose plans are made by rules for open sub-problems, equal ones being equal wherever they occur."""

    @property
    @abstractmethod
    def order(self) -> Sequence[int]:
        """The parts that can be measured by themselves (`Evaluation.partial`), each after those that its plans need.

        The last is the whole.
        """

    @abstractmethod
    def guided(self, vertex: Hashable, pick: Pick) -> Mapping16 | None:
        """int16 [N, H] of the complete plan below a vertex that these rules make; None if there is none."""

    @abstractmethod
    def chosen(self, mapping: Mapping16) -> Sequence[tuple[Hashable, int, int]]:
        """(sub-problem, how many rules it has, the number of the rule) at each step of one complete plan."""

    @abstractmethod
    def closing(self, goal: Hashable) -> Sequence[int]:
        """The numbers of the rules that leave nothing of a sub-problem open."""

    @abstractmethod
    def composed(self, part: int, kept: Mapping[int, Sequence[Mapping16]]) -> Sequence[Mapping16]:
        """The plans int16 [N, H] of a part that are made of the `kept` plans of other parts, each once."""
