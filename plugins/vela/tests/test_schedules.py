"""Schedules of Vela's Python core: what the process answers, the problem, a search, and the program that is written."""

from __future__ import annotations

import importlib.util
import json
import pickle
import re

import numpy as np
import pytest
from commands import refuse

from egrl.cli.main import main
from egrl_vela import schedules, written
from egrl_vela.compiler import Target
from egrl_vela.problem import ALL, LABELS, VelaConfig, VelaProblem
from egrl_vela.schedules import INSTALL, Schedules
from hwsim.problem import Status
from tiny_models import convolutions
from workloads.errors import InputError

INSTALLED = importlib.util.find_spec("ethosu") is not None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INSTALLED, reason="needs Arm's Vela: pip install ethos-u-vela==5.2.0"),
]
DEVICE = ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram_384KB")
ALL_KEYS = np.zeros(1, np.uint64)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "net.tflite"
    path.write_bytes(convolutions([16, 96, 96, 128, 96, 16], 64))
    return path


@pytest.fixture(scope="module")
def problem(model):
    return VelaProblem(Target(str(model), *DEVICE), VelaConfig())


def evaluated(problem, mapping):
    return problem.evaluate(mapping[None], ALL_KEYS)


def test_velas_own_schedule_is_the_baseline_and_what_vela_itself_estimates(problem):
    assert len(problem.ops) == 5
    found = evaluated(problem, problem.baseline.mapping)
    assert found.speedup[0] == 1.0
    folder = problem.write(problem.baseline.mapping)
    program = written.read(folder)
    assert program.cycles == pytest.approx(problem.baseline.cost)
    assert found.parts.sum() == pytest.approx(problem.baseline.cost)
    assert [layer.cycles for layer in program.layers] == pytest.approx(found.parts[0].tolist())
    assert program.sram_bytes == pytest.approx(problem._found(problem.baseline.mapping)["sram"], abs=64)


def test_each_kind_of_decision_changes_velas_schedule(problem):
    own = problem.baseline.mapping
    assert problem.shares(own) == [1.0] * (2 + 3 * 5)
    changes = set()
    for node, h in np.argwhere(problem.space.live).tolist():
        changed = own.copy()
        changed[node, h] = 0
        if problem._found(changed) != problem._found(own):
            changes.add((problem.space.heads[h], node > 0))
    assert changes >= {("weights", False), ("weights", True), ("stripes", False), ("cascade", True)}, changes


def test_what_is_written_is_what_was_evaluated(problem):
    changed = problem.baseline.mapping.copy()
    changed[0, 0] = 2
    changed[2, 1] = 0
    program = written.read(problem.write(changed))
    assert program.cycles == pytest.approx(evaluated(problem, changed).cost[0])
    assert program.outside == []
    text = problem.plan_text(changed)
    np.testing.assert_array_equal(problem.read_plan(text, "f"), changed)
    assert json.loads(text)["ops"][ALL] == {"weights": LABELS[0][2]}


def test_too_much_sram_is_invalid_and_a_failing_schedule_has_failed(problem, monkeypatch):
    own = problem.baseline.mapping
    used = problem._found(own)["sram"]
    monkeypatch.setattr(problem, "_limit", used - 16)
    found = evaluated(problem, own)
    assert found.status[0] == Status.INVALID
    assert found.epsilon[0] == pytest.approx(16 / used)
    (violation,) = problem.judge(own)
    assert (violation.demanded, violation.available) == (used, used - 16)
    monkeypatch.setitem(problem._kept, own.tobytes(), {"error": "AssertionError: no"})
    assert evaluated(problem, own).status[0] == Status.FAILED
    assert "Vela fails (AssertionError: no)" in str(problem.judge(own)[0])


def test_a_child_that_fails_is_an_answer_and_the_next_one_is_well(problem):
    process = problem._process()
    assert "IndexError" in process.ask([1.0])["error"]
    assert "cycles" in process.ask(problem.shares(problem.baseline.mapping))


def test_a_schedule_that_takes_too_long_has_failed_and_the_process_begins_anew(model):
    process = Schedules(Target(str(model), *DEVICE), 1e-3)
    shares = [1.0] * (2 + 3 * 5)
    assert process.ask(shares)["error"] == "ended after 0.001 s"
    process._time_limit_s = 300.0
    assert "cycles" in process.ask(shares)
    process.close()


def test_moves_stay_within_the_choices(problem):
    mapping = problem.baseline.mapping
    for key in range(300):
        mapping = problem.move(mapping, np.uint64(key))
        problem.space.check(mapping[None], ALL_KEYS)
        np.testing.assert_array_equal(mapping == -1, ~problem.space.live)
    assert (mapping != problem.baseline.mapping)[problem.space.live].mean() > 0.3
    copy = pickle.loads(pickle.dumps(problem))
    assert evaluated(copy, mapping).cost[0] == evaluated(problem, mapping).cost[0]


def test_a_search_ends_in_a_program_that_the_command_writes(model, tmp_path, capsys):
    run = tmp_path / "run"
    argv = ["run", "--problem", "vela", "--workload", str(model), "--chip", ":".join(DEVICE)]
    assert main([*argv, "--method", "annealing", "--evals", "8", "--out", str(run), "--quiet"]) == 0
    capsys.readouterr()
    plan = run / "decisions.json"
    fast = tmp_path / "fast.tflite"
    argv = ["vela", str(model), "--accelerator", DEVICE[0], "--system-config", DEVICE[1]]
    argv += ["--memory-mode", DEVICE[2], "-o", str(fast)]
    assert main([*argv, "--decisions", str(plan)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "by Vela's estimate (" in told[0]
    assert "Vela's Python core" in told[0]
    assert "0 ops on the CPU, the same as by Vela's own schedule" in "\n".join(told)
    assert re.search(r"0 ops on the CPU; [0-9.]+ against [0-9.]+ M for the [1-9]\d* layers", told[-2])
    assert written.operators(fast.read_bytes()) == [written.NPU]
    text = plan.read_text()
    plan.write_text(text.replace(json.loads(text)["digest"], "0" * 64))
    refuse(capsys, [*argv, "--decisions", str(plan)], "expected decisions for this model, device and Vela")
    refuse(capsys, [*argv, "--decisions", str(tmp_path / "none.json")], "none.json")


def test_what_cannot_be_scheduled_ends_in_a_line(model, tmp_path, capsys, monkeypatch):
    argv = ["run", "--problem", "vela", "--evals", "1", "--out", str(tmp_path / "run"), "--workload"]
    chip = ["--chip", ":".join(DEVICE)]
    refuse(capsys, [*argv, str(tmp_path / "no.tflite"), *chip], "expected a model of TensorFlow Lite")
    refuse(
        capsys, [*argv, str(model), "--chip", "u65"], "--chip: expected accelerator:system-config:memory-mode"
    )
    refuse(capsys, [*argv, str(model), "--chip", "ethos-u85-256:a:b"], "knows no Ethos-U85")
    refuse(capsys, [*argv, str(model), "--chip", "ethos-u65-256:a:b"], "Vela's Python core fails: ")
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"no model")
    refuse(capsys, [*argv, str(broken), *chip], "broken.tflite: Vela's Python core fails")
    monkeypatch.setattr(schedules.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=INSTALL):
        Schedules(Target(str(model), *DEVICE), 1.0)
