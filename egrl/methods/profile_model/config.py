"""Settings of the profile model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc


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
