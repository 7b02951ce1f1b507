"""Which profile model learns a problem, and what all of them are asked."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Archive
from egrl.methods.profile_model.accesses import readable
from egrl.methods.profile_model.config import ProfileModelConfig
from hwsim.capabilities import HasParts
from hwsim.problem import Floats, Mapping16, Problem

if TYPE_CHECKING:
    from egrl.methods.profile_model.data import Measured

MOST_TERMS = 6000
"""Of a block, for a model of terms: what is learned is inverted, which takes the cube of their number."""


class Belief(Protocol):
    """What a thought believes of a problem."""

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""


class ProfileModel(Protocol):
    """Learns what parts take, and proposes mappings by local search on that.

    Attributes:
        least: different mappings with profiles from which it begins to learn.
        longer: the factor by which it rests longer each time, where costs are exact and its thoughts have gained
            nothing for long.
    """

    least: int
    longer: float

    def gather(self, archive: Archive, tickets: NDArray[np.int64]) -> Measured:
        """What it learns from, of evaluations of its problem."""

    def think(
        self, measured: Measured, seen: set[bytes], rng: np.random.Generator, most: int | None = None
    ) -> Generator[None, None, tuple[Mapping16, Floats, Any]]:
        """The next batch, new mappings int16 [B, N, H], log costs [M] of the measured ones, what it now believes.

        It yields while it works. `seen` has the bytes of mappings that are not to be proposed. If `most` is given, so
        many searches are made, of kinds drawn at random.
        """

    def estimate(self, belief: Any, measured: Measured) -> Floats:
        """Log costs [M] by measurements and what was believed, weighed by their precisions."""

    def belief_of(self, state: dict[str, Any]) -> Belief:
        """The inverse of a belief's `state_dict`."""

    def metrics(self) -> dict[str, float]:
        """The noise that was learned; NaN before."""

    def state_dict(self) -> dict[str, Any]:
        """All that was learned."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""


def learnable(problem: Problem) -> bool:
    """True if a profile model can learn the problem: its parts are times of ops, or sums of terms that are not many."""
    if readable(problem):
        return True
    terms = problem.parts.terms if isinstance(problem, HasParts) else None
    return terms is not None and bool(np.bincount(terms.block).max() <= MOST_TERMS)


def profile_model_of(problem: Problem, config: ProfileModelConfig) -> ProfileModel | None:
    """The profile model of op times or of terms, whichever the problem's parts are; None if it is not `learnable`."""
    if not learnable(problem):
        return None
    if readable(problem):
        from egrl.methods.profile_model.op_times import OpTimesModel

        return OpTimesModel(problem, config)
    from egrl.methods.profile_model.terms import TermsModel

    assert isinstance(problem, HasParts)
    assert problem.parts.terms is not None
    return TermsModel(problem.parts, problem.parts.terms, len(problem.space.nodes), config)
