"""What is released works: an sdist, a wheel built of it, and the wheel in a folder with nothing of this tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from plugged import ROOT

import egrl

ROOMS = ("analysis", "egrl", "hwsim", "policies", "population", "workloads")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(kind: str, tree: Path, out: Path) -> Path:
    """The sdist or wheel of a tree."""
    program = [sys.executable, "-c", BUILD, f"build_{kind}", str(out)]
    done = subprocess.run(program, cwd=tree, capture_output=True, text=True, check=True)
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    tree = folder / "tree"
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"):
        shutil.copy(path, tree)
    sdist = build("sdist", tree, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    wheel = build("wheel", source, folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(installed: Path, *argv: str) -> str:
    """What a command prints, where nothing but the wheel and the libraries can be imported."""
    program = f"import sys; sys.path[:0] = [{str(installed)!r}]; from egrl.__main__ import entry; entry()"
    # -P: not the folder it runs in; the finder of an editable installation looks after sys.path.
    argv_ = [sys.executable, "-P", "-c", program, *argv]
    return subprocess.run(argv_, cwd=installed.parent, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_wheel_has_all_that_commands_read(installed):
    told = run(installed, "--version", "--verbose")
    assert told.startswith(f"egrl, version {egrl.__version__}\n")
    assert str(installed) in told
    assert json.loads(run(installed, "place", "alexnet", "--no-model", "--json"))["source"] == "the network"
    names = {entry["name"] for entry in json.loads(run(installed, "list", "chips", "--json"))["entries"]}
    assert {"nnpi", "tpuv4i", "mcm36"} <= names
    found = json.loads(run(installed, "bound", "--workload", "resnet50", "--json"))
    assert found["kind"] == "bound"


def test_the_wheel_says_what_it_is(installed):
    (folder,) = installed.glob("egrl-*.dist-info")
    text = (folder / "METADATA").read_text(encoding="utf-8")
    for line in (f"Version: {egrl.__version__}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert f"\n{line}\n" in text
    assert "# egrl" in text
    assert {path.name for path in installed.iterdir() if path.is_dir()} == {*ROOMS, folder.name}
