"""Learns the terms of which measured parts are sums, and proposes mappings by local search on them.

A cost that is the largest of many loads, or the sum of the times of many instructions, says little; the parts say what
each node, tensor or buffer adds. They are linear in the terms, so that all is known in closed form: a normal posterior
around priors that each group of terms sets by its size. Where parts are sums nearly, errors are Student's t by
reweighting. Local searches run on the mean and on draws (Thompson sampling), from the best measured mappings.

Source: Bayesian linear regression, Bishop, Pattern Recognition and Machine Learning (2006), 3.3 and 3.5; Thompson
sampling in semi-bandits, Wang and Chen (2018); Student's t, Lange, Little and Taylor (1989).

Deviations: draws below 0 are raised to it. What parts that are sums nearly are off by counts as new for every
measurement, though much of it is not, so that draws differ too little there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from egrl.core.archive import Archive
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.data import NOTHING_S, Measured, gather
from egrl.methods.profile_model.op_times import GROWTH, LEAST_BATCH, kinds_of
from hwsim.capabilities import Parts, Terms
from hwsim.problem import Floats, Mapping16

LEAST = 4
"""Different mappings with profiles from which it begins to learn."""
SPREAD = (1.0, 0.3)
"""Prior standard deviation of a term as a share of its mean, for terms of group 0 and of all others."""
PART_NOISE, PART_WEIGHT = 0.05, 10.0
"""Assumed relative standard deviation of a part, and how many parts the assumption weighs."""
LEAST_NOISE = 1e-3
FLOOR = 0.05
"""Parts below this share of the mean part are weighed as it: how precise they are does not matter."""
REWEIGHED, TAILED = 2, 6
"""How often parts are weighed by what was learned of them; the second where they are nearly sums."""
NEARLY, FREEDOM = 0.02, 3.0
"""Parts that are nearly sums are off by this share at least, some by much more: degrees of freedom of Student's t."""
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
"""The searches of a batch, in turn: whether the mean is searched, the rank of the start, the first temperature."""
TIMES_LONGER = 4
"""A search has so many times the steps of one on op times, since a step takes microseconds."""


@dataclass(frozen=True)
class Belief:
    """The seconds of terms that are most likely: float64 [K]."""

    seconds: Floats

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"seconds": self.seconds}


