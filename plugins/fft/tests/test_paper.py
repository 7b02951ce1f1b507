"""TAG's experiments at their smallest: everything is run, drawn and reported, once; claims follow the numbers."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from egrl.cli.main import main
from egrl_fft import measured
from egrl_fft.paper.numbers import best_by, medians_against_dp, over, quality, reached
from egrl_fft.paper.report import _count, report
from egrl_fft.paper.run import Plan, reproduce, runs_of, seconds
from egrl_fft.paper.runs import name_winner
from workloads.errors import InputError

TINY = replace(
    Plan.quick(),
    budgets=((16, 86400.0),),
    methods=("tag", "dp"),
    first_pass_seconds=86400.0,
    evaluations=30,
    seeds=1,
    rounds=3,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folder of the tiny plan."""
    out = tmp_path_factory.mktemp("reproduced") / "r"
    assert reproduce(TINY, out, 2, lambda line: None) == out / "report.md"
    return out


@pytest.mark.exhaustive
def test_the_report_has_what_the_runs_measured(made):
    text, found = (made / "report.md").read_text(), json.loads((made / "results.json").read_text())
    entry = found["sizes"]["16"]
    document = json.loads((made / "runs" / "dft-16-tag-s0.json").read_text())
    assert len(document["cost"]) == 30
    assert entry["methods"]["tag"][0]["plan"] == document["plan"]
    assert document["codelets"] > 0
    assert list((made / "kept" / "fft-codelets").iterdir())
    assert not (made / "kept" / "fft-costs").exists()
    assert document["cost"][document["steps"][-1][1] - 1] == min(document["cost"])
    assert entry["methods"]["dp"][0]["first_pass"] == 1 + 5 + 9 + 13
    assert {"numpy", "scipy", entry["default"], document["steps"][0][2]} <= set(entry["race"])
    assert all(len(samples) == 3 for samples in entry["race"].values())
    assert "| 16 | " in text
    for name in ("search-seconds", "search-evaluations", "growth", "plans"):
        assert f"figures/{name}.png" in text
        assert (made / "figures" / f"{name}.png").stat().st_size > 5_000


@pytest.mark.exhaustive
def test_going_on_with_a_finished_folder_runs_nothing(made):
    said: list[str] = []
    before = (made / "report.md").read_text()
    reproduce(TINY, made, 2, said.append)
    assert said == []
    assert (made / "report.md").read_text() == before


@pytest.mark.exhaustive
def test_a_folder_of_another_plan_is_refused(made, capsys):
    with pytest.raises(InputError, match="same plan"):
        reproduce(replace(TINY, seeds=9), made, 1, lambda line: None)
    assert main(["reproduce", "tag", "--quick", "--out", str(made), "--quiet"]) == 2
    assert "expected a new folder or one of the same plan" in capsys.readouterr().err


def run_(*steps: tuple[float, int, str], first_pass: int | None = None) -> dict[str, Any]:
    return {
        "plan": steps[-1][2],
        "steps": [list(step) for step in steps],
        "first_pass": first_pass,
        "first_pass_seconds": None if first_pass is None else 50.0,
        "evaluations": 900,
        "seconds": 60.0,
        "exhausted": False,
        "codelets": 9,
        "failed": 0,
    }


def results() -> dict[str, Any]:
    """TAG reaches DP's plan "d" (and passes it) with "t", after 2 s."""
    race = {"d": [2.0], "t": [1.9], "slow": [4.0], "default": [3.0], "numpy": [6.0], "scipy": [5.0]}
    entry = {
        "plans": "123456789012",
        "default": "default",
        "race": {name: samples * 5 for name, samples in race.items()},
        "methods": {
            "tag": [run_((0.5, 1, "slow"), (2.0, 30, "t"))],
            "dp": [run_((49.0, 590, "slow"), (50.0, 600, "d"), first_pass=600)],
        },
    }
    plan = {
        "budgets": [[4096, 60.0]],
        "long_budgets": [],
        "methods": ["tag", "dp"],
        "long": ["tag"],
        "first_pass_seconds": 90.0,
        "evaluations": 900,
        "seeds": 1,
    }
    return {"plan": plan, "at_once": 1, "sizes": {"4096": entry}}


