"""Settings of the training of ranking networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from policies.network import CONTEXT, NetworkConfig


@dataclass(frozen=True)
class ScoreGradientConfig:
    """Settings of the training."""

    rounds: Annotated[
        int, Ge(1), Doc("rounds over which noise and steps get smaller; after them they stay")
    ] = 200
    first_sigma: Annotated[
        float, Gt(0), Le(10), Doc("standard deviation of the noise on scores of size 1, first")
    ] = 0.4
    last_sigma: Annotated[float, Gt(0), Le(10), Doc("the same, last")] = 0.08
    first_rate: Annotated[float, Gt(0), Le(10), Doc("step size of Adam, first")] = 3e-3
    last_rate: Annotated[float, Gt(0), Le(10), Doc("the same, last")] = 3e-4
    input_noise: Annotated[
        float,
        Ge(0),
        Le(10),
        Doc(
            "standard deviation of noise on what the network sees, over that of each feature: it learns less by heart"
        ),
    ] = 0.0
    longest: Annotated[float, Gt(0), Doc("length to which a gradient is cut")] = 0.3

    def sigma(self, rounds: int) -> float:
        """The noise after so many rounds."""
        return _between(self.first_sigma, self.last_sigma, rounds / self.rounds)

    def rate(self, rounds: int) -> float:
        """The step size after so many rounds."""
        return _between(self.first_rate, self.last_rate, rounds / self.rounds)


def _between(first: float, last: float, done: float) -> float:
    return float(first * (last / first) ** min(done, 1.0))


@dataclass(frozen=True)
class RankConfig:
    """Settings of rank.

    Example:
        >>> import egrl
        >>> from egrl.methods.rank.config import RankConfig
        >>> result = egrl.search("alexnet", method=RankConfig(samples=4), evals=60)
        >>> result.speedup >= 1.0
        True
    """

    network: Annotated[NetworkConfig, Doc("what ranks; any network that `egrl` takes")] = field(
        default_factory=lambda: NetworkConfig(name=CONTEXT, width=48)
    )
    tasks: Annotated[int, Ge(1), Doc("problems a round, if there are so many")] = 24
    samples: Annotated[int, Ge(2), Le(10_000), Doc("mappings of each problem a round, an even number")] = 24
    training: Annotated[ScoreGradientConfig, Doc("noise, steps and rounds")] = field(
        default_factory=ScoreGradientConfig
    )
