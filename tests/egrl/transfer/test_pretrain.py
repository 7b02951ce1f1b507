"""Pre-training: one policy on several workloads, resumable, chosen where it was not trained."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import refuse
from scipy import stats

from egrl.cli.main import main
from egrl.transfer import validation
from egrl.transfer import zero_shot as transfer
from egrl.transfer.zero_shot import Step
from hwsim.capabilities import shipped_cost
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from policies.store import load_policy
from workloads.load import load

TINY = ["--set", "method.network.width=8", "--set", "method.network.depth=2", "--set", "method.scouts=4"]


def pretrain(out: Path, *more: str) -> int:
    argv = [
        "pretrain",
        "--workloads",
        "alexnet,resnet18",
        "--validation",
        "vgg16",
        "--out",
        str(out),
        "--quiet",
    ]
    return main([*argv, *TINY, *more])


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("pretrained") / "p"
    assert pretrain(out, "--gens", "20") == 0
    return out


def rows(out: Path) -> list[dict[str, str]]:
    with open(out / "metrics.csv") as stream:
        return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)]


def test_the_policy_that_is_best_on_validation_is_kept(finished):
    document = json.loads((finished / "pretraining.json").read_text())
    assert document["trained_on"] == ["alexnet", "resnet18"]
    assert document["chosen_on"] == ["vgg16"]
    assert [step["generation"] for step in document["steps"]] == [1, 10, 20]
    best = max(document["steps"], key=lambda step: step["chosen_on"])
    chosen = document["chosen"]
    assert (chosen["generation"], chosen["speedup"]) == (best["generation"], best["chosen_on"])
    assert (chosen["families"], chosen["interval"]) == (1, None)
    policy = load_policy(finished / "policy.safetensors")
    assert policy.metadata["generation"] == best["generation"]
    problem = NnpiProblem(load("vgg16"), load_chip("nnpi"))
    step = Step(best["generation"], 0, finished / "policy.safetensors")
    [mapping] = transfer.load([step]).greedy(problem)
    speedup = problem.baseline.cost / problem.explain(mapping).latency_s
    assert speedup == pytest.approx(best["chosen_on"], rel=1e-9)


@pytest.mark.slow
def test_a_pretraining_in_two_sittings_or_with_workers_equals_one_in_one(finished, tmp_path):
    out = tmp_path / "p"
    assert pretrain(out, "--gens", "7") == 0
    assert pretrain(out, "--gens", "20", "--workers", "2") == 0
    assert rows(out) == rows(finished)
    kept = [json.loads((path / "pretraining.json").read_text()) for path in (out, finished)]
    assert kept[0]["chosen"] == kept[1]["chosen"]
    assert load_policy(out / "policy.safetensors").weights.keys()


def test_a_pretraining_of_so_many_evaluations_makes_exactly_these_and_goes_on(finished, tmp_path, capsys):
    out = tmp_path / "p"
    assert pretrain(out, "--evals", "130") == 0
    assert json.loads((out / "pretraining.json").read_text())["evaluations"] == 130
    capsys.readouterr()
    assert pretrain(out, "--evals", "129") == 2
    assert "--evals: expected at least the 130" in capsys.readouterr().err
    assert pretrain(out, "--evals", "200", "--gens", "20") == 2
    assert "expected one of --gens, --evals and --seconds, found --gens, --evals" in capsys.readouterr().err
    assert pretrain(out, "--gens", "20") == 0
    assert rows(out) == rows(finished)


def test_every_network_of_a_round_is_measured_on_every_workload(finished):
    """The mean's speedup is a geometric mean, so that it lies between the best and the worst of the archive."""
    last = rows(finished)[-1]
    assert 0.05 < float(last["deployable_speedup"]) <= float(last["best_speedup"]) + 1e-9


