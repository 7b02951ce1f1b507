"""A critic that learns the terms of which measured loads are sums, and proposes mappings by local search on them.

A cost that is the largest of many loads says little; the loads say what each node and tensor adds. They are linear in
the terms, so that all is known in closed form: a normal posterior around priors that each group of terms sets by its
size. Local searches run on its mean and on draws from it (Thompson sampling), from the best measured mappings.

Source: Bayesian linear regression, Bishop, Pattern Recognition and Machine Learning (2006), 3.3 and 3.5; Thompson
sampling in semi-bandits, Wang and Chen (2018).

Deviation: draws below 0 are raised to it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from egrl.core.archive import Archive
from egrl.methods.parts_critic.critic import GROWTH, LEAST_BATCH, CriticConfig
from egrl.methods.parts_critic.data import NOTHING_S, Measured, gather
from hwsim.capabilities import Parts, Terms
from hwsim.problem import Floats, Mapping16

LEAST = 4
"""Different mappings with profiles from which it begins to learn."""
MOST_TERMS = 6000
"""What is learned is inverted, which takes the cube of the number of terms."""
SPREAD = (1.0, 0.3)
"""Prior standard deviation of a term as a share of its mean, for terms of group 0 and of all others."""
LOAD_NOISE, LOAD_WEIGHT = 0.05, 10.0
"""Assumed relative standard deviation of a load, and how many loads the assumption weighs."""
LEAST_NOISE = 1e-3
FLOOR = 0.05
"""Loads below this share of the mean load are weighed as it: how precise they are does not matter."""
REWEIGHED = 2
"""How often loads are weighed by what was learned of them."""
PROBES = 8
"""Random vectors that estimate how many terms the data have determined."""
SEARCHES = (
    (True, 0, 0.02),
    (False, 0, 0.1),
    (True, 0, 0.1),
    (False, 1, 0.02),
    (False, 0, 0.02),
    (False, 2, 0.1),
)
"""Of a batch, in turn: whether the mean is searched, the rank of the start, the first temperature."""
TIMES_LONGER, MOST_WORK = 4, 20_000_000
"""A search has so many times the steps of one on op times, since a step takes microseconds; on large graphs so many
steps times nodes at most, some 0.3 s."""


@dataclass(frozen=True)
class Belief:
    """The seconds of terms that are most likely: float64 [K]."""

    seconds: Floats

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"seconds": self.seconds}


@dataclass(frozen=True)
class Posterior:
    """Normal beliefs about K terms.

    Attributes:
        mean: float64 [K].
        spread: float64 [K], prior standard deviations.
        factor: float64 [K, K], lower Cholesky factor of the precision in units of `spread`.
    """

    mean: Floats
    spread: Floats
    factor: Floats

    @property
    def likely(self) -> Floats:
        """float64 [K], none below 0."""
        return np.maximum(self.mean, 0.0)

    def draw(self, rng: np.random.Generator) -> Floats:
        """float64 [K], none below 0."""
        off = linalg.solve_triangular(self.factor, rng.standard_normal(len(self.mean)), lower=True, trans="T")
        return np.maximum(self.mean + self.spread * off, 0.0)


class LoadsCritic:
    """See the module; its methods are those of `egrl.methods.parts_critic.choice.Critic`."""

    least = LEAST

    def __init__(self, parts: Parts, terms: Terms, nodes: int, config: CriticConfig) -> None:
        self._parts, self._terms, self._nodes, self._config = parts, terms, nodes, config
        self._noise = LOAD_NOISE

    def gather(self, archive: Archive, tickets: NDArray[np.int64]) -> Measured:
        """What it learns from."""
        return gather(archive, tickets, self._parts, self._nodes)

    def think(
        self, measured: Measured, seen: set[bytes], rng: np.random.Generator
    ) -> Generator[None, None, tuple[Mapping16, Floats, Belief]]:
        """As of every critic."""
        data, shape = measured.thinned(self._config.most), (-1, *measured.mapping.shape[1:])
        if not len(data) or self._loads(data)[1].max(initial=0.0) <= 2 * NOTHING_S:  # profiles say nothing
            yield
            nothing = Belief(np.zeros(len(self._terms.size)))
            return np.empty((0, *shape[1:]), np.int16), measured.log_cost, nothing
        posterior = self._learned(data)
        belief = Belief(posterior.likely)
        estimate = self.estimate(belief, measured)
        order = np.argsort(estimate, kind="stable")
        steps = min(TIMES_LONGER * self._config.steps * self._nodes, MOST_WORK // self._nodes)
        found, known = list[Mapping16](), set(seen)
        for k in range(min(self._config.proposals, max(LEAST_BATCH, len(data) // GROWTH))):
            likely, rank, hot = SEARCHES[k % len(SEARCHES)]
            yield
            seconds = posterior.likely if likely else posterior.draw(rng)
            start, key = measured.mapping[order[min(rank, len(order) - 1)]], int(rng.integers(2**62))
            best = self._terms.improve(seconds, start, steps=steps, hot=hot, key=key)
            if best.tobytes() not in known:
                known.add(best.tobytes())
                found.append(best)
        return np.array(found, np.int16).reshape(shape), estimate, belief

    def _learned(self, data: Measured) -> Posterior:
        """What is believed of terms; the noise of loads is learned beside."""
        held, load = self._loads(data)
        exact = data.exact
        noise = LEAST_NOISE if exact else self._noise
        prior = self._prior(held, load)
        spread = prior * np.where(self._terms.group == 0, *SPREAD)
        scaled, floor = held * spread, FLOOR * float(load.mean())
        mean, factor = prior, np.empty((0, 0))
        for _ in range(REWEIGHED):
            weight = 1.0 / (noise * np.maximum(held @ np.maximum(mean, 0.0), floor))
            rows = sparse.diags_array(weight) @ scaled
            told = (rows.T @ rows).toarray()
            factor = linalg.cholesky(told + np.eye(len(told)), lower=True)
            seen = rows.T @ (weight * (load - held @ prior))
            mean = prior + spread * linalg.cho_solve((factor, True), seen)
        if not exact:
            probes = np.random.default_rng(0).standard_normal((len(told), PROBES))
            determined = float((probes * linalg.cho_solve((factor, True), told @ probes)).sum()) / PROBES
            predicted = held @ np.maximum(mean, 0.0)
            heavy = predicted > floor
            off = load[heavy] / predicted[heavy] - 1.0
            free = max(len(off) - determined, 0.0)
            squares = (off**2).sum() + LOAD_WEIGHT * LOAD_NOISE**2
            self._noise = max(LEAST_NOISE, float(np.sqrt(squares / (free + LOAD_WEIGHT))))
        return Posterior(mean, spread, factor)

    def _loads(self, data: Measured) -> tuple[sparse.csr_array, Floats]:
        """Known loads float64 [R], and how often each holds each term, [R, K]; those that hold none are left out."""
        held = self._terms.held(data.mapping)
        load = np.exp(data.log_seconds).ravel()
        used = np.isfinite(load) & (np.diff(held.indptr) > 0)
        return held[used], load[used]

    def _prior(self, held: sparse.csr_array, load: Floats) -> Floats:
        """float64 [K]: each group's terms in proportion to their size, so that sums are nearest to the loads."""
        group, size = self._terms.group, self._terms.size
        sums = np.stack([held @ np.where(group == g, size, 0.0) for g in range(group.max() + 1)], axis=1)
        scale = optimize.nnls(sums, load)[0]
        return np.asarray(np.maximum(scale[group], 1e-3 * scale.max()) * size)

    def estimate(self, belief: Belief, measured: Measured) -> Floats:
        """Log costs [M] by measurements and what was believed, weighed by their precisions."""
        if measured.exact:
            return measured.log_cost
        loads = (self._terms.held(measured.mapping) @ belief.seconds).reshape(len(measured), -1)
        return measured.weighed(np.log(np.maximum(loads.max(axis=1), NOTHING_S)))

    def belief_of(self, state: dict[str, Any]) -> Belief:
        """The inverse of `Belief.state_dict`."""
        return Belief(state["seconds"])

    def metrics(self) -> dict[str, float]:
        """The noise of loads that was learned."""
        return {"critic_noise": self._noise}

    def state_dict(self) -> dict[str, Any]:
        """All that is not learned anew each time."""
        return {"noise": self._noise}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._noise = state["noise"]
