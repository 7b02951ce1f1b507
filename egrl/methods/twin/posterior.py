"""What measurements say of a family of models: its mode, how sure that is, and which effects are there.

Source: effects by evidence; samples by Matheron's rule (Wilson et al., ICML 2020).

Deviations: effects are searched greedily, one switch at a time, and samples weigh the sets that the search met.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from egrl.methods.twin.data import Data, closeness
from egrl.methods.twin.inference import PRIOR, Inference, Linear, Scales
from egrl.methods.twin.part_fit import Known
from hwsim.family import Effects, Learnable, Model
from hwsim.problem import Floats, Mapping16

FLIP_COST = 1.5
"""Log prior odds against an effect's being other than the description says."""
LIKELY, STRUCTURES = 5.0, 4
"""Sets of effects are kept within so much log evidence of the best, and so many at most."""
FEW_STEPS = 3
SEARCH_GROWTH = 1.2
"""The effects are searched again when there are so many times the measurements of the last search."""


@dataclass
class Beliefs:
    """The starting point of a fit, which is kept between fits.

    Attributes:
        likely: sets of effects, the most likely first.
        scales: as learned last.
        theta: the mode of each set.
        searched: measurements that there were when effects were searched last.
    """

    likely: tuple[Effects, ...]
    scales: Scales = PRIOR
    theta: dict[Effects, Floats] = field(default_factory=dict)
    searched: int = 0


@dataclass(frozen=True)
class Structure:
    """A set of effects at its mode, what is known there without totals, and its log evidence, prior odds included."""

    near: Linear
    known: Known
    evidence: float


