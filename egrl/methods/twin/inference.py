"""Measurements under a family of models: likelihood, evidence, and the most likely parameters.

The logarithm of a measured cost is

    y = log f(theta, mapping) + residual + discrepancy + noise

with theta ~ N(0, 1) in units of its spreads (those of single nodes times `own`), a residual linear in where each
tensor lies, a Gaussian process over the distance between mappings, and independent noise. The sizes of the last three
and `own` are learned by the marginal likelihood, so that on a board that no member of the family describes the model
trusts itself only near what was measured.

Source: Kennedy and O'Hagan, Bayesian calibration of computer models, J. R. Statist. Soc. B 63 (2001), for model +
discrepancy + noise; the mode by Gauss-Newton in the space of the M measurements (M x M systems, however many
parameters), evidence by Laplace's approximation there.

Deviations: the discrepancy is additive over places and exponential in the distance; the sizes are point estimates under
log-normal priors.

What measurements say of a family of models: its mode, how sure that is, and which effects are there.

Source: effects by evidence; samples by Matheron's rule (Wilson et al., ICML 2020).

Deviations: effects are searched greedily, one switch at a time, and samples weigh the sets that the search met.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from egrl.methods.twin.data import Data, Known, PartFit, PriorAlone, WithParts, closeness
from hwsim.family import Effects, Learnable, Model
from hwsim.problem import Floats, Mapping16

LEAST_LOG = -8.0
"""The least logarithm of a scale."""
NEWTON_STEPS, LEAST_STEP, LEAST_GAIN = 12, 0.05, 1e-3
LEAST_GAIN_WITH_PARTS = 0.1
"""The least gain of a step in a model of thousands of parts; effects differ by far more."""
TUNING_STEPS, SIMPLEX = 60, 0.5
OWN_RANGE = (0.05, 5.0)
"""The range of the scale of single nodes' parameters, if profiles determine it."""


@dataclass(frozen=True)
class Scales:
    """Sizes that are learned. The first is of log cost, the others are multiples or of log cost.

    Attributes:
        noise: standard deviation of a measurement's logarithm.
        own: multiple of the prior spreads of parameters of single nodes.
        residual: multiple of `Learnable.places`.
        discrepancy: standard deviation of what depends on the distance.
        profile: size of the error of a part's logarithm, if there are profiles; it is learned by itself.
    """

    noise: float = 0.01
    own: float = 1.0
    residual: float = 0.1
    discrepancy: float = 0.005
    profile: float = 0.05

    def logs(self) -> Floats:
        """The logarithms of the first four, float64 [4]."""
        return np.log([self.noise, self.own, self.residual, self.discrepancy])

    def with_logs(self, logs: Floats) -> Scales:
        """The first four from their logarithms; none falls below `LEAST_LOG`, so that covariances can be factored."""
        noise, own, residual, discrepancy = np.exp(np.maximum(logs, LEAST_LOG)).tolist()
        return replace(self, noise=noise, own=own, residual=residual, discrepancy=discrepancy)


PRIOR, PRIOR_SPREAD = Scales(), np.array([1.0, 0.5, 1.2, 1.0])
"""Median, and standard deviation of the logarithm, of each …"""
REPEATED_SPREAD = 0.35
"""… and that of the noise, upwards, where five repetitions of a measurement have shown it: 1 / sqrt(2 (5 - 1))."""


@dataclass(frozen=True)
class Linear:
    """A model, and the family near it as a linear function of theta: M data, P parameters.

    Attributes:
        model: without residual.
        predicted: float64 [M], log cost.
        slope: float64 [M, P].
        single: bool [P], parameters of single nodes.
        parts: the parts of the mappings with profiles; None if there are none.
    """

    model: Model
    predicted: Floats
    slope: Floats
    single: NDArray[np.bool_]
    parts: PartFit | None = None

    @cached_property
    def common(self) -> Floats:
        """float64 [M, M], covariance of the predictions from parameters of many nodes."""
        many = self.slope[:, ~self.single]
        return np.asarray(many @ many.T)

    @cached_property
    def own(self) -> Floats:
        """float64 [M, M], covariance of the predictions from parameters of single nodes."""
        alone = self.slope[:, self.single]
        return np.asarray(alone @ alone.T)

    def target(self, data: Data, known: Known) -> Floats:
        """float64 [M]: what theta less its mean has to explain, were the family linear."""
        found: Floats = data.log_cost - self.predicted + self.slope @ (self.model.theta - known.mean)
        return found


