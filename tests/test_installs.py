"""The documented ways of installing, one after another in one environment: nothing of one spoils the next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("workloads", "hwsim", "policies", "population", "analysis", "egrl")


@pytest.mark.exhaustive
def test_a_package_can_be_installed_and_edited_by_turns(tmp_path):
    source, venv = tmp_path / "source", tmp_path / "venv"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    # Python 3.11 puts an old setuptools there, before that of the tests.
    subprocess.run([str(venv / "bin" / "pip"), "uninstall", "--quiet", "--yes", "setuptools"], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(np.__file__).parents[1]))
    environment = {**os.environ, "EGRL_CACHE_DIR": str(tmp_path / "cache")}

    def call(*argv: str) -> str:
        done = subprocess.run(
            [str(venv / "bin" / argv[0]), *argv[1:]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for turn, (editable, lies) in enumerate([(["-e"], source), ([], packages), (["-e"], source)]):
        call("pip", "install", "--no-deps", "--no-build-isolation", "--no-index", *editable, str(source))
        where = call("python", "-P", "-c", "import hwsim, egrl; print(hwsim.__file__, egrl.__file__)")
        assert where.split() == [str(lies / room / "__init__.py") for room in ("hwsim", "egrl")]
        assert "nnpi" in call("egrl", "list", "chips")
        out = str(tmp_path / f"run{turn}")
        call(
            "egrl",
            "run",
            "--workload",
            "alexnet",
            "--method",
            "random",
            "--gens",
            "1",
            "--quiet",
            "--out",
            out,
        )
        assert not [file for file in (lies / "hwsim").rglob("*") if file.suffix in (".nbi", ".nbc")]
    assert not [room for room in ROOMS if (packages / room).exists()]
    assert list((tmp_path / "cache" / "kernels").iterdir())
