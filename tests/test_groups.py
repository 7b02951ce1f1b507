"""Tests that share fixtures run in one process."""

from __future__ import annotations

from groups import Groups, group_of
from xdist.scheduler import LoadScopeScheduling


def test_a_file_is_a_group_and_some_are_one_together(request):
    name, node = "tests/egrl/methods/test_conformance.py", request.node.nodeid
    assert group_of(node) == "tests/test_groups.py"
    assert group_of("tests/analysis/test_embedding.py::test_a") == group_of(
        "tests/egrl/figures/test_figures.py::test_b"
    )
    assert group_of(f"{name}::test_a[egrl-episodes-nnpi-4]") == group_of(f"{name}::test_b[egrl-nnpi]")
    assert group_of(f"{name}::test_a[egrl-nnpi]") != group_of(f"{name}::test_a[ea-nnpi]")


def test_the_scheduler_asks_for_groups():
    assert "_split_scope" in vars(LoadScopeScheduling)
    assert "_split_scope" in vars(Groups)
