"""egrl plot: the figures that look into mappings, on run folders: numbers, remarks, and runs that are refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import drawn, refused_figure

from egrl.cli.main import main
from egrl.figures import FIGURES
from egrl.runs.past_run import PastRun


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs of a few generations, by name."""
    folder = tmp_path_factory.mktemp("runs")
    base = ["run", "--workload", "alexnet", "--quiet", "--bound-seconds", "0", "--method", "annealing"]
    given = {
        "cold0": ["--gens", "8", "--start", "cold"],
        "cold1": ["--gens", "8", "--start", "cold", "--seed", "1"],
        "warm": ["--gens", "4"],
        "resnet": ["--gens", "1", "--workload", "resnet18"],
    }
    for name, argv in given.items():
        assert main([*base, *argv, "--out", str(folder / name)]) == 0
    return {name: folder / name for name in given}


def without_best(run: Path, copy: Path) -> Path:
    """A copy of a run as if it had found no valid mapping."""
    copy.mkdir()
    for name in ("config.toml", "workload.json", "chip.toml"):
        (copy / name).write_text((run / name).read_text())
    summary = json.loads((run / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "best": None, "gap": None}))
    return copy


@pytest.mark.slow
def test_a_shift_sums_runs_and_counts_every_live_tensor(runs, tmp_path, capsys):
    document, remarks = drawn(capsys, tmp_path / "s.svg", "shift", runs["cold0"], runs["cold1"])
    assert remarks == []
    assert document["runs"] == [str(runs["cold0"]), str(runs["cold1"])]
    problem = PastRun.read(runs["cold0"]).problem
    live = problem.space.live
    for column, head in enumerate(document["heads"]):
        assert head["head"] == problem.space.heads[column]
        assert np.sum(head["tensors"]) == 2 * live[:, column].sum()
        assert np.sum(head["bytes"]) == 2 * problem.space.size_bytes[:, column].sum()
        for row, shares in zip(head["tensors"], head["by_count"], strict=True):
            assert shares == ([n / sum(row) for n in row] if sum(row) else [None] * len(row))
    assert "the best mappings of 2 runs" in (tmp_path / "s.svg").read_text()


@pytest.mark.exhaustive
def test_a_shift_of_runs_that_are_no_repetitions_says_so(runs, tmp_path, capsys):
    _, remarks = drawn(capsys, tmp_path / "s.svg", "shift", runs["cold0"], runs["warm"], runs["warm"])
    assert "named twice" in remarks[0]
    assert remarks[1].endswith(
        "no repetitions of one another: annealing, cold start; annealing, compiler start"
    )


@pytest.mark.slow
def test_bands_are_of_the_fastest_run_which_is_named(runs, tmp_path, capsys):
    document, remarks = drawn(capsys, tmp_path / "b.svg", "bands", runs["cold0"], runs["cold1"], runs["warm"])
    speedups = {
        str(runs[name]): PastRun.read(runs[name]).summary["best"]["speedup"]
        for name in ("cold0", "cold1", "warm")
    }
    assert document["speedup"] == max(speedups.values()) == speedups[document["run"]]
    assert remarks == [f"egrl plot: shown is {document['run']}, the fastest of 3 runs"]
    cold = [runs["cold0"], runs["cold0"], runs["warm"]]
    _, remarks = drawn(capsys, tmp_path / "b.svg", "bands", *cold)
    assert remarks[0] == f"egrl plot: {runs['cold0']} is left out: named twice"
    assert remarks[1].endswith("the fastest of 2 runs")
    run = PastRun.read(Path(document["run"]))
    assert document["ops"] == list(run.problem.space.nodes)
    for column, head in enumerate(document["heads"]):
        assert head["best"]["choices"] == run.best_mapping()[:, column].tolist()
        assert head["compiler"]["choices"] == run.problem.baseline.mapping[:, column].tolist()
        assert sum(head["best"]["byte_share"]) == pytest.approx(1)
        assert 0 <= head["best"]["contiguity"] <= 1


@pytest.mark.parametrize("figure", ["shift", "bands", "umap", "layout", "peak"])
def test_what_cannot_be_drawn_is_refused_in_a_line(figure, runs, tmp_path, capsys):
    out = tmp_path / "f.png"
    line = refused_figure(capsys, out, figure, runs["cold0"], runs["resnet"])
    assert "expected runs of one workload, found alexnet" in line
    line = refused_figure(capsys, out, figure, without_best(runs["cold0"], tmp_path / "none"))
    assert line == f"egrl: error: {tmp_path / 'none'}: expected a run with a valid mapping, found none yet"
    assert "summary.json" in refused_figure(capsys, out, figure, tmp_path)


