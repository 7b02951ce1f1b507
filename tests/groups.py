"""Which tests go to one process with `-n … --dist loadscope`: those of a file, which makes their fixtures once.

pytest-xdist has `xdist_group` for this, which names groups by changing the ids of tests; from pytest 9.2 on ids do not
change, and every test would go to whichever process is free.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SHARED = {
    "tests/analysis/test_embedding.py": "umap",  # which compiles for some seconds in every process
    "tests/egrl/figures/test_figures.py": "umap",
    "tests/egrl/measure/test_ray.py": "ray",  # a cluster takes seconds to start
}
"""Files that make a group together with others."""
BY_FIRST_WORD = ("tests/egrl/methods/test_conformance.py",)
"""Files with a group per method: the first word of each parameter. They make each case's run once."""


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
