"""Grids of chip files: what a grid means, what is proved, and that neither workers nor interruptions change a byte."""

from __future__ import annotations

import html
import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from commands import refuse

import egrl
from egrl.cli.main import main
from egrl.exploration import summary
from egrl.exploration.grid import SEGMENT, Parameter, Point, Subject, Trial, read_grid, try_mappings
from egrl.exploration.run import Explored, Here, Processes, WorkerDied, exchanged, open_pool
from egrl.exploration.summary import gains, per, share_text, steps_of
from egrl.report.page import page_of_exploration
from hwsim.nnpi import problem as nnpi
from hwsim.nnpi.chip import chip_file, load_chip, parse_chip
from hwsim.nnpi.problem import NnpiProblem
from workloads.errors import InputError
from workloads.load import load
from workloads.text import read_quantity

CHIP = chip_file(load_chip("nnpi"))
SRAM = "memories.sram.capacity_bytes"
DRAM = "memories.dram.bandwidth_Bps"
SMALL = ["explore", "--workload", "alexnet", "--vary", f"{SRAM}=1MiB,3MiB", "--vary", f"{DRAM}=50%,100%"]
SMALL += ["--seconds-per-point", "86400"]  # what a limit ends has other bytes each time

WHOLE, LITTLE = nnpi.NEAR_STEPS, (20_000, 20_000)

