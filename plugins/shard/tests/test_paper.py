"""The sharding contest at its smallest: everything is run, drawn and reported, once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import refuse

from egrl import api
from egrl.reproduction import Call, images
from egrl_shard.paper import run as shard_run
from egrl_shard.paper.plan import Plan
from egrl_shard.paper.published import RESULTS
from egrl_shard.paper.report import report, score
from egrl_shard.paper.run import reproduce, seconds
from make_sharding import make
from workloads.errors import InputError, RunFailure


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two, one with the name of a published one."""
    folder = tmp_path_factory.mktemp("instances")
    (folder / "G.json.gz").write_bytes(gzip.compress(json.dumps(make(5, nodes=7)).encode()))
    (folder / "other.json").write_text(json.dumps(make(6, nodes=6)))
    (folder / "README.md").write_text("not an instance")
    return folder


def in_turn(calls: Sequence[Call], jobs: int) -> Iterator[tuple[str, str | None]]:
    """`in_processes` in this one."""
    for call in calls:
        call.function(*call.arguments)
        yield call.name, None


@pytest.fixture(scope="module")
def made(instances, tmp_path_factory) -> tuple[Path, Plan]:
    """The folder of a tiny plan."""
    out = tmp_path_factory.mktemp("shard") / "out"
    plan = replace(Plan(), instances=str(instances), methods=("exact", "annealing"), seeds=2, rival_seeds=2)
    search = api.search

    def counted(*given: Any, **named: Any) -> Any:
        """`exact` ends when it has proved its best; no other method ends before its limit."""
        if named.get("method") == "annealing":
            named |= {"seconds": None, "evals": 210}
        return search(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_run, "in_processes", in_turn)
        patch.setattr(api, "search", counted)
        assert reproduce(plan, out, 1, lambda line: None) == out / "report.md"
    return out, plan


@pytest.fixture(scope="module")
def results(made):
    return json.loads((made[0] / "results.json").read_text())


def test_the_plan_is_the_contests(instances):
    plan = replace(Plan(), instances=str(instances))
    assert list(plan.files()) == ["G", "other"]
    assert (plan.seconds("G"), plan.seconds("P"), plan.seconds("other")) == (120.0, 240.0, 180.0)
    assert sum(entry.minutes for entry in RESULTS.values()) == 26
    assert seconds(plan, 2) < seconds(plan, 1)
    assert list(replace(Plan.quick(), smallest=1, instances=str(instances)).files()) == ["G"]
    with pytest.raises(InputError, match="expected a folder of instances"):
        replace(plan, instances="nowhere").files()


def test_the_winners_scores_are_the_published_ones():
    totals = [
        sum(score({"published": {"best": entry.best}}, entry.teams[at]) for entry in RESULTS.values())
        for at in range(3)
    ]
    assert [round(total, 3) for total in totals] == [9.997, 7.036, 6.186]
    assert all(min(entry.teams) >= entry.best for entry in RESULTS.values())


@pytest.mark.slow
def test_every_run_has_a_valid_answer_and_exact_proves_its_own(results):
    assert list(results["instances"]) == ["G", "other"]
    for entry in results["instances"].values():
        for found in entry["methods"].values():
            assert len(found["runs"]) == 2
            assert all(run["cost"] <= entry["baseline"]["cost"] for run in found["runs"])
        exact = entry["methods"]["exact"]["runs"]
        assert all(run["bound"] == pytest.approx(run["cost"]) for run in exact)
        annealed = entry["methods"]["annealing"]["runs"]
        assert min(run["cost"] for run in annealed) >= exact[0]["cost"]
        history = exact[0]["history"]
        assert history["seconds"] == sorted(history["seconds"])
        known = [cost for cost in history["cost"] if cost is not None]
        assert known == sorted(known, reverse=True)
        assert known[-1] == exact[0]["cost"]


@pytest.mark.slow
def test_the_report_says_all_of_it(made, results):
    text = (made[0] / "report.md").read_text()
    assert text == report(results)
    for heading in ("Scores over 1 instance", "Score by score", "Costs", "Proven gaps", "Instances"):
        assert f"## {heading}" in text
    assert [(made[0] / image).stat().st_size > 10_000 for image in images(text)] == [True]
    best = results["instances"]["G"]["methods"]["exact"]["runs"][0]["cost"]
    assert f"{score(results['instances']['G'], best):.3f}" in text
    assert "| other | " in text
    assert "| 1st of the contest | 1.000 |" in text


@pytest.mark.slow
def test_what_is_finished_is_not_run_again(made, monkeypatch):
    out, plan = made
    monkeypatch.setattr(shard_run, "search", lambda run: pytest.fail("it runs again"))
    before = (out / "report.md").read_text()
    reproduce(plan, out, 1, lambda line: None)
    assert (out / "report.md").read_text().splitlines()[:12] == before.splitlines()[:12]
    with pytest.raises(InputError, match="expected a new folder or one of the same plan"):
        reproduce(replace(plan, seeds=1), out, 1, lambda line: None)


@pytest.mark.slow
def test_a_method_that_does_not_serve_is_told_with_its_reason(results):
    changed = json.loads(json.dumps(results))
    for entry in changed["instances"].values():
        entry["methods"]["annealing"] = {"refused": "it is too large", "runs": []}
    text = report(changed)
    assert "- `annealing` on G: it is too large." in text
    assert "| `annealing` | it does not serve every instance | - | - |" in text


@pytest.mark.slow
def test_an_answer_that_is_not_valid_scores_nothing(results):
    changed = json.loads(json.dumps(results))
    for run in changed["instances"]["G"]["methods"]["annealing"]["runs"]:
        run["cost"] = None
    text = report(changed)
    assert "none, 0 of 2" in text
    assert "| 0.0000 (0.0000) |" in text


def test_a_run_that_fails_ends_it(instances, tmp_path, monkeypatch):
    def failing(calls: Sequence[Call], jobs: int) -> Iterator[tuple[str, str | None]]:
        yield calls[0].name, "ValueError: no"

    monkeypatch.setattr(shard_run, "in_processes", failing)
    plan = replace(Plan.quick(), instances=str(instances))
    with pytest.raises(RunFailure, match="exact-s0: ValueError: no"):
        reproduce(plan, tmp_path / "out", 1, lambda line: None)


def test_the_folder_is_asked_for_where_it_is_needed_alone(capsys):
    refuse(capsys, ["reproduce", "shard"], "--instances: expected a folder of instances, found none")
    refuse(capsys, ["reproduce", "egrl", "--instances", "x"], "--instances: expected none for egrl, found x")
