"""Policies of ppo on other networks and packages: placed, gone on from, pre-trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import refuse

from egrl.cli.main import main
from egrl.transfer import zero_shot as transfer
from policies.store import load_policy, save_policy

SMALL = ["--set", "method.network.layers=1", "--set", "method.network.width=8"]
MCM = ["--problem", "mcm", "--chip", "edge4", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out: Path = tmp_path_factory.mktemp("runs") / "r"
    argv = [
        "run",
        "--workload",
        "mobilenet_v2",
        "--method",
        "ppo",
        "--start",
        "cold",
        "--gens",
        "2",
        *MCM,
        *SMALL,
    ]
    assert main([*argv, "--out", str(out)]) == 0
    return out


def test_a_policy_is_placed_as_it_deploys_itself(trained):
    source = transfer.read_policies(trained)
    [own] = transfer.build_targets(source, ["mobilenet_v2"])
    rows = transfer.load(source.steps).greedy(own)
    assert rows.shape == (len(source.steps), len(own.space.nodes), 1)
    assert ((rows >= 0) & (rows < 4)).all()
    [target] = transfer.zero_shot(source, [own])
    found = own.evaluate(rows, np.zeros(len(rows), np.uint64)).speedup
    assert target.speedup == tuple(found.tolist())


@pytest.mark.slow
def test_a_policy_is_placed_on_another_network_and_goes_on_there(trained, capsys):
    assert main(["transfer", str(trained), "--workload", "resnet18", "--finetune", "42", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "resnet18" in json.dumps(document)


@pytest.mark.parametrize("figure", ["transfer", "zeroshot"])
def test_policies_that_partition_are_drawn_against_the_heuristic(figure, trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "r")
    assert main(["transfer", str(run), "--workload", "resnet18", "--quiet"]) == 0
    output = tmp_path / "t.svg"
    assert main(["plot", figure, str(run), "-o", str(output)]) == 0
    text = " ".join(output.read_text().split())
    assert "speedup over the heuristic" in text
    assert ">heuristic<" in text
    assert "compiler" not in text


def test_what_does_not_say_how_it_is_deployed_is_refused(trained, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "r")
    for path in (tmp_path / "r" / "policies").iterdir():
        policy = load_policy(path)
        metadata = {key: value for key, value in policy.metadata.items() if key != "ordered"}
        save_policy(path, policy.weights, metadata)
    refuse(capsys, ["transfer", str(tmp_path / "r"), "--workload", "resnet18"], "ordered true or false")


@pytest.mark.slow
def test_one_policy_is_trained_on_several_networks(tmp_path):
    out = tmp_path / "p"
    argv = ["pretrain", "--method", "ppo", "--workloads", "mobilenet_v2,resnet18", "--validation", "resnet50"]
    assert main([*argv, "--gens", "2", *MCM, *SMALL, "--out", str(out)]) == 0
    document = json.loads((out / "pretraining.json").read_text())
    assert document["trained_on"] == ["mobilenet_v2", "resnet18"]
    assert document["chosen"]["speedup"] > 0


@pytest.mark.exhaustive
def test_policies_go_on_where_they_were_not_trained_and_the_best_is_kept(tmp_path, capsys):
    argv = ["pretrain", "--problem", "mcm", "--chip", "edge4", "--method", "ppo", *SMALL]
    argv += ["--workloads", "resnet18,crnn", "--validation", "mobilenet_v1"]
    argv += ["--gens", "4", "--save-every", "2", "--finetune", "42"]
    assert main([*argv, "--out", str(tmp_path / "p"), "--quiet"]) == 0
    document = json.loads((tmp_path / "p" / "pretraining.json").read_text())
    assert [step["generation"] for step in document["steps"]] == [1, 2, 4]
    best = max(document["steps"], key=lambda step: step["finetuned_on"])
    assert document["chosen_finetuned"]["generation"] == best["generation"]
    assert (
        load_policy(tmp_path / "p" / "policy-finetune.safetensors").metadata["generation"]
        == best["generation"]
    )
    record = tmp_path / "p" / "validation.jsonl"
    lines = record.read_text().splitlines()
    assert len(lines) == 3
    record.write_text(lines[0] + "\n" + lines[1] + "\n" + lines[2][:20])
    (tmp_path / "p" / "pretraining.json").unlink()
    assert main([*argv, "--out", str(tmp_path / "p"), "--quiet"]) == 0
    assert record.read_text().splitlines() == lines
    assert json.loads((tmp_path / "p" / "pretraining.json").read_text()) == document
    record.write_text("nonsense\n" + lines[1] + "\n")
    refuse(
        capsys, [*argv, "--out", str(tmp_path / "p"), "--quiet"], "line 1: expected a record of validation"
    )


def test_going_on_needs_workloads_to_go_on_on(tmp_path, capsys):
    argv = [
        "pretrain",
        "--problem",
        "mcm",
        "--method",
        "ppo",
        "--workloads",
        "resnet18,crnn",
        "--finetune",
        "42",
    ]
    refuse(capsys, [*argv, "--out", str(tmp_path / "p")], "--finetune 42: expected --validation workloads")
