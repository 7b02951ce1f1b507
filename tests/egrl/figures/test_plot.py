"""egrl plot: which runs are repetitions, which cannot stand in one figure, what curves are called."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from egrl.cli.main import main
from egrl.figures import FIGURES
from egrl.figures.curves import draw
from egrl.figures.repetitions import SAME_RESULT, PlottedRun, distinct, labels, plain, to_plot
from egrl.runs.config import RESUMABLE
from egrl.runs.past_run import PastRun
from workloads.errors import InputError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs of one or two generations, by name."""
    folder = tmp_path_factory.mktemp("runs")
    base = ["run", "--workload", "alexnet", "--quiet", "--gens"]
    annealing = ["1", "--method", "annealing"]
    given = {
        "a0": annealing,
        "a1": [*annealing, "--seed", "1", "--workers", "2", "--bound-seconds", "0"],
        "a1-long": ["2", *annealing[1:], "--seed", "1"],
        "hot": [*annealing, "--set", "method.t0=0.9"],
        "cold": [*annealing, "--start", "cold"],
        "penalise": [*annealing, "--set", "problem.invalid=penalise"],
        "random": ["1", "--method", "random"],
        "other-baseline": [*annealing, "--set", "problem.baseline=largest-first"],
        "resnet": [*annealing, "--workload", "resnet18"],
    }
    for name, argv in given.items():
        assert main([*base, *argv, "--out", str(folder / name)]) == 0
    for name in ("x", "y"):
        start = folder / name / "map.json"
        start.parent.mkdir()
        shutil.copy(folder / ("a0" if name == "x" else "cold") / "best_mapping.json", start)
        out = folder / f"start-{name}"
        assert main([*base, *annealing, "--start", str(start), "--out", str(out)]) == 0
        given[out.name] = []
    copied = folder / "elsewhere.json"
    shutil.copy(folder / "x" / "map.json", copied)
    out = folder / "start-x-again"
    assert main([*base, *annealing, "--seed", "1", "--start", str(copied), "--out", str(out)]) == 0
    return {name: folder / name for name in [*given, out.name]}


def read_run(path: Path) -> PlottedRun:
    return to_plot(PastRun.read(path))


def called(runs: dict[str, Path], *names: str) -> list[str]:
    return labels([read_run(runs[name]) for name in names])


@pytest.mark.exhaustive
def test_runs_that_differ_in_seed_budget_and_workers_are_repetitions(runs):
    assert called(runs, "a0", "a1", "a1-long") == ["annealing"] * 3


def test_what_may_change_when_a_run_is_resumed_makes_no_other_run():
    assert set(RESUMABLE) - {"evaluator"} <= set(SAME_RESULT), "a board measures what the model does not"


@pytest.mark.exhaustive
def test_other_runs_are_called_by_what_differs(runs):
    assert called(runs, "a0", "random") == ["annealing", "random"]
    assert called(runs, "a0", "cold") == ["annealing, compiler start", "annealing, cold start"]
    assert called(runs, "a0", "hot", "a1")[1] == "annealing, t0=0.9"
    first, _, third = called(runs, "a0", "hot", "a1")
    assert first == third
    assert first.startswith("annealing, t0=")
    assert called(runs, "a0", "penalise") == ["annealing, invalid=repair", "annealing, invalid=penalise"]
    hot, both = called(runs, "hot", "penalise")
    assert hot == "annealing, t0=0.9, invalid=repair"
    assert both == "annealing, t0=0.005, invalid=penalise"


@pytest.mark.slow
def test_start_files_count_by_their_content(runs):
    again = called(runs, "start-x", "start-x-again")
    assert again == ["annealing"] * 2
    two = called(runs, "start-x", "start-y")
    assert two[0] != two[1]
    assert all(label.startswith("annealing, map ") for label in two)
    assert called(runs, "start-x", "a0") == ["annealing, map start", "annealing, compiler start"]


