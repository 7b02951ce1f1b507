"""Plans that keep to a limit as they are compiled: the simulated limit is moved until the compiled peak is below it.

The simulation knows roughly what a compiler makes of a plan (`fusion.py`), the compiler knows exactly (`compiled.py`).
So a plan is searched for within a simulated limit, and its compiled peak is read. Above the limit, or far below it, the
simulated limit moves by the secant method, and the next plan is searched for. The fastest plan that fits is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egrl_training.pytorch.plan import Plan
from egrl_training.simulator.baseline import ShortageError
from workloads.errors import InputError
from workloads.text import exact_size

TURNS = 5
"""Plans that are searched for and compiled at most."""
ENOUGH = 0.97
"""Share of the limit from which a compiled peak is near enough."""
LITTLE = 1e-3
"""More than this share of the time of keeping everything is worth another plan."""
AIM = 0.99
"""Share of the limit that the next plan should take."""
SLOPES = (0.2, 2.0)
"""How many bytes of the compiled peak go with one byte of the simulated limit, at least and at most."""
REFUSALS = 2
"""Simulated limits that no plan keeps to, after which no other is tried."""


@dataclass(frozen=True)
class Compiled:
    """A plan with what it takes when it is compiled: bytes at the peak, and between the passes."""

    plan: Plan
    peak_bytes: int
    held_bytes: int


def fastest_within(
    limit_bytes: int, first_bytes: int, search: Callable[[int], Plan], compiled: Callable[[Plan], Compiled]
) -> Compiled:
    """The fastest plan found whose compiled peak is within `limit_bytes`.

    Args:
        limit_bytes: of the compiled peak.
        first_bytes: the first simulated limit.
        search: the best plan within a simulated limit in bytes; ShortageError if none is found.
        compiled: a plan as it is compiled.

    Raises:
        InputError: none of the plans fits; it names the least compiled peak.
    """
    # simulated limits: the greatest that led to a plan that fits, or to none, and the least that led to one above
    low, high = 0.0, math.inf
    asked, least, best = max(1.0, first_bytes), None, None
    refused: list[ShortageError] = []
    tried: list[tuple[float, int]] = []
    for _ in range(TURNS):
        try:
            found = compiled(search(int(asked)))
        except ShortageError as error:
            refused.append(error)
            low, wanted = asked, float(error.least_bytes)
        else:
            least = found if least is None or found.peak_bytes < least.peak_bytes else least
            tried.append((asked, found.peak_bytes))
            wanted = asked + (AIM * limit_bytes - found.peak_bytes) / _slope(tried)
            if found.peak_bytes > limit_bytes:
                high = asked
            else:
                low = asked
                best = found if best is None or found.plan.seconds < best.plan.seconds else best
                near = found.peak_bytes >= ENOUGH * limit_bytes
                if near or found.plan.seconds <= (1 + LITTLE) * found.plan.all_seconds:
                    break
        if high <= low or len(refused) == REFUSALS:
            break
        asked = max(1.0, wanted if low < wanted < high else (low + high) / 2)
    if best is not None:
        return best
    if least is None:
        raise InputError(
            f"{refused[0]}, which stands for the limit of {exact_size(limit_bytes)} as it is compiled"
        )
    plan, peak = least.plan, min(least.peak_bytes, least.plan.all_peak_bytes)
    raise InputError(
        f"{plan.name}: expected a limit that a plan keeps to, found {exact_size(limit_bytes)}: the least peak of"
        f" {len(tried) + 1} plans that were compiled is {exact_size(peak)}"
    )


def _slope(tried: Sequence[tuple[float, int]]) -> float:
    """Bytes of the compiled peak per byte of the simulated limit, by the last two plans."""
    (asked, peak), earlier = tried[-1], tried[-2:-1]
    if not earlier or earlier[0][0] == asked:
        return peak / asked
    low, high = SLOPES
    return min(max((peak - earlier[0][1]) / (asked - earlier[0][0]), low), high)
