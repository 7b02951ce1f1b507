"""The contest is over: the gate holds its cost model to the contest's examples; all else runs in `make test-all`."""

from __future__ import annotations

from pathlib import Path

import pytest

IN_THE_GATE = "test_examples_of_the_contest.py"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest selects by markers."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != IN_THE_GATE:
            item.add_marker(pytest.mark.exhaustive)
