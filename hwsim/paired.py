"""The speedup of a mapping over the baseline, both measured in turn, with a 95 % interval.

The interval is normal in the logarithm. Its noise is pooled from everything that was measured more than once, so that a
few rounds are not judged by their own luck alone; what scatters more than that by itself is judged by its own.

Source: pooled variance and Student's distribution (Conover: Practical nonparametric statistics, section 3.2, and any
text on the analysis of variance); the quantile for many degrees of freedom by the expansion of Cornish and Fisher
(Abramowitz and Stegun, Handbook of mathematical functions, 26.7.5).

Deviations: residuals beyond `CLIP` robust deviations count as that many, so that one odd answer does not make all
intervals useless; values are medians, whose error is that of a mean times `of_median`. Of minima there is no
confidence interval: theirs are those of `hwsim.measure`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwsim.measure import OF_MAD, STUDENT95, Z95, Measurement, speedup_interval
from hwsim.problem import Floats

CLIP = 4.0
"""Robust standard deviations that a residual counts as, at most."""
ROBUST = 6
"""From so many residuals on, a robust deviation can be told. Assumption."""


@dataclass(frozen=True)
class Noise:
    """How much measurements of one mapping scatter.

    Attributes:
        relative: standard deviation of one measurement, as a share of its value.
        freedom: degrees of freedom that it was estimated by; 0: nothing was measured twice.
    """

    relative: float = 0.0
    freedom: int = 0


def pooled(groups: Sequence[Sequence[float]]) -> Noise:
    """The noise by groups of samples in seconds, above 0, each of one mapping."""
    repeated = [np.log(group) for group in groups if len(group) > 1]
    if not repeated:
        return Noise()
    left = _clipped(np.concatenate([group - np.median(group) for group in repeated]))
    freedom = len(left) - len(repeated)
    return Noise(math.sqrt(float(left @ left) / freedom), freedom)


def _clipped(left: Floats) -> Floats:
    """Residuals [K], the farthest ones drawn in; as they are where most of them are 0, or they are few."""
    limit = CLIP * OF_MAD * float(np.median(np.abs(left)))
    return np.clip(left, -limit, limit) if len(left) >= ROBUST and limit > 0 else left


def student95(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's distribution; of the normal one where `freedom` is 0."""
    if not freedom:
        return Z95
    if freedom + 1 in STUDENT95:
        return STUDENT95[freedom + 1]
    third, fifth = (Z95**3 + Z95) / 4, (5 * Z95**5 + 16 * Z95**3 + 3 * Z95) / 96
    return Z95 + third / freedom + fifth / freedom**2


def of_median(count: int) -> float:
    """The standard error of a median of so many normal samples, in standard errors of their mean."""
    return math.sqrt(math.pi / 2 * count / (count + 0.5))


def paired_interval(measured: Measurement, baseline: Measurement, known: Noise) -> tuple[float, float]:
    """The 95 % interval of baseline / measured, low and high (closed), by the noise `known` of all measurements."""
    if "minimum" in (measured.statistic, baseline.statistic):
        return speedup_interval(measured, baseline)
    half = student95(known.freedom) * math.hypot(_error(measured, known), _error(baseline, known))
    speedup = baseline.value / measured.value
    return speedup * math.exp(-half), speedup * math.exp(half)


def _error(found: Measurement, known: Noise) -> float:
    """The relative standard error of a median, by the larger of the noise that is known and its own."""
    count = len(found.samples)
    noise = max(known.relative, pooled([found.samples]).relative)
    return of_median(count) * noise / math.sqrt(count)


SURE = 2.0
"""Half-widths of a 95 % interval beyond which two values are of different things: once in some ten thousand by luck."""
DRIFT, ROUNDING = 0.02, 1e-6
"""Shares by which a board may differ from itself another day, with noise and without. Assumption."""


def is_same(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether two groups of samples in seconds may be of the same mapping on the same board."""
    one, other, known = Measurement(tuple(before)), Measurement(tuple(after)), pooled([before, after])
    half = student95(known.freedom) * math.hypot(_error(one, known), _error(other, known))
    most = max(SURE * half, DRIFT if known.relative > ROUNDING else ROUNDING)
    return abs(math.log(one.value / other.value)) <= most


def confirmable(noise: float, rounds: int) -> float:
    """The least gain, as a share, that so many rounds of measuring in turn tell from none under that relative noise."""
    return math.expm1(Z95 * of_median(rounds) * noise * math.sqrt(2 / rounds))