class Blocks:
    """Terms in blocks that no measurement joins, so that each is solved by itself; those of one size at once."""

    def __init__(self, block: NDArray[np.int64]) -> None:
        order = np.argsort(block, kind="stable")
        begins = np.flatnonzero(np.diff(block[order], prepend=-1))
        sizes = np.diff(np.append(begins, len(block)))
        self._place = np.empty(len(block), np.int64)
        self._place[order] = np.arange(len(block)) - np.repeat(begins, sizes)
        # Of each size the terms of its blocks, int64 [blocks, size].
        self._terms = [
            order[begins[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes).tolist()
        ]

    def factor(self, told: sparse.coo_array) -> list[Floats]:
        """Lower Cholesky factors [blocks, size, size] of the identity and what was told, [K, K]."""
        row, column = told.coords
        found = []
        for terms in self._terms:
            blocks, size = terms.shape
            number = np.full(len(self._place), -1)
            number[terms] = np.arange(blocks)[:, None]
            own = number[row] >= 0
            matrix = np.zeros((blocks, size, size))
            place = number[row[own]], self._place[row[own]], self._place[column[own]]
            matrix[place] = told.data[own]
            matrix[:, np.arange(size), np.arange(size)] += 1.0
            found.append(np.linalg.cholesky(matrix))
        return found

    def solve(self, factors: Sequence[Floats], right: Floats, only_back: bool = False) -> Floats:
        """float64 [K, R] or [K]: x of L L' x = right; of L' x = right for `only_back`."""
        found = np.empty_like(right)
        for terms, factor in zip(self._terms, factors, strict=True):
            rows = right[terms].reshape(*terms.shape, -1)
            if not only_back:
                rows = _triangular(factor, rows, back=False)
            found[terms] = _triangular(factor, rows, back=True).reshape(*terms.shape, *right.shape[1:])
        return found


def _triangular(factor: Floats, right: Floats, back: bool) -> Floats:
    """L x = right, or L' x = right, for blocks [B, S, S] and [B, S, R]."""
    if len(factor) == 1:  # a large one
        return np.asarray(linalg.solve_triangular(factor[0], right[0], lower=True, trans=int(back)))[None]
    return np.asarray(np.linalg.solve(factor.transpose(0, 2, 1) if back else factor, right))


@dataclass(frozen=True)
class Posterior:
    """Normal beliefs about K terms.

    Attributes:
        mean: float64 [K].
        spread: float64 [K], prior standard deviations.
        blocks: which terms are joined.
        factors: of the precision in units of `spread`, as `Blocks.factor` has them.
    """

    mean: Floats
    spread: Floats
    blocks: Blocks
    factors: list[Floats]

    @property
    def likely(self) -> Floats:
        """float64 [K], none below 0."""
        return np.maximum(self.mean, 0.0)

    def draw(self, rng: np.random.Generator) -> Floats:
        """float64 [K], none below 0."""
        off = self.blocks.solve(self.factors, rng.standard_normal(len(self.mean)), only_back=True)
        return np.maximum(self.mean + self.spread * off, 0.0)


def _off(predicted: Floats, seconds: Floats, floor: float) -> tuple[Floats, NDArray[np.bool_]]:
    """By what share each part is off, a small one by what share of the floor, [R]; which are not small."""
    return (seconds - predicted) / np.maximum(predicted, floor), predicted > floor


def _tails(off: Floats, heavy: NDArray[np.bool_]) -> tuple[float, Floats]:
    """The noise of most parts, and how far each is to be believed [R]: Student's t by reweighting."""
    noise = max(NEARLY, 1.4826 * float(np.median(np.abs(off[heavy])))) if heavy.any() else PART_NOISE
    return noise, np.sqrt((FREEDOM + 1.0) / (FREEDOM + (off / noise) ** 2))


class TermsModel:
    """Terms as a `egrl.methods.profile_model.contract.ProfileModel`."""

    least = LEAST
    longer = 1.25  # as with noise: whether it may rest longer was not measured

    def __init__(self, parts: Parts, terms: Terms, nodes: int, config: ProfileModelConfig) -> None:
        self._parts, self._terms, self._nodes, self._config = parts, terms, nodes, config
        self._blocks = Blocks(terms.block)
        self._noise = PART_NOISE

    def gather(self, archive: Archive, tickets: NDArray[np.int64]) -> Measured:
        """What it learns from."""
        return gather(archive, tickets, self._parts, None)

    def think(
        self, measured: Measured, seen: set[bytes], rng: np.random.Generator, most: int | None = None
    ) -> Generator[None, None, tuple[Mapping16, Floats, Belief]]:
        """The next batch, the expected log cost of what was measured, and what is believed now."""
        data, shape = measured.thinned(self._config.most), (-1, *measured.mapping.shape[1:])
        if not len(data) or self._known(data)[1].max(initial=0.0) <= 2 * NOTHING_S:  # profiles say nothing
            yield
            nothing = Belief(np.zeros(len(self._terms.size)))
            return np.empty((0, *shape[1:]), np.int16), measured.earned, nothing
        posterior = self._learned(data)
        belief = Belief(posterior.likely)
        estimate = self.estimate(belief, measured)
        order = np.argsort(estimate, kind="stable")
        steps = TIMES_LONGER * self._config.steps * self._nodes
        found, known = list[Mapping16](), set(seen)
        count = min(self._config.proposals, max(LEAST_BATCH, len(data) // GROWTH))
        for likely, rank, hot in kinds_of(SEARCHES, count, most, rng):
            yield
            seconds = posterior.likely if likely else posterior.draw(rng)
            start, key = measured.mapping[order[min(rank, len(order) - 1)]], int(rng.integers(2**62))
            best = self._terms.improve(seconds, start, steps=steps, hot=hot, key=key)
            if best.tobytes() not in known:
                known.add(best.tobytes())
                found.append(best)
        return np.array(found, np.int16).reshape(shape), estimate, belief

    def _learned(self, data: Measured) -> Posterior:
        """What is believed of terms; the noise of parts is learned beside."""
        held, seconds = self._known(data)
        sums, exact = self._terms.exact, data.exact and self._terms.exact
        noise, trust = LEAST_NOISE if exact else self._noise, np.ones(len(seconds))
        prior = self._prior(held, seconds)
        spread = prior * np.where(self._terms.group == 0, *SPREAD)
        scaled, floor = held * spread, FLOOR * float(seconds.mean())
        mean, factors, told = prior, list[Floats](), sparse.coo_array((len(prior), len(prior)))
        # Weights follow the predicted size of each part, which the solve changes: a few rounds settle it.
        for _ in range(REWEIGHED if sums else TAILED):
            weight = trust / (noise * np.maximum(held @ np.maximum(mean, 0.0), floor))
            rows = sparse.diags_array(weight) @ scaled
            told = (rows.T @ rows).tocoo()
            factors = self._blocks.factor(told)
            mean = prior + spread * self._blocks.solve(factors, rows.T @ (weight * (seconds - held @ prior)))
            if not sums:
                noise, trust = _tails(*_off(held @ np.maximum(mean, 0.0), seconds, floor))
        if not sums:
            self._noise = noise
        elif not exact:
            # Hutchinson's estimate of a trace: the degrees of freedom that the fit has used up.
            probes = np.random.default_rng(0).standard_normal((len(prior), PROBES))
            determined = float((probes * self._blocks.solve(factors, told @ probes)).sum()) / PROBES
            off, heavy = _off(held @ np.maximum(mean, 0.0), seconds, floor)
            free = max(heavy.sum() - determined, 0.0)
            squares = (off[heavy] ** 2).sum() + PART_WEIGHT * PART_NOISE**2
            self._noise = max(LEAST_NOISE, float(np.sqrt(squares / (free + PART_WEIGHT))))
        return Posterior(mean, spread, self._blocks, factors)

    def _known(self, data: Measured) -> tuple[sparse.csr_array, Floats]:
        """How often each known part holds each term, [R, K], and its seconds [R]; those that hold none are left out."""
        held = self._terms.held(data.mapping)
        seconds = np.exp(data.log_seconds).ravel()
        used = np.isfinite(seconds) & (np.diff(held.indptr) > 0)
        return held[used], seconds[used]

    def _prior(self, held: sparse.csr_array, seconds: Floats) -> Floats:
        """float64 [K]: each group's terms in proportion to their size, so that sums are nearest to the parts."""
        group, size = self._terms.group, self._terms.size
        sums = np.stack([held @ np.where(group == g, size, 0.0) for g in range(group.max() + 1)], axis=1)
        # Not below 0: terms are times.
        scale = optimize.nnls(sums, seconds)[0]
        return np.asarray(np.maximum(scale[group], 1e-3 * scale.max()) * size)

    def estimate(self, belief: Belief, measured: Measured) -> Floats:
        """Log costs by measurements and what was believed; where costs are exact by rewards, which may differ."""
        if measured.exact:
            return measured.earned
        parts = (self._terms.held(measured.mapping) @ belief.seconds).reshape(len(measured), -1)
        whole = parts.sum(axis=1) if self._parts.whole == "sum" else parts.max(axis=1)
        return measured.weighed(np.log(np.maximum(whole, NOTHING_S)))

    def belief_of(self, state: dict[str, Any]) -> Belief:
        """The inverse of `Belief.state_dict`."""
        return Belief(state["seconds"])

    def metrics(self) -> dict[str, float]:
        """The noise of parts that was learned."""
        return {"profile_model_noise": self._noise}

    def state_dict(self) -> dict[str, Any]:
        """All that is not learned anew each time."""
        return {"noise": self._noise}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._noise = state["noise"]
