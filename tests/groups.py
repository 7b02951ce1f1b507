"""Which tests go to one process with `-n … --dist loadscope`: those of a file, which makes their fixtures once.

pytest-xdist has `xdist_group` for this, which names groups by changing the ids of tests; from pytest 9.2 on ids do not
change, and every test would go to whichever process is free.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = {
    "tests/analysis/test_embedding.py": "umap",  # which compiles for some seconds in every process
    "tests/egrl/figures/test_figures.py": "umap",
    "tests/egrl/measure/test_ray.py": "ray",  # a cluster takes seconds to start
}
"""Files that make a group together with others."""
BY_FIRST_WORD = ("tests/egrl/methods/test_conformance.py",)
"""Files with a group per method: the first word of each parameter. They make each case's run once."""
SLOW_S, OTHER_S = 2.0, 0.03
"""Seconds of a test, about, by its marker."""
LONG_S = {
    "plugins/training/tests/test_pytorch_compiled.py": 25.0,
    "plugins/training/tests/test_pytorch_steps.py": 20.0,
    "tests/egrl/runs/test_killed.py": 10.0,
    "tests/test_docs.py": 30.0,
    "tests/test_library_page.py": 12.0,
    "tests/test_packaging.py": 12.0,
    "tests/test_extending.py": 10.0,
    "tests/test_wheel.py": 10.0,
}
"""Those of files that take longer than their number of tests says."""


def longest_first(items: list[pytest.Item]) -> None:
    """Order tests by their groups, those that take longest first, so that no process is left alone with one."""
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        slow = item.get_closest_marker("slow") or item.get_closest_marker("exhaustive")
        seconds[group_of(item.nodeid)] += SLOW_S if slow else OTHER_S
    for group in seconds.keys() & LONG_S.keys():
        seconds[group] = max(seconds[group], LONG_S[group])
    items.sort(key=lambda item: -seconds[group_of(item.nodeid)])


def group_of(test: str) -> str:
    """The group of a test, by its id."""
    file, _, rest = test.partition("::")
    if "_of_ray_" in rest:
        return "ray"
    if file in BY_FIRST_WORD:
        return f"{file} {rest.partition('[')[2].partition(']')[0].partition('-')[0]}"
    return SHARED.get(file, file)


class Groups(LoadScopeScheduling):
    """Hands out whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
