"""Measuring on real hardware: a board behind a script, or a transform on this machine.

    repeat        one thing: warm up, then repeat until its interval is narrow enough or a cap is reached
    interleave    several candidates in turn, until one is apart from the others: who is named the best is asked last
    loops         how often a short piece of work must run to be long enough for the clock

Source: the practice of autotuners (FFTW's planner; Chen and Revels: Robust benchmarking in noisy environments, 2016):
discard a warm-up, prefer medians or minima to means, interleave candidates, since the order of measuring alone can
swing results. Intervals of the median are distribution-free (order statistics, Conover: Practical nonparametric
statistics, section 3.2) from `DISTRIBUTION_FREE` samples on; below that they follow from the noise known before, or
from the samples by Student's distribution where none is known.

Deviation: the "interval" of a minimum is its distance to the runner-up, which is no confidence interval.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Statistic = Literal["median", "minimum"]
DISTRIBUTION_FREE = 6
"""From so many samples on, order statistics give a 95% interval of the median."""
Z95 = 1.96
STUDENT95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""Quantiles of Student's distribution by the number of samples, for a spread known from them alone."""
OF_MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of a median of normal samples, in standard errors of their mean."""
OF_MAD = 1.4826
"""Standard deviation of a normal distribution, in its median absolute deviations."""


@dataclass(frozen=True)
class Practice:
    """Rules of measuring.

    Attributes:
        warmup: first runs that are thrown away.
        least, most: runs that count.
        width: half-width of the 95% interval, as a share of the value, at which repeating ends.
        statistic: what a value is of its samples.
        seconds: no further repetition once this long was spent.
        limit_s: two samples, all above it, are enough: what is measured is not worth more.
    """

    warmup: int = 1
    least: int = 3
    most: int = 20
    width: float = 0.01
    statistic: Statistic = "median"
    seconds: float = math.inf
    limit_s: float = math.inf


@dataclass(frozen=True)
class Measurement:
    """Samples in seconds, and their statistics.

    Attributes:
        samples: at least one, in the order of measuring.
        statistic: what `value` is of them.
        noise: relative standard deviation known before, which stands in while there are few samples.
    """

    samples: tuple[float, ...]
    statistic: Statistic = "median"
    noise: float = 0.0

    @property
    def value(self) -> float:
        """The median or minimum of the samples."""
        return float(np.median(self.samples) if self.statistic == "median" else min(self.samples))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the value, low and high (closed)."""
        ordered, count, value = sorted(self.samples), len(self.samples), self.value
        if self.statistic == "minimum":
            if count > 1:
                return 2 * value - ordered[1], value
            return value * (1 - Z95 * self.noise), value
        if count < DISTRIBUTION_FREE:
            spread = relative_noise(self.samples)
            sure = Z95 * max(self.noise, spread) if self.noise else STUDENT95.get(count, 0.0) * spread
            half = OF_MEDIAN * sure * value / math.sqrt(count)
            return value - half, value + half
        below = max(0, math.floor((count - Z95 * math.sqrt(count)) / 2) - 1)
        return ordered[below], ordered[count - 1 - below]

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the value."""
        low, high = self.interval
        return (high - low) / 2 / self.value


def speedup_interval(measured: Measurement, baseline: Measurement) -> tuple[float, float]:
    """The 95% interval of the speedup over the baseline, as if both intervals were normal and independent."""
    speedup = baseline.value / measured.value
    half = speedup * math.hypot(measured.half_width, baseline.half_width)
    return speedup - half, speedup + half


def relative_noise(samples: Sequence[float]) -> float:
    """Standard deviation of samples as a share of their median; robust if there are enough; 0 below two samples."""
    if len(samples) < 2:
        return 0.0
    middle = float(np.median(samples))
    robust = OF_MAD * float(np.median(np.abs(np.asarray(samples) - middle)))
    plain = float(np.std(samples, ddof=1))
    return (robust if len(samples) >= DISTRIBUTION_FREE and robust > 0 else plain) / middle


def samples_needed(noise: float, width: float, most: int) -> int:
    """The number of samples, 1 .. most, that make the interval of a median `width` narrow under that relative noise."""
    return max(1, min(most, math.ceil((Z95 * OF_MEDIAN * noise / width) ** 2)))


def repeat(sample: Callable[[], float], practice: Practice) -> Measurement:
    """Measure one thing. `sample` runs it once and returns seconds; what it raises ends the measuring."""
    begun = time.monotonic()
    for _ in range(practice.warmup):
        sample()
    samples: list[float] = []
    while True:
        samples.append(sample())
        found = Measurement(tuple(samples), practice.statistic)
        enough = len(samples) >= practice.least and found.half_width <= practice.width
        hopeless = len(samples) > 1 and min(samples) > practice.limit_s
        if (
            enough
            or hopeless
            or len(samples) >= practice.most
            or time.monotonic() - begun >= practice.seconds
        ):
            return found


def interleave(
    samplers: Sequence[Callable[[], float]], practice: Practice, noise: float = 0.0
) -> list[Measurement]:
    """Measure candidates in rounds, the order turned every round, until the best is apart from all others.

    A candidate leaves the race if its interval lies above the leader's, after `practice.least` rounds at the earliest.
    One whose sampler gives infinity can no longer be measured: it leaves at once, and infinity is its only sample.
    The race ends when one is left, when all intervals are narrow, at `practice.most` rounds or after its seconds.
    Returns a measurement for each, in order; those that left have fewer samples.
    """
    begun = time.monotonic()
    for sample in samplers:
        for _ in range(practice.warmup):
            sample()
    samples: list[list[float]] = [[] for _ in samplers]
    racing = list(range(len(samplers)))
    for number in range(practice.most):
        turned = racing[number % len(racing) :] + racing[: number % len(racing)]
        for candidate in turned if number % 2 == 0 else turned[::-1]:
            samples[candidate].append(samplers[candidate]())
            if math.isinf(samples[candidate][-1]):
                samples[candidate] = [math.inf]
                racing = [r for r in racing if r != candidate]
        if not racing:
            break
        if number + 1 < practice.least:
            continue
        found = {each: Measurement(tuple(samples[each]), practice.statistic, noise) for each in racing}
        leader = min(racing, key=lambda candidate: found[candidate].value)
        racing = [r for r in racing if r == leader or found[r].interval[0] <= found[leader].interval[1]]
        narrow = all(found[candidate].half_width <= practice.width for candidate in racing)
        if len(racing) == 1 or narrow or time.monotonic() - begun >= practice.seconds:
            break
    return [Measurement(tuple(taken), practice.statistic, noise) for taken in samples]


def loops(run: Callable[[int], float], least_s: float, most: int = 1 << 30) -> int:
    """How often a piece of work must run at once to take `least_s`; `run(n)` runs it n times, returns seconds."""
    count = 1
    while count < most and run(count) < least_s:
        count *= 2
    return min(count, most)
