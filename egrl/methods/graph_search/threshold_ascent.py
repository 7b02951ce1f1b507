"""Threshold ascent: which arm is likeliest to beat the best rewards so far.

Source: TAG (de Mesmay et al., ICML 2009), section 3.1, after Streeter and Smith (CP 2006); the anytime form, in which
the number of pulls to come is unknown and n is the number of pulls so far.

Only ranks matter: an arm's weight is how many of the s best rewards are its own, so that rewards of any scale serve.
"""

from __future__ import annotations

import math


def index(best: int, pulls: int, alpha: float) -> float:
    """h of section 3.1 for an arm with `best` of the s best rewards in `pulls` pulls; infinite where none was made."""
    if not pulls:
        return math.inf
    return (best + alpha + math.sqrt(2 * best * alpha + alpha * alpha)) / pulls


def alpha(pulls: int, arms: int, delta: float) -> float:
    """ln(2 n k / delta) for n >= 1 pulls of k arms."""
    return math.log(2 * pulls * arms / delta)
