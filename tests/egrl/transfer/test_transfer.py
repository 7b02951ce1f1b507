"""Policies on workloads that they were not trained on: what is measured, what is counted, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import refuse

from analysis.transfer import FAILED, geometric_mean
from egrl.cli.main import main
from egrl.methods.policy_fit import places_for
from egrl.transfer import zero_shot as transfer
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from policies.graph import prepare
from policies.graph_unet import GraphUNet
from policies.store import (
    actor_of,
    actor_policy,
    config_of,
    load_policy,
    ranker_weights,
    rankers_of,
    save_policy,
)
from policies.weight_vector import flatten
from workloads.load import load

TINY = [
    *("--set", "method.network.width=8", "--set", "method.network.depth=2"),
    *("--set", "method.network.name=graph_unet", "--set", "method.readout=greedy"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run with policies at generations 1, 10 and 12; copy it before changing it."""
    out = tmp_path_factory.mktemp("runs") / "r"
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "ea",
        "--start",
        "cold",
        "--gens",
        "12",
        "--out",
        str(out),
    ]
    assert main([*argv, *TINY, "--quiet"]) == 0
    return out


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "r"))


def test_a_transferred_policy_is_measured_as_its_most_probable_choices(run):
    source = transfer.read_policies(run)
    assert [step.generation for step in source.steps] == [1, 10, 12]
    assert [step.evaluations for step in source.steps] == [21, 210, 252]
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    target = transfer.place(transfer.load(source.steps), problem)
    for step, speedup in zip(source.steps, target.speedup, strict=True):
        network = actor_of(load_policy(step.path))
        graph = prepare(problem.observation.edge_index, len(problem.observation.x))
        with torch.no_grad():
            logits = network(torch.from_numpy(problem.observation.x), graph)
        mapping = np.where(problem.space.live, logits.argmax(dim=-1).numpy(), -1).astype(np.int16)
        found = problem.evaluate(mapping[None], np.zeros(1, np.uint64))
        assert speedup == pytest.approx(float(found.speedup[0]), rel=1e-12)


@pytest.mark.slow
def test_a_ranking_policy_transfers_to_another_workload_and_chip_as_what_is_placed(tmp_path, capsys):
    out = tmp_path / "r"
    assert (
        main(["run", "--workload", "alexnet", "--method", "ea", "--gens", "2", "--out", str(out), "--quiet"])
        == 0
    )
    source = transfer.read_policies(out)
    problem = NnpiProblem(load("resnet18"), load_chip("nnpi"))
    target = transfer.place(transfer.load(source.steps), problem)
    stored = load_policy(source.steps[-1].path)
    assert stored.metadata["kind"] == "ranker"
    rankers = rankers_of(stored)
    weights = ranker_weights(stored, rankers)
    mapping = problem.placer.place(*rankers.scores(weights[None], places_for(problem, rankers.names)))
    found = problem.evaluate(mapping, np.zeros(1, np.uint64))
    np.testing.assert_array_equal(found.repaired, mapping)
    assert target.speedup[-1] == pytest.approx(float(found.speedup[0]), rel=1e-12)
    argv = ["run", "--workload", "resnet18", "--chip", "npu", "--method", "ea", "--gens", "1", "--quiet"]
    init = ["--init", str(source.steps[-1].path)]
    assert main([*argv, "--out", str(tmp_path / "s"), *init]) == 0
    greedy = ["--set", "method.network.name=graph_unet", "--set", "method.readout=greedy"]
    assert (
        main(
            [
                "run",
                "--workload",
                "alexnet",
                "--method",
                "ea",
                "--gens",
                "1",
                "--out",
                str(tmp_path / "g"),
                *greedy,
            ]
        )
        == 0
    )
    named = next((tmp_path / "g" / "policies").glob("*.safetensors"))
    broken = {name: np.full_like(array, np.nan) for name, array in stored.weights.items()}
    save_policy(tmp_path / "broken.safetensors", broken, stored.metadata)
    refuse(
        capsys,
        ["place", "resnet18", "--policy", str(tmp_path / "broken.safetensors")],
        "expected finite values",
    )
    capsys.readouterr()
    other = [word for word in argv if word != "--quiet"]
    assert main([*other, "--out", str(tmp_path / "t"), "--init", str(named)]) == 0
    assert "the policy of --init names the choice of each decision" in capsys.readouterr().err


