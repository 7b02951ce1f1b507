"""egrl plot: the figures that ask the problem what a mapping does, on run folders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import drawn, refused_figure
from matplotlib.text import Text

from egrl.cli.main import main
from egrl.figures import mappings
from egrl.runs.past_run import PastRun
from gate import gate
from hwsim.capabilities import HasExplanation
from hwsim.mmap.chip import load_chip
from hwsim.mmap.problem import MmapProblem
from hwsim.nnpi.problem import NnpiProblem
from toys import TOYS
from workloads.errors import InputError

FIGURES = ("utilisation", "breakdown")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs of a few generations, by name."""
    folder = tmp_path_factory.mktemp("runs")
    base = ["run", "--workload", "alexnet", "--quiet", "--bound-seconds", "0", "--method", "annealing"]
    given = {
        "cold": ["--gens", "1", "--start", "cold"],
        "warm": ["--gens", "4"],
        "resnet": ["--gens", "1", "--workload", "resnet18"],
    }
    for name, argv in given.items():
        assert main([*base, *argv, "--out", str(folder / name)]) == 0
    return {name: folder / name for name in given}


@pytest.mark.slow
def test_utilisation_gives_what_memories_hold_and_their_shares(runs, tmp_path, capsys):
    document, remarks = drawn(capsys, tmp_path / "u.svg", "utilisation", runs["warm"])
    assert remarks == []
    run = PastRun.read(runs["warm"])
    problem = run.problem
    assert isinstance(problem, NnpiProblem)
    for name, mapping in (("compiler", problem.baseline.mapping), ("best", run.best_mapping())):
        part, held = document[name], problem.occupancy(mapping)
        assert part["occupied_bytes"] == held.occupied_bytes.tolist()
        assert part["by_head_bytes"] == held.by_head.tolist()
        assert part["peak_share"] == (held.occupied_bytes.max(axis=0) / held.capacity_bytes).tolist()
        assert max(part["peak_share"]) <= 1
        assert part["edges"][-1] == pytest.approx(problem.model_cost(mapping) * 1e6)
        shown = "baseline heuristic" if name == "compiler" else name
        assert f"{shown}, {part['edges'][-1]:.1f} µs" in (tmp_path / "u.svg").read_text()
    assert document["capacity_bytes"] == [2**35, 24 * 2**20, 4 * 2**20]


@pytest.mark.slow
def test_breakdown_shares_out_both_latencies(runs, tmp_path, capsys):
    document, remarks = drawn(capsys, tmp_path / "b.svg", "breakdown", runs["warm"])
    assert remarks == []
    run = PastRun.read(runs["warm"])
    problem = run.problem
    assert isinstance(problem, NnpiProblem)
    for name, mapping in (("compiler", problem.baseline.mapping), ("best", run.best_mapping())):
        explained = problem.explain(mapping)
        seconds = dict(zip(document["causes"], document[name]["seconds_by_cause"], strict=True))
        assert {cause: s for cause, s in seconds.items() if s} == pytest.approx(explained.seconds_bound_by)
        assert document[name]["duration_s"] == [op.duration_s for op in explained.ops]
        assert document[name]["bound_by"] == [op.bound_by for op in explained.ops]
    saved = document["compiler"]["duration_s"], document["best"]["duration_s"]
    assert document["change_s"] == (np.array(saved[1]) - np.array(saved[0])).tolist()
    assert document["ops"] == list(problem.space.nodes)


@pytest.mark.slow
@pytest.mark.parametrize("figure", gate(FIGURES, ("utilisation",)))
def test_of_several_runs_the_fastest_is_drawn_and_named(figure, runs, tmp_path, capsys):
    document, remarks = drawn(capsys, tmp_path / "f.png", figure, runs["cold"], runs["warm"])
    assert document["run"] == str(runs["warm"])
    assert remarks == [f"egrl plot: shown is {runs['warm']}, the fastest of 2 runs"]


