"""The MMapGame's experiments at their smallest: everything is run, drawn and reported, once."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest

from egrl.cli import main
from egrl.reproduce.mmap_paper import Plan, reproduce, seconds
from egrl.reproduce.mmap_report import PUBLISHED, report
from workloads.errors import InputError

TINY = replace(
    Plan.quick(),
    programs=("dlrm_inference",),
    methods=("es", "random"),
    seconds=0.5,
    seeds=2,
    bound_seconds=5.0,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of the tiny plan, and what was said on the way."""
    out, said = tmp_path_factory.mktemp("reproduced") / "r", []
    assert reproduce(TINY, out, 2, said.append) == out / "report.md"
    return out, said


def results(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def test_the_report_has_the_runs_own_rewards_beside_heuristic_and_bound(made):
    out, _ = made
    text, found = (out / "report.md").read_text(), results(out)["programs"]["dlrm_inference"]
    row = next(line for line in text.splitlines() if line.startswith("| `dlrm_inference` | 165 |"))
    for method in ("es", "random"):
        rewards = [
            json.loads(
                (out / "table2" / "dlrm_inference" / f"{method}-s{seed}" / "summary.json").read_text()
            )["best"]["reward"]
            for seed in (0, 1)
        ]
        assert found["methods"][method]["reward"] == rewards
        assert f"{sum(rewards) / 2:.4f} ±" in row
    assert f"| {found['heuristic']['reward']:.4f} | {found['bound']['reward']:.4f} |" in row
    assert f"| {found['greedy']['reward']:.4f} |" in row
    head = next(line for line in text.splitlines() if line.startswith("| program | buffers |"))
    assert head.count("|") == row.count("|")
    best = max(max(entry["reward"]) for entry in found["methods"].values())
    assert found["greedy"]["reward"] <= found["bound"]["reward"]
    assert best <= found["bound"]["reward"]
    assert (out / "figures" / "rewards.png").stat().st_size > 10_000


def test_going_on_with_a_finished_folder_runs_nothing(made):
    out, _ = made
    said: list[str] = []
    reproduce(TINY, out, 1, said.append)
    assert [line for line in said if "/4 " in line] == []


def test_a_folder_of_another_plan_is_refused(made, capsys):
    out, _ = made
    with pytest.raises(InputError, match="same plan"):
        reproduce(replace(TINY, seconds=9.0), out, 1, lambda line: None)
    assert main(["reproduce", "mmap", "--quick", "--out", str(out), "--quiet"]) == 2
    assert "expected a new folder or one of the same plan" in capsys.readouterr().err


def test_claims_are_judged_by_the_numbers_not_by_hope(made):
    found = results(made[0])
    methods = found["programs"]["dlrm_inference"]["methods"]
    for es, verdict in (([0.9, 0.8], "yes"), ([0.9, 0.1], "yes, in the mean"), ([0.1, 0.2], "no")):
        turned = copy.deepcopy(found)
        held = turned["programs"]["dlrm_inference"]["methods"]
        held["es"]["reward"], held["random"]["reward"] = es, [0.4, 0.5]
        line = next(text for text in report(turned).splitlines() if "beat random play" in text)
        assert line.endswith(f"| {verdict} |")
    assert set(methods) == {"es", "random"}


def test_prod_is_never_slower_than_the_heuristic(made):
    found = results(made[0])
    for entry in found["programs"]["dlrm_inference"]["methods"].values():
        entry["speedup"] = [0.5, 1.5]
    line = next(text for text in report(found).splitlines() if "`-prod`, mean" in text)
    assert line == "| `-prod`, mean | | 1.2500 | 1.2500 |"


def test_the_published_numbers_are_those_of_table_2():
    assert PUBLISHED["alphatensor"] == {"buffers": 9084, "muzero": 0.7680, "es": 0.5357, "random": 0.2481}
    assert set(PUBLISHED) == set(Plan().programs)


def test_the_estimate_grows_with_the_plan():
    assert seconds(Plan.quick(), 1) < seconds(Plan(), 3) < seconds(Plan(), 1)
