"""Ranking networks: a score for each tensor in each memory, which a placer reads.

    score(t, m) = c(head of t, m) . features(t, m) + g(t, m)

c are the coefficients of a linear rule, and g is what a network adds (`NetworkConfig.name`; nothing if it is "linear").
Coefficients are given for the slow and the fast end of the memories (`policies.places`). One more weight says which
share of the memory for prefetching stays free.

"context" and "mlp" are `policies.context`, which reads each tensor in each memory; scores are brought to one size. Any
other network is one over the graph: it sees of each node the features of its tensors, the mean over memories, and adds
to both ends. All of this is relative to the chip, so that a ranking network reads any network on any chip with the same
kinds of decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from policies.context import ContextNetwork, of_unit_size
from policies.network import CONTEXT, LINEAR, MLP, NetworkConfig
from policies.places import ENDS, Places
from policies.weight_vector import Segment, WeightFormat, Weights

if TYPE_CHECKING:
    from policies.stacked import StackedActor

MOST_FREE = 0.5
"""Largest share of the prefetch memory that a policy can keep free."""
NO_SHARE = 0.02
"""Where a policy asks for less than this part of that, nothing is kept free."""
BODY_GAIN = 0.1
"""Standard deviation, roughly, of what a fresh network adds to the scores of the rule that it begins with."""
BY_HAND = {"saved_of_mean": 1.0, "bytes_times_lifetime": -1.0, "one": 0.5, "distance_by_seconds": -1.0}
"""Coefficients to begin with, if a placer names such features: time saved against room taken."""
FREE_BY_HAND = -1.0
SPREAD = 0.5
"""Standard deviation of random coefficients around these."""


def free_share(weight: NDArray[np.floating]) -> NDArray[np.float64]:
    """The share of the prefetch memory that stays free, 0..MOST_FREE, of a weight of any size.

    It is exactly 0 below a weight of about -2: tensors that fill a memory to its last byte are common.
    """
    share = 1.0 / (1.0 + np.exp(-2.0 * np.clip(weight.astype(np.float64), -30, 30)))
    return np.asarray(MOST_FREE * np.maximum(share - NO_SHARE, 0.0) / (1.0 - NO_SHARE))


def weight_of_share(share: float) -> float:
    """The inverse of `free_share`."""
    whole = share / MOST_FREE * (1.0 - NO_SHARE) + NO_SHARE
    return float(0.5 * np.log(whole / (1.0 - whole)))


def by_hand(names: tuple[str, ...], heads: int) -> Weights:
    """The weights float32 [H 2 F + 1] of the rule that needs no training."""
    row = np.array([BY_HAND.get(name, 0.0) for name in names], np.float32)
    return np.append(np.tile(row, heads * ENDS), np.float32(FREE_BY_HAND)).astype(np.float32)


def added_network(config: NetworkConfig) -> NetworkConfig:
    """The settings of the network that adds to a rule's scores."""
    return replace(config, output_gain=BODY_GAIN * config.output_gain)


class Rankers:
    """Evaluates M ranking networks of one shape, given as weight vectors [M, P]; torch only for those over a graph."""

    def __init__(
        self, config: NetworkConfig, names: tuple[str, ...], heads: int, device: str = "cpu"
    ) -> None:
        """For features of some names, and H decisions a node."""
        self.config, self.names, self.heads = config, names, heads
        features = len(names)
        own = [
            Segment("coefficients", (heads, ENDS, features), 0),
            Segment("free", (1,), heads * ENDS * features),
        ]
        self._linear = own[-1].end
        self._body: StackedActor | ContextNetwork | None = None
        if config.name in (CONTEXT, MLP):
            self._body = ContextNetwork(features, heads, config.width, around=config.name == CONTEXT)
        elif config.name != LINEAR:
            from policies.stacked import StackedActor

            self._body = StackedActor(added_network(config), heads * features, heads, ENDS, device)
        if self._body is not None:
            own += [
                replace(s, name=f"network.{s.name}", offset=s.offset + self._linear)
                for s in self._body.weight_format.segments
            ]
        self.weight_format = WeightFormat(tuple(own))

    def of_rule(self, rule: Weights, rng: np.random.Generator) -> Weights:
        """Weights float32 [P] that begin with a linear rule [H 2 F + 1]; a network's own are drawn."""
        body = np.zeros(0, np.float32)
        if isinstance(self._body, ContextNetwork):
            body = self._body.draw(rng, BODY_GAIN * self.config.output_gain)
        elif self._body is not None:
            body = self._body.draw(rng)
        return np.concatenate([rule, body]).astype(np.float32)

    def for_features(self, names: tuple[str, ...], weights: Weights) -> tuple[Rankers, Weights]:
        """The same for other features, and weights float32 [P] with which it scores as these where the others are 0.

        One of the two has the features of the other first, and then more. Not for networks over the graph.
        """
        found, arrays, parts = Rankers(self.config, names, self.heads), self.weight_format.arrays(weights), []
        first = min(len(names), len(self.names))
        for segment in found.weight_format.segments:
            own, new = arrays[segment.name], np.zeros(segment.shape, np.float32)
            if own.shape == new.shape:
                new = own
            else:
                new[..., :first] = own[..., :first]
                new[..., len(names) :] = own[..., len(self.names) :]
            parts.append(new.reshape(-1))
        return found, np.concatenate(parts).astype(np.float32)

    def draw(self, rng: np.random.Generator) -> Weights:
        """Random weights float32 [P], around the rule `by_hand`."""
        rule = by_hand(self.names, self.heads)
        noise = rng.standard_normal(len(rule), dtype=np.float32) * np.float32(SPREAD)
        return self.of_rule(rule + noise, rng)

    def scores(
        self, weights: NDArray[np.float32], places: Places
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Scores float32 [M, T, L] of weights [M, P], and the shares float64 [M] of the prefetch memory left free.

        Raises ValueError where a shape does not fit, or a network needs edges that `places` does not know.
        """
        self.weight_format.check(weights)
        heads, features = self.heads, len(self.names)
        coefficients = weights[:, : self._linear - 1].reshape(-1, heads, ENDS, features)
        scores, free, own = (
            places.linear(coefficients),
            weights[:, self._linear - 1],
            weights[:, self._linear :],
        )
        if isinstance(self._body, ContextNetwork):
            return self._with_context(self._body, scores, free, own, places)
        if self._body is not None:
            scores += places.between_ends(self._body.all_logits(own, places.of_nodes, places.graph))
        return scores, free_share(free)

    @staticmethod
    def _with_context(
        body: ContextNetwork,
        scores: NDArray[np.float32],
        free: NDArray[np.float32],
        weights: NDArray[np.float32],
        places: Places,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """As `scores`, of the linear part's scores [M, T, L] and weights [M], and of the network's weights."""
        free = free.astype(np.float64)
        for member, own in enumerate(weights):
            added, more = body.scores(own, places)
            scores[member] = of_unit_size(scores[member] + added)
            free[member] += more
        return scores, free_share(free)
