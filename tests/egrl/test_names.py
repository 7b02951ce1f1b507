"""What `import egrl` says if something hides a package that is installed beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["policies.py", "analysis/__init__.py", "hwsim/notes.txt"])
def test_a_file_that_hides_a_package_is_named_in_one_line(tmp_path, name):
    hiding = tmp_path / name
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text("")
    run = subprocess.run(
        [sys.executable, "-c", "import egrl"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if name.endswith(".txt"):  # a folder without code hides nothing
        assert run.returncode == 0, run.stderr
        return
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: egrl: {hiding} hides egrl's own package {name.split('/')[0].split('.')[0]!r}"
    )
    assert "rename it" in last
