"""--pin: what commands make of it, and where it is refused in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import refuse

from egrl.cli.main import main

PINS = [
    "--pin",
    "conv[12].weight=dram",
    "--pin",
    "conv3.activation=conv1.activation",
    "--pin",
    "fc3.weight=llc",
]


def rows(file: Path) -> dict[str, dict[str, str]]:
    return {row["node"]: row for row in json.loads(file.read_text())["mapping"]}


def kept(file: Path) -> bool:
    found = rows(file)
    return (
        {found["conv1"]["weight"], found["conv2"]["weight"]} == {"dram"}
        and found["conv3"]["activation"] == found["conv1"]["activation"]
        and found["fc3"]["weight"] == "llc"
    )


@pytest.fixture
def run(tmp_path) -> Path:
    argv = ["run", "--workload", "alexnet", "--method", "exact", "--exact-seconds", "5", *PINS]
    assert main([*argv, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    return tmp_path / "run"


def test_a_run_its_simplified_mapping_and_what_goes_on_from_it_keep_the_pins(run, tmp_path, capsys):
    assert kept(run / "best_mapping.json")
    assert main(["simplify", str(run)]) == 0
    assert kept(run / "simplified_mapping.json")
    assert main(["evaluate", str(run)]) == 0
    on = ["--method", "annealing", "--evals", "63", "--start", str(run / "best_mapping.json"), "--quiet"]
    assert main(["run", "--workload", "alexnet", *on, *PINS, "--out", str(tmp_path / "on")]) == 0
    assert kept(tmp_path / "on" / "best_mapping.json")
    assert main(["run", "--resume", str(tmp_path / "on"), "--evals", "84", "--quiet"]) == 0
    assert kept(tmp_path / "on" / "best_mapping.json")


def test_place_and_bound_keep_them_and_a_file_says_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pins.txt").write_text("# of the boot loader\n" + "\n".join(PINS[1::2]) + "\n\n")
    for pins in (PINS, ["--pin", "pins.txt"]):
        assert main(["place", "alexnet", "--steps", "500", *pins, "-o", "placed.json"]) == 0
        assert kept(Path("placed.json"))
    assert main(["bound", "--workload", "alexnet", "--seconds", "5", *PINS, "-o", "bound.json"]) == 0
    assert kept(Path("bound.json"))


def test_what_cannot_be_kept_is_one_line(run, tmp_path, capsys):
    of = ["evaluate", "--workload", "alexnet", "--mapping", str(run / "best_mapping.json")]
    assert main([*of, *PINS]) == 0
    assert "keeps the pins, weight of 'conv1' in sram, found dram" in refuse(
        capsys, [*of, "--pin", "conv1.weight=sram"]
    )
    other = ["run", "--workload", "alexnet", "--baseline", str(run / "best_mapping.json")]
    refuse(
        capsys, [*other, "--pin", "conv1.weight=sram"], "--baseline", "expected a mapping that keeps the pins"
    )
    refuse(capsys, ["run", "--workload", "alexnet", "--pin", "conv1.weight=srm"], "did you mean sram?")
    refuse(capsys, ["run", "--workload", "alexnet", "--pin", "none.txt"], "none.txt: expected a file of pins")
    mcm = ["run", "--problem", "mcm", "--workload", "alexnet", "--pin", "conv1=chip0"]
    refuse(capsys, mcm, "--pin conv1=chip0: expected a problem that places tensors in memories")
    refuse(capsys, ["run", "--resume", str(run), "--pin", "conv1=sram"], "expected none with --resume")
    refuse(capsys, ["evaluate", str(run), "--pin", "conv1=sram"], "the two exclude each other")
