"""What egrl says of plug-ins that are not installed is what they offer."""

from __future__ import annotations

import tomllib

import pytest
from plugged import ROOT

from egrl.core.known_plugins import check_installed, known
from workloads.errors import InputError


def test_the_list_has_every_plug_in_of_a_clone_and_what_its_entry_points_offer():
    found = {}
    for file in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        groups = project["entry-points"].items()
        offers = {group.removeprefix("egrl."): list(names) for group, names in groups}
        found[project["name"]] = {"folder": f"plugins/{file.parent.name}", **offers}
    assert known() == found


def test_a_name_says_which_distribution_to_install():
    line = r"^--problem mlsys2026: expected the plug-in egrl-mlsys2026 .*: pip install \./plugins/mlsys2026$"
    with pytest.raises(InputError, match=line):
        check_installed("problem", "mlsys2026", "--problem")
    check_installed("method", "mlsys2026", "--method")