def claim(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_an_order_of_magnitude_is_claimed_only_where_it_was_measured():
    found = results()
    assert claim(report(found), "order of magnitude").endswith("25.0x less | yes |")
    slower = copy.deepcopy(found)
    slower["sizes"]["4096"]["methods"]["tag"][0]["steps"][1][0] = 10.0
    assert claim(report(slower), "order of magnitude").endswith("5.0x less | no |")
    never = copy.deepcopy(found)
    never["sizes"]["4096"]["race"]["t"] = [2.1] * 5
    assert claim(report(never), "order of magnitude").endswith("not reached by the median run: 4096 | no |")
    assert "never (0 of 1)" in report(never)
    short = copy.deepcopy(found)
    short["sizes"]["4096"]["methods"]["dp"][0]["first_pass"] = 499
    short["sizes"]["4096"]["methods"]["dp"][0]["steps"] = [[50.0, 499, "d"]]
    assert claim(report(short), "order of magnitude").endswith("| not tested |")


def test_the_printed_algorithm_is_judged_beside_ours():
    found = results()
    found["plan"]["methods"] = ["tag", "printed", "dp"]
    found["sizes"]["4096"]["methods"]["printed"] = [run_((0.5, 1, "slow"))]
    said = claim(report(found), "order of magnitude")
    assert "25.0x less | yes | where" in said
    assert said.endswith("not reached by the median run: 4096 | no |")


def test_a_run_s_plan_is_the_winner_of_a_race_of_those_that_may_be_the_best(monkeypatch):
    raced: list[list[str]] = []

    def race(plans):
        raced.append([str(plan) for plan in plans])
        return [3.0, 2.0, 4.0][: len(plans)]

    monkeypatch.setattr(measured, "race", race)
    costs = {"16": 1.2, "fs(4,4)": 1.0, "fs(2,8)": 1.1, "f(2,8)": 9.0}
    assert name_winner(costs) == "fs(2,8)"
    assert raced == [["fs(4,4)", "fs(2,8)", "16"]]
    assert name_winner({"16": 1.0}) == "16"
    assert name_winner({}) == ""


def test_a_plan_that_is_given_up_again_was_not_reached():
    entry = results()["sizes"]["4096"]
    fickle = run_((1.0, 5, "t"), (2.0, 6, "slow"), (3.0, 9, "d"))
    assert reached(entry, fickle, 2.0) == (3.0, 9)
    assert reached(entry, run_((1.0, 5, "t"), (2.0, 6, "slow")), 2.0) is None
    hit = medians_against_dp(entry, "tag")
    assert hit is not None
    assert (hit["seconds"], hit["evaluations"], hit["less"]) == (2.0, 30, 25.0)


def test_methods_are_compared_at_equal_time_and_at_equal_evaluations():
    entry = results()["sizes"]["4096"]
    run = entry["methods"]["tag"][0]
    assert [best_by(entry, run, seconds, 0) for seconds in (0.4, 1.9, 2.0, 99.0)] == [None, 4.0, 1.9, 1.9]
    assert [best_by(entry, run, count, 1) for count in (0, 29, 30)] == [None, 4.0, 1.9]
    assert quality(entry, "tag", 30, 1) == pytest.approx(3.0 / 1.9)
    assert quality(entry, "tag", 0, 1) is None
    text = report(results())
    assert "| 4096 | 50.0 | 1.50 | 1.58, 1.58 |" in text
    assert "| 4096 | 0.75, 1.58, 1.58" not in text
    assert "| 4096 | 1.58, 1.58, 1.58, 1.58 | -, -, -, 1.50 |" in text


def test_tags_plan_is_better_only_where_the_quartiles_say_so():
    found = results()
    assert claim(report(found), "better, by up to").endswith("+5.3% | yes |")
    found["sizes"]["4096"]["race"]["t"] = [1.9, 1.9, 2.0, 2.1, 2.1]
    assert claim(report(found), "better, by up to").endswith("| no |")


def test_plans_are_compared_over_sizes():
    found = results()
    assert "sizes as units" not in report(found)  # one size has no interval
    other = copy.deepcopy(found["sizes"]["4096"])
    other["race"]["t"] = [1.6] * 5
    found["sizes"]["8192"] = other
    found["plan"]["budgets"].append([8192, 60.0])
    interval = over(found, "tag", "dp")
    assert interval["mean"] == pytest.approx((math.log(2 / 1.9) + math.log(2 / 1.6)) / 2)
    assert interval["low"] < 0 < interval["high"]
    assert claim(report(found), "| `tag` over `dp` |").endswith("| no significant difference |")
    other["methods"]["dp"] = []
    assert over(found, "tag", "dp") is None


def test_every_method_has_every_size_and_seed():
    plan = Plan.quick()
    assert len(runs_of(plan)) == len(plan.sizes) * len(plan.methods) * plan.seeds
    assert seconds(plan, 2) < seconds(plan, 1) < seconds(Plan(), 1)
    assert {1 << k for k in range(4, 21)} <= set(Plan().sizes)
    largest = {run.label: run for run in runs_of(Plan()) if run.size == 1 << 20}
    assert largest["tag"].seconds == largest["uct"].seconds > largest["random"].seconds
    assert largest["tag"].evaluations > largest["random"].evaluations == Plan().evaluations


@pytest.mark.parametrize(
    ("digits", "text"), [("39354228", "39,354,228"), ("80988525804", "8.1e10"), ("9" * 28, "1.0e28")]
)
def test_large_numbers_of_plans_are_rounded(digits, text):
    assert _count(digits) == text
