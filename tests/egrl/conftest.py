"""A finished run that tests of commands begin with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import FAST

from egrl.cli.main import main


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run of two generations; copy it before changing it."""
    out = tmp_path_factory.mktemp("runs") / "r"
    assert main(["run", "--workload", "alexnet", "--gens", "2", "--out", str(out), *FAST]) == 0
    return out


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "r"))
