"""Agents that play, trained on one program or several, on others: placed, gone on from, refused."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import refuse

from egrl.cli.main import main
from egrl.transfer import zero_shot as transfer
from muzero_subjects import SMALL
from policies.store import load_policy, save_policy

SETTINGS = [word for key, value in SMALL.items() for word in ("--set", f"method.{key}={value}")]
MMAP = ["--problem", "mmap", "--quiet", *SETTINGS]


def run(out: Path, *more: str, gens: str = "1") -> int:
    argv = ["run", "--workload", "alexnet", "--method", "muzero", "--start", "cold", "--gens", gens]
    return main([*argv, *MMAP, "--out", str(out), *more])


def pretrain(out: Path, *more: str) -> int:
    argv = ["pretrain", "--method", "muzero", "--workloads", "alexnet,vgg16", "--validation", "resnet18"]
    return main([*argv, *MMAP, "--out", str(out), *more])


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out: Path = tmp_path_factory.mktemp("runs") / "r"
    assert run(out, "--set", "method.network.ids=0", gens="2") == 0
    return out


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Path:
    out: Path = tmp_path_factory.mktemp("pretrained") / "p"
    assert pretrain(out, "--gens", "2") == 0
    return out


@pytest.mark.exhaustive
def test_a_saved_agent_plays_one_game_of_another_program_the_same_each_time(trained):
    source = transfer.read_policies(trained)
    [problem] = transfer.build_targets(source, ["vgg16"])
    rows = [transfer.load(source.steps).greedy(problem) for _ in range(2)]
    assert rows[0].shape == (2, len(problem.space.nodes), 1)
    assert np.array_equal(*rows)
    found = problem.evaluate(rows[0], np.zeros(2, np.uint64))
    assert np.array_equal(found.repaired, rows[0])  # a game has no illegal moves that must be replaced
    [target] = transfer.zero_shot(source, [problem])
    assert target.speedup == tuple(found.speedup.tolist())


@pytest.mark.slow
def test_what_was_learned_is_what_plays(trained, tmp_path):
    """The policies of two generations differ; with the same weights they play the same."""
    source = transfer.read_policies(trained)
    [problem] = transfer.build_targets(source, ["alexnet:backward=1"])
    first, last = (load_policy(step.path) for step in source.steps)
    loud = {name: array * (-400 if name == "heads.weight" else 1) for name, array in last.weights.items()}
    path = tmp_path / "loud.safetensors"
    save_policy(path, loud, last.metadata)
    rows = transfer.Policies([source.steps[1].path, path, source.steps[1].path]).greedy(problem)
    assert np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])
    assert first.metadata["search"]["simulations"] == SMALL["simulations"]


@pytest.mark.exhaustive
def test_finetuning_goes_on_from_the_agent_with_its_own_settings(trained, tmp_path, capsys):
    out = shutil.copytree(trained, tmp_path / "r")
    argv = ["transfer", str(out), "--workload", "vgg16", "--finetune", "21", "--quiet"]
    assert main([*argv, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["transfers"][0]["finetuned"]
    assert row["evaluations"] == 21
    [tuned] = (out / "finetune").glob("vgg16-*-from-generation-2")
    assert 'method = "muzero"' in (tuned / "config.toml").read_text()
    assert (tuned / "init_policy.safetensors").read_bytes() == (
        out / "policies" / "generation-00000002.safetensors"
    ).read_bytes()
    assert main(argv[:-3]) == 0
    assert "Speedup over the production heuristic" in capsys.readouterr().out


@pytest.mark.slow
def test_an_agent_that_knows_tensors_by_number_is_refused_elsewhere_only(tmp_path, capsys):
    out = tmp_path / "r"
    assert run(out) == 0
    refuse(
        capsys,
        ["transfer", str(out), "--workload", "vgg16"],
        "network.ids: expected 0, found 512",
        "--set method.network.ids=0",
    )
    assert main(["transfer", str(out), "--workload", "alexnet"]) == 0
    policy = str(out / "policies" / "generation-00000001.safetensors")
    named = [word.replace("network.ids=0", "network.ids=512") for word in SETTINGS]
    argv = ["run", *MMAP[:2], "--method", "muzero", "--init", policy, "--gens", "1", "--quiet", *named]
    refuse(capsys, [*argv, "--workload", "vgg16"], "--init: network.ids: expected 0, found 512", "of alexnet")
    assert main([*argv, "--workload", "alexnet", "--out", str(tmp_path / "on")]) == 0


def test_a_policy_that_saw_games_otherwise_is_refused(trained, tmp_path, capsys):
    stored = load_policy(trained / "policies" / "generation-00000002.safetensors")
    old = tmp_path / "old.safetensors"
    argv = ["run", "--workload", "vgg16", "--method", "muzero", "--init", str(old), *MMAP[:2], *SETTINGS]
    save_policy(old, stored.weights, {**stored.metadata, "view_schema": 99})
    refuse(capsys, argv, "--init: view_schema: expected 1", "found 99")
    given = stored.metadata["config"]
    view = {key: value for key, value in given["view"].items() if key != "held"}
    save_policy(old, stored.weights, {**stored.metadata, "config": {**given, "view": view}})
    refuse(capsys, argv, "--init: view.held: expected the settings of this version")


def test_a_policy_of_another_network_or_kind_is_refused_with_the_setting_that_differs(
    trained, tmp_path, capsys
):
    policy = trained / "policies" / "generation-00000002.safetensors"
    argv = ["run", "--workload", "vgg16", "--method", "muzero", "--init", str(policy), *MMAP[:2], *SETTINGS]
    refuse(capsys, argv, "--init: network.ids: expected 512", "found 0", "--set method.network.ids=0")
    stored, odd = load_policy(policy), tmp_path / "r"
    shutil.copytree(trained, odd)
    save_policy(
        odd / "policies" / "generation-00000001.safetensors",
        stored.weights,
        {**stored.metadata, "kind": "oracle"},
    )
    refuse(
        capsys,
        ["transfer", str(odd), "--workload", "vgg16"],
        "expected one of gnn, graphsage, ranker, muzero",
        "oracle",
    )


@pytest.mark.exhaustive
def test_one_agent_is_trained_on_several_programs_and_chosen_on_another(pretrained, capsys):
    document = json.loads((pretrained / "pretraining.json").read_text())
    assert document["trained_on"] == ["alexnet", "vgg16"]
    assert document["goes_on"]["method"] == "muzero"
    policy = load_policy(pretrained / "policy.safetensors")
    assert policy.metadata["config"]["network"]["ids"] == 0
    chunks = [path.name for path in (pretrained / "mappings").glob("*.npz")]
    assert {name.rpartition("-")[2] for name in chunks} == {"p0.npz", "p1.npz"}
    assert main(["transfer", str(pretrained), "--workload", "resnet18", "--json"]) == 0
    [target] = json.loads(capsys.readouterr().out)["transfers"][0]["targets"]
    assert target["speedup"] == [step["speedup"]["resnet18"] for step in document["steps"]]


@pytest.mark.exhaustive
def test_a_pretraining_in_two_sittings_equals_one_in_one(pretrained, tmp_path):
    def rows(folder: Path) -> list[dict[str, str]]:
        with open(folder / "metrics.csv") as stream:
            return [
                {k: v for k, v in row.items() if not k.endswith("seconds")} for row in csv.DictReader(stream)
            ]

    out = tmp_path / "p"
    assert pretrain(out, "--gens", "1") == 0
    assert pretrain(out, "--gens", "2") == 0
    assert rows(out) == rows(pretrained)


@pytest.mark.slow
def test_a_pretraining_may_be_given_seconds(tmp_path):
    out = tmp_path / "p"
    assert pretrain(out, "--seconds", "1e-9") == 0
    document = json.loads((out / "pretraining.json").read_text())
    assert document["options"]["seconds"] == 1e-9
    assert "gens" not in document["options"]


def test_what_is_wrong_with_a_pretraining_of_agents_is_said_in_one_line(tmp_path, capsys):
    argv = ["pretrain", "--workloads", "alexnet,vgg16", "--out", str(tmp_path / "p"), "--method"]
    refuse(capsys, [*argv, "muzero"], "muzero cannot serve problem nnpi", "no game")
    refuse(
        capsys,
        [*argv, "ea"],
        "--method: expected one that trains on several workloads, such as es, rank or ppo",
    )
    refuse(capsys, [*argv, "muzro"], "--method: expected one of", "muzro")
    refuse(capsys, [*argv, "es", "--gens", "2", "--seconds", "60"], "found --gens, --seconds")
    refuse(capsys, [*argv, "es", "--seconds", "-1"], "--seconds: expected at least 0, found -1")
    slots = ["--problem", "mmap", "--set", "method.slots=1"]
    refuse(capsys, [*argv, "muzero", *slots], "method.slots: expected at least 2 for 2 workloads")
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_a_part_of_the_agent_is_left_out_by_name(tmp_path, capsys):
    for part in ("no-learning", "no-search"):
        assert run(tmp_path / part, "--ablation", part) == 0
        assert f'ablation = "{part}"' in (tmp_path / part / "config.toml").read_text()
    refuse(capsys, ["run", "--workload", "alexnet", "--ablation", "no-search"], "leave out, found egrl")
    refuse(
        capsys,
        [
            "run",
            "--problem",
            "mmap",
            "--workload",
            "alexnet",
            "--method",
            "muzero",
            "--ablation",
            "no-lerning",
        ],
        "--ablation: expected one of no-learning, no-search, no-revision, found 'no-lerning'; did you mean",
    )
    refuse(capsys, ["run", "--resume", str(tmp_path), "--ablation", "no-search"], "found --ablation")
