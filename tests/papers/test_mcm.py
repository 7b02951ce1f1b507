"""The experiments on multi-chip modules at their smallest: everything is run, drawn and reported, once."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import run_here

from egrl.compare import report as report_module
from egrl.reproduction import images
from egrl.runs import chunks
from egrl.runs.past_run import PastRun
from hwsim.problem import Status
from papers.mcm import numbers as mcm_numbers
from papers.mcm.numbers import best_so_far, samples_to
from papers.mcm.plan import ON_TEST, TUNED, VARIANTS, Plan
from papers.mcm.published import TABLE2, TABLE3
from papers.mcm.report import WHAT, report
from papers.mcm.run import reproduce, seconds
from workloads.errors import InputError
from workloads.zoo.mcm87 import split

pytestmark = pytest.mark.exhaustive  # those of `shard`, a plug-in, are in the gate

TINY = replace(
    Plan.quick(),
    training=("ncf", "alexnet_towers"),
    validation=("crnn",),
    test=("squeezenet1_1",),
    held_out="mobilenet_v1",
    variants=(
        "rl",
        "rl-finetuned",
        "rl-zeroshot",
        "rl-sample",
        "rl-alone",
        "ppo",
        "ppo-finetuned",
        "random",
        "sa",
        "egrl-finetuned",
    ),
    policies=("rl", "ppo", "es"),
    gens=5,
    validation_evaluations=21,
    test_evaluations=42,
    held_out_evaluations=21,
    samples=20,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of the tiny plan, and what was said on the way."""
    out, said = tmp_path_factory.mktemp("mcm") / "out", list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_module, "run_all", run_here)
        assert reproduce(TINY, out, 1, said.append) == out / "report.md"
    return out, said


@pytest.fixture(scope="module")
def results(made):
    return json.loads((made[0] / "results.json").read_text())


def test_the_plan_is_the_papers():
    plan = Plan()
    assert (len(plan.training), len(plan.validation), len(plan.test)) == (66, 5, 16)
    assert not {*plan.training, *plan.validation, *plan.test} & {plan.held_out}
    assert plan.held_out == "bert_large"
    assert 20_000 <= plan.gens * 21 <= 21_000
    assert plan.gens // plan.save_every == 200
    assert (plan.seeds, plan.held_out_seeds) == (2, 5)
    assert set(plan.test) == set(split().test)
    assert seconds(plan, 2) < seconds(plan, 1)
    assert seconds(Plan.quick(), 1) < 1800
    assert VARIANTS.keys() == WHAT.keys()
    assert TABLE2.keys() == TABLE3.keys() < VARIANTS.keys()


def test_every_figure_that_the_report_shows_is_there(made):
    out, said = made
    text = (out / "report.md").read_text()
    shown = images(text)
    assert set(shown) == {f"figures/{name}.png" for name in ("test", "held-out", "checkpoints", "models")}
    for name in shown:
        assert (out / name).stat().st_size > 10_000
    assert any("pre-training `ppo`" in line for line in said)


def test_variants_differ_in_what_they_begin_with_and_whether_they_learn(made):
    out = made[0]
    runs = {label: out / "test" / label / "squeezenet1_1" for label in TINY.variants}
    starts = {
        label: path / f"{VARIANTS[label].method}-s0" / "init_policy.safetensors"
        for label, path in runs.items()
    }
    begun = {label for label, path in starts.items() if path.is_file()}
    assert begun == {"rl-finetuned", "rl-zeroshot", "ppo-finetuned", "egrl-finetuned"}
    slopes = {
        label: PastRun.read(path / "ppo-s0").settings["method"]["network"]["slope"]
        for label, path in runs.items()
        if VARIANTS[label].method == "ppo"
    }
    assert {label for label, slope in slopes.items() if slope == 0} == {
        label for label in TINY.variants if label.startswith("rl")
    }
    for agent in ("rl", "ppo"):
        tuned = out / "pretrained" / agent / "policy-finetune.safetensors"
        assert starts[f"{agent}-finetuned"].read_bytes() == tuned.read_bytes()
    agents = [label for label in TINY.variants if label.startswith("rl")]
    solver = {label: PastRun.read(runs[label] / "ppo-s0").settings["problem"]["solver"] for label in agents}
    assert {label for label, on in solver.items() if not on} == {"rl-alone"}
    policies = sorted((runs["rl-zeroshot"] / "ppo-s0" / "policies").iterdir())
    from policies.store import load_policy

    first, last = (load_policy(path).weights for path in (policies[0], policies[-1]))
    for name, weights in first.items():
        np.testing.assert_array_equal(weights, last[name])


