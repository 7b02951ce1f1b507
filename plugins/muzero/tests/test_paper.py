"""The MMapGame's experiments at their smallest: everything is run, drawn and reported, once.

Runs are made in this process, one after the other, because starting one costs more than these searches; that a
comparison starts processes is `test_compare.py`'s.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run_here

from egrl.cli.main import main
from egrl.compare import report as report_module
from egrl.methods.players import Policies
from egrl.reproduction import images, run_comparison
from egrl.runs.past_run import PastRun
from egrl.transfer.validation import PretrainOptions
from egrl_muzero.paper import run as mmap_run
from egrl_muzero.paper import several
from egrl_muzero.paper.numbers import problem_of
from egrl_muzero.paper.published import TABLE2, TABLE3, TABLE4, TABLE5
from egrl_muzero.paper.report import report
from egrl_muzero.paper.run import ABLATIONS, Plan, reproduce, seconds
from muzero_subjects import SMALL
from workloads.errors import InputError
from workloads.programs import program_names

pytestmark = pytest.mark.exhaustive  # of papers, those of `shard` are in the gate

EVALS = 63
TINY = replace(
    Plan.quick(),
    programs=("alexnet",),
    methods=("muzero", "revise", "random"),
    threads=1,
    seeds=2,
    settings=tuple(f"muzero.{key}={json.dumps(value)}" for key, value in SMALL.items()),
    bound_seconds=600.0,
    ablated="alexnet",
    shown="alexnet",
    suite=("vgg16", "alexnet"),
    extremes=1,
    training=("alexnet", "vgg16"),
    held_out=("resnet18",),
)


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """Runs in this process, of so many evaluations instead of the plan's seconds."""

    def compared(*given: Any, seconds: float, **options: Any) -> Any:
        return run_comparison(*given, evals=EVALS, **options)

    def trained(*given: Any, seconds: float, **options: Any) -> PretrainOptions:
        return PretrainOptions(*given, evals=EVALS, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_module, "run_all", run_here)
        patch.setattr(mmap_run, "run_comparison", compared)
        patch.setattr(several, "PretrainOptions", trained)
        yield


