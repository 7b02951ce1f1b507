"""A chip of one's own, from template to figures."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from commands import TINY, refuse

import onnx_models
from egrl.cli.main import main
from hwsim.nnpi.chip import load_chip


def test_a_new_chip_file_is_commented_and_named_after_the_file(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    assert main(["chip", "new", str(path), "--like", "edge"]) == 0
    assert f"--chip {path}" in capsys.readouterr().out
    chip = load_chip(path)
    assert chip.name == "mine"
    assert chip.memories == load_chip("edge").memories
    assert path.read_text().count("#") > 20


def test_a_chip_file_called_chip_asks_for_a_name_of_its_own(tmp_path, capsys):
    for name, asks in (("chip", True), ("mine", False)):
        assert main(["chip", "new", str(tmp_path / f"{name}.toml")]) == 0
        said = capsys.readouterr().out
        assert ("and its name, since results tell chips apart by it" in said) == asks
        assert ("CHANGE IT" in (tmp_path / f"{name}.toml").read_text()) == asks
        assert load_chip(tmp_path / f"{name}.toml").name == name


def test_a_run_says_first_how_wide_numbers_are_counted_that_the_network_has_otherwise(tmp_path, capsys):
    onnx_models.tiny(tmp_path / "net.onnx")
    argv = ["run", "--workload", str(tmp_path / "net.onnx"), "--method", "random", "--evals", "2"]
    assert main([*argv, "--out", str(tmp_path / "r"), "--bound-seconds", "0"]) == 0
    said = (
        "egrl: bytes a weight and an activation: 4 and 4 in net, counted as 1 and 1 (element_bytes of nnpi)"
    )
    assert said in capsys.readouterr().err.splitlines()[:2]
    assert (
        main(
            ["run", "--workload", "alexnet", *argv[3:], "--out", str(tmp_path / "s"), "--bound-seconds", "0"]
        )
        == 0
    )
    assert "bytes a weight" not in capsys.readouterr().err


@pytest.mark.parametrize(("problem", "workload"), [("mmap", "alexnet"), ("mcm", "resnet18")])
def test_a_new_chip_file_is_of_its_problem(tmp_path, capsys, problem, workload):
    path = str(tmp_path / "mine.toml")
    assert main(["chip", "new", path, "--problem", problem]) == 0
    assert f"--problem {problem}" in capsys.readouterr().out
    argv = ["evaluate", "--problem", problem, "--workload", workload, "--mapping", "compiler"]
    assert main([*argv, "--chip", path]) == 0
    assert "on mine" in capsys.readouterr().out
    refuse(
        capsys,
        ["chip", "new", str(tmp_path / "x.toml"), "--problem", problem, "--like", "edge"],
        "--like: expected one of",
        "found 'edge'",
    )


def test_what_is_wrong_with_a_new_chip_file_is_said_in_one_line(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    refuse(capsys, ["chip", "new", str(path)], "expected a new file")
    assert path.read_text() == "mine"
    refuse(capsys, ["chip", "new", str(tmp_path / "mine.json")], "ending in .toml")
    refuse(capsys, ["chip", "new", str(tmp_path / "no name.toml")], "letters, digits", "'no name'")
    refuse(capsys, ["chip", "new", str(tmp_path / "nowhere" / "x.toml")], "can be written")
    refuse(capsys, ["chip", "new", str(tmp_path / "x.toml"), "--like", "nnpj"], "nnpj", "expected one of")


def eight_levels(path: Path) -> Path:
    """The template of nnpi with its memories replaced by eight."""
    assert main(["chip", "new", str(path)]) == 0
    text = path.read_text()
    memories = "".join(
        f'[[memories]]\nname = "m{k}"\ncapacity_bytes = {2 ** (34 - 2 * k)}\nbandwidth_Bps = {50e9 * 3.0**k!r}\n\n'
        for k in range(8)
    )
    text = re.sub(r"\[\[memories\]\].*?(?=\[compute\])", lambda _: memories, text, flags=re.DOTALL)
    path.write_text(text.replace('"llc"', '"m1"'))
    return path


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "chip", ["quad", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("tpuv4i", "eight"))]
)
def test_search_bound_and_figures_take_chips_of_other_numbers_of_memories(chip, tmp_path, capsys):
    given = str(eight_levels(tmp_path / "eight.toml")) if chip == "eight" else chip
    out = tmp_path / "r"
    argv = ["run", "--workload", "alexnet", "--chip", given, "--gens", "3", "--out", str(out), "--quiet"]
    assert main([*argv, "--bound-seconds", "600", *TINY]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["best"]["valid"]
    assert summary["best"]["speedup"] >= 1
    assert summary["gap"] is None or summary["gap"] > -1e-9
    names = load_chip(given).memory_names
    rows = json.loads((out / "best_mapping.json").read_text())["mapping"]
    assert {row[head] for row in rows for head in ("weight", "activation") if head in row} <= {*names, None}
    for figure in ("shift", "bands", "utilisation", "breakdown", "curves"):
        assert main(["plot", figure, str(out), "-o", str(tmp_path / f"{figure}.png")]) == 0
    best = str(out / "best_mapping.json")
    assert main(["evaluate", "--workload", "alexnet", "--chip", given, "--mapping", best]) == 0
    capsys.readouterr()
    policy = str(next((out / "policies").glob("*")))
    other = ["run", "--workload", "alexnet", "--init", policy, "--gens", "1", "--out", str(tmp_path / "s")]
    assert main([*other, *TINY, "--quiet"]) == 0  # it ranks tensors, in any number of memories


def test_a_package_begins_as_one_that_ships_and_is_read(tmp_path, capsys):
    from hwsim.mcm.package import load_package

    path = tmp_path / "mine.toml"
    assert main(["chip", "new", str(path), "--like", "mcm36"]) == 0
    assert "--problem mcm" in capsys.readouterr().out
    given = load_package(path)
    assert given.name == "mine"
    assert replace(given, name="mcm36") == load_package("mcm36")
    assert "# " in path.read_text(encoding="utf-8")
