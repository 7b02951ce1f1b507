"""Mistakes of the first hour with egrl: each is named in one line that says what to do instead."""

from __future__ import annotations

import json
import re

import pytest
from commands import refuse

import egrl
from egrl.cli.main import main


def test_a_file_where_a_run_folder_is_expected_is_called_a_file(tmp_path, capsys):
    (tmp_path / "model.json").write_text("{}")
    refuse(capsys, ["report", str(tmp_path / "model.json")], "expected a run folder, found a file")


def test_a_chip_file_as_a_workload_is_called_so(tmp_path, capsys):
    (tmp_path / "npu.toml").write_text("x = 1")
    refuse(
        capsys,
        ["run", "--workload", str(tmp_path / "npu.toml")],
        "found a file of TOML, as --chip and --config take",
    )


def test_a_chip_is_listed_once(capsys):
    assert main(["list", "chips"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(set(rows))
    (edge,) = [row for row in rows if row.split()[0] == "edge"]
    assert re.search(r"problems? nnpi[a-z, ]*: dram 1 GiB", edge)
    assert main(["list", "chips", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert {entry["problem"] for entry in entries if entry["name"] == "edge"} >= {"nnpi"}


@pytest.mark.slow
def test_a_model_is_not_used_for_longer_than_a_run_takes():
    summary = egrl.search("alexnet", method="exact", settings=["method.seconds=600"]).summary
    assert 0 < summary["model_seconds"] <= summary["seconds"]


@pytest.mark.parametrize("method", ["twin", "random"])
def test_a_twin_without_a_board_says_what_that_is_for(method, tmp_path, capsys):
    argv = ["run", "--workload", "alexnet", "--method", method, "--evals", "2", "--out"]
    for quiet in ([], ["--quiet"]):
        assert main([*argv, str(tmp_path / f"r{len(quiet)}"), *quiet]) == 0
        said = "no --evaluator: the chip's model takes the place of a board" in capsys.readouterr().err
        assert said == (method == "twin" and not quiet)
