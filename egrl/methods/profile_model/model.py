"""The most likely parameters of a model of op times, and draws from their posterior.

The logarithm of a measured time is that of the model plus noise with heavy tails. Ops share theta; each op has the
logarithm of its work, and each access a factor on its bytes, under priors whose spreads are learned.

Source: Levenberg-Marquardt (Marquardt, J. SIAM 11, 1963), with the Schur complement over the parameters of single ops
as in bundle adjustment (Triggs et al., 2000); Student's t by reweighting (Lange, Little and Taylor, JASA 84, 1989);
draws by Laplace's approximation.

Deviations: what an op's own parameters do to later ops, through the context, is left out of the derivatives; a step is
only taken if the whole loss falls. Spreads are point estimates.

`search` finds which context the data show: every shape is tried, and the one that explains the profiles best is kept.
Source: our own; the race drops what is behind, as successive halving does (Jamieson and Talwalkar, AISTATS 2016).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.methods.profile_model.accesses import Accesses
from egrl.methods.profile_model.family import NO_CONTEXT, OF_CONTEXT, ContextShape, Layout
from egrl.methods.profile_model.slopes import slopes
from egrl.methods.profile_model.times import Constants, predict
from hwsim.problem import Floats, Mapping16

TAIL = 30.0
"""Degrees of freedom of the noise."""
LEAST_NOISE, FIRST_NOISE, LEAST_STEP = 0.01, 0.3, 0.8
"""The noise begins large, so that no op is an outlier yet, and falls by at most this factor per step."""
LEAST_WORK_SPREAD = 0.1
TRAFFIC_SPREAD = (0.02, 0.1, 0.3)
"""Least, first and largest spread of the logarithm of an access's factor."""
FACTORS = 4
"""Accesses of an op, its first ones, that have a factor."""
CLIP = 2.0
"""The most that a step changes a parameter by."""
DAMPINGS = (1e-4, 1.0, 1e6)
"""The least, first and largest."""
GAIN = 1.0
"""Steps end when the loss falls by less."""
WIDEST = 3.0
"""The widest standard deviation of a draw, in any direction of theta."""
FEW = 16
"""Mappings on which shapes are compared."""
PLAIN_STEPS, TRIAL_STEPS, LAST_STEPS, FRESH_STEPS = 15, 6, 12, 25
TRIED = (*OF_CONTEXT, "rate")
"""Groups of parameters that a trial fits: what was taken for a fast memory may have been fetched ahead."""
LEFT = 3
"""Shapes that are fitted longer."""
PRICE = 3.0
"""The least gain in log posterior density for which a context is used."""


@dataclass(frozen=True)
class Profiled:
    """M different mappings with their profiles.

    Attributes:
        mapping: int16 [M, N, H].
        log_seconds: float64 [M, N], in units of the median op; NaN: not known.
    """

    mapping: Mapping16
    log_seconds: Floats


@dataclass(frozen=True)
class Parameters:
    """The learned values.

    Attributes:
        shape: of the context.
        theta: float64 [P], see `family.Layout`.
        work: float64 [N], and
        traffic: float64 [A], see `times.Constants`; logarithms.
        work_mean: float64 [N], what the features of the op say of `work`.
        work_spread, traffic_spread: of the priors.
        noise: scale of the logarithm of a measured time.
    """

    shape: ContextShape
    theta: Floats
    work: Floats
    traffic: Floats
    work_mean: Floats
    work_spread: float
    traffic_spread: float
    noise: float

    def state_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "shape": list(vars(self.shape).values())}

    @staticmethod
    def of_state(state: dict[str, Any]) -> Parameters:
        """The inverse of `state_dict`."""
        return Parameters(**{**state, "shape": ContextShape(*state["shape"])})


@dataclass(frozen=True)
class Curvature:
    """The precision of all parameters at a point: of theta [K, K], of ops [N, Q, Q], and between [N, K, Q]."""

    active: NDArray[np.int64]
    access: NDArray[np.int64]
    shared: Floats
    own: Floats
    between: Floats


