"""egrl place: one mapping at once, what it says of it, and what takes the file that it writes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import refuse

import onnx_models
from egrl.cli.main import main
from egrl.core import mapping_file
from egrl.measure import profile_file
from egrl.methods.placed import (
    SAMPLES,
    STEPS,
    VISITS,
    improved,
    place,
    placed_by_network,
    placed_by_rules,
    shipped_mappings,
    usual_steps,
)
from egrl.problems import build_problem
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.placer import RULES
from hwsim.nnpi.problem import NnpiProblem
from policies.network import LINEAR, NetworkConfig
from policies.ranker import Rankers
from policies.shipped import network, policy_file, rules
from policies.store import ranker_policy, save_policy
from toys import ABLE
from workloads.errors import InputError
from workloads.zoo.mcm87 import split

ROOT = Path(__file__).parents[3]
CHIP = ROOT / "hwsim" / "nnpi" / "chips" / "nnpi.toml"
GUIDE = (ROOT / "docs" / "guides" / "placing.md").read_text(encoding="utf-8")


def problem_of(workload: str, chip: str = "") -> NnpiProblem:
    found = build_problem("nnpi", workload, chip, ())
    assert isinstance(found, NnpiProblem)
    return found


def cost_of(problem: NnpiProblem, mapping: np.ndarray) -> float:
    return float(problem.evaluate(mapping[None], np.zeros(1, np.uint64)).cost[0])


@pytest.fixture
def said(capsys):
    """The document that a command prints with --json."""

    def ask(*argv: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main([*argv, "--json"]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        document: dict[str, Any] = json.loads(printed.out)
        return document

    return ask


def test_the_best_of_what_is_shipped_is_kept_and_its_cost_said(said):
    found, problem = said("place", "bert", "--steps", "0"), problem_of("bert")
    mappings, sources = shipped_mappings(problem)
    costs = [cost_of(problem, mapping) for mapping in mappings]
    assert len(costs) == SAMPLES + len(rules(FEATURE_NAMES, 2))
    assert found["candidates"] == len(costs) + len(problem.baseline.rules())
    assert found["source"] == sources[int(np.argmin(costs))]
    assert sources[:2] == ["the network", "sample 1 of the network"]
    assert sources[SAMPLES:] == [f"rule {k + 1}" for k in range(len(rules(FEATURE_NAMES, 2)))]
    assert found["cost"] == pytest.approx(min(costs), rel=1e-12)
    assert found["speedup"] == pytest.approx(problem.baseline.cost / min(costs), rel=1e-12)
    assert found["speedup"] > 1
    assert found["baseline"] == {"cost": problem.baseline.cost, "rule": problem.baseline.name}
    assert found["gap"] == pytest.approx(min(costs) / problem.bound(0).cost - 1)
    assert (found["kind"], found["version"], found["workload"], found["chip"]) == ("place", 1, "bert", "nnpi")


def test_people_read_cost_speedup_rule_and_what_is_left(capsys):
    assert main(["place", "bert"]) == 0
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    assert first.startswith("bert on nnpi: ")
    assert "x faster than the built-in baseline heuristic (largest-activations-first-reserve)" in first
    assert re.fullmatch(r"\d+\.\d\d us, in \d+ ms", second)
    assert third.startswith(f"the best of {SAMPLES + len(rules(FEATURE_NAMES, 2)) + len(RULES)} mappings (")
    assert f"; {STEPS:,} steps of local search on the model: 1.0" in third
    assert fourth.endswith("of the best possible (proven)")
    assert main(["place", "bert", "--steps", "0"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert ", the best of 64 mappings (" in second
    assert "steps" not in first + second + third


def test_a_local_search_on_the_model_goes_on_from_the_best_ranking(said, tmp_path):
    out, problem = tmp_path / "m.json", problem_of("bert")
    ranked, found = said("place", "bert", "--steps", "0"), said("place", "bert", "-o", str(out))
    assert (ranked["steps"], found["steps"], usual_steps(problem)) == (0, STEPS, STEPS)
    assert ranked["speedup"] == ranked["ranked_speedup"] == found["ranked_speedup"] < found["speedup"]
    assert found["cost"] == pytest.approx(cost_of(problem, mapping_file.read(str(out), problem)), rel=1e-12)
    again = said("place", "bert", "--json")
    assert again | {"seconds": 0, "written": ""} == found | {"seconds": 0, "written": ""}
    large = problem_of("gpt2:layers=40")
    assert 1 <= usual_steps(large) < STEPS
    assert large.space.shape[0] * usual_steps(large) <= VISITS


def test_where_the_local_search_finds_nothing_the_ranked_mapping_stays(capsys):
    problem = problem_of("resnet50")
    ranked = place(problem, steps=0)
    found = improved(problem, ranked, 1)
    np.testing.assert_array_equal(found.mapping, ranked.mapping)
    assert (found.speedup, found.steps) == (ranked.speedup, 1)
    assert main(["place", "resnet50", "--steps", "1"]) == 0
    assert "; 1 steps of local search on the model: no more" in capsys.readouterr().out


def test_the_command_that_goes_on_is_printed_whole(tmp_path, capsys):
    out = tmp_path / "my mapping.json"
    assert main(["place", "alexnet", "--chip", "edge", "-o", str(out)]) == 0
    written, then = capsys.readouterr().out.splitlines()[-2:]
    assert written == f"written: {out}"
    command = shlex.split(then.removeprefix("a search goes on from it: "))
    assert command == ["egrl", "run", "--workload", "alexnet", "--chip", "edge", "--start", str(out)]
    more = ["--method", "annealing", "--evals", "1", "--out", str(tmp_path / "r"), "--quiet"]
    assert main([*command[1:], *more]) == 0


def test_without_the_model_it_is_the_networks_own_mapping(said, tmp_path, capsys):
    out = tmp_path / "m.json"
    found, problem = said("place", "bert", "--no-model", "-o", str(out)), problem_of("bert")
    assert found["source"] == "the network"
    assert not {"cost", "speedup", "gap"} & found.keys()
    np.testing.assert_array_equal(mapping_file.read(str(out), problem), placed_by_network(problem)[0])
    assert main(["place", "bert", "--no-model"]) == 0
    assert "not evaluated by a model" in capsys.readouterr().out


def test_without_the_model_no_mapping_is_evaluated(monkeypatch):
    problem = problem_of("alexnet")
    monkeypatch.setattr(problem, "evaluate", None)
    assert place(problem, judged=False).speedup is None


def test_evaluate_and_run_take_the_file_that_is_written(said, tmp_path):
    out = tmp_path / "m.json"
    found = said("place", "alexnet", "--chip", "edge", "-o", str(out))
    assert found["written"] == str(out)
    scored = said("evaluate", "--workload", "alexnet", "--chip", "edge", "--mapping", str(out))
    assert scored["cost"] == pytest.approx(found["cost"], rel=1e-12)
    run = ["run", "--workload", "alexnet", "--chip", "edge", "--method", "annealing", "--evals", "1"]
    assert main([*run, "--start", str(out), "--out", str(tmp_path / "r"), "--quiet"]) == 0
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["best"]["cost"] == pytest.approx(found["cost"], rel=1e-12)


def test_a_run_that_starts_with_policy_begins_with_the_networks_own_mapping(tmp_path):
    run = ["run", "--workload", "alexnet", "--method", "annealing", "--evals", "1", "--quiet"]
    assert main([*run, "--start", "policy", "--out", str(tmp_path / "r")]) == 0
    problem = problem_of("alexnet")
    started = mapping_file.read(str(tmp_path / "r" / "start_mapping.json"), problem)
    np.testing.assert_array_equal(started, placed_by_network(problem)[0])


def test_a_run_that_begins_with_what_ships_keeps_it_and_measures_its_mapping_first(tmp_path, capsys):
    run = ["run", "--workload", "alexnet", "--method", "rank", "--evals", "2", "--start", "cold", "--quiet"]
    assert main([*run, "--init", "shipped", "--out", str(tmp_path / "r")]) == 0
    assert (tmp_path / "r" / "init_policy.safetensors").read_bytes() == policy_file("shipped").read_bytes()
    best = json.loads((tmp_path / "r" / "summary.json").read_text())["best"]["cost"]
    problem = problem_of("alexnet")
    assert best <= cost_of(problem, placed_by_network(problem)[0]) * (1 + 1e-9)
    refuse(capsys, ["run", "--workload", "alexnet", "--init", "shipped", "--method", "annealing"], "--init")


def test_a_saved_policy_places_instead_of_the_rules(said, tmp_path, capsys):
    rankers, problem = Rankers(NetworkConfig(name=LINEAR), FEATURE_NAMES, 2), problem_of("bert")
    costs = [cost_of(problem, mapping) for mapping in placed_by_rules(problem)]
    best = rules(FEATURE_NAMES, 2)[int(np.argmin(costs))]
    stored = ranker_policy(best, rankers, heads=problem.space.heads, choices=problem.space.most_choices)
    path = tmp_path / "p.safetensors"
    save_policy(path, stored.weights, stored.metadata)
    found = said("place", "bert", "--policy", str(path))
    assert (found["source"], found["candidates"]) == ("the policy", 1)
    assert found["cost"] == pytest.approx(min(costs), rel=1e-12)
    assert main(["place", "bert", "--policy", str(path)]) == 0
    assert ", by the policy, in " in capsys.readouterr().out
    save_policy(path, {name: -value for name, value in stored.weights.items()}, stored.metadata)
    capsys.readouterr()
    assert main(["place", "bert", "--policy", str(path)]) == 0
    assert "the policy is no faster than the built-in baseline heuristic" in capsys.readouterr().out


def test_the_built_in_heuristics_are_among_what_is_judged(said):
    layers = "layers=3:heads=4:kv_heads=2:vocabulary=1000:length=512:hidden=128:intermediate=256"
    found = said("place", f"llama3_8b:{layers}", "--chip", "edge")
    problem = build_problem("nnpi", f"llama3_8b:{layers}", "edge", [])
    rules_cost = min(cost_of(problem, mapping) for mapping in problem.baseline.rules().values())
    assert rules_cost < 0.7 * problem.baseline.cost
    assert found["cost"] <= rules_cost * (1 + 1e-12)


@pytest.mark.parametrize("chip", ["edge", "npu"])
def test_what_fills_a_memory_to_its_last_byte_is_placed_there_by_network_and_rules(chip):
    """Attention scores of 1 MiB: one, or two at a time, fill the memory, so that the least reserve shuts them out."""
    layers = "layers=3:heads=4:kv_heads=2:vocabulary=1000:length=512:hidden=128:intermediate=256"
    problem = build_problem("nnpi", f"llama3_8b:{layers}", chip, [])
    for made in (placed_by_network(problem)[:1], placed_by_rules(problem)):
        assert min(cost_of(problem, mapping) for mapping in made) < 0.7 * problem.baseline.cost


def test_where_no_rule_is_faster_the_baseline_is_kept(said, tmp_path, capsys):
    problem, out = problem_of("bert"), tmp_path / "m.json"
    best = place(problem)
    fast = tmp_path / "fast.json"
    fast.write_bytes(mapping_file.dumps(problem, best.mapping).encode())
    found = said("place", "bert", "--baseline", str(fast), "-o", str(out), "--steps", "0")
    assert (found["source"], found["speedup"]) == ("baseline", 1.0)
    assert found["cost"] == found["baseline"]["cost"]
    np.testing.assert_array_equal(mapping_file.read(str(out), problem), best.mapping)
    assert main(["place", "bert", "--baseline", str(fast), "--steps", "1"]) == 0
    said_to_people = capsys.readouterr().out
    assert "none of 64 mappings is faster than" in said_to_people
    assert "1 steps of local search on the model found none, either" in said_to_people


def test_a_user_s_own_baseline_is_what_the_speedup_is_over(said, tmp_path):
    problem, slow = problem_of("bert"), tmp_path / "slow.json"
    mapping = np.where(problem.space.initial < 0, -1, 0).astype(np.int16)
    slow.write_bytes(mapping_file.dumps(problem, mapping).encode())
    found, own = said("place", "bert", "--baseline", str(slow)), said("place", "bert")
    assert found["speedup"] == pytest.approx(cost_of(problem, mapping) / own["cost"], rel=1e-12)
    assert found["speedup"] > own["speedup"]


def test_densenet121_is_no_slower_than_the_baseline(said):
    assert said("place", "densenet121")["speedup"] >= 1


def test_a_chip_whose_noise_is_on_changes_nothing(said, tmp_path):
    text = CHIP.read_text(encoding="utf-8").replace("noise = false", "noise = true")
    assert "noise = true" in text
    (tmp_path / "noisy.toml").write_text(text.replace('name = "nnpi"', 'name = "noisy"'), encoding="utf-8")
    noisy, own = said("place", "bert", "--chip", str(tmp_path / "noisy.toml")), said("place", "bert")
    assert noisy["source"] == own["source"]
    assert noisy["speedup"] == pytest.approx(own["speedup"], rel=1e-9)


def test_a_model_and_a_chip_of_one_s_own_are_placed(said, tmp_path):
    model, chip = tmp_path / "model.onnx", tmp_path / "chip.toml"
    onnx_models.tiny(model, x=[1, 3, 8, 8])
    assert main(["chip", "new", str(chip), "--like", "edge"]) == 0
    found = said("place", str(model), "--chip", str(chip), "-o", str(tmp_path / "m.json"))
    assert found["speedup"] >= 1
    placed = json.loads((tmp_path / "m.json").read_text())["mapping"]
    assert {row["weight"] for row in placed if "weight" in row} <= {"dram", "sram"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["dlrm_inference", "--problem", "mmap"], ["expected a problem that places tensors by rank", "mmap"]),
        (["nofile.onnx"], ["nofile.onnx"]),
        (["nowhere"], ["nowhere", "egrl list workloads"]),
        (["bert", "--chip", "nnpj"], ["did you mean nnpi"]),
        (["bert", "--policy", "nowhere.safetensors"], ["--policy", "nowhere.safetensors"]),
        (["bert", "--policy", str(CHIP)], ["nnpi.toml", "expected a policy file"]),
        (["bert", "--baseline", "nowhere.json"], ["--baseline nowhere.json"]),
        (["bert", "-o", "mapping.txt"], ["--output mapping.txt", ".json"]),
        (["bert", "--set", "method.alpha=1"], ["method.alpha=1", "problem.KEY"]),
        (["bert", "--no-model", "--steps", "9"], ["--steps", "--no-model"]),
        (["dlrm_inference", "--problem", "mmap", "--steps", "9"], ["--steps", "mmap", "no model"]),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(argv, words, capsys):
    refuse(capsys, ["place", *argv], *words)


def test_a_start_of_a_problem_without_a_placer_names_the_flag(tmp_path, capsys):
    argv = ["run", "--workload", "dlrm_inference", "--problem", "mmap", "--start", "policy", "--gens", "1"]
    refuse(capsys, [*argv, "--out", str(tmp_path / "r")], "--start policy: expected a problem that places")


def test_a_network_is_divided_among_the_chips_of_a_module_at_once(capsys):
    """Of a graph that the rules were not trained on."""
    assert main(["place", "conv_lstm", "--problem", "mcm", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["speedup"] > 2
    assert "conv_lstm" in split().test


def test_a_placer_for_which_no_rules_ship_is_refused():
    shelf = ABLE["shelf"]()
    with pytest.raises(InputError, match="expected a problem that rules ship for"):
        place(shelf)


def test_the_guide_shows_what_is_printed_and_how_many_rules_and_coefficients_there_are(capsys):
    shipped = rules(FEATURE_NAMES, 2)
    assert f"{len(shipped)} linear rules ship" in GUIDE
    assert f"A rule is {len(shipped[0])} numbers" in GUIDE
    assert main(["place", "bert"]) == 0
    shown = re.findall(r"^```text\n(bert on .*?)^```$", GUIDE, flags=re.DOTALL | re.MULTILINE)
    assert [re.sub(r"\d+", "N", text) for text in shown] == [re.sub(r"\d+", "N", capsys.readouterr().out)]


def test_a_chip_or_a_network_without_shipped_rankings_leaves_the_network_out():
    """The network reads any number of memories; where its features are unknown, nothing is shipped."""
    for chip in ("edge", "nnpi", "npu"):
        made, sources = shipped_mappings(problem_of("alexnet", chip))
        assert len(made) == len(sources) == SAMPLES + len(rules(FEATURE_NAMES, 2))
    assert network(("other",), 2) is None


def test_the_shipped_network_is_what_a_saved_policy_of_it_places(tmp_path):
    found, subject = network(FEATURE_NAMES, 2), problem_of("resnet50")
    assert found is not None
    stored = ranker_policy(found.weights, found.rankers, heads=subject.space.heads, choices=3)
    path = tmp_path / "p.safetensors"
    save_policy(path, stored.weights, stored.metadata)
    placed = place(subject, path, judged=False)
    np.testing.assert_array_equal(placed.mapping, placed_by_network(subject)[0])


def test_what_gains_nothing_is_as_the_baseline_has_it(monkeypatch):
    problem = problem_of("unet")
    found = place(problem)
    monkeypatch.setattr("egrl.methods.placed.nearest", lambda _, mapping: mapping)
    loose = place(problem)
    assert cost_of(problem, found.mapping) == pytest.approx(cost_of(problem, loose.mapping), rel=1e-9)
    changes = [int((each.mapping != problem.baseline.mapping).sum()) for each in (found, loose)]
    assert 0 < changes[0] < changes[1]


def times_of(problem: NnpiProblem, mapping: np.ndarray, slower: float = 1.0) -> dict[str, float]:
    """Seconds by op of a mapping, as the chip's own model has them; ops with weights so many times slower."""
    took = problem.evaluate(mapping[None], np.zeros(1, np.uint64)).parts
    assert took is not None
    factor = np.where(problem.space.size_bytes[:, 0] > 0, slower, 1.0)
    return dict(zip(problem.space.nodes, (took[0] * factor).tolist(), strict=True))