@pytest.fixture(scope="module")
def made(here, tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of the tiny plan, and what was said on the way."""
    out, said = tmp_path_factory.mktemp("reproduced") / "r", []
    assert reproduce(TINY, out, 2, said.append) == out / "report.md"
    return out, said


def results(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def best(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())["best"]
    return found


def line_of(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_the_report_has_the_runs_own_rewards_beside_heuristic_and_bound(made):
    out, _ = made
    text, found = (out / "report.md").read_text(), results(out)["programs"]["alexnet"]
    row = line_of(text, "| `alexnet` | 32 |")
    for method in TINY.methods:
        runs = [out / "table2" / "alexnet" / f"{method}-s{seed}" for seed in (0, 1)]
        rewards = [best(run)["reward"] for run in runs]
        assert found["methods"][method]["reward"] == rewards
        assert f"{sum(rewards) / 2:.4f} ±" in row
    assert f"| {found['heuristic']['reward']:.4f} | {found['bound']['reward']:.4f} |" in row
    assert f"| {found['greedy']['reward']:.4f} |" in row
    head = line_of(text, "| program | buffers | `muzero`")
    assert head.count("|") == row.count("|")
    most = max(max(entry["reward"]) for entry in found["methods"].values())
    assert found["greedy"]["reward"] <= found["bound"]["reward"]
    assert most <= found["bound"]["reward"]


def test_the_documents_say_how_long_it_takes():
    hours = f"{seconds(Plan(), 4) / 3600:.0f} hours"
    root = Path(__file__).parents[3]
    assert f"({hours} with four runs at a time" in (root / "docs" / "results" / "index.md").read_text(
        encoding="utf-8"
    )
    assert f"`--jobs 4` it says {hours};" in (root / "plugins" / "muzero" / "README.md").read_text(
        encoding="utf-8"
    )


def test_every_figure_that_the_report_shows_was_drawn(made):
    out, _ = made
    shown = images((out / "report.md").read_text())
    names = {"rewards", "ablation", "speedups", "correlation", "layout", "held-out"}
    assert {Path(name).stem for name in shown} == names
    for name in shown:
        assert (out / name).stat().st_size > 7_000


def test_the_parts_of_the_agent_were_left_out_in_the_runs_that_say_so(made):
    out, _ = made
    found = results(out)["ablation"]
    assert list(found) == ["full agent", "no-revision", *ABLATIONS]
    for part in ("no-learning", "no-search", "no-revision"):
        run = out / "ablation" / part / "alexnet" / "muzero-s1"
        assert f'ablation = "{part}"' in (run / "config.toml").read_text()
        assert found[part]["reward"][1] == best(run)["reward"]
    entry = results(out)["programs"]["alexnet"]
    assert found["full agent"] == entry["methods"]["muzero"]
    assert found["no-revision"] == entry["methods"]["no-revision"]
    assert found["no-revision"]["revisions"] == found["no-search"]["revisions"] == [0, 0]
    assert all(found["full agent"]["revisions"])
    alone = (out / "ablation" / "revisions-alone" / "alexnet" / "muzero-s0" / "config.toml").read_text()
    assert "slots = 2" in alone
    assert "moves = 20000" in alone


def test_speedups_of_all_programs_are_sorted_and_summed_up(made):
    out, _ = made
    suite = results(out)["suite"]
    speedups = {name: best(out / "suite" / name / "muzero-s0")["speedup"] for name in TINY.suite}
    assert list(suite["programs"]) == sorted(speedups, key=lambda name: -speedups[name])
    values = list(speedups.values())
    assert suite["agent"] == {
        "mean": pytest.approx(sum(values) / 2),
        "max": max(values),
        "min": min(values),
        "improved": sum(value > 1 for value in values),
    }
    assert suite["prod"]["mean"] == pytest.approx(sum(max(value, 1.0) for value in values) / 2)


def test_correlations_are_of_layouts_along_the_run(made):
    out, _ = made
    found = results(out)["correlation"]
    assert {entry["group"] for entry in found.values()} == {"largest", "smallest"}
    for name, entry in found.items():
        told = PastRun.read(out / "suite" / name / "muzero-s0").evaluations()
        ran = np.isfinite(told.reward) & np.isfinite(told.cost)
        assert entry["evaluation"] == sorted(set(entry["evaluation"]))
        # As many parts as the figure shows.
        assert len(entry["reward"]) == min(10, ran.sum()) >= 2
        expected = np.corrcoef(entry["reward"], entry["cost"])[0, 1]
        assert entry["pearson"] == pytest.approx(expected)


def test_the_layouts_are_counted_as_they_are_drawn(made):
    out, _ = made
    found = results(out)["layout"]
    runs = [out / "table2" / "alexnet" / f"muzero-s{seed}" for seed in (0, 1)]
    assert found["run"] == max(runs, key=lambda run: best(run)["reward"]).name
    agent, heuristic = found["layouts"]
    text = (out / "report.md").read_text()
    assert f"the agent's layout {agent['come_again']} of the {agent['tensors']} tensors" in text
    assert f"heuristic's {heuristic['come_again']} of {heuristic['tensors']}" in text


def test_the_shared_agent_was_not_trained_on_what_it_is_placed_on(made):
    out, _ = made
    found = results(out)["shared"]
    assert found["trained_on"] == list(TINY.training)
    entry = found["held_out"]["resnet18"]
    for part, label in (("scratch", "from scratch"), ("from-shared", "from the shared agent")):
        run = out / "held-out" / part / "resnet18" / "muzero-s0"
        assert entry[label]["reward"] == [best(run)["reward"]]
        assert (run / "init_policy.safetensors").exists() == (part == "from-shared")
    problem = problem_of("resnet18")
    mapping = Policies([out / "shared" / "policy.safetensors"]).greedy(problem)
    placed = problem.evaluate(mapping, np.zeros(1, np.uint64))
    assert entry["deployed"] == {"reward": placed.reward[0], "speedup": placed.speedup[0]}


def test_going_on_with_a_finished_folder_runs_nothing_and_reports_the_same(made):
    out, _ = made
    before, said = (out / "report.md").read_text(), list[str]()
    reproduce(TINY, out, 1, said.append)
    assert [line for line in said if "/" in line.split(":")[-1] or "training" in line] == []
    seconds_aside = [line for line in before.splitlines() if "HiGHS" not in line]
    after = [line for line in (out / "report.md").read_text().splitlines() if "HiGHS" not in line]
    assert after == seconds_aside


def test_a_folder_of_another_plan_is_refused(made, capsys):
    out, _ = made
    with pytest.raises(InputError, match="same plan"):
        reproduce(replace(TINY, seconds=9.0), out, 1, lambda line: None)
    assert main(["reproduce", "mmap", "--quick", "--out", str(out), "--quiet"]) == 2
    assert "expected a new folder or one of the same plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ours", "theirs", "claim"),
    [
        ("es", "random", "evolution strategies beat random play"),
        ("no-revision", "es", "the agent beats evolution strategies"),
    ],
)
def test_claims_are_judged_by_the_numbers_not_by_hope(made, ours, theirs, claim):
    found = results(made[0])
    for better, verdict in (
        ([0.9, 1.0], "yes"),
        ([0.9, 0.1], "no significant difference"),
        ([0.1, 0.2], "no"),
    ):
        turned = copy.deepcopy(found)
        held = turned["programs"]["alexnet"]["methods"]
        for method, rewards in ((ours, better), (theirs, [0.4, 0.5])):
            held[method] = {**held.get(method, held["random"]), "reward": rewards}
        assert line_of(report(turned), claim).endswith(f"| {verdict} |")


def test_the_agent_is_held_against_the_heuristic(made):
    found = results(made[0])
    entry = found["programs"]["alexnet"]
    entry["heuristic"]["reward"] = 0.5
    words = (
        ([0.9, 0.9], "above (+0.4000 [+0.4000, +0.4000])"),
        ([0.9, 0.2], "no significant difference (+0.0500 [-4.3972, +4.4972])"),
        ([0.5, 0.5], "equivalent (within 0.5%) (+0.0000 [+0.0000, +0.0000])"),
        ([0.4, 0.4], "below (-0.1000 [-0.1000, -0.1000])"),
    )
    for rewards, word in words:
        entry["methods"]["muzero"]["reward"] = rewards
        lines = report(found).split("against those of the others")[1].splitlines()
        assert lines[2].split("|")[2:-1] == [" *no-revision* ", " `revise` ", " `random` ", " *heuristic* "]
        cell = lines[4].split("|")[-2]
        assert cell == f" {word} "


def test_claims_about_parts_speedups_and_layouts_turn_with_the_numbers(made):
    found = results(made[0])
    full, part = found["ablation"]["full agent"], found["ablation"]["no-search"]
    agent, heuristic = found["layout"]["layouts"]
    one, other = found["correlation"].values()
    for sign, verdict in ((1, "yes"), (-1, "no")):
        full["reward"], part["reward"] = [0.5 + 0.1 * sign] * 2, [0.5, 0.5]
        found["suite"]["agent"]["mean"] = 1 + 0.1 * sign
        agent["come_again"], heuristic["come_again"] = 5 + sign, 5
        one["pearson"], other["pearson"] = -0.5 * sign, 0.5 * sign
        text = report(found)
        for claim in (
            "full agent is better than *no-search*",
            "the agent is quicker than the heuristic on average",
            "lets tensors leave fast memory",
            "reward tells latency better",
        ):
            assert line_of(text, claim).endswith(f"| {verdict} |")


def test_the_report_says_where_games_can_come_to_a_dead_end(made):
    found = results(made[0])
    assert all(entry["alias_groups"] == 0 for entry in found["suite"]["programs"].values())
    assert "0 of the 2 programs of Table 3 have some." in report(found)
    found["suite"]["programs"]["vgg16"]["alias_groups"] = 3
    assert "1 of the 2 programs of Table 3 have some (`vgg16` 3)." in report(found)


def test_prod_is_never_slower_than_the_heuristic(made):
    found = results(made[0])
    for entry in found["programs"]["alexnet"]["methods"].values():
        entry["speedup"] = [0.5, 1.5]
    line = line_of(report(found), "`-prod`, mean")
    assert line == "| `-prod`, mean | | 1.2500 | 1.2500 | 1.2500 | 1.2500 |"


def test_the_published_numbers_are_the_papers():
    assert TABLE2["alphatensor"] == {"buffers": 9084, "muzero": 0.7680, "es": 0.5357, "random": 0.2481}
    assert set(TABLE2) == set(Plan().programs)
    assert TABLE3["prod"] == {"mean": 1.0405, "max": 1.8787, "min": 1.0, "improved": 33}
    assert (max(TABLE4.values()), min(TABLE4.values())) == (1.8787, 0.4853)
    assert TABLE5["wavenet_coherent_batch32"] == -0.9994


def test_the_full_plan_is_the_one_that_was_asked_for():
    plan = Plan()
    assert set(plan.methods) == {"muzero", "revise", "es", "random"}
    assert (plan.seconds, plan.threads, plan.seeds) == (1800.0, 1, 3)
    assert set(plan.suite) == set(program_names())
    for each in (plan, Plan.quick(), TINY):
        assert {each.ablated, each.shown} <= set(each.programs)
        assert not set(each.held_out) & {*each.training, *each.validation}


def test_a_plan_does_not_change_the_rules():
    with pytest.raises(ValueError, match=r"settings: expected settings of methods, received problem\.x=1"):
        Plan(settings=("es.scouts=20", "problem.x=1"))


def test_the_estimate_grows_with_the_plan():
    assert seconds(Plan.quick(), 1) < seconds(Plan(), 3) < seconds(Plan(), 1)
    assert seconds(Plan.quick(), 1) < 30 * 60