def test_a_policy_on_its_own_workload_is_the_deployable_policy_of_the_run(run):
    source = transfer.read_policies(run)
    [problem] = transfer.build_targets(source, ["alexnet"])
    metrics = (run / "metrics.csv").read_text().splitlines()
    column = metrics[0].split(",").index("deployable_speedup")
    deployable = float(metrics[-1].split(",")[column])
    assert (
        transfer.place(transfer.load(source.steps), problem).speedup[-1] <= deployable + 1e-12
    )  # a chromosome may be better


def test_targets_are_built_with_the_settings_of_the_training(tmp_path):
    argv = [
        "run",
        "--workload",
        "alexnet",
        "--method",
        "es",
        "--gens",
        "1",
        "--out",
        str(tmp_path / "r"),
        "--quiet",
    ]
    assert main([*argv, *TINY, "--set", "problem.invalid=penalise"]) == 0
    [problem] = transfer.build_targets(transfer.read_policies(tmp_path / "r"), ["vgg16"])
    assert isinstance(problem, NnpiProblem)
    assert problem.config.invalid == "penalise"


def test_transfer_leaves_a_document_that_later_targets_join(run, capsys):
    assert main(["transfer", str(run), "--workload", "resnet18", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["transfers"][0]
    assert main(["transfer", str(run), "--workload", "vgg16,resnet18"]) == 0
    assert "| ea on alexnet, deployed | 252 |" in re.sub(" +", " ", capsys.readouterr().out)
    document = transfer.read(run)
    assert document is not None
    assert [target["workload"] for target in document["targets"]] == ["vgg16", "resnet18"]
    assert document["targets"][1] == first["targets"][0]
    assert document["chosen"] == 12


def test_a_mean_over_workloads_is_geometric_and_a_map_that_does_not_run_counts(run):
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([0.0, 1.0]) == pytest.approx(math.sqrt(FAILED))


def test_finetuning_counts_the_evaluations_until_it_is_as_good_as_from_scratch(tmp_path):
    def folder(name: str, curve: list[float]) -> Path:
        path = tmp_path / name
        path.mkdir()
        rows = [f"{21 * (k + 1)},{best}" for k, best in enumerate(curve)]
        (path / "metrics.csv").write_text("\n".join(["evaluations,best_speedup", *rows]) + "\n")
        return path

    scratch = folder("scratch", [0.9, 1.0, 1.2, 1.2])
    quick = folder("quick", [1.19, 1.25, 1.25, 1.3])
    assert transfer.row(quick, scratch, 84) == {
        "evaluations": 84,
        "scratch": 1.2,
        "finetuned": 1.3,
        "scratch_evaluations": 63,
        "finetuned_evaluations": 42,
        "saved": 21,
        "near": {"scratch_evaluations": 63, "finetuned_evaluations": 21, "saved": 42},
    }
    assert transfer.row(quick, scratch, 50)["scratch"] == 1.0  # of longer runs only what was asked for
    never = transfer.row(folder("slow", [0.9, 0.9, 1.0, 1.1]), scratch, 84)
    assert (never["finetuned_evaluations"], never["saved"]) == (None, None)


@pytest.mark.slow
def test_finetuning_goes_on_where_it_was_and_gives_the_same_numbers(run, capsys):
    argv = ["transfer", str(run), "--workload", "resnet101", "--finetune", "63", "--quiet", "--json"]
    assert main(argv) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["transfers"][0]["finetuned"][0]["evaluations"] == 63
    [scratch] = (run / "finetune").glob("resnet101-*-s0-scratch")
    before = (scratch / "metrics.csv").read_text()
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out) == first
    shorter = [word if word != "63" else "42" for word in argv]
    assert main(shorter) == 0
    assert json.loads(capsys.readouterr().out)["transfers"][0]["finetuned"][0]["evaluations"] == 42
    assert (scratch / "metrics.csv").read_text() == before


@pytest.mark.slow
def test_finetuning_with_another_seed_or_another_network_of_the_name_is_a_run_of_its_own(
    run, tmp_path, capsys
):
    other = json.loads((run / "workload.json").read_text())
    (tmp_path / "fake.json").write_text(json.dumps({**other, "name": "resnet18"}))
    argv = ["transfer", str(run), "--finetune", "21", "--quiet", "--workload"]
    for words in (["resnet18"], ["resnet18", "--seed", "1"], [str(tmp_path / "fake.json")]):
        assert main([*argv, *words]) == 0
    assert len(list((run / "finetune").glob("resnet18-*-scratch"))) == 3
    capsys.readouterr()
    refuse(
        capsys, ["transfer", str(run), "--workload", f"resnet18,{tmp_path / 'fake.json'}"], "resnet18 twice"
    )
    refuse(capsys, ["transfer", str(run), str(run), "--workload", "vgg16"], "different folders")


def test_a_policy_for_another_number_of_memories_is_refused_in_one_line(run, capsys):
    for path in (run / "policies").glob("*.safetensors"):
        meta = load_policy(path).metadata
        config = config_of(load_policy(path))
        network = GraphUNet(config, meta["features"], len(meta["heads"]), 4, np.random.default_rng(0))
        rest = {key: meta[key] for key in ("features", "heads", "feature_schema")}
        policy = actor_policy(flatten(network), config, choices=4, **rest)
        save_policy(path, policy.weights, policy.metadata)
    refuse(capsys, ["transfer", str(run), "--workload", "vgg16"], "choices: expected 3", "found 4")


def test_a_policy_with_other_features_is_refused_in_one_line(run, capsys):
    for path in (run / "policies").glob("*.safetensors"):
        policy = load_policy(path)
        save_policy(path, policy.weights, {**policy.metadata, "feature_schema": 99})
    refuse(capsys, ["transfer", str(run), "--workload", "vgg16"], "feature_schema: expected", "found 99")


def test_runs_that_nothing_can_be_transferred_from_are_refused(run, tmp_path, capsys):
    refuse(capsys, ["transfer", str(tmp_path / "nowhere"), "--workload", "vgg16"], "nowhere")
    refuse(capsys, ["transfer", str(run), "--workload", "vgg61"], "vgg61", "did you mean")
    refuse(capsys, ["transfer", str(run), "--workload", "vgg16,vgg16"], "different names")
    refuse(
        capsys,
        ["plot", "transfer", str(run), "-o", str(tmp_path / "t.png")],
        "transfer.json",
        "egrl transfer",
    )
    shutil.rmtree(run / "policies")
    refuse(capsys, ["transfer", str(run), "--workload", "vgg16"], "expected a run with policies")


def test_a_damaged_document_is_refused(run, capsys):
    assert main(["transfer", str(run), "--workload", "vgg16", "--quiet"]) == 0
    capsys.readouterr()
    whole = json.loads((run / "transfer.json").read_text())
    for damage in (
        {"targets": [{"workload": "vgg16", "fingerprint": "x", "baseline": 1.0, "speedup": [1.0]}]},
        {"targets": [{"workload": "vgg16"}]},
        {"generations": []},
        {"policies": None, "trained_on": None},
        {"evaluations": ["many"] * len(whole["evaluations"])},
    ):
        (run / "transfer.json").write_text(json.dumps({**whole, **damage}))
        refuse(capsys, ["transfer", str(run), "--workload", "unet"], "transfer.json", "damaged")


def test_transfers_are_drawn_with_their_numbers(run, tmp_path, capsys):
    assert main(["transfer", str(run), "--workload", "alexnet,vgg16,resnet18", "--quiet"]) == 0
    capsys.readouterr()
    out = tmp_path / "t.png"
    assert main(["plot", "transfer", str(run), "-o", str(out), "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)["transfers"][0]
    assert drawn["targets"] == ["alexnet", "vgg16", "resnet18"]
    assert np.shape(drawn["speedup"]) == (3, 3)
    assert out.stat().st_size > 10_000
    assert main(["plot", "zeroshot", str(run), "-o", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    numbers = json.loads(captured.out)
    assert "alexnet: left out" in captured.err
    assert numbers["targets"] == ["vgg16", "resnet18"]
    assert numbers["rows"][0]["mean"] == pytest.approx(math.sqrt(math.prod(numbers["rows"][0]["speedup"])))
