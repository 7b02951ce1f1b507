"""Small instances."""

from __future__ import annotations

import pytest

from egrl_shard.sharding import Sharding
from shard_lists import listed


@pytest.fixture(scope="session")
def instances() -> list[Sharding]:
    """Of which all choices can be listed, some with hardly any room or with nodes that another decides."""
    return listed()
