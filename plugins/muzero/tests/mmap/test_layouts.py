"""egrl plot mmap-layouts: runs of the MMapGame, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refused_figure

from egrl.cli.main import main
from egrl.runs.past_run import PastRun
from hwsim.mmap.problem import MmapProblem


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs of a generation, by name."""
    folder = tmp_path_factory.mktemp("runs")
    base = ["run", "--problem", "mmap", "--quiet", "--bound-seconds", "0", "--gens", "1"]
    given = {
        "annealing": ["--workload", "alexnet:backward=1", "--method", "annealing"],
        "random": ["--workload", "alexnet:backward=1", "--method", "random"],
        "other": ["--workload", "rnn_2", "--method", "random"],
    }
    for name, argv in given.items():
        assert main([*base, *argv, "--out", str(folder / name)]) == 0
    return {name: folder / name for name in given}


def drawn(capsys, output: Path, *folders: Path) -> dict:
    argv = ["plot", "mmap-layouts", *map(str, folders), "-o", str(output), "--json"]
    capsys.readouterr()
    assert main(argv) == 0
    before, printed = output.read_bytes(), capsys.readouterr()
    assert main(argv) == 0
    assert output.read_bytes() == before
    assert printed.err == ""
    return json.loads(printed.out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [pytest.param(("annealing",), marks=pytest.mark.exhaustive), ("annealing", "random")]
)
def test_layouts_of_the_game_stand_side_by_side_with_their_numbers(names, runs, tmp_path, capsys):
    document = drawn(capsys, tmp_path / "l.svg", *(runs[name] for name in names))
    rivals = [entry for entry in document["layouts"] if entry["run"] is None]
    own = [entry for entry in document["layouts"] if entry["run"] is not None]
    assert [Path(entry["run"]).name for entry in own] == list(names)
    assert [entry["speedup"] for entry in rivals] == ([1.0] if len(names) == 1 else [])
    for name, found in zip(names, own, strict=True):
        run = PastRun.read(runs[name])
        problem, mapping = run.problem, run.best_mapping()
        assert isinstance(problem, MmapProblem)
        layout = problem.layout(mapping)
        assert found["buffers"] == {
            "drop": int((layout.action == 0).sum()),
            "copy": int((layout.action == 1).sum()),
            "nocopy": int((layout.action == 2).sum()),
        }
        assert found["speedup"] == run.summary["best"]["speedup"]
        assert found["boxes"] == int((layout.first >= 0).sum())
        carried = layout.copy_first >= 0
        sizes = problem.tables.buffer["size_bytes"]
        assert (found["copies"], found["copied_bytes"]) == (carried.sum(), sizes[carried].sum())
        assert found["copy_use_s"] == layout.copy_use_s.tolist()
        there = [{} for _ in range(document["steps"])]  # members of an alias group lie at one offset
        for n in np.flatnonzero(layout.first >= 0):
            for step in range(layout.first[n], layout.last[n] + 1):
                place = int(layout.offset_bytes[n])
                there[step][place] = max(there[step].get(place, 0), int(sizes[n]))
        assert found["held_bytes"] == [sum(step.values()) for step in there]
        assert max(found["held_bytes"]) <= found["height_bytes"] <= document["capacity_bytes"]
        text = (tmp_path / "l.svg").read_text()
        assert f"{name} ({name}): {found['speedup']:.4f}x the production heuristic" in text
        assert f"T: {document['highlighted']['tensor'][:20]}" in text
    marked = document["highlighted"]
    assert max(marked["visits"]) > 1
    assert len(marked["allocations"]) == 2


def test_layouts_that_cannot_be_compared_are_refused_in_a_line(runs, tmp_path, capsys):
    out = tmp_path / "l.png"
    line = refused_figure(capsys, out, "mmap-layouts", runs["random"], runs["other"])
    assert "expected runs of one workload, found" in line
    line = refused_figure(capsys, out, "mmap-layouts", *[runs["random"]] * 3)
    assert (
        line == "egrl: error: plot mmap-layouts: expected one run of the MMapGame or two to compare, found 3"
    )


@pytest.mark.exhaustive
def test_every_run_is_laid_out_by_its_own_rules(runs, tmp_path, capsys):
    literal = tmp_path / "literal"
    argv = [
        "run",
        "--problem",
        "mmap",
        "--quiet",
        "--bound-seconds",
        "0",
        "--gens",
        "1",
        "--method",
        "random",
    ]
    argv += [
        "--workload",
        "alexnet:backward=1",
        "--set",
        "problem.literal_copies=true",
        "--out",
        str(literal),
    ]
    assert main(argv) == 0
    _, found = drawn(capsys, tmp_path / "l.svg", runs["random"], literal)["layouts"]
    run = PastRun.read(literal)
    assert isinstance(run.problem, MmapProblem)
    layout = run.problem.layout(run.best_mapping())
    assert found["copy_use_s"] == layout.copy_use_s.tolist()
    assert found["boxes"] == int((layout.first >= 0).sum())
