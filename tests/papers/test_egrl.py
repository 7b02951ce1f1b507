"""The paper's experiments at their smallest: everything is run, drawn and reported, once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from egrl.cli.main import main
from egrl.reproduction import images
from papers.egrl.published import PUBLISHED
from papers.egrl.report import report
from papers.egrl.run import Plan, reproduce, seconds
from workloads.errors import InputError

pytestmark = pytest.mark.exhaustive  # those of `shard`, a plug-in, are in the gate

TINY = replace(
    Plan.quick(),
    workloads=("alexnet",),
    evals=42,
    seeds=1,
    sources=("alexnet",),
    training=("alexnet", "resnet18"),
    validation=("resnet34",),
    held_out=("vgg16",),
    gens=2,
    alone=("resnet18",),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of the tiny plan, and what was said on the way."""
    out, said = tmp_path_factory.mktemp("reproduced") / "r", []
    assert reproduce(TINY, out, 2, said.append) == out / "report.md"
    return out, said


def test_every_figure_that_the_report_shows_was_drawn(made):
    out, said = made
    shown = images((out / "report.md").read_text())
    drawn = {re.sub(r"-.*", "", Path(name).stem) for name in shown}
    assert {"curves", "shift", "bands", "utilisation", "breakdown"} <= drawn
    assert ("umap" in drawn) != any("umap of alexnet is left out" in line for line in said)
    assert {"figures/transfer.png", "figures/zeroshot.png", "figures/pretraining.png"} <= set(shown)
    for name in shown:
        assert (out / name).stat().st_size > 5_000


def test_the_report_has_a_row_a_method_with_the_runs_own_mean(made):
    out, _ = made
    text = (out / "report.md").read_text()
    comparison = json.loads((out / "figure3" / "comparison.json").read_text())
    for row in comparison["workloads"][0]["rows"]:
        assert f"| alexnet | {row['method']} | - | {row['mean']:.4f} |" in text
    assert "| alexnet: EGRL beats EA (Figure 3) | - |" in text


def test_going_on_with_a_finished_folder_runs_nothing_and_reports_the_same(made):
    out, _ = made
    before, said = (out / "report.md").read_text(), []
    reproduce(TINY, out, 1, said.append)
    assert [line for line in said if re.search(r"\d+/\d+ ", line)] == []
    assert (out / "report.md").read_text() == before


def test_a_folder_of_another_plan_is_refused(made, capsys):
    out, _ = made
    with pytest.raises(InputError, match="same plan"):
        reproduce(replace(TINY, evals=63), out, 1, lambda line: None)
    assert main(["reproduce", "egrl", "--quick", "--out", str(out), "--quiet"]) == 2
    assert "expected a new folder or one of the same plan" in capsys.readouterr().err


def test_claims_are_judged_by_the_numbers_not_by_hope(made):
    """Exchanging EGRL's and random numbers must turn the verdicts."""
    out, _ = made
    results = json.loads((out / "results.json").read_text())
    rows = {row["method"]: row for row in results["cold"]["workloads"][0]["rows"]}
    rows["egrl"]["mean"], rows["pg"]["mean"], rows["ea"]["mean"] = 0.5, 1.2, 0.9
    for row in rows.values():
        row |= {"deviation": 0.01, "runs": 3}
    rows["ea"]["against"] = rows["pg"]["against"] = {"mean": 0.4, "low": 0.3, "high": 0.5}
    text = report({**results, "seconds": 60.0})
    for claim in (
        "EGRL beats EA (Figure 3)",
        "EGRL beats pg",
        "EGRL beats the compiler",
        "PG alone stays below",
    ):
        line = next(line for line in text.splitlines() if claim in line)
        assert line.endswith("| no |")
    rows["egrl"]["mean"], rows["ea"]["against"] = 1.3, {"mean": -0.4, "low": -0.5, "high": -0.3}
    text = report({**results, "seconds": 60.0})
    assert next(line for line in text.splitlines() if "EGRL beats EA" in line).endswith("| yes |")


def test_claims_of_transfer_and_likeness_turn_with_the_numbers(made):
    out, _ = made
    results = json.loads((out / "results.json").read_text())
    targets, (first, *_) = ["bert", "vgg16", "gpt2"], results["transfer"]["transfers"]
    for course, beats, overfits in (
        (lambda k: [0.8, 1.2, 1.2, 1.2, 1.1 + 0.01 * k], "yes", "yes"),
        (lambda k: [0.8, 0.9, 0.9, 0.9, 0.95 + 0.01 * k], "no", "no"),
        (
            lambda k: [1.0, 1.3, 1.0, 1.0, (0.9, 1.1, 1.0)[k]],
            "no significant difference",
            "no significant difference",
        ),
    ):
        each = {**first, "targets": targets, "trained_on": [], "speedup": [course(k) for k in range(3)]}
        text = report({**results, "seconds": 60.0, "transfer": {**results["transfer"], "transfers": [each]}})
        lines = [line for line in text.splitlines() if line.startswith("| policies of")]
        told = {words: line for line in lines for words in ("beat the compiler", "overfit") if words in line}
        assert told["beat the compiler"].endswith(f"| {beats} |")
        assert told["overfit"].endswith(f"| {overfits} |")
    for best, verdict in ((0.2, "yes"), (0.39, "no significant difference"), (0.5, "no")):
        for numbers in results["umap"].values():
            numbers["distances"]["spread_between_runs"] = {"best": best, "competitive": 0.4}
        text = report({**results, "seconds": 60.0})
        (line, *_) = (line for line in text.splitlines() if "are more alike" in line)
        assert line.endswith(f"| {verdict} |")


def test_the_time_that_is_said_grows_with_the_plan_and_shrinks_with_workers():
    assert seconds(Plan.quick(), 1) < seconds(Plan(), 2) < seconds(Plan(), 1)
    assert 3600 < seconds(Plan(), 1) < 6 * 3600


def test_published_numbers_are_those_of_the_papers_text():
    assert PUBLISHED["resnet50"] == {"egrl": 1.28, "ea": 1.06, "greedy-dp": 0.72, "pg": 0.29}
    assert PUBLISHED["resnet101"] == {"egrl": 1.78, "ea": 1.47, "greedy-dp": 1.27, "pg": 0.23}
    assert PUBLISHED["bert"] == {"egrl": 1.66, "ea": 1.64, "greedy-dp": 0.67, "pg": 0.21}
