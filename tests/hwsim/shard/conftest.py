"""Makes what tests of sharding share importable; small instances."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workloads.sharding import Sharding

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def instances() -> list[Sharding]:
    """Of which all choices can be listed, some with hardly any room or with nodes that another decides."""
    from shard_lists import listed

    return listed()