@pytest.mark.slow
def test_a_peak_is_the_fullest_step_and_what_is_held_for_what(runs, tmp_path, capsys):
    run = str(shutil.copytree(runs["cold0"], tmp_path / "r"))
    document, _ = drawn(capsys, tmp_path / "p.svg", "peak", Path(run))
    past = PastRun.read(Path(run))
    mapping, problem = past.best_mapping(), past.problem
    held = problem.occupancy(mapping).by_head.sum(axis=2)
    lifetimes, names = problem.lifetimes(mapping), list(problem.space.nodes)
    memories = [name for name, _ in problem.memories()]
    for memory in document["memories"]:
        number = memories.index(memory["memory"])
        step = names.index(memory["op"])
        assert memory["held_bytes"] == held[:, number].max() == held[step, number]
        assert memory["held_bytes"] == sum(tensor["size_bytes"] for tensor in memory["tensors"])
        here = {(t.node, t.head) for t in lifetimes if t.memory == number and t.first <= step <= t.last}
        assert {(tensor["op"], tensor["head"]) for tensor in memory["tensors"]} == here
        for tensor in memory["tensors"]:
            at = names.index(tensor["op"])
            if tensor["head"] == "weight":
                expected = "in use" if at == step else ("no longer read" if at < step else "read later")
                assert tensor["use"] == expected
            else:
                (life,) = [t for t in lifetimes if (t.node, t.head) == (tensor["op"], "activation")]
                assert tensor["use"] == ("in use" if step in (at, life.last) else "read later")
    assert main(["allocate", run]) == 0
    out = capsys.readouterr().out
    peak = json.loads((Path(run) / "allocation.json").read_text())["peaks"][-1]
    assert peak["text"] in out
    assert peak["text"].startswith(f"{memories[-1]} is fullest while {peak['op']} runs: ")


@pytest.mark.slow
def test_a_layout_shows_what_allocate_writes(runs, tmp_path, capsys):
    run = shutil.copytree(runs["cold0"], tmp_path / "r")
    document, remarks = drawn(capsys, tmp_path / "l.svg", "layout", Path(run))
    assert remarks == []
    assert main(["allocate", str(run)]) == 0
    written = json.loads((Path(run) / "allocation.json").read_text())
    assert document["align_bytes"] == written["align_bytes"]
    for shown, memory in zip(document["memories"], written["memories"], strict=True):
        for key in ("memory", "tensors", "capacity_bytes", "fullest_bytes", "height_bytes", "packed"):
            assert shown[key] == memory[key]
        assert shown["mean_share"] is None or 0 < shown["mean_share"] <= 1


@pytest.mark.slow
def test_the_umap_has_both_groups_of_all_runs_and_measures_them_in_the_space_of_mappings(
    runs, tmp_path, capsys
):
    document, remarks = drawn(capsys, tmp_path / "u.svg", "umap", runs["cold0"], runs["warm"])
    mappings = len(document["group"])
    assert {len(document[key]) for key in ("run", "evaluation", "speedup", "embedding")} == {mappings}
    past = [PastRun.read(Path(run)) for run in document["runs"]]
    live = past[0].problem.space.live
    assert document["live_decisions"] == live.sum()
    kept = [run.evaluations() for run in past]
    rows = [
        kept[run].mapping[kept[run].ticket == ticket][0][live]
        for run, ticket in zip(document["run"], document["evaluation"], strict=True)
    ]
    assert len({row.tobytes() for row in rows}) == mappings
    competitive = [row for row, group in zip(rows, document["group"], strict=True) if group == "competitive"]
    away = [(row != past[0].problem.baseline.mapping[live]).mean() for row in competitive]
    assert document["distances"]["to_compiler"]["competitive"] == pytest.approx(np.mean(away))
    assert any(f"{runs['warm']} starts from compiler, not cold" in line for line in remarks)
    assert not any(str(runs["cold0"]) + " starts" in line for line in remarks)


@pytest.mark.slow
def test_a_umap_needs_enough_mappings_and_says_how_many(runs, tmp_path, capsys):
    out = tmp_path / "u.png"
    line = refused_figure(capsys, out, "umap", without_best(runs["cold0"], tmp_path / "none"))
    assert "expected a run with a valid mapping, found none yet" in line
    short = tmp_path / "short"
    argv = [
        "run",
        "--workload",
        "bert",
        "--quiet",
        "--bound-seconds",
        "0",
        "--method",
        "random",
        "--gens",
        "1",
    ]
    assert main([*argv, "--start", "cold", "--out", str(short)]) == 0
    line = refused_figure(capsys, out, "umap", short)
    assert "expected at least 2 distinct mappings of a speedup from 0.98 to 1.02" in line
    assert "found 0 (the fastest has 0." in line


@pytest.mark.parametrize(("evaluations", "different", "best"), [(8, 5, 1), (12, 5, 2), (10, 10, 1)])
def test_a_umap_of_few_mappings_is_refused_with_their_number(
    evaluations, different, best, runs, tmp_path, capsys
):
    short = Path(shutil.copytree(runs["cold0"], tmp_path / "short"))
    first, *others = sorted((short / "mappings").iterdir())
    for other in others:
        other.unlink()
    with np.load(first) as chunk:
        columns = {name: chunk[name][:evaluations] for name in chunk.files}
        others = np.unique(chunk["mapping"], axis=0)[:different]
    columns["mapping"] = others[np.arange(evaluations) % different]
    columns["speedup"][:] = 1.0
    np.savez(first, **columns)
    shutil.rmtree(short / "checkpoint")  # which counts other bytes
    line = refused_figure(capsys, tmp_path / "u.png", "umap", short)
    assert "expected at least 9 distinct mappings, 2 of them of the best tenth" in line
    assert f"found {different} and {best};" in line


def test_the_document_of_figures_has_every_one_of_them():
    text = (Path(__file__).parents[3] / "docs" / "guides" / "figures.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| `(\w+)` \|$", text, flags=re.MULTILINE)
    assert sorted(rows) == sorted(FIGURES)
