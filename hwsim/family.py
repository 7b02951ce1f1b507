"""A family of models of a problem's cost: the ways in which the user's description of a chip may be wrong.

A description of a chip is roughly right. A family has named parameters that say how far it may be off. Each is the
logarithm of a factor on a number of the description, in units of its prior standard deviation; at the description
itself all are 0. A family also has *effects*, each on or off. Measurements of mappings then decide which
member of the family the board resembles (`egrl.methods.twin`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Floats, Mapping16, Problem

if TYPE_CHECKING:  # at run time only those families load it that make one
    from scipy import sparse

Effects = frozenset[str]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a family.

    Attributes:
        name: for people and files ("bandwidth llc", "compute of conv ops", "compute layer1.0.conv1").
        spread: prior standard deviation of the logarithm of the factor.
        nominal: the value in the description; NaN if it has none (the factor of an op is 1 by itself).
        unit: of the nominal value ("B/s", "s", "" for a factor).
        effect: the effect that it belongs to, without which it has no influence; "" if it always has.
        own: True if it belongs to one node alone. One spread is learned for all of these together.
        shared: True if it means the same for every network on the board.
        most: the largest value that there can be, in its unit.
    """

    name: str
    spread: float
    nominal: float = np.nan
    unit: str = ""
    effect: str = ""
    own: bool = False
    shared: bool = False
    most: float = math.inf

    def within(self, estimate: Estimate) -> Estimate:
        """An estimate, no part of which is above `most`: the models take nothing larger."""
        if self.most == math.inf:
            return estimate
        top = self.most / self.nominal
        return Estimate(*(min(factor, top) for factor in (estimate.factor, estimate.low, estimate.high)))


@dataclass(frozen=True)
class Model:
    """A member of a family with P parameters and F places.

    Attributes:
        effects: the effects that are on.
        theta: float64 [P], the parameters, in units of their prior standard deviations.
        residual: float64 [F], what each place adds to the log cost, in units of `Family.places`; None: nothing.
        limit: for a family with limits, the limit within which a mapping runs; None: the prior one.
    """

    effects: Effects
    theta: Floats
    residual: Floats | None = None
    limit: Floats | None = None


@dataclass(frozen=True)
class Estimate:
    """A parameter after measurements: its factor on the value in the description, and the 90 % interval of that."""

    factor: float
    low: float
    high: float


@dataclass(frozen=True)
class PartTimes:
    """The parts of B costs (`hwsim.capabilities.Parts`) under a model, and their slopes; P parameters, Q parts.

    Attributes:
        seconds: float64 [B, Q], in the unit of the cost.
        columns: int64 [S], the parameters that many parts have in common.
        common: float64 [B Q, S], d log seconds / d theta of those; 0 where seconds are 0.
        alone: sparse float64 [B Q, P], of all other parameters.
    """

    seconds: Floats
    columns: NDArray[np.int64]
    common: Floats
    alone: sparse.csr_matrix


class Learnable(ABC):
    """Models that may describe a board, as far as inference needs them; mappings are [N, H]."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[Parameter]:
        """The P parameters, in the order of `Model.theta`."""

    @property
    @abstractmethod
    def effects(self) -> Sequence[str]:
        """The names of all effects."""

    @property
    @abstractmethod
    def nominal(self) -> Effects:
        """The effects that are on in the description."""

    @abstractmethod
    def gradient(self, model: Model, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Costs float64 [B] of mappings [B, N, H] without the residual, and d log cost / d theta, float64 [B, P]."""

    def part_times(self, model: Model, mapping: Mapping16) -> PartTimes | None:
        """The parts of mappings [B, N, H] without the residual; None if the family does not know parts."""
        return None

    @abstractmethod
    def places(self, mapping: Mapping16) -> Floats:
        """float64 [B, F]: how much each place of each decision may add to the log cost; 0 for places not used.

        An entry is the addition that would be no surprise: the tensor's traffic there, as a share of the cost by the
        description. It is not a share of the measured cost, since the residual would then explain its noise.
        """

    @abstractmethod
    def distance(self, one: Mapping16, other: Mapping16) -> Floats:
        """float64 [A, B] in 0..1: how much mappings [A, N, H] and [B, N, H] differ; heavy decisions count more."""


class Limits(ABC):
    """Knowledge about the limits of a board, within which a mapping runs."""

    @abstractmethod
    def mode(self) -> Floats:
        """The most likely limit, in the form of `Model.limit`."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Floats:
        """A limit drawn from its distribution."""

    @abstractmethod
    def probability(self, mapping: Mapping16) -> Floats:
        """float64 [B], the probability that each of the valid mappings int16 [B, N, H] runs."""


class Family(Learnable):
    """Models that may describe a board, with what a search needs of them; mappings are [N, H]."""

    @abstractmethod
    def predict(self, model: Model, mapping: Mapping16) -> Floats:
        """Costs float64 [B] of valid mappings int16 [B, N, H]."""

    @abstractmethod
    def improve(self, model: Model, start: Mapping16, *, steps: int, hot: float, key: int) -> Mapping16:
        """A valid mapping [N, H] with at most the modelled cost of `start`, by so many steps of local search.

        `hot` is the first temperature, as a share of the cost. Equal arguments give equal mappings, in any thread.
        """

    def limits(self, ran: Mapping16, failed: Mapping16) -> Limits | None:
        """The limits that follow from mappings int16 [B, N, H] that ran or failed; None if every valid mapping runs."""
        return None


@runtime_checkable
class HasFamily(Protocol):
    """A problem with a family of models: one of them may describe a board.

    A description of the board can express all that was learned, except for what belongs to single nodes.

    Attributes:
        family: the models.
        describable: the effects that a description can have.
    """

    @property
    def family(self) -> Family: ...

    @property
    def describable(self) -> Sequence[str]: ...

    def described(
        self, estimates: Mapping[str, Estimate], effects: Effects, name: str
    ) -> tuple[Problem, str]:
        """The same problem on a board with that description, and the text of the description.

        Args:
            estimates: of parameters, by name; those without a place in the description are left out.
            effects: the effects that are on, all of them `describable`.
            name: of the board.

        Raises:
            InputError: the name is not a valid one.
        """
