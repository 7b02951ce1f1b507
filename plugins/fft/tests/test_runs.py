"""Searching for FFT plans from the command line: who is named the best, and what is remembered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import refuse, refused_figure

from egrl.cli.main import main
from egrl.core.archive import Archive, proposals
from egrl.core.loop import Champion, SearchState
from egrl.runs.champion import Raced, race_the_best
from egrl_fft import wisdom
from egrl_fft.derivation import PlanGraph
from egrl_fft.notation import parse
from egrl_fft.problem import FftConfig, FftProblem
from egrl_fft.race import PlanRace
from hwsim.problem import Floats, Mapping16
from workloads.errors import Notice


@pytest.fixture
def own_wisdom(tmp_path, monkeypatch):
    monkeypatch.setenv("EGRL_FFT_WISDOM", str(tmp_path / "wisdom.json"))
    return tmp_path


@pytest.mark.slow
def test_a_run_without_a_method_is_tags_and_leaves_its_best_plan_as_wisdom(own_wisdom, capsys):
    out = own_wisdom / "r"
    assert main(["run", "--problem", "fft", "--workload", "dft-16", "--gens", "1", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "egrl: egrl_fft.plan(16) " in printed.err
    summary = json.loads((out / "summary.json").read_text())
    said = f"egrl: measured again in turn with the default plan: {summary['best']['speedup']:.4f}x (the search had "
    assert said in printed.err
    assert summary["method"] == "tag"
    known = wisdom.known()[16]
    best = json.loads((out / "best_mapping.json").read_text())["plan"]
    assert str(known.plan) in (best, "16")
    assert known.seconds <= summary["best"]["cost"]
    assert summary["best"]["speedup"] == pytest.approx(summary["baseline"]["cost"] / summary["best"]["cost"])


def test_a_run_without_a_size_is_told_what_names_one(capsys):
    line = refuse(capsys, ["run", "--problem", "fft"])
    assert line == "egrl: error: --workload: expected dft-N, a DFT of N points (dft-4096), found none\n"


def test_a_modelled_run_leaves_no_wisdom(own_wisdom):
    argv = ["run", "--problem", "fft", "--workload", "dft-16", "--gens", "1", "--out", str(own_wisdom / "r")]
    assert main([*argv, "--set", "problem.cost=model", "--quiet"]) == 0
    assert wisdom.known() == {}


@pytest.mark.parametrize("flags", [[], ["--quiet"]])
def test_wisdom_that_is_passed_over_is_one_line_and_none_where_the_run_is_quiet(flags, own_wisdom, capsys):
    (own_wisdom / "wisdom.json").write_text("garbage")
    argv = ["run", "--problem", "fft", "--workload", "dft-16", "--evals", "21", "--method", "random", *flags]
    assert main([*argv, "--out", str(own_wisdom / "r")]) == 0
    printed = capsys.readouterr().err
    said = [line for line in printed.splitlines() if "passed over" in line]
    if flags:
        assert printed == ""
    else:
        assert len(said) == 1
        assert said[0].startswith(f"egrl: FFT wisdom is passed over: {own_wisdom / 'wisdom.json'}: ")
        assert "UserWarning" not in printed
    assert (own_wisdom / "wisdom.json.unusable-1").read_text() == "garbage"


BEST_KNOWN = ["evaluate", "--problem", "fft", "--workload", "dft-16", "--mapping", "best-known"]


def test_the_plan_that_wisdom_has_can_be_evaluated(own_wisdom, capsys):
    file = own_wisdom / "wisdom.json"
    argv = [*BEST_KNOWN, "--set", "problem.cost=model"]
    refuse(capsys, argv, f"wisdom ({file}) has no plan for 16 points")
    wisdom.remember(parse("fs(4,4)"), 1e-6)
    assert main([*argv, "--json"]) == 0
    problem = FftProblem(16, FftConfig(cost="model"))
    assert json.loads(capsys.readouterr().out)["cost"] == problem.seconds(parse("fs(4,4)"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": "other"}, ": machine: expected"),
        ({"library": 0}, ": library: expected 1, found 0"),
        (
            {"plans": [{"size": 16, "plan": "8", "seconds": 1.0}]},
            "expected a complete plan for 16 points, found '8'",
        ),
    ],
)
def test_wisdom_of_another_machine_version_or_size_is_an_error_where_it_was_asked_for(
    changes, words, own_wisdom, capsys
):
    file = own_wisdom / "wisdom.json"
    wisdom.remember(parse("fs(4,4)"), 1e-6)
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    before = file.read_text()
    refuse(capsys, [*BEST_KNOWN, "--set", "problem.cost=model"], str(file), words)
    assert file.read_text() == before
    assert list(own_wisdom.iterdir()) == [file]


def test_a_race_says_where_wisdom_that_could_not_be_used_is_kept(own_wisdom):
    (own_wisdom / "wisdom.json").write_text("garbage")
    with pytest.warns(Notice, match="FFT wisdom is passed over"):
        _, race = raced({"fs(4,4)": 3e-6, "16": 4e-6}, {"fs(4,4)": 1.0e-6})
    aside = own_wisdom / "wisdom.json.unusable-1"
    assert race.notes[-1].endswith(f"; what could not be used is kept as {aside})")
    assert aside.read_text() == "garbage"


@pytest.mark.parametrize(
    "argv",
    [
        ["evaluate", "--mapping", "FILE"],
        ["run", "--gens", "1", "--out", "OUT", "--start", "FILE"],
    ],
)
def test_a_file_with_a_plan_of_another_size_is_refused_naming_both(argv, own_wisdom, capsys):
    file, out = own_wisdom / "plan.json", own_wisdom / "r"
    document = {"kind": "mapping", "version": 1, "problem": "fft", "workload": "dft-16", "plan": "fs(2,4)"}
    file.write_text(json.dumps(document))
    named = [{"FILE": str(file), "OUT": str(out)}.get(word, word) for word in argv]
    line = refuse(capsys, [*named, "--problem", "fft", "--workload", "dft-16", "--set", "problem.cost=model"])
    assert line == f"egrl: error: {file}: plan: expected a plan for 16 points, found fs(2,4) for 8\n"
    assert list(own_wisdom.iterdir()) == [file]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Finished runs of a generation each, by name."""
    folder = tmp_path_factory.mktemp("runs")
    base = [
        "run",
        "--problem",
        "fft",
        "--workload",
        "dft-16",
        "--evals",
        "21",
        "--method",
        "random",
        "--quiet",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EGRL_FFT_WISDOM", str(folder / "wisdom.json"))
        for name, flags in {
            "first": [],
            "second": ["--seed", "1"],
            "modelled": ["--set", "problem.cost=model"],
        }.items():
            assert main([*base, *flags, "--out", str(folder / name)]) == 0
    return {name: folder / name for name in ("first", "second", "modelled")}


def with_baseline(run: Path, to: Path, **changes: object) -> Path:
    """A copy of a run folder with another baseline."""
    copy = Path(shutil.copytree(run, to))
    summary = json.loads((copy / "summary.json").read_text())
    summary["baseline"].update(changes)
    (copy / "summary.json").write_text(json.dumps(summary))
    return copy


@pytest.mark.exhaustive
def test_curves_of_repetitions_are_drawn_though_each_measured_its_own_baseline(runs, tmp_path, capsys):
    slower = with_baseline(runs["second"], tmp_path / "slower", cost=1.0)
    output = tmp_path / "c.svg"
    assert main(["plot", "curves", str(runs["first"]), str(slower), "-o", str(output), "--json"]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    assert (curve["label"], curve["runs"]) == ("random", 2)


def test_curves_over_other_baselines_are_refused(runs, tmp_path, capsys):
    line = refused_figure(capsys, tmp_path / "c.png", "curves", runs["first"], runs["modelled"])
    assert "expected runs of one baseline" in line
    other = with_baseline(runs["second"], tmp_path / "other", rule="another plan")
    line = refused_figure(capsys, tmp_path / "c.png", "curves", runs["first"], other)
    assert "expected runs of one baseline, found default plan" in line
    assert "another plan" in line


def test_curves_speak_of_plans_and_of_the_default_plan(runs, tmp_path):
    output = tmp_path / "c.svg"
    assert main(["plot", "curves", str(runs["first"]), "-o", str(output)]) == 0
    text = " ".join(output.read_text().split())
    for said in ("(plans measured)", "speedup over the default plan", "dft-16 on host, default plan start"):
        assert said in text
    assert "compiler" not in text
    assert "inferences" not in text


@pytest.mark.parametrize(
    "figure", ["shift", "bands", "umap", "utilisation", "breakdown", "layout", "partition"]
)
def test_pictures_of_memories_are_refused_for_plans(figure, runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EGRL_FFT_WISDOM", str(tmp_path / "wisdom.json"))
    line = refused_figure(capsys, tmp_path / "f.png", figure, runs["modelled"])
    assert line.startswith(f"egrl: error: plot {figure}: expected a problem ")
    if figure in ("shift", "bands", "umap"):
        assert line == (
            f"egrl: error: plot {figure}: expected a problem whose choices are places, found 'fft', whose"
            " choices mean something else in each mapping; `egrl plot curves` draws its runs"
        )


class Known(PlanRace):
    """A race whose times are known."""

    def __init__(self, size: int, derivation: PlanGraph, seconds: dict[str, float]) -> None:
        super().__init__(size, derivation)
        self._seconds = seconds

    def costs(self, mapping: Mapping16) -> Floats:
        return np.array([self._seconds[str(self._derivation.decode(row))] for row in mapping])


def raced(seconds: dict[str, float], measured: dict[str, float]) -> tuple[SearchState, Raced]:
    """A run that measured plans of 16 points, which then race at these seconds."""
    problem = FftProblem(16, FftConfig(cost="model"))
    archive = Archive([problem])
    mapping = np.stack([problem.read_plan(text, "test") for text in measured])
    found = problem.evaluate(mapping, np.zeros(len(mapping), np.uint64))
    found.cost[:] = list(measured.values())
    archive.append(proposals(mapping, "tag").numbered(0), found)
    state = SearchState(champions=[Champion(1.5625, 1.0, 1.25, "tag", 0, mapping[0])])
    problem.race = Known(16, problem.derivation, seconds)
    found_out = race_the_best(problem, archive, state)
    assert found_out is not None
    return state, found_out


def test_the_champion_is_the_fastest_of_the_race_not_the_luckiest_of_the_search(own_wisdom):
    measured = {"fs(4,4)": 1.0e-6, "fs(2,8)": 1.1e-6, "f(4,4)": 9e-6}
    state, race = raced({"fs(4,4)": 3e-6, "fs(2,8)": 2e-6, "16": 4e-6}, measured)
    champion = state.champions[0]
    assert champion is not None
    assert (champion.ticket, champion.cost, champion.speedup) == (1, 2e-6, 2.0)
    again, remembered = race.notes
    assert again == "measured again in turn with the default plan: 2.0000x (the search had 1.2500x)"
    assert "fs(2,8)" in remembered
    assert race.baseline_cost == 4e-6
    assert wisdom.known()[16] == wisdom.Known(parse("fs(2,8)"), 2e-6)


def test_what_is_known_already_races_too_and_stays_where_it_wins(own_wisdom):
    wisdom.remember(parse("ts(8,2)"), 1e-9)
    state, _ = raced({"fs(4,4)": 3e-6, "16": 4e-6, "ts(8,2)": 1e-6}, {"fs(4,4)": 1.0e-6})
    assert state.champions[0] is not None
    assert state.champions[0].cost == 3e-6
    assert wisdom.known()[16] == wisdom.Known(parse("ts(8,2)"), 1e-6)
    raced({"fs(4,4)": 3e-6, "16": 4e-6, "ts(8,2)": 5e-6}, {"fs(4,4)": 1.0e-6})
    assert wisdom.known()[16] == wisdom.Known(parse("fs(4,4)"), 3e-6)
