"""What every profile model is asked, and its settings."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from egrl.core.archive import Archive
from hwsim.problem import Floats, Mapping16

if TYPE_CHECKING:
    from egrl.methods.profile_model.data import Measured


@dataclass(frozen=True)
class ProfileModelConfig:
    """Settings of the profile model."""

    use: Annotated[
        Literal["auto", "off"],
        Doc(
            '"auto": it takes turns with population and learner where evaluations have profiles of ops that'
            ' lie in memories, or parts that are sums of terms; "off": it does not'
        ),
    ] = "auto"
    proposals: Annotated[int, Ge(1), Doc("mappings per batch, fewer while it has few data")] = 8
    first: Annotated[
        int,
        Ge(0),
        Doc("random mappings that are measured first, beside the problem's rules; more if the rules are few"),
    ] = 4
    steps: Annotated[int, Ge(1), Doc("steps per op of each local search on the learned model")] = 80
    most: Annotated[
        int,
        Ge(16),
        Doc(
            "most mappings that it learns from: the best for one half, an even choice of the rest for the other"
        ),
    ] = 96


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
