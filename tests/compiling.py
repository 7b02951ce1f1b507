"""What tests that compile with PyTorch have in common; each begins and ends without compiled graphs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

QUIET = [
    pytest.mark.filterwarnings(f"ignore::{kind}:torch.*")
    for kind in ("UserWarning", "FutureWarning", "DeprecationWarning", "RuntimeWarning")
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
