"""Runs keep no change that buys nothing, and say how few bring how much."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

import egrl
from egrl.cli.main import main
from egrl.cli.run import changes_hint
from egrl.core.loop import Champion, SearchState
from egrl.problems import build_problem
from egrl.report.page import CHANGES, fewest, page_of
from egrl.runs import champion, simplified
from egrl.runs.champion import nearest_best
from egrl.runs.past_run import PastRun, Result
from egrl.runs.simplified import percent
from every_mapping import every_mapping, small
from hwsim.fewest import Front
from hwsim.nearest import EQUAL
from hwsim.problem import Mapping16, Problem
from hwsim.sections import Lines, Table
from strategies import chips, workloads
from subjects import PROBLEMS
from workloads.errors import InputError


def state_of(problem: Problem, mapping: Mapping16) -> SearchState:
    found = problem.evaluate(mapping[None], np.zeros(1, np.uint64))
    numbers = [float(column[0]) for column in (found.reward, found.cost, found.speedup)]
    return SearchState(champions=[Champion(*numbers, "drawn", 0, mapping)])


@pytest.mark.slow
@pytest.mark.parametrize("undoing", [True, False], ids=["undoing", "walks alone"])
@settings(max_examples=6, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(workloads(max_ops=4), chips())
def test_of_all_proven_optima_the_nearest_to_the_baseline_is_kept(undoing, workload, chip):
    problem = small(workload, chip)
    maps, cost = every_mapping(problem)
    optimal = maps[cost <= cost.min() * (1 + EQUAL)]
    assume(len(optimal) > 1)
    changes = (optimal != problem.baseline.mapping).sum(axis=(1, 2))
    before = state_of(problem, optimal[int(np.argmax(changes))])
    with pytest.MonkeyPatch.context() as patch:
        if not undoing:
            patch.setattr(champion, "nearest", lambda problem, mapping: mapping)
        after = nearest_best(problem, before, proves=True).champions[0]
    assert (after.mapping != problem.baseline.mapping).sum() == changes.min()
    assert (after.cost, after.speedup, after.ticket) == (
        before.champions[0].cost,
        before.champions[0].speedup,
        0,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "r"
    argv = ["run", "--workload", "resnet50", "--chip", "npu", "--method", "annealing", "--evals", "600"]
    assert main([*argv, "--out", str(out), "--bound-seconds", "0", "--quiet"]) == 0
    return out


@pytest.mark.slow
def test_a_runs_best_costs_what_its_summary_says_and_no_change_is_for_nothing(run):
    past = PastRun.read(run)
    best, problem = past.best_mapping(), past.problem
    assert problem.model_cost(best) == pytest.approx(past.summary["best"]["cost"])
    found = past.evaluations()
    at = int(np.flatnonzero(found.ticket == past.summary["best"]["evaluation"])[0])
    base = problem.baseline.mapping
    assert (best != base).sum() < (found.mapping[at] != base).sum()


def test_simplify_writes_a_mapping_that_keeps_the_share_of_the_gain(run, capsys, tmp_path):
    assert main(["simplify", str(run), "--keep", "90%", "--evals", "3000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    past = PastRun.read(run)
    problem = past.problem
    written = run / "simplified_mapping.json"
    assert found["written"] == str(written)
    mapping = egrl.mapping_of(problem, json.loads(written.read_text())["mapping"])
    base, best = problem.baseline, past.best_mapping()
    assert not problem.judge(mapping)
    changes = [change for step in found["steps"] for change in step["changes"]]
    assert (mapping != base.mapping).sum() == found["chosen"]["changes"] == len(changes)
    assert (best != base.mapping).sum() == found["given"]["changes"]
    gain = base.cost - problem.model_cost(best)
    assert base.cost - problem.model_cost(mapping) >= 0.9 * gain
    assert [row["changes"] for row in found["curve"]] == sorted(row["changes"] for row in found["curve"])
    assert sum(step["buys"] for step in found["steps"]) == pytest.approx(base.cost - found["chosen"]["cost"])
    assert found["steps"][-1]["kept"] == pytest.approx(found["chosen"]["kept"])
    assert (
        main(["simplify", str(run), "--keep", "0.9", "--evals", "3000", "-o", str(tmp_path / "small.json")])
        == 0
    )
    text = capsys.readouterr().out
    assert (tmp_path / "small.json").read_text() == written.read_text()
    assert f"{found['chosen']['changes']} of the {found['given']['changes']} changes" in text
    assert f"saves {found['steps'][0]['buys'] * 1e6:.2f} us, {percent(found['steps'][0]['kept'])}" in text


def test_other_commands_take_the_simplified_mapping_beside_the_run(run, capsys, tmp_path):
    small = str(tmp_path / "small.json")
    assert main(["simplify", str(run), "--keep", "50%", "--evals", "3000", "-o", small, "--json"]) == 0
    speedup = json.loads(capsys.readouterr().out)["chosen"]["speedup"]
    assert main(["evaluate", str(run), "--mapping", small, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["speedup"] == pytest.approx(speedup)
    assert main(["export", str(run), "--mapping", small, "-o", str(tmp_path / "t.json")]) == 0
    assert (tmp_path / "t.json").read_text() == Path(small).read_text()
    capsys.readouterr()
    assert main(["allocate", str(run), "--mapping", small, "--json", "-o", str(tmp_path / "a.json")]) == 0
    assert small in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_ends_with_how_few_changes_bring_how_much():
    problem = build_problem("nnpi", "resnet50", "", [], "")
    best, _ = problem.best_known()
    ended = {"best": {"speedup": 1.01}}
    last = changes_hint(Result(problem, ended, best, Path("runs/r")))
    assert last.startswith("next: egrl simplify runs/r lists the ")
    assert last.endswith("% of the gain")
    few, of = (int(last.split()[k]) for k in (6, 8))
    assert 0 < few <= of / 3
    measured = changes_hint(Result(problem, {**ended, "evaluator": {}}, best, Path("runs/r")))
    assert measured == "next: egrl simplify runs/r says which changes matter"
    assert changes_hint(Result(problem, {"best": None}, None, Path("runs/r"))) == ""
    assert changes_hint(Result(problem, {"best": {"speedup": 1.0}}, best, Path("runs/r"))) == ""


@pytest.mark.slow
def test_the_page_has_the_changes_best_first(run):
    past = PastRun.read(run)
    curve, table = fewest(past.problem, past.best_mapping())
    assert isinstance(curve, Lines)
    assert isinstance(table, Table)
    assert table.title == CHANGES
    assert curve.lines[0].x[0] == 0
    assert curve.lines[0].y == sorted(curve.lines[0].y)
    steps = [row[0] for row in table.rows]
    assert steps == sorted(steps)
    buys = [row[-2] for row in table.rows if row[-2] is not None]
    assert len(buys) == steps[-1]
    gain = past.problem.baseline.cost * (1 - 1 / curve.levels["best"])
    assert 0.95 * gain <= sum(buys) <= 1.01 * gain
    assert fewest(past.problem, past.problem.baseline.mapping) == []
    assert fewest(PROBLEMS["toy-bag"](), PROBLEMS["toy-bag"]().baseline.mapping) == []


BOARD = """
import json, sys
import egrl
from egrl.problems import build_problem
problem = build_problem("nnpi", "resnet18", "npu", [], "")
for line in sys.stdin:
    asked = json.loads(line)
    seconds = problem.model_cost(egrl.mapping_of(problem, asked["mapping"]))
    print(json.dumps({"id": asked["id"], "latency_s": seconds}), flush=True)
