"""How the report of `egrl reproduce egrl` says things: names, means with deviations, images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egrl.reproduce.egrl.published import NAMES


def title_of(workload: str) -> str:
    """A workload as the paper writes it."""
    return NAMES.get(workload, workload)


def yes(holds: bool, otherwise: str = "no") -> str:
    """A verdict in one word."""
    return "yes" if holds else otherwise


def plus_minus(row: Mapping[str, Any]) -> str:
    """A mean with the sample's deviation, where there is one."""
    deviation = row["deviation"]
    return f"{row['mean']:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def image(figure: str, workload: str, what: str) -> str:
    """A figure of a workload, in Markdown."""
    return f"![{what} of {title_of(workload)}](figures/{figure}-{workload}.png)"