def written(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_a_profile_is_read_and_no_model_asked(tmp_path, said, capsys):
    problem = problem_of("resnet50")
    baseline = problem.baseline.mapping
    mappings = []
    for number, slower in enumerate((1.0, 3.0)):
        profile = written(tmp_path / "p.json", {"op_seconds": times_of(problem, baseline, slower)})
        out = tmp_path / f"{number}.json"
        document = said("place", "resnet50", "--profile", profile, "-o", str(out))
        assert document["source"] == "the network that reads profiles"
        assert "speedup" not in document
        mappings.append(mapping_file.read(str(out), problem))
        assert problem.judge(mappings[-1]) == []
    assert not np.array_equal(*mappings)
    assert main(["place", "resnet50", "--profile", profile]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("measure it on your board;")


def test_a_profile_is_of_the_mapping_in_its_file_else_of_the_baseline(tmp_path):
    problem = problem_of("resnet18")
    other = placed_by_rules(problem)[0]
    rows = mapping_file.names_of(problem, other)
    seconds = {"op_seconds": times_of(problem, other), "latency_s": [1.0, 2.0], "id": 7}
    mapping, profile = profile_file.read(written(tmp_path / "a.json", {**seconds, "mapping": rows}), problem)
    assert np.array_equal(mapping, other)
    took = problem.evaluate(other[None], np.zeros(1, np.uint64)).parts
    np.testing.assert_allclose(profile, took[0], rtol=1e-4)
    mapping, _ = profile_file.read(written(tmp_path / "b.json", seconds), problem)
    assert np.array_equal(mapping, problem.baseline.mapping)
    compiler = tmp_path / "compiler.json"
    compiler.write_text(mapping_file.dumps(problem, other), encoding="utf-8")
    mapping, _ = profile_file.read(
        str(tmp_path / "b.json"), build_problem("nnpi", "resnet18", "", (), str(compiler))
    )
    assert np.array_equal(mapping, other)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "p.json: op_seconds: expected the seconds of each op by name, found none"),
        ({"op_seconds": {}}, "p.json: op_seconds: expected seconds of ops of alexnet, found none"),
        ({"op_seconds": {"conv1": -1.0}}, "p.json: op_seconds: expected 0 or more seconds for conv1"),
        ({"op_seconds": [1.0]}, "p.json: op_seconds: expected a list of"),
        ({"op_seconds": 3}, "p.json: op_seconds: expected a list or a table, found"),
        (
            {"op_seconds": {"conv1": 1.0}, "mapping": 3},
            "p.json: mapping: expected a list of nodes, found int",
        ),
        ({"op_seconds": {"conv1": 1.0}, "mapping": [3]}, "p.json: mapping[0]: expected a node"),
        ({"op_seconds": {"conv1": 1.0}, "latency_s": 0.1}, "p.json: op_seconds: expected a sum of at most"),
        ([], "p.json: expected"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(capsys, tmp_path, document, message):
    refuse(capsys, ["place", "alexnet", "--profile", written(tmp_path / "p.json", document)], message)


def test_a_profile_goes_with_neither_a_policy_nor_steps_nor_another_problem(capsys, tmp_path):
    profile = written(tmp_path / "p.json", {"op_seconds": {"conv1": 1.0}})
    refuse(capsys, ["place", "alexnet", "--profile", profile, "--steps", "3"], "--profile leaves out")
    refuse(
        capsys,
        ["place", "alexnet", "--profile", profile, "--policy", "x"],
        "--policy and --profile: expected one",
    )
    refuse(
        capsys,
        ["place", "conv_lstm", "--problem", "mcm", "--profile", profile],
        "--profile: expected a problem",
    )
    refuse(capsys, ["place", "alexnet", "--profile", str(tmp_path / "none.json")], "No such file")


def test_a_fitted_file_whose_error_is_above_the_gain_is_said_to_be_so(tmp_path, capsys):
    """As by `egrl run`; a sigma of 0 beside it is no mistake, since noise is off."""
    assert main(["chip", "new", str(tmp_path / "chip.toml")]) == 0
    text = (tmp_path / "chip.toml").read_text()
    text = re.sub(r"(?m)^sigma = .*$", "sigma = 0.0", text)
    (tmp_path / "chip.toml").write_text(f"{text}\n[prediction]\nheld_out_error = 0.9\n")
    capsys.readouterr()
    assert main(["place", "resnet18", "--chip", str(tmp_path / "chip.toml")]) == 0
    said = "off by 90.00% on mappings it was not fitted to, more than is gained: measure the mapping"
    assert said in capsys.readouterr().out