class Posterior:
    """The posterior of the data; see the module.

    Attributes:
        near: the family at the mode.
        scales: as learned.
        structures: sets of effects that were tried with these scales, the mode's first.
    """

    def __init__(self, inference: Inference, scales: Scales, structures: list[Structure]) -> None:
        self._inference, self.scales, self.structures = inference, scales, structures
        self.near = structures[0].near
        self._known = structures[0].known
        self._root = cho_factor(inference.covariance(self.near, scales, self._known), lower=True)
        self._weights: Floats = cho_solve(self._root, self.near.target(inference.data, self._known))

    @property
    def profiled(self) -> bool:
        """Whether profiles are among the data."""
        return self.near.parts is not None

    @property
    def effects(self) -> Effects:
        """Those of the mode."""
        return self.near.model.effects

    def mode(self) -> Model:
        """The most likely model, residual included."""
        residual = self.scales.residual**2 * (self._inference.data.places.T @ self._weights)
        return replace(self.near.model, residual=residual)

    def doubt(self) -> Floats:
        """float64 [P]: standard deviations of theta, the family taken as linear near the mode."""
        to_data = self._known.times(self.near.slope.T).T
        # What the measurements have taken off the prior variance.
        known = np.einsum("mp,mp->p", to_data, cho_solve(self._root, to_data))
        return np.sqrt(np.maximum(self._known.diagonal() - known, 0.0))

    def covariance(self, columns: NDArray[np.int64]) -> Floats:
        """float64 [K, K]: of parameters int64 [K] of theta, as `doubt` has their standard deviations."""
        to_data = self._known.times(self.near.slope.T).T[:, columns]
        return np.asarray(self._known.block(columns) - to_data.T @ cho_solve(self._root, to_data))

    def sample(self, rng: np.random.Generator) -> Model:
        """A model drawn from the posterior, the family taken as linear near the mode of its effects."""
        inference, scales, data = self._inference, self.scales, self._inference.data
        evidence = np.array([structure.evidence for structure in self.structures])
        odds = np.exp(evidence - evidence.max())
        drawn = self.structures[rng.choice(len(odds), p=odds / odds.sum())]
        near, known = drawn.near, drawn.known
        # Matheron's rule: draw from the prior, draw the data that this draw would give, and correct it by what
        # the real data differ from those. No covariance of theta has to be factored.
        theta = known.draw(rng)
        residual = np.asarray(scales.residual * rng.standard_normal(data.places.shape[1]))
        apart = scales.discrepancy**2 * data.distance_gram + scales.noise**2 * np.eye(len(data))
        seen = near.slope @ theta + data.places @ residual
        seen += np.linalg.cholesky(apart) @ rng.standard_normal(len(data))
        weights = np.linalg.solve(inference.covariance(near, scales, known), near.target(data, known) - seen)
        theta = known.mean + theta + known.times(near.slope.T @ weights[:, None])[:, 0]
        residual = residual + scales.residual**2 * (data.places.T @ weights)
        return Model(near.model.effects, theta, residual)

    def predict(self, mapping: Mapping16) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the log cost of mappings [B, N, H], without noise: float64 [B] each."""
        inference, scales, data, near = self._inference, self.scales, self._inference.data, self.near
        cost, slope = inference.family.gradient(near.model, mapping)
        places = inference.family.places(mapping)
        to_theta = self._known.times(slope.T).T
        to_data = to_theta @ near.slope.T + scales.residual**2 * (places @ data.places.T)
        to_data += scales.discrepancy**2 * closeness(inference.family.distance(mapping, data.mapping))
        prior = (
            np.einsum("bp,bp->b", to_theta, slope)
            + scales.residual**2 * np.square(places).sum(1)
            + scales.discrepancy**2
        )
        mean = np.log(cost) + slope @ (self._known.mean - near.model.theta) + to_data @ self._weights
        known = np.einsum("bm,mb->b", to_data, cho_solve(self._root, to_data.T))
        return np.asarray(mean), np.sqrt(np.maximum(prior - known, 0.0))

    def joint(self, mapping: Mapping16) -> Floats:
        """Covariance of the log costs of mappings [B, N, H], without noise: float64 [B, B]."""
        inference, scales, data, near = self._inference, self.scales, self._inference.data, self.near
        _, slope = inference.family.gradient(near.model, mapping)
        places = inference.family.places(mapping)
        to_theta, distance = self._known.times(slope.T).T, inference.family.distance
        prior = to_theta @ slope.T + scales.residual**2 * (places @ places.T)
        prior += scales.discrepancy**2 * closeness(distance(mapping, mapping))
        to_data = to_theta @ near.slope.T + scales.residual**2 * (places @ data.places.T)
        to_data += scales.discrepancy**2 * closeness(distance(mapping, data.mapping))
        return np.asarray(prior - to_data @ cho_solve(self._root, to_data.T))


def fit(
    family: Learnable, data: Data, beliefs: Beliefs, noise: float | None = None
) -> Iterator[Posterior | None]:
    """The posterior, at the end; None in between, now and then, so that a caller can look at the clock.

    `beliefs` are where it begins, and are brought up to date; `noise` is as `Inference` has it.
    """
    inference = Inference(family, data, noise)
    near = structure(inference, beliefs, beliefs.likely[0]).near
    yield None
    beliefs.scales = inference.tune(near, beliefs.scales)
    if len(data) >= SEARCH_GROWTH * beliefs.searched:
        yield from _search(inference, beliefs)
    structures = []
    for effects in beliefs.likely:
        yield None
        structures.append(structure(inference, beliefs, effects))
    structures.sort(key=lambda structure: -structure.evidence)
    beliefs.likely = tuple(structure.near.model.effects for structure in structures)
    yield Posterior(inference, beliefs.scales, structures)


def structure(
    inference: Inference, beliefs: Beliefs, effects: Effects, like: Effects | None = None
) -> Structure:
    """A set of effects at its mode, searched from where `beliefs` have it or those `like` it; they are updated.

    From those `like` it few steps are enough to compare effects, if there are profiles.
    """
    # Warm starts: the mode of a set of effects moves little when one effect is flipped.
    known = [beliefs.theta[e] for e in (effects, like) if e in beliefs.theta]
    steps = None if like is None or inference.data.profiles is None else FEW_STEPS
    mode = inference.mode(effects, known or [np.zeros(len(inference.single))], beliefs.scales, steps)
    beliefs.theta[effects] = mode.near.model.theta
    odds = FLIP_COST * len(effects ^ inference.family.nominal)
    return Structure(mode.near, mode.known, mode.evidence - odds)


def _search(inference: Inference, beliefs: Beliefs) -> Iterator[None]:
    """Flip one effect after the other as long as that raises the evidence; then learn the scales again."""
    at = beliefs.likely[0]
    seen = {at: structure(inference, beliefs, at)}
    improved = True
    while improved:
        improved = False
        for effect in inference.family.effects:
            effects = at ^ {effect}
            if effects in seen:
                continue
            yield None
            seen[effects] = structure(inference, beliefs, effects, at)
            if seen[effects].evidence > seen[at].evidence:
                at, improved = effects, True
    yield None
    # With other effects less is left unexplained, so noise and discrepancy are learned again.
    beliefs.scales = inference.tune(seen[at].near, beliefs.scales)
    beliefs.searched = len(inference.data)
    order = sorted(seen, key=lambda effects: -seen[effects].evidence)
    within = [e for e in order if seen[e].evidence >= seen[at].evidence - LIKELY]
    beliefs.likely = tuple(within[:STRUCTURES])
    beliefs.theta = {effects: beliefs.theta[effects] for effects in within[:STRUCTURES]}
