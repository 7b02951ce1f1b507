"""Installed from its folder, every command finds the plug-in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from plugged import install, run_all

from contest_instances import made
from mlsys2026.instance import document_of, load_instance
from mlsys2026.judge import replay
from mlsys2026.schedule import read_schedule

PLUGIN = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plug-in, installed into a folder from a copy, which the build leaves its traces in."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "tests"))
    install(folder / "source", folder / "site")
    return folder / "site"


@pytest.mark.exhaustive
def test_it_serves_every_command_once_it_is_installed(site, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "graph.json").write_text(document_of(made(2, ops=10)), encoding="utf-8")
    (folder / "small.json").write_text(document_of(made(1, ops=4, sides=(16, 32))), encoding="utf-8")
    (folder / "wrong.json").write_text("{}", encoding="utf-8")
    run = ["run", "--problem", "mlsys2026", "--workload", "graph.json", "--quiet"]
    commands = [
        ["list", "problems"],
        [*run, "--evals", "2", "--out", "a"],
        [*run, "--method", "ea", "--evals", "42", "--out", "b"],
        ["run", "--resume", "b", "--evals", "63", "--quiet"],
        ["evaluate", "a"],
        ["bound", "--problem", "mlsys2026", "--workload", "small.json", "--json"],
        ["plot", "mlsys2026-steps", "a", "-o", "steps.png"],
        ["report", "a", "-o", "page.html"],
        ["run", "--problem", "mlsys2026", "--workload", "wrong.json"],
        [*run, "--chip", "other"],
    ]
    told = run_all(commands, folder, site)
    assert [code for code, *_ in told] == [0] * 8 + [2, 2], [err for _, _, err, _ in told]
    assert "mlsys2026" in told[0][1]
    assert "wrong.json: expected the field widths, found none" in told[8][2]
    assert "--chip: expected none" in told[9][2]
    instance = load_instance(str(folder / "graph.json"))
    steps = read_schedule(
        (folder / "a" / "schedule.json").read_text(encoding="utf-8"), instance, "schedule.json"
    )
    verdict = replay(instance, steps)
    assert verdict.violations == ()
    best = json.loads((folder / "a" / "summary.json").read_text(encoding="utf-8"))["best"]
    assert float(verdict.total) == pytest.approx(best["cost"], rel=1e-12)
    assert (folder / "steps.png").stat().st_size > 5000
    assert "Steps of the schedule" in (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_the_table_of_a_folder_is_printed_and_a_wrong_folder_refused(tmp_path, capsys):
    from mlsys2026.reproduce import main

    assert main([str(tmp_path)]) == 2
    assert "expected a folder with instances" in capsys.readouterr().err
    for number in (2, 10):
        (tmp_path / f"graph-{number}.json").write_text(document_of(made(number)), encoding="utf-8")
    (tmp_path / "results.csv").write_text("instance,winner_cost\n10,1000000\n", encoding="utf-8")
    assert main([str(tmp_path), "--seconds", "1e-9", "--cores", "1"]) == 0
    head, _, two, ten, _, total = capsys.readouterr().out.splitlines()
    assert head.startswith("| instance | ops | steps | cost | winner |")
    assert two.startswith("| 2 |")
    assert ten.startswith("| 10 |")
    assert "1000000" in ten
    assert total.startswith("sum of winner / cost: ")
    (tmp_path / "results.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert main([str(tmp_path)]) == 2