def test_a_band_ends_with_its_shortest_run_and_the_longer_ones_are_named(runs, tmp_path, capsys):
    output = tmp_path / "c.svg"
    argv = ["plot", "curves", str(runs["a0"]), str(runs["a1-long"]), str(runs["hot"]), "-o", str(output)]
    assert main(argv) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"egrl plot: {runs['a1-long']} has 42 evaluations; shown are the 21 that all runs of"
    )
    assert "mean of 2 runs" in output.read_text()


def test_a_seed_is_not_its_own_repetition(runs):
    kept, remarks = distinct([read_run(runs[name]) for name in ("a0", "a1", "a1-long", "a0")])
    assert [run.path.name for run in kept] == ["a0", "a1-long"]
    assert ["repeats seed 1 of" in remarks[0], "named twice" in remarks[1]] == [True, True]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("resnet", ["one workload", "alexnet", "resnet18"]),
        ("other-baseline", ["one baseline", "largest-first"]),
        ("workload", ["one workload.json"]),
        ("chip", ["one chip.toml"]),
        ("fingerprint", ["one simulator", "fingerprint"]),
    ],
)
def test_runs_of_different_problems_are_refused_naming_both(other, words, runs, tmp_path, capsys):
    second = runs.get(other)
    if second is None:
        second = Path(shutil.copytree(runs["a1"], tmp_path / "r"))
        if other == "fingerprint":
            summary = json.loads((second / "summary.json").read_text())
            (second / "summary.json").write_text(json.dumps({**summary, "fingerprint": "0" * 64}))
        else:
            file = second / {"workload": "workload.json", "chip": "chip.toml"}[other]
            file.write_text(file.read_text() + "\n")
    argv = ["plot", "curves", str(runs["a0"]), str(second), "-o", str(tmp_path / "c.png")]
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for word in [*words, str(runs["a0"]), str(second)]:
        assert word in error
    assert not (tmp_path / "c.png").exists()


def test_the_title_names_the_start_that_all_share_and_the_bound_is_drawn(runs):
    drawing = draw([PastRun.read(runs[name]) for name in ("a0", "random")])
    figure = drawing.figure
    assert drawing.remarks == []
    assert figure.axes[0].get_title() == "alexnet on nnpi, compiler start"
    summary = json.loads((runs["a0"] / "summary.json").read_text())
    expected = summary["baseline"]["cost"] / summary["bound"]
    assert any(line.get_ydata()[0] == expected for line in figure.axes[0].lines)
    figure = draw([PastRun.read(runs[name]) for name in ("a0", "cold")]).figure
    assert figure.axes[0].get_title() == "alexnet on nnpi"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fingerprint", 3),
        ("baseline", {}),
        ("baseline", {"cost": 0.0}),
        ("bound", "x"),
        ("evaluations", "x"),
        ("evaluations", None),
        ("best", 3),
        ("best", {"speedup": "x"}),
    ],
)
def test_a_damaged_summary_is_refused(key, value, runs, tmp_path):
    run = Path(shutil.copytree(runs["a0"], tmp_path / "r"))
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, key: value}))
    with pytest.raises(InputError, match=key):
        read_run(run)


def test_the_numbers_behind_a_figure_are_one_json_document(runs, tmp_path, capsys):
    argv = ["plot", "curves", str(runs["a0"]), str(runs["a1"]), "-o", str(tmp_path / "c.png"), "--json"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    document = json.loads(out)
    assert out.count("\n") == 1
    assert {key: document[key] for key in ("kind", "version", "figure")} == {
        "kind": "figure",
        "version": 1,
        "figure": "curves",
    }
    (band,) = document["curves"]
    best = [json.loads((runs[name] / "summary.json").read_text())["best"]["speedup"] for name in ("a0", "a1")]
    assert band["evaluations"] == [21]
    assert math.isclose(band["mean"][0], sum(best) / 2)


def test_numbers_that_json_lacks_become_null():
    assert plain({"a": np.array([1.0, np.nan]), "b": (np.int64(3), math.inf, None)}) == {
        "a": [1.0, None],
        "b": [3, None, None],
    }


def test_help_lists_every_figure_and_what_it_shows(capsys):
    assert main(["plot", "--help"]) == 0
    shown = capsys.readouterr().out
    for name, (summary, _) in FIGURES.items():
        assert f"  {name} " in shown
        assert summary in shown