"""
"""A board that is as fast as the chip file says."""


@pytest.mark.exhaustive
def test_of_a_run_on_a_board_a_model_that_explains_it_chooses_and_the_board_measures(tmp_path, capsys):
    script, out = tmp_path / "board.py", tmp_path / "r"
    script.write_text(BOARD)
    argv = ["run", "--workload", "resnet18", "--chip", "npu", "--method", "annealing", "--start", "rules"]
    board = ["--evaluator", f"{sys.executable} {script}"]
    assert main([*argv, *board, "--requests", "40", "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"next: egrl simplify {out} says which changes matter"
    assert main(["simplify", str(out), "--evals", "600"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("resnet18 on npu: ")
    assert first.endswith("not measured")
    assert main(["simplify", str(out), *board, "--requests", "24"]) == 0
    said = capsys.readouterr().out
    assert "they keep" in said
    assert "confirmed" in said
    files = [str(out), str(out / "simplified_mapping.json")]
    assert main(["confirm", *files, *board, "--requests", "9", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["mappings"]
    assert [row["measurements"] for row in rows] == [3, 3, 3]
    assert rows[0]["speedup"] == 1.0
    assert rows[2]["speedup"] >= 1 + 0.95 * (rows[1]["speedup"] - 1)
    assert main(["confirm", *files, *board, "--requests", "5"]) == 2
    assert "--requests 5: expected at least 6, 2 for each mapping" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_that_does_not_explain_the_measured_gain_chooses_nothing(tmp_path, capsys):
    def board(rows) -> float:
        """Where the model says that fast memory is fast, this board says that it is slow."""
        return 1e-3 * (1 + sum(row.get("activation") == "sram" for row in rows) / len(rows))

    out = tmp_path / "r"
    settings = ["evaluator.repeats=1"]
    egrl.search("alexnet", method="random", evals=40, evaluator=board, settings=settings, out=out)
    capsys.readouterr()
    assert main(["simplify", str(out)]) == 2
    error = capsys.readouterr().err
    assert "expected a model that explains the gain that was measured, found " in error
    assert f"measure instead: egrl simplify {out} --evaluator CMD --requests 40" in error
    assert error.count("\n") == 1
    assert CHANGES not in page_of([PastRun.read(out)])


def test_runs_pages_and_simplify_choose_by_one_computation(run, capsys):
    past = PastRun.read(run)
    result = Result(past.problem, past.summary, past.best_mapping(), run)
    last = changes_hint(result)
    capsys.readouterr()
    assert main(["simplify", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    few = f"{found['chosen']['changes']} of {found['given']['changes']} change"
    if last:
        assert f"lists the {few}" in last
    assert fewest(past.problem, past.best_mapping())[1].says != ""
    assert found["keep"] is None


def test_changes_are_grouped_as_a_reviewer_reads_them():
    rows = [
        {"node": f"block.{block}.{name}", "head": "activation", "from": "sram", "to": "llc"}
        for block in (1, 3)
        for name in ("conv", "relu", "pool")
    ]
    steps = [{"changes": [row]} for row in rows]
    assert simplified._reviewed(steps) == [
        "in short:",
        "  3 of block.1.* activation: sram -> llc",
        "  3 of block.3.* activation: sram -> llc",
    ]
    assert simplified._reviewed(steps[:1]) == []


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--keep", "120%"], "--keep: expected a share of the gain such as 95%, found '120%'"),
        (["--keep", "much"], "--keep: expected a share of the gain such as 95%, found 'much'"),
        (["--keep", "0"], "--keep: expected a share of the gain such as 95%, found '0'"),
        (["--requests", "20"], "--requests 20: expected --evaluator, found none"),
        (["--evaluator", sys.executable, "--requests", "3"], "--requests 3: expected at least 24"),
        (["-o", "small.csv"], "expected a file ending in .json"),
        (["--chip", "npu"], "the two exclude each other"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(run, argv, says, capsys):
    assert main(["simplify", str(run), *argv]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_mapping_that_gains_nothing_and_a_problem_without_changes_are_said(tmp_path, capsys):
    argv = ["simplify", "--workload", "alexnet", "--chip", "npu", "--mapping", "compiler", "--evals", "100"]
    assert main(argv) == 0
    assert "the mapping is no faster than the built-in baseline heuristic" in capsys.readouterr().out
    assert main([*argv, "-o", str(tmp_path / "same.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chosen"]["changes"] == 0
    assert main(["evaluate", *argv[1:5], "--mapping", str(tmp_path / "same.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["speedup"] == 1.0
    assert main(["simplify", "--workload", "inference_lstm", "--problem", "mmap"]) == 2
    assert "expected a problem whose changes can be undone, found mmap" in capsys.readouterr().err
    problem = PROBLEMS["nnpi"]()
    all_fast = problem.space.canonical(np.full(problem.space.shape, 2, np.int16))
    with pytest.raises(InputError, match="expected a mapping that is valid, found"):
        simplified.simplify(problem, all_fast, 0.95, 100)


def test_a_hint_names_few_changes_that_keep_much_or_nothing():
    problem = PROBLEMS["nnpi"]()

    def front(changes: list[int], cost: list[float]) -> simplified.Simplified:
        maps = np.repeat(problem.baseline.mapping[None], len(changes), axis=0)
        given = Front(np.array(changes), np.array(cost), maps, (changes[-1], cost[-1]), 0)
        return simplified.Simplified(problem, given)

    said = simplified.hint(front([0, 1, 9, 30], [10.0, 7.0, 5.1, 5.0]), "runs/r")
    assert said == "next: egrl simplify runs/r lists the 9 of 30 changes that bring 98% of the gain"
    said = simplified.hint(front([0, 1, 20, 30], [10.0, 7.0, 5.1, 5.0]), "runs/r")
    assert said == "next: egrl simplify runs/r lists the 1 of 30 changes that brings 60% of the gain"
    assert simplified.hint(front([0, 1, 20, 30], [10.0, 9.0, 5.1, 5.0]), "runs/r") == ""
    assert simplified.hint(front([0, 1], [10.0, 9.0]), "runs/r") == ""
    assert [percent(share) for share in (0.9999, 1.0, 0.5, 1.2)] == [
        "99.9%",
        "100%",
        "50%",
        "more than 100%",
    ]