def test_a_pretrained_policy_transfers_and_starts_a_run(finished, tmp_path, capsys):
    assert main(["transfer", str(finished), "--workload", "unet", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["transfers"][0]
    assert document["policies"] == "pre-trained on 2 workloads"
    assert len(document["targets"][0]["speedup"]) == 3
    argv = [
        "run",
        "--workload",
        "unet",
        "--method",
        "ea",
        "--gens",
        "1",
        "--out",
        str(tmp_path / "r"),
        "--quiet",
    ]
    assert main([*argv, "--init", str(finished / "policy.safetensors")]) == 0


@pytest.mark.slow
def test_another_validation_chooses_anew_and_figures_follow_the_choice(finished, tmp_path, capsys):
    out = shutil.copytree(finished, tmp_path / "p")
    assert main(["transfer", str(out), "--workload", "unet", "--quiet"]) == 0
    document = json.loads((out / "transfer.json").read_text())
    other = next(g for g in document["generations"] if g != document["chosen"])
    whole = json.loads((out / "pretraining.json").read_text())
    (out / "pretraining.json").write_text(
        json.dumps({**whole, "chosen": {**whole["chosen"], "generation": other}})
    )
    capsys.readouterr()
    assert main(["plot", "transfer", str(out), "-o", str(tmp_path / "t.png"), "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)["transfers"][0]
    assert document["generations"][drawn["deployed"]] == other
    assert pretrain(out, "--gens", "25") == 0
    refuse(capsys, ["plot", "transfer", str(out), "-o", str(tmp_path / "t.png")], "out of date")


def test_an_interrupted_pretraining_can_be_ended_early(finished, tmp_path, capsys):
    out = shutil.copytree(finished, tmp_path / "p")
    (out / "pretraining.json").unlink()
    config = (out / "config.toml").read_text()
    (out / "config.toml").write_text(config.replace("gens = 20", "gens = 3000"))
    refuse(capsys, ["transfer", str(out), "--workload", "unet"], "pre-training", "under way")
    assert pretrain(out, "--gens", "20") == 0
    assert json.loads((out / "pretraining.json").read_text())["evaluations"] == 420


def test_what_is_wrong_with_a_pretraining_is_said_in_one_line(finished, tmp_path, capsys):
    out = str(tmp_path / "p")
    refuse(capsys, ["pretrain", "--workloads", "alexnet", "--out", out], "--workloads", "at least two")
    refuse(capsys, ["pretrain", "--workloads", "alexnet,alexnot", "--out", out], "alexnot", "did you mean")
    refuse(
        capsys, ["pretrain", "--workloads", "alexnet,AlexNet", "--out", out], "--workloads", "alexnet twice"
    )
    argv = ["pretrain", "--workloads", "alexnet,unet", "--out", out]
    refuse(capsys, [*argv, "--validation", "unet"], "--validation", "not trained on", "unet")
    refuse(capsys, [*argv, "--gens", "0"], "--gens: expected at least 1, found 0")
    refuse(capsys, [*argv, "--threads", "99999999999"], "--threads: expected at most 1024, found 99999999999")
    refuse(capsys, [*argv, "--set", "evaluator.x=1"], "expected problem.KEY=VALUE or method.KEY=VALUE")
    refuse(capsys, [*argv, "--set", "method.scout=3"], "scout", "did you mean scouts")
    assert not Path(out).exists()
    copy = shutil.copytree(finished, tmp_path / "copy")
    refuse(
        capsys, ["pretrain", "--workloads", "alexnet,unet", *TINY, "--out", str(copy)], "workloads: expected"
    )
    assert pretrain(copy, "--gens", "5") == 2
    assert "expected at least the 20" in capsys.readouterr().err
    refuse(capsys, ["run", "--resume", str(copy)], "config.toml", "found a pre-training")
    refuse(capsys, ["plot", "curves", str(copy), "-o", str(tmp_path / "c.png")], "found a pre-training")
    (copy / "pretraining.json").write_text('{"kind": "pretraining", "version": 1}')
    refuse(capsys, ["transfer", str(copy), "--workload", "unet"], "pretraining.json", "damaged")


@pytest.mark.slow
def test_a_ranking_network_is_trained_on_drawn_chips_too_in_two_sittings_as_in_one(tmp_path, capsys):
    small = [
        "--set",
        "method.network.width=8",
        "--set",
        "method.samples=4",
        "--set",
        "method.tasks=3",
    ]
    given = ["--workloads", "alexnet,resnet18", "--validation", "vgg16", "--chips-around", "2", *small]

    def train(out: Path, evaluations: int) -> int:
        argv = [
            "pretrain",
            "--method",
            "rank",
            *given,
            "--evals",
            str(evaluations),
            "--out",
            str(out),
            "--quiet",
        ]
        return main(argv)

    once, twice = tmp_path / "once", tmp_path / "twice"
    assert train(once, 150) == 0
    assert train(twice, 64) == 0
    assert train(twice, 150) == 0
    assert rows(twice) == rows(once)
    document = json.loads((once / "pretraining.json").read_text())
    assert document["trained_on"] == ["alexnet", "resnet18"]
    assert document["options"]["chips_around"] == 2
    policy = load_policy(once / "policy.safetensors")
    assert policy.metadata["config"]["name"] == "context"
    alone = ["pretrain", "--method", "rank", "--workloads", "alexnet", "--chips-around", "2", *small]
    assert main([*alone, "--evals", "24", "--out", str(tmp_path / "alone"), "--quiet"]) == 0
    document = json.loads((tmp_path / "alone" / "pretraining.json").read_text())
    assert document["trained_on"] == ["alexnet"]
    assert document["evaluations"] == 24
    again = ["pretrain", "--method", "rank", *given[:4], *small, "--out", str(once), "--quiet"]
    refuse(capsys, again, "chips_around: expected None as in this command, found 2")


def test_chips_around_need_a_problem_whose_chips_can_be_varied(tmp_path, capsys):
    argv = ["pretrain", "--problem", "mcm", "--workloads", "resnet18,alexnet", "--chips-around", "2"]
    refuse(
        capsys,
        [*argv, "--out", str(tmp_path / "p")],
        "--chips-around 2: expected a problem whose chips",
        "mcm",
    )


def test_what_a_policy_gains_has_an_interval_over_families_and_a_share_of_what_is_known():
    """Two ResNets are one family; a network without a best known mapping counts in the interval alone."""
    names = {"resnet18": 1.10, "resnet34": 1.20, "bert": 1.05, "crnn": 1.01}
    problems = [NnpiProblem(load(name), load_chip("nnpi")) for name in names]
    found = validation._over_families(problems, names)
    means = [np.log([1.10, 1.20]).mean(), np.log(1.05), np.log(1.01)]
    half = stats.t.ppf(0.975, 2) * np.std(means, ddof=1) / 3**0.5
    assert found["families"] == 3
    assert found["interval"] == pytest.approx(np.exp([np.mean(means) - half, np.mean(means) + half]))
    known = {p.about.workload: shipped_cost(p) for p in problems}
    assert known["bert"] is not None
    assert known["crnn"] is None
    gains = [
        (names[p.about.workload], p.baseline.cost / known[p.about.workload])
        for p in problems
        if known[p.about.workload]
    ]
    own, best = np.log(gains).sum(axis=0)
    assert found["share"] == pytest.approx(own / best)
    assert validation._over_families(problems[:1], {"resnet18": 0.0})["interval"] is None