class OpTimes:
    """The family of models of one network; what is learned goes in and out as `Parameters`."""

    def __init__(self, accesses: Accesses, features: Floats, mean_seconds: float) -> None:
        """`features` float64 [N, F] say something of the work of each op; `mean_seconds` of an op sets the priors."""
        self.accesses = accesses
        self._features = features
        gram = features.T @ features + np.eye(features.shape[1])
        self._project = np.linalg.solve(gram, features.T)
        self.layout = Layout(accesses, mean_seconds)
        count = np.diff(accesses.start)
        most = min(FACTORS, max(1, int(count.max(initial=0))))
        self._access = np.stack(
            [np.where(count > q, accesses.start[:-1] + q, -1) for q in range(most)]
        ).reshape(-1, len(count))
        self._no_delta = np.zeros((len(accesses.node), len(accesses.capacity)))

    def begin(self, data: Profiled, shape: ContextShape = NO_CONTEXT) -> Parameters:
        """Parameters to begin with: the prior, and half of the shortest time of each op as its work."""
        known = np.isfinite(data.log_seconds)
        shortest = np.where(known, data.log_seconds, np.inf).min(axis=0) - 0.5
        some = float(np.median(shortest[np.isfinite(shortest)]))
        work = np.where(np.isfinite(shortest), shortest, some)
        traffic = np.zeros(len(self.accesses.node))
        return Parameters(
            shape,
            self.layout.started(self.layout.mean, shape),
            work,
            traffic,
            work.copy(),
            1.0,
            TRAFFIC_SPREAD[1],
            FIRST_NOISE,
        )

    def constants(self, parameters: Parameters, delta: Floats | None = None) -> Constants:
        """For the kernels; `delta` float64 [A, L] is a residual."""
        found = self._no_delta if delta is None else delta
        p = parameters
        return self.layout.constants(p.theta, p.shape, p.work, p.traffic, found)

    def log_seconds(self, parameters: Parameters, mapping: Mapping16, delta: Floats | None = None) -> Floats:
        """The logarithm of the predicted time of each op, float64 [B, N]."""
        return np.log(predict(self.accesses, self.constants(parameters, delta), mapping))

    def loss(self, parameters: Parameters, data: Profiled, predicted: Floats | None = None) -> float:
        """Minus the logarithm of the posterior density, but for constants; `predicted` is `log_seconds` if known."""
        p = parameters
        found = self.log_seconds(p, data.mapping) if predicted is None else predicted
        left = (data.log_seconds - found) / p.noise
        left = left[np.isfinite(left)]
        active = self.layout.active(p.shape)
        off = ((p.theta - self.layout.mean) / self.layout.spread)[active]
        return float(
            len(left) * np.log(p.noise)
            + 0.5 * (TAIL + 1) * np.log1p(left**2 / TAIL).sum()
            + 0.5 * (off**2).sum()
            + 0.5 * (((p.work - p.work_mean) / p.work_spread) ** 2).sum()
            + np.log1p((p.traffic / p.traffic_spread) ** 2).sum()
        )

    def fit(
        self, begun: Parameters, data: Profiled, steps: int, groups: tuple[str, ...] = ()
    ) -> Iterator[Parameters]:
        """Better and better parameters, at most so many; the last ones are the result.

        Of theta only the named `groups` change, all of them by default.
        """
        parameters, damping = begun, DAMPINGS[1]
        loss = self.loss(parameters, data)
        for _ in range(steps):
            slope, curvature = self._normal_equations(parameters, data, groups)
            while True:
                trial = self._step(parameters, slope, curvature, damping)
                predicted = self.log_seconds(trial, data.mapping)
                lower = self.loss(trial, data, predicted)
                if lower < loss or damping >= DAMPINGS[2]:
                    break
                damping *= 4.0
            if not lower < loss:
                return
            gain, damping = loss - lower, max(damping / 6.0, DAMPINGS[0])
            # Spreads and noise change no prediction.
            parameters = self._respread(trial, data.log_seconds - predicted)
            loss = self.loss(parameters, data, predicted)
            yield parameters
            if gain < GAIN:
                return

    def _normal_equations(
        self, p: Parameters, data: Profiled, groups: tuple[str, ...] = ()
    ) -> tuple[tuple[Floats, Floats], Curvature]:
        """The gradient by theta [K] and by the ops' own parameters [N, Q], negative; and the precision."""
        active = self.layout.active(p.shape, groups)
        constants = self.constants(p)
        seconds, by_constant, own = slopes(
            self.accesses, constants, data.mapping, self.layout.begins, self.layout.size, len(self._access)
        )
        shared = by_constant @ self.layout.slopes(constants)[:, active]
        left = data.log_seconds - np.log(seconds)
        known = np.isfinite(left)
        left = np.where(known, left, 0.0)
        # Student's t by reweighting: rows far off count less in the least-squares fit.
        root = np.sqrt(np.where(known, (TAIL + 1) / (TAIL + (left / p.noise) ** 2), 0.0)) / p.noise
        shared, own, left = shared * root[:, :, None], own * root[:, :, None], left * root

        # By op: [N, M, K] and [N, M, Q]; sums over the mappings are then products of matrices.
        by_op = np.ascontiguousarray(shared.transpose(1, 0, 2))
        alone = np.ascontiguousarray(own.transpose(1, 0, 2))
        flat = shared.reshape(-1, len(active))
        spread = self.layout.spread[active]
        precision, toward = flat.T @ flat, left.reshape(-1) @ flat
        precision[np.diag_indices(len(active))] += spread**-2
        toward -= (p.theta - self.layout.mean)[active] / spread**2

        values, prior = self._own_prior(p)
        alone_t = alone.transpose(0, 2, 1)
        # Each op's own parameters touch its own times only, so their precision is N small blocks.
        own_precision = alone_t @ alone
        own_precision[:, np.arange(own.shape[2]), np.arange(own.shape[2])] += prior
        own_toward = (alone_t @ left.T[:, :, None])[:, :, 0] - prior * values
        between = by_op.transpose(0, 2, 1) @ alone
        return (toward, own_toward), Curvature(active, self._access, precision, own_precision, between)

    def _own_prior(self, p: Parameters) -> tuple[Floats, Floats]:
        """Distance of the ops' own parameters [N, Q] from their prior means, and the precisions [N, Q] there."""
        factor = np.where(self._access >= 0, p.traffic[self._access], 0.0).T
        values = np.concatenate([(p.work - p.work_mean)[:, None], factor], axis=1)
        # Cauchy's prior on factors, since most are near 1 and a few are far off (a table of which rows are gathered).
        heavy = 2.0 / (p.traffic_spread**2 + factor**2)
        return values, np.concatenate([np.full((len(p.work), 1), p.work_spread**-2), heavy], axis=1)

    def _step(
        self, p: Parameters, slope: tuple[Floats, Floats], curvature: Curvature, damping: float
    ) -> Parameters:
        """A damped step."""
        c, size = curvature, curvature.own.shape[1]
        more = 1.0 + 0.1 * damping
        shared, own = c.shared.copy(), c.own.copy()
        shared[np.diag_indices(len(shared))] *= more
        own[:, np.arange(size), np.arange(size)] *= more
        inverse = np.linalg.inv(own).astype(np.float64)
        # Eliminating the ops' own parameters leaves a small dense system in theta alone.
        reduced, weighted = _eliminate(shared, c.between, inverse)
        theta = np.linalg.solve(reduced, slope[0] - np.tensordot(weighted, slope[1], ([0, 2], [0, 1])))
        alone = _solve_own(inverse, slope[1] - np.tensordot(c.between, theta, ([1], [0])))
        return _moved(p, c, np.clip(theta, -CLIP, CLIP), np.clip(alone, -CLIP, CLIP))

    def _respread(self, p: Parameters, left: Floats) -> Parameters:
        """The spreads and the noise that follow from the parameters and what they leave [M, N] of the log seconds."""
        mean = self._features @ (self._project @ p.work)
        # The median, since few factors are far off; 1.4826 makes it the standard deviation of a normal distribution.
        typical = 1.4826 * float(np.median(np.abs(p.traffic))) * 1.1 + 0.01
        return replace(
            p,
            work_mean=mean,
            work_spread=max(LEAST_WORK_SPREAD, float(np.sqrt(np.mean((p.work - mean) ** 2)))),
            traffic_spread=float(np.clip(typical, TRAFFIC_SPREAD[0], TRAFFIC_SPREAD[2])),
            noise=max(LEAST_STEP * p.noise, _scale(left[np.isfinite(left)])),
        )

    def curvature(self, parameters: Parameters, data: Profiled) -> Curvature:
        """The precision at parameters, from which `draw` draws."""
        return self._normal_equations(parameters, data)[1]


