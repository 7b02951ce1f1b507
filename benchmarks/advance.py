"""A search that is asked and told until it has made so many evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import egrl


def advance(search: egrl.Search, evaluations: int, measure: Callable[[Any], object]) -> None:
    """Go on to so many evaluations, or to the end of the search; `measure` tells the results of a batch."""
    while search.evaluations < evaluations:
        batch = search.ask(limit=evaluations - search.evaluations)
        if batch is None:
            break
        measure(batch)
