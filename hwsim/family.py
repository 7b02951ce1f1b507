"""A family of models of a problem's cost: what the user's description of a chip may have got wrong, as parameters.

A description of a chip is roughly right. A family says in which ways it may be wrong and by how much: named parameters,
each the logarithm of a factor on what the description says, in units of its prior standard deviation, so that all are 0
at the description itself; and *effects*, which are there or not. Measurements of mappings then say which member of the
family the board resembles (`egrl.methods.twin`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from hwsim.problem import Floats, Mapping16, Problem

Effects = frozenset[str]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a family.

    Attributes:
        name: for people and files ("bandwidth llc", "compute of conv ops", "compute layer1.0.conv1").
        spread: prior standard deviation of the logarithm of the factor.
        nominal: what the description says, NaN where it says nothing (a factor of an op is 1 by itself).
        unit: of the nominal value ("B/s", "s", "" for a factor).
        effect: the effect that it belongs to; it does not matter while that is off ("": it always matters).
        own: it belongs to one node alone. How far these spread is learned, for all together.
        shared: it means the same for every network on the board.
    """

    name: str
    spread: float
    nominal: float = np.nan
    unit: str = ""
    effect: str = ""
    own: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Model:
    """A member of a family with P parameters and F places.

    Attributes:
        effects: those that are on.
        theta: float64 [P], the parameters.
        residual: float64 [F], in units of `Family.places`, what each place adds to the log cost; None: nothing.
        limit: of a family with limits, what a mapping must keep to run; None: what is thought before any
            measurement.
    """

    effects: Effects
    theta: Floats
    residual: Floats | None = None
    limit: Floats | None = None


@dataclass(frozen=True)
class Estimate:
    """What measurements say of one parameter: its factor on what the description says, and its 90 % interval."""

    factor: float
    low: float
    high: float


class Learnable(ABC):
    """Models that may describe a board, as far as inference needs them, of mappings [N, H]."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[Parameter]:
        """P of them."""

    @property
    @abstractmethod
    def effects(self) -> Sequence[str]:
        """Names of all effects."""

    @property
    @abstractmethod
    def nominal(self) -> Effects:
        """Those that the description has on."""

    @abstractmethod
    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Costs float64 [B] without the residual, and d log cost / d theta, float64 [B, P]."""

    @abstractmethod
    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, F]: what each place of each decision may add to the log cost, where the mapping has it; else 0.

        The size of an entry says how much would be no surprise: the tensor's traffic there, as a share of the cost that
        the description knows, never of what was measured, whose noise the residual would then explain.
        """

    @abstractmethod
    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B]: how different mappings [A, N, H] and [B, N, H] are, 0..1, heavy decisions counting more."""


class Limits(ABC):
    """What is known of the limits of a board, within which a mapping runs."""

    @abstractmethod
    def mode(self) -> Floats:
        """The most likely limit, as `Model.limit` has it."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Floats:
        """A limit drawn by how likely it is."""

    @abstractmethod
    def probability(self, mapping: Mapping16) -> Floats:
        """float64 [B]: how likely valid mappings int16 [B, N, H] are to run."""


class Family(Learnable):
    """Models that may describe a board, of a problem with mappings [N, H]."""

    @abstractmethod
    def predict(self, model: Model, mapping: Mapping16) -> Floats:
        """Costs float64 [B] of valid mappings int16 [B, N, H]."""

    @abstractmethod
    def improve(self, model: Model, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """A valid mapping [N, H] that the model likes at least as much as `start`: local search of so many steps.

        `hot` is its first temperature, a share of the cost. Equal arguments give equal mappings, in any thread.
        """

    @abstractmethod
    def first(self) -> Mapping[str, Mapping16]:
        """What is worth measuring before anything is known, by name: the rules of the compiler, int16 [N, H] each."""

    def limits(self, ran: Mapping16, failed: Mapping16) -> Limits | None:
        """What mappings int16 [B, N, H] say that ran, and others that did not; None: every valid mapping runs."""
        return None


@runtime_checkable
class HasFamily(Protocol):
    """A problem whose cost on a board may be described by a family of models around its own.

    Its description of the board can say what was learned, all but what belongs to single nodes.

    Attributes:
        describable: the effects that a description can have.
    """

    @property
    def family(self) -> Family: ...

    @property
    def describable(self) -> Sequence[str]: ...

    def described(
        self, estimates: Mapping[str, Estimate], effects: Effects, name: str
    ) -> tuple[Problem, str]:
        """The same problem on a board so described, and the text of the description.

        Args:
            estimates: of parameters by name; one that the description has no place for is left out.
            effects: those that are on, all of them `describable`.
            name: of the board.

        Raises:
            InputError: the name is none.
        """
