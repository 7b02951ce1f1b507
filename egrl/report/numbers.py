"""Numbers as a page shows them: with the unit that reads best."""

from __future__ import annotations

import math

from hwsim.sections import Cell

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
BYTES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def unit_for(most: float, unit: str) -> tuple[float, str]:
    """The size and the name of the unit in which numbers up to `most` read best."""
    table = {"s": SECONDS, "B": BYTES}.get(unit)
    if table is None or most == 0:
        return 1.0, unit
    return next(((size, name) for size, name in table if abs(most) >= size), table[-1])


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` + 1 round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def number_text(value: float) -> str:
    """Four digits that count, thousands apart; whole numbers as they are."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 4
    return f"{value:,.{digits}f}"


def text(value: Cell, unit: str = "") -> str:
    """A cell for people, in the unit that reads best for it."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    size, name = unit_for(value, unit)
    return f"{number_text(value / size)} {name}".rstrip()
