"""The plan that is taken if nothing has been measured: good on the model's word, found in milliseconds.

Dynamic programming over the model's cost (`egrl_fft/model.py`): the best plan of a size is a codelet, or one of a
few shapes around the best plans of its factors. FFTW's planner is of that kind, with measured costs.

Deviations: the best part need not make the best whole (strides and what surrounds it matter), so each shape is
priced as a whole; but only RADICES radices a size are tried, those nearest to the middle of what codelets do well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from egrl_fft.grammar import (
    RADER_FROM,
    Bluestein,
    Codelet,
    Loop,
    Plan,
    Rader,
    Split,
    convolution_sizes,
    divisors,
    has_codelet,
    prime_factors,
)
from egrl_fft.model import seconds

RADICES = 3
BEST_RADIX = 16
LARGEST_RADIX = 32
DEEP_FROM = 2048
"""From this size on, plans that work depth first are tried: below, everything fits into the first cache."""

BREADTH_TO = 65536
"""Up to this size, plans that work breadth first are tried; above it only what was measured to be faster there."""


@functools.cache
def default_plan(size: int) -> Plan:
    """The plan for 1 <= size <= 2^25 points."""
    return min(_shapes(size), key=lambda plan: (seconds(plan), str(plan)))


def _shapes(size: int) -> Iterator[Plan]:
    if has_codelet(size):
        yield Codelet(size)
        if size <= LARGEST_RADIX:
            return
    radices = [r for r in divisors(size) if has_codelet(r) and r <= LARGEST_RADIX]
    radices.sort(key=lambda r: (abs(math.log(r / BEST_RADIX)), r))
    for radix in radices[:RADICES]:
        yield from _around(Codelet(radix), default_plan(size // radix))
    factors = prime_factors(size)
    if len(factors) > 1 and not radices:
        yield from _around(default_plan(factors[0]), default_plan(size // factors[0]))
    if len(factors) == 1 and size >= RADER_FROM:
        yield Rader(default_plan(size - 1))
    if factors[-1] >= RADER_FROM:
        yield from (Bluestein(size, default_plan(m)) for m in convolution_sizes(size))


def _around(radix: Plan, rest: Plan) -> Iterator[Plan]:
    """The shapes with this radix."""
    if rest.size >= DEEP_FROM:
        yield Split("t", False, radix, Loop(8, False, rest))
    if radix.size * rest.size <= BREADTH_TO:
        yield Split("f", True, radix, rest)
        yield Split("t", True, radix, rest)
        yield Split("t", False, radix, rest)
