"""How costs and counts are said to people: seconds in microseconds below one, costs in another unit as they are."""

from __future__ import annotations

SECONDS = "s"


def scaled(cost: float, unit: str) -> float:
    """A cost in the unit that `shown` names."""
    return cost * 1e6 if unit == SECONDS else cost


def shown(unit: str) -> str:
    """What costs of a problem are told in."""
    return "us" if unit == SECONDS else unit


def better(unit: str) -> str:
    """What a mapping of a lower cost is called."""
    return "faster" if unit == SECONDS else "cheaper"


def cost_text(cost: float, unit: str, digits: int = 2) -> str:
    """A cost with its unit; seconds from one on, and costs that are none, with two digits more; whole costs that are no
    seconds as whole numbers."""
    if unit == SECONDS and cost >= 1.0:
        return f"{cost:.{digits + 2}f} s"
    places = digits if unit == SECONDS else 0 if cost.is_integer() else digits + 2
    return f"{scaled(cost, unit):.{places}f} {shown(unit)}"


def counted(number: int, what: str) -> str:
    """1 node, 2 nodes."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