STOPPED = """
import os, signal, sys
from egrl.cli.main import main
from egrl.exploration.run import Segment
tell = Segment.tell
def told(segment, found):
    point = tell(segment, found)
    os.kill(os.getpid(), signal.Signals[sys.argv[1]])
    return point
Segment.tell = told
sys.exit(main(sys.argv[2:]))
"""
"""The command in a process that gets a signal once a point is solved and kept."""


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module", autouse=True)
def _solved_with_little_work() -> Iterator[None]:
    """Of how many proposals follow a solve nothing here depends, and processes that are started here see none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nnpi, "NEAR_STEPS", LITTLE)
        yield


@pytest.fixture(scope="module")
def explored(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("explored") / "x"
    assert main([*SMALL, "-o", str(out), "--quiet"]) == 0
    return out


@pytest.fixture
def whole(tmp_path_factory, monkeypatch) -> Path:
    """An exploration with as much work as in processes that are started here; so are those that follow it."""
    monkeypatch.setattr(nnpi, "NEAR_STEPS", WHOLE)
    out = tmp_path_factory.mktemp("whole") / "x"
    assert main([*SMALL, "-o", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize(
    ("text", "value"),
    [("67.2e9", 67.2e9), ("8MiB", 2**23), ("8 MiB", 2**23), ("60GB/s", 60e9), ("512kb", 512e3), ("7B", 7.0)],
)
def test_numbers_are_read_with_their_units(text, value):
    assert read_quantity(text) == value


@pytest.mark.parametrize("text", ["", "MiB", "1iB", "-1", "8 miles", "nan", "1..2"])
def test_what_is_no_number_is_none(text):
    assert read_quantity(text) is None


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (f"{SRAM}=1MiB..4MiB:4", (2**20, 2**21, 3 * 2**20, 2**22)),
        (f"{SRAM}=1MiB..8MiB:4 log", (2**20, 2**21, 2**22, 2**23)),
        (f"{SRAM}=3MiB,1MiB,3MiB", (2**20, 3 * 2**20)),
        (f"{SRAM}=50%..150%:3", (2**21, 2**22, 6 * 2**20)),
        ("memories.sram.reserved_bytes=0..1MiB:3", (0, 2**19, 2**20)),
        (f"{DRAM}=0.5e9..1.5e9", (0.5e9, 1.0e9, 1.5e9)),
    ],
)
def test_a_spec_names_values_ascending_and_of_the_kind_that_the_chip_has(spec, values):
    (parameter,) = read_grid([spec], CHIP, 3).parameters
    assert parameter.values == values
    assert all(type(value) is type(parameter.own) for value in parameter.values)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("memories.sram.capacity=1..2", "did you mean memories.sram.capacity_bytes"),
        ("memories.srum.capacity_bytes=1..2", "did you mean memories.sram.capacity_bytes"),
        (f"{SRAM}=2MiB..1MiB", "from a low value to a higher one"),
        (f"{SRAM}=1MiB..2MiB:1", "2 to 1000 points"),
        (f"{SRAM}=one,two", "expected numbers such as 8MiB"),
        (f"{SRAM}=0,1", "expected values above 0"),
        (f"{SRAM}=0..1MiB", "expected values above 0"),
        ("memories.sram.reserved_bytes=-1,1", "expected"),
        ("memories.srum.reserved_bytes=0,1", "expected the path of a number in the chip file"),
        (SRAM, "expected PATH=LOW..HIGH"),
        (f"{SRAM}=1..2000000:1000", ""),
    ],
)
def test_a_wrong_spec_is_refused_in_one_line(spec, said):
    if not said:
        assert len(read_grid([spec], CHIP)) == 1000
        return
    with pytest.raises(InputError, match=said):
        read_grid([spec], CHIP)


def test_what_a_chip_reserves_may_vary_though_its_file_says_nothing_of_it():
    grid = read_grid(["memories.sram.reserved_bytes=0,1MiB"], CHIP)
    chips = [parse_chip(grid.chip_file(point), "point") for point in range(2)]
    assert chips[0] == parse_chip(CHIP, "own")
    assert [memory.reserved_bytes for memory in chips[1].memories] == [0, 0, 2**20]


def test_a_point_is_the_chip_file_with_its_values_alone_changed():
    grid = read_grid([f"{SRAM}=1MiB..2MiB:2", f"{DRAM}=50%,100%"], CHIP)
    assert grid.shape == (2, 2)
    for point in range(len(grid)):
        chip = parse_chip(grid.chip_file(point), "point")
        assert (chip.memories[2].capacity_bytes, chip.memories[0].bandwidth_Bps) == grid.values(point)
    table, own = tomllib.loads(grid.chip_file(3)), tomllib.loads(CHIP)
    own["memories"][2]["capacity_bytes"] = 2**21
    assert table == own


def test_segments_hold_every_point_once_along_the_first_parameter():
    grid = read_grid([f"{SRAM}=1MiB..8MiB:23", f"{DRAM}=50%,100%"], CHIP)
    segments = grid.segments()
    assert sorted(point for segment in segments for point in segment) == list(range(len(grid)))
    assert max(map(len, segments)) <= SEGMENT
    for segment in segments:
        steps = [grid.index(point) for point in segment]
        assert len({second for _, second in steps}) == 1
        assert [first for first, _ in steps] == list(range(steps[0][0], steps[0][0] + len(steps)))


@pytest.mark.slow
def test_every_point_is_what_the_problem_itself_says_of_its_mapping(explored):
    made = json.loads((explored / "explore.json").read_text())
    mappings = json.loads((explored / "mappings-alexnet.json").read_text())["points"]
    grid = read_grid([f"{SRAM}=1MiB,3MiB", f"{DRAM}=50%,100%"], CHIP)
    for k, (point, kept) in enumerate(zip(made["workloads"][0]["points"], mappings, strict=True)):
        problem = NnpiProblem(load("alexnet"), parse_chip(grid.chip_file(k), "point"))
        mapping = np.array(kept["mapping"], np.int16)
        assert problem.judge(mapping) == []
        assert problem.model_cost(mapping) == point["cost"]
        assert 0 < point["bound"] <= point["cost"] <= point["baseline"] == problem.baseline.cost
        assert point["complete"]


@pytest.mark.slow
def test_no_mapping_of_another_point_is_better_than_a_points_own(explored):
    made = json.loads((explored / "explore.json").read_text())
    mappings = json.loads((explored / "mappings-alexnet.json").read_text())["points"]
    grid = read_grid([f"{SRAM}=1MiB,3MiB", f"{DRAM}=50%,100%"], CHIP)
    for k, point in enumerate(made["workloads"][0]["points"]):
        problem = NnpiProblem(load("alexnet"), parse_chip(grid.chip_file(k), "point"))
        costs = [problem.model_cost(np.array(each["mapping"], np.int16)) for each in mappings]
        assert point["cost"] <= min(costs)


@pytest.mark.slow
def test_a_point_takes_a_better_mapping_and_a_bound_that_a_mapping_breaks_is_an_error():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    good = problem.solve(86400.0, 0, problem.baseline.mapping)
    slow = problem.space.initial * 0 - (problem.space.initial < 0)
    point = Point(problem.model_cost(slow), good.bound.cost, slow, problem.baseline.cost, "")
    subject = Subject("alexnet", "nnpi", ())
    found = try_mappings(Trial(subject, CHIP, (good.mapping,), point))
    assert found.cost == good.cost < point.cost
    wrong = Point(point.cost, good.cost * 1.01, slow, problem.baseline.cost, "")
    with pytest.raises(ValueError, match="bound: expected one below every cost"):
        try_mappings(Trial(subject, CHIP, (good.mapping,), wrong))


@pytest.mark.slow
def test_points_exchange_their_mappings():
    grid = read_grid([f"{SRAM}=4MiB,8MiB"], CHIP)
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    good = problem.solve(86400.0, 0, problem.baseline.mapping)
    slow = problem.space.initial
    cost = problem.model_cost(slow)
    subject = Subject("alexnet", "nnpi", ())
    rules = [subject.build(grid.chip_file(k)).baseline.cost for k in range(2)]
    points = [
        Point(cost, good.bound.cost, slow, rules[0], ""),
        Point(good.cost, 0.0, good.mapping, rules[1], ""),
    ]
    after = exchanged(grid, subject, points, Here(), lambda: False)
    assert after is not None
    assert after[0].cost == good.cost < cost
    np.testing.assert_array_equal(after[0].mapping, good.mapping)
    assert exchanged(grid, Subject("alexnet", "nnpi", ()), points, Here(), lambda: True) is None


def explored_of(vary: list[str], costs: list[tuple[float, float]], complete: bool = True) -> Explored:
    """An exploration with such costs and bounds at its points."""
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"))
    mapping = problem.baseline.mapping
    points = tuple(Point(cost, bound, mapping, 11.0, "", complete) for cost, bound in costs)
    return Explored(Subject("alexnet", "nnpi", ()), problem, read_grid(vary, CHIP), points)


def test_the_proven_limits_of_a_step_hold_for_every_cost_between_bound_and_found():
    explored = explored_of([f"{SRAM}=1MiB,2MiB"], [(10.0, 9.0), (8.0, 7.5)])
    gain, least, most = gains(explored, 0, 1)
    assert gain == pytest.approx(0.25)  # a speedup of 1.25, less 1
    rng = np.random.default_rng(0)
    before, after = rng.uniform(9.0, 10.0, 1000), rng.uniform(7.5, 8.0, 1000)
    assert least <= (before / after - 1).min()
    assert (before / after - 1).max() <= most
    assert least == pytest.approx(9.0 / 8.0 - 1)
    assert most == pytest.approx(10.0 / 7.5 - 1)
    (step,) = steps_of(explored, 0)
    assert (step["per"], step["gain_per"]) == ("256 KiB", pytest.approx(1.25**0.25 - 1))


def test_a_step_that_is_read_between_points_says_so_and_names_its_points():
    costs = [(10.0, 10.0), (8.0, 8.0), (8.0, 8.0)]
    said = summary.words(explored_of([f"{SRAM}=4MiB,6MiB,8MiB"], costs))
    assert said == [
        "sram capacity, 4 MiB to 8 MiB (chip as it is: 4 MiB): 10.0000 s to 8.0000 s,"
        " gains 25.00% (proven: 25.00% to 25.00%)",
        "sram capacity: the next MiB after 4 MiB gains about 11.80%, interpolated:"
        " 4 MiB to 6 MiB gains 25.00% (proven: 25.00% to 25.00%)",
        "sram capacity: from 6 MiB on, more gains at most 0.00% (proven at the points up to 8 MiB)",
    ]
    said = summary.words(explored_of([f"{SRAM}=4MiB,5MiB,8MiB"], costs))
    assert said[1] == "sram capacity: 4 MiB to 5 MiB gains 25.00% (proven: 25.00% to 25.00%)"


def test_what_is_left_to_gain_counts_every_later_point():
    explored = explored_of([f"{SRAM}=4MiB,5MiB,6MiB"], [(10.0, 10.0), (10.0, 9.0), (9.95, 9.95)])
    (left,) = [sentence for sentence in summary.words(explored) if "more gains at most" in sentence]
    assert "from 5 MiB on, more gains at most 0.50%" in left


def test_of_two_parameters_the_other_is_named_and_what_they_gain_together():
    vary = [f"{SRAM}=1MiB,4MiB", f"{DRAM}=50%,90%"]
    said = summary.words(explored_of(vary, [(cost, cost) for cost in (16.0, 10.0, 10.0, 4.0)]))
    held = "at dram bandwidth 60.48 GB/s"
    assert said[0].startswith(f"{held}, the nearest to the chip's 67.2 GB/s: sram capacity, 1 MiB to 4 MiB")
    assert said[1].startswith(f"{held}: sram capacity: the next 256 KiB after 1 MiB gains about")
    assert said[2].startswith("at sram capacity 4 MiB: dram bandwidth, 33.6 GB/s to 60.48 GB/s")
    assert said[-1] == (
        "both, lowest to highest: gains 300.00% together; each alone, the other at its lowest, 60.00% and 60.00%;"
        " independent of each other they would gain 156.00%"
    )


@pytest.mark.parametrize(
    ("complete", "says"), [(True, "changes nothing; `egrl run --method exact`"), (False, "narrows it")]
)
def test_a_wide_gap_is_named_with_what_narrows_it(complete, says):
    vary = [f"{SRAM}=4MiB,5MiB"]
    sentence = summary.words(explored_of(vary, [(10.0, 9.0), (9.0, 8.9)], complete))[-1]
    assert sentence.startswith("the gap is up to 11.11% (sram capacity 4 MiB): ")
    assert says in sentence
    narrow = summary.words(explored_of(vary, [(10.0, 9.9), (9.0, 8.9)], complete))
    assert not [each for each in narrow if "the gap is" in each]


@pytest.mark.slow
def test_the_row_of_the_chip_itself_is_marked(explored):
    lines = summary.text_of(json.loads((explored / "explore.json").read_text()), 30).splitlines()
    assert not [line for line in lines if "chip as it is)" in line]  # 4 MiB is no point
    made = summary.document([explored_of([f"{SRAM}=4MiB,5MiB"], [(10.0, 9.9), (9.0, 8.9)])], 0, 1.0)
    (row,) = [line for line in summary.text_of(made, 30).splitlines() if "chip as it is)" in line]
    assert row.split("|")[1].strip() == "4 MiB (chip as it is)"


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (4 << 20, (1 << 20, "MiB")),
        (3 << 20, (1 << 19, "512 KiB")),
        (100_000, (16384, "16 KiB")),
        (3, (1, "B")),
    ],
)
def test_what_more_bytes_are_worth_is_told_for_a_quarter_of_them_at_most(value, amount):
    assert per(Parameter(SRAM, (value,), 4 << 20), value) == amount
    assert per(Parameter(DRAM, (value,), 4 << 20), value) == (pytest.approx(0.0953, abs=1e-4), "10 %")


def test_a_share_that_rounds_to_nothing_has_no_sign():
    assert [share_text(share) for share in (-1e-6, 0.0, -0.0151, 0.25)] == [
        "0.00%",
        "0.00%",
        "-1.51%",
        "25.00%",
    ]


@pytest.mark.slow
def test_processes_answer_by_keys():
    with open_pool(2) as pool:
        found: dict[object, object] = {}
        for number in (-1, -2):
            pool.submit(number, abs, number)
        while len(found) < 2:
            found |= dict(pool.ready(1.0))
    assert found == {-1: 1, -2: 2}


@pytest.mark.exhaustive
def test_two_workers_leave_the_bytes_that_one_leaves(whole, tmp_path):
    assert main([*SMALL, "-o", str(tmp_path / "x"), "--quiet", "--workers", "2"]) == 0
    assert files(tmp_path / "x") == files(whole)


@pytest.mark.exhaustive
def test_a_killed_exploration_goes_on_with_two_workers_to_the_bytes_of_one_that_was_not(whole, tmp_path):
    out = tmp_path / "x"
    argv = [sys.executable, "-c", STOPPED, "SIGKILL", *SMALL, "-o", str(out), "--quiet"]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert not (out / "explore.json").exists()
    first = next(p for p in sorted(out.glob("points/*.jsonl")) if p.stat().st_size)
    with first.open("ab") as stream:
        stream.write(b'{"kind": "exploration-po')  # what a machine that dies may leave
    assert main([*SMALL, "-o", str(out), "--quiet", "--workers", "2"]) == 0
    assert files(out) == files(whole)


@pytest.mark.slow
def test_a_folder_of_another_exploration_is_refused(explored, tmp_path, capsys):
    line = refuse(capsys, [*SMALL, "--seed", "1", "-o", str(explored)])
    assert "seed: expected 1, found 0; take another --out" in line
    (tmp_path / "file").write_text("mine")
    line = refuse(capsys, [*SMALL, "-o", str(tmp_path)])
    assert "expected a new or an empty folder" in line


@pytest.mark.slow
def test_a_chip_that_cannot_be_is_named_and_ends_nothing(tmp_path, capsys):
    vary = f"{DRAM}=67.2e9,900e9"  # faster than the next memory
    assert main(["explore", "--workload", "alexnet", "--vary", vary, "-o", str(tmp_path / "x")]) == 0
    shown = capsys.readouterr().out
    assert "no chip at 900 GB/s: memories: expected bandwidth_Bps that does not fall" in shown
    made = json.loads((tmp_path / "x" / "explore.json").read_text())
    good, bad = made["workloads"][0]["points"]
    assert good["cost"] > 0
    assert bad["cost"] is None
    line = refuse(
        capsys,
        ["explore", "--workload", "alexnet", "--vary", f"{DRAM}=9e11", "--quiet", "-o", str(tmp_path / "y")],
    )
    assert "expected bandwidth_Bps that does not fall" in line


def test_problems_without_a_chip_file_or_a_model_are_refused(tmp_path, capsys):
    argv = ["explore", "--problem", "mmap", "--workload", "alexnet_train_batch_32", "--vary", "x=1..2"]
    assert "expected one with a chip file" in refuse(capsys, [*argv, "-o", str(tmp_path / "x")])


@pytest.mark.slow
def test_packages_of_chips_are_explored_by_the_same_command():
    found = egrl.explore("resnet50", problem="mcm", vary="link.bandwidth_Bps=25e9,50e9", seconds_per_point=5)
    assert found.cost.shape == (1, 2)
    assert (found.bound <= found.cost).all()
    assert found.cost[0, 1] <= found.cost[0, 0]


@pytest.mark.slow
def test_the_function_gives_arrays_counts_points_and_those_solved_again_and_leaves_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    found = egrl.explore(["alexnet"], vary=f"{SRAM}=1MiB,8MiB", say=said.append)
    assert [line.split(" alexnet")[0] for line in said] == ["1/2", "2/2", "again 1/1"]
    assert list(tmp_path.iterdir()) == []
    assert found.paths == (SRAM,)
    assert found.cost.shape == found.bound.shape == found.gap.shape == (1, 2)
    assert found.values[0].tolist() == [2**20, 2**23]
    assert found.mappings[0][0].shape == (len(load("alexnet")), 2)
    assert found.words["alexnet"]


@pytest.mark.slow
def test_plot_draws_the_folder_again_and_json_has_its_numbers(explored, tmp_path, capsys):
    out = tmp_path / "f.png"
    assert main(["plot", "explore", str(explored), "-o", str(out), "--json"]) == 0
    assert out.read_bytes() == (explored / "explore.png").read_bytes()
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"][0]["path"] == SRAM
    line = refuse(capsys, ["plot", "explore", str(tmp_path), "-o", str(out)])
    assert "expected explore.json, found none" in line


@pytest.mark.slow
def test_the_table_has_a_row_per_point(explored):
    rows = (explored / "explore.csv").read_text().splitlines()
    assert rows[0] == f"workload,{SRAM},{DRAM},cost,bound,gap,baseline,speedup,complete"
    assert len(rows) == 1 + 4


@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_that_ends_with_a_stop_is_no_failure(stopped, tmp_path, capsys, monkeypatch):
    class Dying(Here):
        def ready(self, timeout_s):
            if stopped:
                signal.raise_signal(signal.SIGTERM)
            raise WorkerDied("a worker process died")

    monkeypatch.setattr("egrl.exploration.explore.open_pool", lambda *_: nullcontext(Dying()))
    assert main([*SMALL, "-o", str(tmp_path / "x")]) == (130 if stopped else 1)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        "egrl: interrupted; the same command goes on" if stopped else "egrl: error: a worker process died"
    )


def test_a_pool_whose_worker_died_says_so_when_it_is_given_work():
    class Broken:
        def submit(self, work, task):
            raise BrokenProcessPool("not usable")

    with pytest.raises(WorkerDied, match="the same command goes on"):
        Processes(Broken()).submit(0, abs, -1)


@pytest.mark.exhaustive
def test_an_interrupted_exploration_says_so_and_keeps_what_was_solved(tmp_path):
    out = tmp_path / "x"
    argv = ["explore", "--workload", "resnet50", "--vary", f"{SRAM}=1MiB..8MiB", "-o", str(out)]
    program = subprocess.run(
        [sys.executable, "-c", STOPPED, "SIGINT", *argv], capture_output=True, check=False
    )
    assert program.returncode == 130
    assert program.stdout == b""
    assert b"interrupted; the same command goes on" in program.stderr
    assert not (out / "explore.json").exists()
    assert sum(len(p.read_bytes().splitlines()) for p in out.glob("points/*.jsonl")) >= 1


@pytest.mark.exhaustive
def test_ray_leaves_the_bytes_that_one_process_leaves(whole, tmp_path):
    pytest.importorskip("ray")
    assert main([*SMALL, "-o", str(tmp_path / "x"), "--quiet", "--workers", "2", "--executor", "ray"]) == 0
    assert files(tmp_path / "x") == files(whole)


def test_a_time_limit_that_ends_a_solve_is_told(tmp_path, capsys):
    argv = ["explore", "--workload", "alexnet", "--vary", f"{SRAM}=1MiB", "--seconds-per-point", "1e-9"]
    assert main([*argv, "-o", str(tmp_path / "x")]) == 0
    assert "the time limit ended 1 of 1 solves" in capsys.readouterr().out
    assert "expected a number above 0" in refuse(capsys, [*argv[:-1], "0", "-o", str(tmp_path / "y")])


@pytest.mark.slow
def test_an_exploration_has_a_page_with_its_sentences_curves_and_points(explored, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(explored), "-o", str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    text = html.unescape(page.read_text(encoding="utf-8"))
    made = json.loads((explored / "explore.json").read_text(encoding="utf-8"))
    (each,) = made["workloads"]
    for sentence in each["words"]:
        assert sentence[1:] in text
    assert "<h1>" + summary.cost_text(each["points"][0]["cost"], "s") in text
    assert text.count("<polyline") == 2  # one per value of the second parameter
    assert text.count("<tr>") == 1 + 4
    assert "4 chips." in text


@pytest.mark.slow
def test_where_a_run_is_expected_an_exploration_is_named_as_one(explored, tmp_path, capsys):
    found = "expected a run folder, found an exploration; `egrl report"
    refuse(capsys, ["evaluate", str(explored)], found)
    refuse(capsys, ["report", str(explored), str(explored), "-o", str(tmp_path / "x.html")], found)
    refuse(capsys, ["report", str(explored), "--baseline", "a.csv"], "--baseline: expected none")


def test_the_page_of_one_parameter_shows_found_bound_and_rule_and_leaves_out_impossible_chips():
    def point(value: int, cost: float | None) -> dict[str, object]:
        known = None if cost is None else 0.5 * cost
        ratio = None if cost is None else 1.5
        return {
            "values": [value],
            "cost": cost,
            "bound": known,
            "gap": ratio,
            "baseline": cost,
            "speedup": ratio,
        }

    size = {"label": "sram capacity", "unit": "MiB", "unit_size": 2**20, "values": [2**20, 2**21, 2**22]}
    points = [point(2**20, None), point(2**21, 2e-6), point(2**22, 1e-6)]
    works = [
        {"workload": name, "rival": "the rule", "words": [f"{name} says"], "points": points} for name in "ab"
    ]
    page = page_of_exploration({"chip": "c", "unit": "s", "parameters": [size], "workloads": works})
    assert "<h1>2.00 us to 1.00 us" in page
    assert "A says. B says." in page
    assert page.count("<polyline") == 6
    for name in ("best found", "proven bound", "the rule", "a: All points", "b: All points"):
        assert name in page
    assert page.count("<tr>") == 2 * (1 + 3)
    assert "sram capacity (MiB)" in page
