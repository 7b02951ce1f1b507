"""Commands know banks: plans as baselines, what is chosen, whose chips are whose."""

from __future__ import annotations

import json

import numpy as np
from commands import refuse

from edge_subjects import PROBLEMS
from egrl.cli.listing import entries
from egrl.cli.main import main
from egrl.methods.profile_model.contract import ProfileModelConfig
from egrl.methods.profile_model.member import profile_model_of
from egrl.problems import find_problem
from egrl_edge.banks.problem import BanksConfig


def test_a_plan_for_executorch_is_a_mapping_of_banks(tmp_path, capsys):
    argv = ["--problem", "banks", "--workload", "alexnet:backward=1"]
    problem = find_problem("banks").load().build("alexnet:backward=1", "edge", BanksConfig())
    slow = problem.space.labels[0][0]
    tensors = [
        {"tensor": node, "bank": slow, "offset_bytes": 0, "size_bytes": 1}
        for node, live in zip(problem.space.nodes, problem.space.live[:, 0], strict=True)
        if live
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kind": "executorch-plan", "version": 1, "tensors": tensors}))
    assert main(["evaluate", *argv, "--baseline", str(plan), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["baseline"]
    everywhere = problem.space.canonical(np.zeros(problem.space.shape, np.int16))
    assert found == {"cost": problem.model_cost(everywhere), "rule": "plan.json"}
    refuse(capsys, ["evaluate", "--workload", "alexnet", "--baseline", str(plan)], "found a compiler's plan")
    plan.write_text(json.dumps({"kind": "executorch-plan", "version": 1, "tensors": [3]}))
    refuse(capsys, ["evaluate", *argv, "--baseline", str(plan)], "expected a node of alexnet")


def test_exact_is_taken_where_nothing_is_asked_for():
    assert find_problem("banks").choose(False).method == "exact"


def test_chips_of_the_memory_placement_are_those_of_banks_too():
    assert {entry["problem"] for entry in entries("chips") if entry["name"] == "edge"} >= {"nnpi", "banks"}


def test_costs_of_banks_have_no_parts_to_learn():
    assert profile_model_of(PROBLEMS["banks"](), ProfileModelConfig()) is None
