"""What holds for every test."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from egrl.runs import progress

# A loaded machine must not fail a property: no deadlines, no complaints about slow draws.
settings.register_profile("egrl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("egrl"), max_examples=25)
settings.load_profile("egrl")

# Nor change what is said: nothing is announced as slow (test_progress.py sets its own limit).
progress.SLOW_SECONDS = 1e6

# No test learns FFT plans into the user's own wisdom, nor searches with what is there.
_wisdom = tempfile.TemporaryDirectory(prefix="egrl-wisdom-")  # removed when the tests end
os.environ["EGRL_FFT_WISDOM"] = str(Path(_wisdom.name) / "wisdom.json")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` the tests of a file go to one process, which makes their fixtures once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
