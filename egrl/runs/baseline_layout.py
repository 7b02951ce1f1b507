"""baseline_layout.json: the baseline's own layout, where it is no mapping of the problem."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from egrl.core.mapping_rows import PLACE
from hwsim.capabilities import HasPlacement
from hwsim.problem import Problem

KIND = "layout"
VERSION = 1


def own_layout(problem: Problem) -> Sequence[Mapping[str, Any] | None] | None:
    """A place a node, as `HasPlacement` has them; None where the baseline is a mapping, which says as much."""
    return problem.baseline_placement() if isinstance(problem, HasPlacement) else None


def dumps(problem: Problem, places: Sequence[Mapping[str, Any] | None]) -> str:
    """JSON of a layout: of each node its place, none where it has none."""
    document = {
        "kind": KIND,
        "version": VERSION,
        "problem": problem.about.name,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "rule": problem.baseline.name,
        "cost": problem.baseline.cost,
        "layout": [
            {"node": node} | ({} if place is None else {PLACE: place})
            for node, place in zip(problem.space.nodes, places, strict=True)
        ],
    }
    return json.dumps(document, indent=1) + "\n"
