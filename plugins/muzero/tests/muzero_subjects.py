"""What of this plug-in takes part in egrl's suites: variants of its method, small enough for tests."""

from __future__ import annotations

from typing import Any

import subjects

SMALL: dict[str, Any] = {
    "slots": 8,
    "imitations": 1,
    "revise.moves": 20.0,
    "simulations": 3,
    "chunk": 8,
    "updates": 1,
    "replay": 40,
    "greedy": 0.25,
    "stray": 2.0,
    "coherent_scale": 1.0,
    "view.held": 16,
    "view.map_cells": 8,
    "view.map_steps": 16,
    "view.profile_cells": 8,
    "view.supply_steps": 8,
    "view.offsets": 8,
    "learner.batch": 4,
    "learner.unroll": 2,
    "learner.steps": 3,
    "network.width": 8,
    "network.hidden": 8,
    "network.row_width": 4,
    "network.map_channels": 2,
    "network.bins": 11,
    "network.support": 5.0,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "muzero": ("muzero", SMALL),
    "muzero-puct-demonstrated": ("muzero", {**SMALL, "search": "puct", "demonstrations": 1}),
    "muzero-rules": ("muzero", {**SMALL, "dynamics": "rules", "reanalyse": 0.0}),
    "muzero-no-learning": ("muzero", {**SMALL, "ablation": "no-learning"}),
    "muzero-no-search": ("muzero", {**SMALL, "ablation": "no-search"}),
}
subjects.take_part({}, VARIANTS)
