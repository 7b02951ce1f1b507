"""Which parameters of a test are in the gate; the others are for `make test-all`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def gate(values: Iterable[Any], kept: Container[Any], named: bool = False) -> list[Any]:
    """Parameters of `pytest.mark.parametrize`: those that are not `kept` are exhaustive.

    A tuple has the values of several arguments; it is kept by its first one. If `named`, names are the ids.
    """
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(
            *row,
            marks=[] if row[0] in kept else [pytest.mark.exhaustive],
            **({"id": str(row[0])} if named else {}),
        )
        for row in rows
    ]