@dataclass(frozen=True)
class Mode:
    """The family at the most likely theta, what is known there without totals, and the log evidence of its effects."""

    near: Linear
    known: Known
    evidence: float


class Inference:
    """One set of data under one family."""

    def __init__(self, family: Learnable, data: Data, noise: float | None = None) -> None:
        """`noise` is the relative standard deviation of a single measurement where repetitions have shown it.

        Then what the family cannot say is not taken for noise: it is residual and discrepancy. A cost may be less noisy
        (it is the median of several measurements), but hardly more.
        """
        self.family, self.data = family, data
        self._median, self._repeated = PRIOR.logs(), noise is not None
        if noise is not None:
            self._median[0] = max(math.log(max(noise, 1e-9)), LEAST_LOG)
        self.single: NDArray[np.bool_] = np.array([p.own for p in family.parameters])

    def spread(self, scales: Scales) -> Floats:
        """float64 [P]: prior standard deviations of theta."""
        return np.where(self.single, scales.own, 1.0)

    def unexplained(self, scales: Scales) -> Floats:
        """float64 [M, M]: covariance of everything but the family."""
        data = self.data
        found = scales.residual**2 * data.residual_gram + scales.discrepancy**2 * data.distance_gram
        # Noise is independent per measurement, so it stands on the diagonal alone.
        found[np.diag_indices(len(data))] += scales.noise**2
        return np.asarray(found)

    def known(self, near: Linear, scales: Scales) -> Known:
        """The density of theta without the totals: the prior, and the parts if there are profiles."""
        if near.parts is None:
            return PriorAlone(self.spread(scales))
        return WithParts(self.spread(scales), near.model.theta, near.parts, scales.profile)

    def family_covariance(self, near: Linear, scales: Scales, known: Known) -> Floats:
        """float64 [M, M]: of the family's log costs."""
        if near.parts is None:
            return near.common + scales.own**2 * near.own
        return np.asarray(near.slope @ known.times(near.slope.T))

    def covariance(self, near: Linear, scales: Scales, known: Known) -> Floats:
        """float64 [M, M]: of the data."""
        return self.family_covariance(near, scales, known) + self.unexplained(scales)

    def linear(self, effects: Effects, theta: Floats) -> Linear:
        """The family near a model."""
        model = Model(effects, theta)
        cost, slope = self.family.gradient(model, self.data.mapping)
        return Linear(model, np.log(cost), slope, self.single, self._parts(model))

    def _parts(self, model: Model) -> PartFit | None:
        profiles = self.data.profiles
        times = None if profiles is None else self.family.part_times(model, profiles.mapping)
        return None if times is None or profiles is None else PartFit.of(times, profiles.log_seconds)

    def evidence(self, near: Linear, scales: Scales) -> float:
        """Log marginal likelihood of the totals, the family taken as linear; -inf where it cannot be computed."""
        known = self.known(near, scales)
        return self._evidence(
            self.family_covariance(near, scales, known) + self.unexplained(scales),
            near.target(self.data, known),
        )

    def _evidence(self, covariance: Floats, target: Floats) -> float:
        try:
            root = cho_factor(covariance, lower=True)
        except LinAlgError:
            return -math.inf
        fit = float(target @ cho_solve(root, target))
        size = float(np.log(np.diag(root[0])).sum())
        return -0.5 * fit - size - 0.5 * len(target) * math.log(2 * math.pi)

    def mode(
        self, effects: Effects, starts: Sequence[Floats], scales: Scales, steps: int | None = None
    ) -> Mode:
        """Gauss-Newton from the best of `starts` [P], each step halved until the posterior rises.

        By default there are `NEWTON_STEPS` steps at most.
        """
        # It does not depend on theta, so one inverse serves all steps.
        inverse = np.linalg.inv(self.unexplained(scales))
        spread = self.spread(scales)

        def loss(at: Linear) -> float:
            left = self.data.log_cost - at.predicted
            parts = 0.0 if at.parts is None else at.parts.loss(scales.profile)
            return float(0.5 * left @ inverse @ left + 0.5 * np.square(at.model.theta / spread).sum()) + parts

        begun = [self.linear(effects, theta) for theta in starts]
        losses = [loss(near) for near in begun]
        lowest = min(losses)
        near = begun[losses.index(lowest)]
        known = self.known(near, scales)
        least_gain = LEAST_GAIN if near.parts is None else LEAST_GAIN_WITH_PARTS
        for _ in range(NEWTON_STEPS if steps is None else steps):
            # The Gauss-Newton step in the space of the M measurements: M x M however many parameters there are.
            weights = np.linalg.solve(self.covariance(near, scales, known), near.target(self.data, known))
            toward = known.mean + known.times(near.slope.T @ weights[:, None])[:, 0]
            step = 1.0
            # The family is not linear: a full step may overshoot, a shorter one of the same direction falls.
            while step >= LEAST_STEP:
                trial = self.linear(effects, near.model.theta + step * (toward - near.model.theta))
                found = loss(trial)
                if found < lowest:
                    break
                step /= 2
            else:
                break
            # Parts are linearised at each point again, so what is known without totals changes with it.
            gain, near, lowest = lowest - found, trial, found
            known = self.known(near, scales)
            if gain < least_gain:
                break
        return Mode(near, known, self._at_mode(near, lowest, scales, known))

    def _at_mode(self, near: Linear, loss: float, scales: Scales, known: Known) -> float:
        """Log evidence by Laplace's approximation, from the loss of the family itself.

        At a mode it is that of the linear family (`evidence`), which hides the misfit where no mode was reached.
        """
        try:
            root = cho_factor(self.covariance(near, scales, known), lower=True)
        except LinAlgError:
            return -math.inf
        size = float(np.log(np.diag(root[0])).sum()) + known.excess
        return -loss - size - 0.5 * len(self.data) * math.log(2 * math.pi)

    def tune(self, near: Linear, scales: Scales) -> Scales:
        """The scales of the highest evidence of the totals, under their priors.

        With profiles the family is as sure as with the scales that were: its own two are learned from the parts.
        """
        known = self.known(near, scales)
        # Computed once: only the scales change below, and Nelder-Mead asks for the evidence some sixty times.
        sure, target = self.family_covariance(near, scales, known), near.target(self.data, known)

        def loss(logs: Floats) -> float:
            tried = scales.with_logs(logs)
            family = near.common + tried.own**2 * near.own if near.parts is None else sure
            evidence = self._evidence(family + self.unexplained(tried), target)
            off = (logs - self._median) / PRIOR_SPREAD
            # Repetitions have shown the noise: more of it than that is hardly believed, less of it is.
            if self._repeated and off[0] > 0:
                off[0] *= PRIOR_SPREAD[0] / REPEATED_SPREAD
            return float(-evidence + 0.5 * np.square(off).sum())

        first = scales.logs()
        simplex = np.stack([first, *(first + SIMPLEX * np.eye(len(first)))])
        options = {"maxiter": TUNING_STEPS, "xatol": 0.05, "fatol": 0.05, "initial_simplex": simplex}
        found = minimize(loss, first, method="Nelder-Mead", options=options)
        if not np.isfinite(found.fun):
            return PRIOR
        return self._from_parts(near, scales.with_logs(found.x), known)

    def _from_parts(self, near: Linear, scales: Scales, known: Known) -> Scales:
        """The scales with those that parts say more about than totals, one step of expectation and maximisation."""
        if near.parts is None:
            return scales
        square = (np.square(near.model.theta) + known.diagonal())[self.single]
        own = math.sqrt(float(square.mean())) if len(square) else scales.own
        return replace(
            scales, own=min(max(own, OWN_RANGE[0]), OWN_RANGE[1]), profile=near.parts.sized(scales.profile)
        )


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
