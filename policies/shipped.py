"""The linear rules that come with the package: rankings that were trained on other networks and chips.

A file of rules is a table: a row per rule, the best alone first, each the best addition to those before it; a column
per coefficient (decision, end, feature) and one for the share that stays free. Numbers are float32.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from policies.weight_vector import Weights

FOLDER = "rules"


@cache
def _documents() -> list[dict[str, Any]]:
    files = (file for file in (resources.files("policies") / FOLDER).iterdir() if file.name.endswith(".json"))
    return [
        json.loads(file.read_text(encoding="utf-8")) for file in sorted(files, key=lambda file: file.name)
    ]


def rules(names: tuple[str, ...], heads: int) -> list[Weights]:
    """The rules float32 [2 H F + 1] for features of these names and H decisions; empty if none are shipped."""
    for found in _documents():
        if tuple(found["features"]) == names and found["heads"] == heads:
            return [np.array(row, np.float32) for row in found["rules"]]
    return []
