"""Multi-chip modules from the command line: run, plot, evaluate, bound, import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egrl.cli.main import main

CHAIN = {
    "maxFPGAs": 6,
    "maxSizePerFPGA": 1000,
    "nodes": [{"id": i, "fpgaLatency": 2.0 + (i == 3), "size": 1} for i in range(6)],
    "edges": [{"sourceId": i, "destId": i + 1, "cost": 0.75, "size": 1} for i in range(5)],
}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mcm") / "chain.json"
    file.write_text(json.dumps(CHAIN))
    return file


@pytest.fixture(scope="module")
def run(instance: Path) -> Path:
    out = instance.parent / "run"
    argv = ["run", "--problem", "mcm", "--workload", str(instance), "--chip", "profiled", "--quiet"]
    assert main([*argv, "--method", "annealing", "--start", "cold", "--evals", "420", "--out", str(out)]) == 0
    return out


def test_a_run_finds_the_optimum_of_a_chain_and_proves_it(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["best"]["valid"]
    assert summary["best"]["cost"] == 4.5
    assert summary["gap"] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.slow
def test_partition_and_layout_are_one_figure_with_its_numbers(run, tmp_path, capsys):
    texts = []
    for figure in ("partition", "layout"):
        assert main(["plot", figure, str(run), "-o", str(tmp_path / f"{figure}.svg"), "--json"]) == 0
        texts.append((tmp_path / f"{figure}.svg").read_text())
    assert texts[0] == texts[1]
    document = json.loads(capsys.readouterr().out.splitlines()[0])
    baseline, best = document["partitions"]
    assert max(best["chip_s"]) == best["cost_s"] == 4.5
    assert best["cost_s"] <= baseline["cost_s"]
    assert sum(best["nodes"]) == 6


def test_evaluate_shows_the_chips_and_the_slowest(instance, capsys):
    argv = ["evaluate", "--problem", "mcm", "--workload", str(instance), "--chip", "profiled"]
    assert main(argv) == 0
    assert "slowest: chip " in capsys.readouterr().out


def test_bound_says_that_the_solution_is_the_best(instance, capsys):
    argv = ["bound", "--problem", "mcm", "--workload", str(instance), "--chip", "profiled"]
    assert main(argv) == 0
    assert "proven to be the best possible" in capsys.readouterr().out


def test_an_imported_instance_keeps_its_name_and_nodes(instance, tmp_path, capsys):
    out = tmp_path / "again.json"
    assert main(["import", str(instance), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == 6
    assert json.loads(out.read_text())["name"] == "chain"


def test_importing_says_what_an_instance_was_made_for_where_it_says_so(instance, tmp_path, capsys):
    bare, out = tmp_path / "bare.json", tmp_path / "again.json"
    bare.write_text(json.dumps({key: value for key, value in CHAIN.items() if not key.startswith("max")}))
    assert main(["import", str(instance), "-o", str(out)]) == 0
    assert "chain: 6 nodes, 5 edges, made for 6 devices\n" in capsys.readouterr().out
    assert main(["import", str(bare), "-o", str(out)]) == 0
    assert "bare: 6 nodes, 5 edges\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--set", "problem.chips=10000"], "problem.chips: expected"),
        (["--set", "problem.solver=maybe"], "solver: expected a valid boolean"),
        (["--chip", "mcm37"], "expected one of edge4, mcm36, profiled"),
        (["--workload", "missing.json"], "missing.json"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(instance, changes, words, capsys):
    argv = ["run", "--problem", "mcm", "--workload", str(instance), "--chip", "profiled", *changes]
    assert main(argv) == 2
    error = capsys.readouterr().err.strip()
    assert words in error
    assert "\n" not in error


def test_only_partitions_are_drawn_as_such(tmp_path, capsys):
    out = tmp_path / "nnpi"
    argv = ["run", "--workload", "alexnet", "--method", "random", "--gens", "1", "--quiet"]
    assert main([*argv, "--out", str(out)]) == 0
    assert main(["plot", "partition", str(out), "-o", str(tmp_path / "p.png")]) == 2
    assert (
        "expected a problem that splits a network over chips (mcm), found 'nnpi'" in capsys.readouterr().err
    )


def test_a_mapping_that_breaks_a_rule_is_evaluated_as_it_is_given(instance, run, tmp_path, capsys):
    document = json.loads((run / "best_mapping.json").read_text())
    document["mapping"][0]["chip"] = "3"
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(document))
    capsys.readouterr()
    argv = ["evaluate", "--problem", "mcm", "--workload", str(instance), "--chip", "profiled"]
    assert main([*argv, "--mapping", str(broken), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["epsilon"] > 0
    assert any(violation.startswith("acyclic") for violation in report["violations"])


def test_costs_of_instances_are_told_in_the_files_own_unit(instance, capsys):
    capsys.readouterr()
    assert main(["evaluate", "--problem", "mcm", "--workload", str(instance), "--chip", "profiled"]) == 0
    out = capsys.readouterr().out
    assert "busy file units" in out
    assert " us" not in out


@pytest.mark.slow
def test_utilisation_is_told_chip_by_chip(run, tmp_path, capsys):
    capsys.readouterr()
    assert main(["plot", "utilisation", str(run), "-o", str(tmp_path / "u.png"), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    best = numbers["partitions"][1]
    assert best["label"] != numbers["partitions"][0]["label"]
    assert len(best["chip_s"]) == len(best["link_s"])
    assert (tmp_path / "u.png").stat().st_size > 5_000
