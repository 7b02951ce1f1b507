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


def run(installed: Path, *commands: str) -> list[str]:
    """What commands print in one process, where nothing but the wheel and the libraries can be imported."""
    program = f"""
import contextlib, io, json, sys
sys.path[:0] = [{str(installed)!r}]
from egrl.__main__ import entry
said = []
for line in {commands!r}:
    sys.argv[1:] = line.split()
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        entry()
    said.append(out.getvalue())
print(json.dumps(said))
"""
    # -P: not the folder it runs in; the finder of an editable installation looks after sys.path.
    argv = [sys.executable, "-P", "-c", program]
    done = subprocess.run(argv, cwd=installed.parent, capture_output=True, text=True, check=True)
    said: list[str] = json.loads(done.stdout)
    return said


@pytest.mark.slow
def test_the_wheel_has_all_that_commands_read(installed):
    version, placed, chips, bound = run(
        installed,
        "--version --verbose",
        "place alexnet --no-model --json",
        "list chips --json",
        "bound --workload resnet18 --json",
    )
    assert version.startswith(f"egrl, version {egrl.__version__}\n")
    assert str(installed) in version
    assert json.loads(placed)["source"] == "the network"
    assert {"nnpi", "tpuv4i", "mcm36"} <= {entry["name"] for entry in json.loads(chips)["entries"]}
    assert json.loads(bound)["kind"] == "bound"


def test_the_wheel_says_what_it_is(installed):
    (folder,) = installed.glob("egrl-*.dist-info")
    text = (folder / "METADATA").read_text(encoding="utf-8")
    for line in (f"Version: {egrl.__version__}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert f"\n{line}\n" in text
    assert "# egrl" in text
    assert {path.name for path in installed.iterdir() if path.is_dir()} == {*ROOMS, folder.name}
