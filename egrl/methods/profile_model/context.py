"""Which context the data show: every shape is tried, and the one that explains the profiles best is kept.

Source: our own; the race drops what is behind, as successive halving does (Jamieson and Talwalkar, AISTATS 2016).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from egrl.methods.profile_model.family import NO_CONTEXT, OF_CONTEXT
from egrl.methods.profile_model.model import OpTimes, Parameters, Profiled

FEW = 16
"""Mappings on which shapes are compared."""
PLAIN_STEPS, TRIAL_STEPS, LAST_STEPS, FRESH_STEPS = 15, 6, 12, 25
TRIED = (*OF_CONTEXT, "rate")
"""Groups of parameters that a trial fits: what was taken for a fast memory may have been fetched ahead."""
LEFT = 3
"""Shapes that are fitted longer."""
PRICE = 3.0
"""The least gain in log posterior density for which a context is used."""

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
