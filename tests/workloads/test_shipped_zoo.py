"""The networks that ship as files are what `tools/make_zoo.py` makes, in this and in other sizes."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from commands import module_of

from workloads.files import PACKED
from workloads.load import load
from workloads.workload import Workload
from workloads.zoo.mcm87 import MCM87
from zoo.catalog import NETWORKS

ROOT = Path(__file__).resolve().parents[2]


@cache
def tool() -> ModuleType:
    return module_of(ROOT / "tools" / "make_zoo.py")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_shipped_network_is_what_its_builder_makes(name):
    made: Workload = tool().network(name)
    assert load(name) == made
    assert made.name == name


def test_every_member_without_a_builder_is_shipped_and_nothing_else_is():
    shipped = {path.name.removesuffix(PACKED) for path in tool().FOLDER.iterdir()}
    assert shipped == set(NETWORKS) == {name for name, member in MCM87.items() if not member.function}


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr(sys, "argv", ["make_zoo.py", *argv])
    code: int = tool().main()
    return code


def test_the_script_reports_a_file_that_differs_and_writes_it_anew(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tool(), "FOLDER", tmp_path)
    monkeypatch.setattr(tool(), "NETWORKS", {name: NETWORKS[name] for name in ("dcgan", "ncf")})
    assert run(monkeypatch, "--check") == 1
    assert run(monkeypatch) == 0
    assert run(monkeypatch, "--check") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"dcgan.json.xz", "ncf.json.xz"}
    (tmp_path / "dcgan.json.xz").write_bytes((tmp_path / "ncf.json.xz").read_bytes())
    capsys.readouterr()
    assert run(monkeypatch, "--check") == 1
    assert capsys.readouterr().out == "dcgan: differs\n"


def test_the_script_makes_other_sizes_as_files_that_load(monkeypatch, tmp_path):
    file = tmp_path / "net.json"
    assert run(monkeypatch, "lstm_lm_wide:steps=3:hidden=400", "-o", str(file)) == 0
    assert json.loads(file.read_text())["name"] == "lstm_lm_wide-steps3"
    assert len(load(str(file))) < len(load("lstm_lm_wide"))


@pytest.mark.parametrize("given", ["resnet50", "dcgan:bach=4", "dcgan:batch=0"])
def test_the_script_refuses_what_it_cannot_make(given, monkeypatch, capsys):
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, given)
    assert caught.value.code == 2
    assert f"network {given!r}: " in (line := capsys.readouterr().err.splitlines()[-1])
    assert "expected" in line
