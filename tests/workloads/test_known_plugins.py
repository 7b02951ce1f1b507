"""What egrl says of plug-ins that are not installed is what they offer."""

from __future__ import annotations

import pytest

from workloads.errors import InputError
from workloads.plugins import check_installed


def test_a_name_says_which_distribution_to_install():
    line = r"^--problem mlsys2026: expected the plug-in egrl-mlsys2026 .*: pip install \./plugins/mlsys2026$"
    with pytest.raises(InputError, match=line):
        check_installed("problem", "mlsys2026", "--problem")
    check_installed("method", "mlsys2026", "--method")
