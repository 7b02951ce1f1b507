"""Folders of explorations that others made or changed: what is refused, and that nothing is written elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from commands import refuse

from egrl.cli.main import main
from hwsim.nnpi import problem as nnpi

TWO = ["explore", "--workload", "alexnet", "--vary", "memories.sram.capacity_bytes=1MiB,3MiB"]


@pytest.fixture(scope="module")
def two_points(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("two") / "x"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nnpi, "NEAR_STEPS", (20_000, 20_000))
        assert main([*TWO, "-o", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cost": 1e-300}, "line 2: expected a point's cost, at least its bound"),
        ({"bound": 1.0}, "line 2: expected a point's cost, at least its bound"),
        ({"baseline": float("nan")}, "line 2: expected a point's cost, at least its bound"),
        (
            {"mapping": [[1, 1]]},
            "line 2: expected a point's cost, at least its bound, and its mapping: a mapping of",
        ),
        ({"failure": ["x"]}, "line 2: expected a point's cost"),
        ({"version": 9}, "line 2: expected the lines of this exploration in order"),
        ({"cost": 1.0}, "points/: cost: expected "),
        ({"mapping": [[99, 99]] * 12}, "points/: cost: expected inf"),
        ({"baseline": 1.0}, "points/: baseline: expected "),
    ],
)
def test_a_line_of_a_point_that_lies_is_refused(two_points, tmp_path, capsys, wrong, said):
    folder = Path(shutil.copytree(two_points, tmp_path / "x"))
    lines = folder / "points" / "alexnet-000.jsonl"
    first, second, *rest = lines.read_text().splitlines()
    lines.write_text("\n".join([first, json.dumps(json.loads(second) | wrong), *rest, ""]))
    assert said in refuse(capsys, [*TWO, "-o", str(folder)])


@pytest.mark.parametrize("name", ["points", "points/alexnet-000.jsonl", "explore.png"])
def test_an_exploration_writes_through_no_link(two_points, tmp_path, capsys, name):
    folder, elsewhere = Path(shutil.copytree(two_points, tmp_path / "x")), tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    line = refuse(capsys, [*TWO, "-o", str(folder)])
    assert f"expected a folder without links, found the link '{name}'" in line


@pytest.mark.exhaustive
def test_json_nested_without_end_is_refused_or_passed_over(two_points, tmp_path, capsys):
    folder = Path(shutil.copytree(two_points, tmp_path / "x"))
    (folder / "points" / "alexnet-000.jsonl").write_text("[" * 100_000 + "\n")
    assert main([*TWO, "-o", str(folder), "--quiet"]) == 0
    (folder / "plan.json").write_text("[" * 100_000)
    assert "found JSON nested too deeply" in refuse(capsys, [*TWO, "-o", str(folder)])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("chip",), "\ud800", "chip: expected printable UTF-8"),
        (("parameters", 0, "unit_size"), 0, "parameters.0.unit_size: expected more than 0.0, found 0"),
        (("parameters", 0, "values"), [1], "alexnet: expected a point for each of 1 chips"),
        (("workloads",), [], "workloads: "),
        (("workloads", 0, "words", 0), 1, "workloads.0.words.0: expected a valid string, found 1"),
        (("workloads", 0, "points", 1, "cost"), "1", "points.1.cost: expected a valid number, found '1'"),
        (("workloads", 0, "points", 1), {}, "points.1.values: expected it, found none"),
        ((), "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_document_that_was_changed_is_neither_drawn_nor_shown(
    two_points, tmp_path, capsys, path, value, said
):
    folder = Path(shutil.copytree(two_points, tmp_path / "x"))
    place = document = json.loads((folder / "explore.json").read_text())
    for key in path[:-1]:
        place = place[key]
    if path:
        place[path[-1]] = value
    (folder / "explore.json").write_text(json.dumps(document) if path else value)
    refuse(capsys, ["report", str(folder)], said)
    refuse(capsys, ["plot", "explore", str(folder), "-o", str(tmp_path / "x.png")], said)