@pytest.mark.slow
@pytest.mark.parametrize("figure", gate(FIGURES, ("breakdown",)))
def test_equal_runs_give_equal_files(figure, runs, tmp_path, capsys):
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        drawn(capsys, file, figure, runs["warm"])
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("figure", FIGURES)
def test_runs_that_cannot_be_drawn_are_refused_in_a_line(figure, runs, tmp_path, capsys):
    line = refused_figure(capsys, tmp_path / "f.png", figure, runs["warm"], runs["resnet"])
    assert "expected runs of one workload, found alexnet" in line
    empty = tmp_path / "none"
    empty.mkdir()
    for name in ("config.toml", "workload.json", "chip.toml"):
        (empty / name).write_text((runs["warm"] / name).read_text())
    summary = json.loads((runs["warm"] / "summary.json").read_text())
    (empty / "summary.json").write_text(json.dumps({**summary, "best": None, "gap": None}))
    line = refused_figure(capsys, tmp_path / "f.png", figure, empty)
    assert line == f"egrl: error: {empty}: expected a run with a valid mapping, found none yet"


@pytest.mark.parametrize(
    ("draw", "word"),
    [(mappings.draw_utilisation, "the use of its memories"), (mappings.draw_breakdown, "costs")],
)
def test_a_problem_that_cannot_say_what_a_figure_asks_is_refused(draw, word, runs):
    run = PastRun.read(runs["warm"])
    run.__dict__["problem"] = TOYS["ragged"]()
    with pytest.raises(
        InputError, match=rf"^plot {draw.__name__.removeprefix('draw_')}: .*{word}.*'toy-ragged'$"
    ):
        draw([run])


def test_memories_are_drawn_over_ops_where_the_problem_cannot_say_how_long_they_take(runs):
    class WithoutTimes(NnpiProblem):
        explain = None

    run = PastRun.read(runs["warm"])
    own = run.problem
    run.__dict__["problem"] = WithoutTimes(own._workload, own._chip, own.config)
    assert not isinstance(run.problem, HasExplanation)
    drawing = mappings.draw_utilisation([run])
    assert drawing.numbers["x"] == "op, in execution order"
    assert drawing.numbers["best"]["edges"] == list(range(len(own.space.nodes) + 1))
    mean = np.mean(own.occupancy(run.best_mapping()).occupied_bytes, axis=0)
    assert drawing.numbers["best"]["mean_share"] == pytest.approx(mean / [2**35, 24 * 2**20, 4 * 2**20])


@pytest.mark.slow
def test_every_picture_has_the_name_of_the_problems_own_baseline(runs):
    run = PastRun.read(runs["warm"])
    run.problem.about = replace(run.problem.about, baseline_name="the first fit", stands_for="")
    for draw in (
        mappings.draw_utilisation,
        mappings.draw_bands,
        mappings.draw_breakdown,
        mappings.draw_shift,
    ):
        drawing = draw([run])
        said = [text.get_text() for text in drawing.figure.findobj(Text)]
        assert any("first fit" in text for text in said), said
        assert not any("compiler" in text for text in said), said


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the MMapGame."""
    folder = tmp_path_factory.mktemp("game") / "run"
    argv = [
        "run",
        "--problem",
        "mmap",
        "--workload",
        "alexnet:backward=1",
        "--method",
        "random",
        "--evals",
        "21",
    ]
    assert main([*argv, "--quiet", "--bound-seconds", "0", "--out", str(folder)]) == 0
    return folder


def test_a_layout_shows_the_addresses_that_a_mapping_leads_to(game, tmp_path, capsys):
    capsys.readouterr()
    assert main(["plot", "layout", str(game), "-o", str(tmp_path / "l.svg"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    run = PastRun.read(game)
    problem = run.problem
    assert isinstance(problem, MmapProblem)
    layout = problem.layout(run.best_mapping())
    there = layout.first >= 0
    sizes = problem.space.size_bytes[there, 0]
    (memory,) = document["memories"]
    assert memory["memory"] == "CMEM"
    assert memory["capacity_bytes"] == load_chip("tpuv4i").cmem.capacity_bytes
    assert memory["tensors"] == there.sum() > 0
    assert memory["height_bytes"] == (layout.offset_bytes[there] + sizes).max() <= memory["capacity_bytes"]
    assert document["steps"] == layout.last.max() + 1


@pytest.mark.parametrize("figure", ["shift", "bands"])
def test_actions_are_not_drawn_as_memories(figure, game, tmp_path, capsys):
    line = refused_figure(capsys, tmp_path / "f.png", figure, game)
    assert line.endswith("whose choices are not places; `egrl plot layout` draws where they lead")