def test_curves_are_the_best_so_far_of_what_ran(made, results):
    own = results["test"]["variants"]["rl"]
    finals = []
    for seed in range(TINY.seeds):
        run = made[0] / "test" / "rl" / "squeezenet1_1" / f"ppo-s{seed}"
        columns = chunks.read([chunk.path for chunk in chunks.listing(run / "mappings")])
        ran = np.where(np.array(columns["status"]) == Status.OK, columns["speedup"], 0.0).tolist()
        assert best_so_far(run, 30).tolist() == [max(ran[: k + 1]) for k in range(30)]
        assert best_so_far(run, 50)[-1] == max(ran)
        finals.append(max(ran))
    assert own["final"] == pytest.approx(finals)
    assert own["curve"][-1] == pytest.approx(np.mean(finals))
    assert results["test"]["goals"][-1] == pytest.approx(own["curve"][-1])
    assert own["samples"][-1] is not None


def test_a_random_partition_that_does_not_run_has_no_cost(monkeypatch):
    def refused(graph, where, **settings):
        if settings:
            raise InputError("none that runs")
        return built(graph, where)

    built = mcm_numbers.problem_of
    assert mcm_numbers._over_random("ncf", ON_TEST) is not None
    monkeypatch.setattr(mcm_numbers, "problem_of", refused)
    assert mcm_numbers._over_random("ncf", ON_TEST) is None


def test_samples_to_a_throughput_are_counted_from_one():
    curve = np.array([0.0, 0.5, 0.5, 0.9])
    assert samples_to(curve, 0.5) == 2
    assert samples_to(curve, 0.9) == 4
    assert samples_to(curve, 0.91) is None


def test_the_checkpoints_of_all_pre_trainings_are_told(results):
    for label in TINY.policies:
        own = results["pretraining"][label]
        assert len(own["evaluations"]) == len(own["zeroshot"]) == len(own["finetuned"]) == 2
        assert own["chosen_finetuned"]["speedup"] == max(own["finetuned"])


def test_verdicts_follow_the_numbers(results):
    turned = copy.deepcopy(results)
    for where in ("test", "held-out"):
        against = turned[where]["against"]
        against["rl - random"] = {"mean": 0.2, "low": 0.1, "high": 0.3, "above": 2, "below": 0}
        against["rl - sa"] = {"mean": -0.2, "low": -0.3, "high": -0.1, "above": 0, "below": 2}
    turned["models"]["invalid"] = 0.0
    lines = report(turned).splitlines()
    for words, verdict in (
        ("`rl` above `random`", "yes"),
        ("`rl` above `sa`", "no"),
        ("some do not run on the device", "no"),
    ):
        told = [line for line in lines if words in line]
        assert told
        assert all(line.endswith(f"| {verdict} |") for line in told)
    goals = [{"goal": 0.9, "scratch": 100, "tuned": 10}, {"goal": 1.0, "scratch": 120, "tuned": 60}]
    for tuned, words in (
        (goals, "(100 and 10 to 0.9000, 120 and 60 to 1.0000) | up to"),
        (goals, "| up to 10.0x fewer; 2.0x to all of it | yes |"),
        ([{**goals[0], "tuned": None}], "(100 and never to 0.9000) | up to"),
        ([{**goals[0], "tuned": None}], "| never as good | no |"),
        ([goals[0], {**goals[1], "tuned": 240}], "| up to 10.0x fewer; 0.5x to all of it | no |"),
    ):
        turned["test"]["transfer"] = {"rl": tuned}
        assert words in claim(report(turned), "test graphs: `rl-finetuned` takes fewer samples")


def claim(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_transfer_is_told_by_samples_to_what_runs_from_scratch_reach(results):
    for where in ("test", "held-out"):
        found = results[where]
        for scratch, tuned in ((k, v) for k, v in TUNED.items() if k in TINY.variants):
            last = found["transfer"][scratch][-1]
            assert last["goal"] == pytest.approx(found["variants"][scratch]["curve"][-1])
            assert last["scratch"] == samples_to(np.array(found["variants"][scratch]["curve"]), last["goal"])
            assert last["tuned"] == samples_to(np.array(found["variants"][tuned]["curve"]), last["goal"])


def test_what_is_there_is_not_run_again_and_another_plan_is_refused(made):
    out, _ = made
    said: list[str] = []
    reproduce(TINY, out, 1, said.append)
    assert not [line for line in said if "seed" in line or "pre-training" in line]
    with pytest.raises(InputError, match="expected a new folder or one of the same plan"):
        reproduce(replace(TINY, seeds=3), out, 1, said.append)
