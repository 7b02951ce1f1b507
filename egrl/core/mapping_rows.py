"""A mapping by names, as mapping files hold it and boards are told it: one object per node."""

from __future__ import annotations

from typing import Any

from hwsim.capabilities import HasPlacement
from hwsim.problem import Mapping16, Problem

PLACE = "place"
"""Key of what a choice led to (`HasPlacement`): for whoever reads the file; `loads` derives it anew."""


def rows_of(problem: Problem, mapping: Mapping16) -> list[dict[str, Any]]:
    """One mapping [N, H] by names, one object per node; a dead decision is left out of its node's entry."""
    rows: list[dict[str, Any]] = []
    places = problem.placement(mapping) if isinstance(problem, HasPlacement) else [None] * len(mapping)
    for node, choices, place in zip(problem.space.nodes, mapping.tolist(), places, strict=True):
        row: dict[str, Any] = {"node": node}
        for head, labels, choice in zip(problem.space.heads, problem.space.labels, choices, strict=True):
            if choice >= 0:
                row[head] = labels[choice]
        if place is not None:
            row[PLACE] = place
        rows.append(row)
    return rows