def draw(parameters: Parameters, curvature: Curvature, rng: np.random.Generator) -> Parameters:
    """Parameters drawn from the posterior, taken as normal."""
    c = curvature
    inverse = np.linalg.inv(c.own).astype(np.float64)
    reduced, _ = _eliminate(c.shared, c.between, inverse)
    # By eigenvectors, so that directions of which the data say nothing are cut to `WIDEST`, not drawn far out.
    values, vectors = np.linalg.eigh(0.5 * (reduced + reduced.T))
    width = np.minimum(1.0 / np.sqrt(np.maximum(values, 1e-12)), WIDEST)
    theta = vectors @ (rng.standard_normal(len(values)) * width)
    alone = -_solve_own(inverse, np.tensordot(c.between, theta, ([1], [0])))
    root = np.linalg.cholesky(0.5 * (inverse + inverse.transpose(0, 2, 1))).astype(np.float64)
    alone += _solve_own(root, rng.standard_normal(alone.shape))
    return _moved(parameters, c, np.clip(theta, -CLIP, CLIP), np.clip(alone, -1.0, 1.0))


def _eliminate(shared: Floats, between: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """The Schur complement [K, K] of the ops' own parameters, and `between` times their covariance [N, K, Q]."""
    weighted = between @ inverse
    wide, other = (np.moveaxis(a, 1, 0).reshape(len(shared), -1) for a in (weighted, between))
    return shared - wide @ other.T, weighted


def _solve_own(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _moved(p: Parameters, curvature: Curvature, theta: Floats, alone: Floats) -> Parameters:
    """Parameters plus a change of theta [K] and of the ops' own [N, Q]."""
    changed, traffic = p.theta.copy(), p.traffic.copy()
    changed[curvature.active] += theta
    for q, access in enumerate(curvature.access):
        has = access >= 0
        traffic[access[has]] += alone[has, q + 1]
    return replace(p, theta=changed, work=p.work + alone[:, 0], traffic=traffic)


def _scale(left: Floats) -> float:
    """The most likely scale of Student's t, by its fixed point."""
    if not len(left):
        return LEAST_NOISE
    square = left**2
    scale = max(float(square.mean()), LEAST_NOISE**2)
    for _ in range(20):
        scale = max(float((square * (TAIL + 1) / (TAIL + square / scale)).mean()), LEAST_NOISE**2)
    return float(np.sqrt(scale))


Work = Generator[None, None, Parameters]
"""Yields while it works, and returns parameters."""


def search(model: OpTimes, data: Profiled, kept: Parameters | None) -> Work:
    """The best parameters of any shape; `kept` takes part."""
    few = _few(data)
    plain = yield from fitted(model, model.begin(few), few, PLAIN_STEPS)
    entrants = [(model.loss(plain, few), plain)]
    for shape in model.layout.shapes():
        begun = replace(plain, shape=shape, theta=model.layout.started(plain.theta, shape))
        trial = yield from fitted(model, begun, few, TRIAL_STEPS, TRIED)
        entrants.append((model.loss(trial, few) + PRICE, trial))
    entrants.sort(key=lambda entry: entry[0])
    final = []
    for _, entrant in entrants[:LEFT]:
        # A fit of everything at once from the prior finds other optima than one that began without a context.
        for begun in (entrant, model.begin(few, entrant.shape)):
            trial = yield from fitted(model, begun, few, LAST_STEPS)
            final.append((model.loss(trial, few) + PRICE * (trial.shape != NO_CONTEXT), trial))
    best = min(final, key=lambda entry: entry[0])[1]
    starts = [best, model.begin(data, best.shape), *([] if kept is None else [kept])]
    results = []
    for start in starts:
        trial = yield from fitted(model, start, data, FRESH_STEPS)
        results.append((model.loss(trial, data), trial))
    return min(results, key=lambda entry: entry[0])[1]


def fitted(
    model: OpTimes, begun: Parameters, data: Profiled, steps: int, groups: tuple[str, ...] = ()
) -> Work:
    """The result of at most so many steps of `OpTimes.fit`."""
    found = begun
    for better in model.fit(begun, data, steps, groups):
        found = better
        yield
    return found


def _few(data: Profiled) -> Profiled:
    """At most `FEW` mappings, evenly chosen."""
    rows = np.unique(np.linspace(0, len(data.mapping) - 1, FEW).round().astype(np.int64))
    return Profiled(data.mapping[rows], data.log_seconds[rows])
