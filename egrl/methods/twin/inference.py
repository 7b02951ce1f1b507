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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from egrl.methods.twin.data import Data
from egrl.methods.twin.part_fit import Known, PartFit, PriorAlone, WithParts
from hwsim.family import Effects, Learnable, Model
from hwsim.problem import Floats

LEAST_LOG = -8.0
"""Of the logarithms of the scales."""
NEWTON_STEPS, LEAST_STEP, LEAST_GAIN = 12, 0.05, 1e-3
LEAST_GAIN_WITH_PARTS = 0.1
"""Of thousands of parts; effects differ by far more."""
TUNING_STEPS, SIMPLEX = 60, 0.5
OWN_RANGE = (0.05, 5.0)
"""Of the scale of parameters of single nodes, if profiles say it."""


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
