"""The rule to paste: C and Python place as the shipped rules do, and the page has the table of the first."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import module_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from egrl.methods.placed import placed_by_rules
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.place_features import FEATURE_NAMES
from hwsim.nnpi.problem import NnpiProblem
from policies.ranker import free_share
from policies.shipped import rules
from strategies import chips, workloads
from workloads.load import load

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "rule"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
DESCRIBE, RULE = module_of(FOLDER / "describe.py"), module_of(FOLDER / "rule.py")
RULES = rules(FEATURE_NAMES, 2)
NO_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def listed(problem: NnpiProblem, mapping: np.ndarray) -> str:
    """What the programs should print of a mapping [N, H]."""
    found, heads = problem.placer.tensors, problem.space.heads
    return "".join(
        f"{op} {heads[head]} {mapping[op, head]}\n" for op, head in zip(found.op, found.head, strict=True)
    )


def described(problem: NnpiProblem, rule: np.ndarray) -> str:
    return "\n".join(DESCRIBE.lines(problem.tables, rule)) + "\n"


def in_python(text: str) -> str:
    network = RULE.read(text)
    tensors = RULE.tensors_of(network)
    memories = RULE.place(network, tensors)
    return "".join(f"{t.op} {RULE.HEADS[t.head]} {m}\n" for t, m in zip(tensors, memories, strict=True))


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """The C program, compiled as its page says."""
    folder = tmp_path_factory.mktemp("rule")
    (line,) = [line for line in PAGE.splitlines() if line.startswith("cc ")]
    words = [str(FOLDER / "rule.c") if word.endswith("rule.c") else word for word in shlex.split(line)]
    subprocess.run([*words, "-Wall", "-Wextra", "-Wpedantic", "-Werror"], check=True, cwd=folder)
    return folder / "rule"


def in_c(program: Path, text: str) -> str:
    file = program.with_name("chip.txt")
    file.write_text(text, encoding="utf-8")
    return subprocess.run([program, file], check=True, capture_output=True, text=True).stdout


@NO_COMPILER
@pytest.mark.parametrize("chip", ["nnpi", "edge", "quad"])  # three, two and four memories
@pytest.mark.parametrize("workload", ["resnet50", "bert", "unet"])
def test_c_and_python_place_as_the_shipped_rules_do(workload, chip, program):
    problem = NnpiProblem(load(workload), load_chip(chip))
    for rule, mapping in zip(RULES[:3], placed_by_rules(problem), strict=False):
        text, maps = described(problem, rule), listed(problem, mapping)
        assert in_python(text) == maps
        assert in_c(program, text) == maps


@NO_COMPILER
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workloads(), chips(), st.integers(0, len(RULES) - 1))
def test_they_do_so_for_any_network_chip_and_rule(program, workload, chip, number):
    problem = NnpiProblem(workload, chip)
    text, maps = described(problem, RULES[number]), listed(problem, placed_by_rules(problem)[number])
    assert in_python(text) == maps
    assert in_c(program, text) == maps


@NO_COMPILER
@pytest.mark.parametrize("chip", ["nnpi", "quad"])
def test_of_equal_scores_the_first_tensor_and_the_faster_memory_come_first(chip, program):
    problem = NnpiProblem(load("resnet50"), load_chip(chip))
    rule = np.zeros_like(RULES[0])
    rule[:-1].reshape(4, -1)[:, FEATURE_NAMES.index("one")] = 1
    scores = np.ones((1, *problem.placer.features.shape[:2]), np.float32)
    scores[:, :, 0] = 0
    maps = listed(problem, problem.placer.place(scores, free_share(rule[-1:]))[0])
    assert in_python(described(problem, rule)) == maps
    assert in_c(program, described(problem, rule)) == maps


def test_the_features_of_the_python_program_are_those_of_the_placer():
    problem = NnpiProblem(load("unet"), load_chip("quad"))
    network = RULE.read(described(problem, RULES[0]))
    tensors = RULE.tensors_of(network)
    seen = RULE.Features(network, tensors)
    for memory in range(1, 4):
        rows = [[row[name] for name in FEATURE_NAMES] for row in seen.in_memory(tensors, memory)]
        np.testing.assert_allclose(rows, problem.placer.features[:, memory], atol=1e-6)


def test_the_page_has_the_table_of_the_first_shipped_rule():
    table = [line for line in PAGE.splitlines() if line.startswith(("| `", "| feature"))]
    shown = [line for line in DESCRIBE.table(RULES[0]) if not line.startswith("|---")]
    assert table[-len(shown) :] == shown, "python examples/rule/describe.py --table prints it"


def test_describe_prints_the_default_pair_and_the_table(capsys):
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    assert DESCRIBE.main([]) == 0
    assert capsys.readouterr().out == described(problem, RULES[0])
    assert DESCRIBE.main(["resnet50", "nnpi", "3"]) == 0
    assert capsys.readouterr().out == described(problem, RULES[2])
    assert DESCRIBE.main(["--table"]) == 0
    assert capsys.readouterr().out.splitlines() == list(DESCRIBE.table(RULES[0]))


def test_the_page_s_commands_print_what_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    problem = NnpiProblem(load("resnet50"), load_chip("nnpi"))
    (tmp_path / "chip.txt").write_text(described(problem, RULES[0]), encoding="utf-8")
    assert RULE.main(["chip.txt"]) == 0
    printed = capsys.readouterr().out
    assert printed == listed(problem, placed_by_rules(problem)[0])
    shown = PAGE.split("```text\n")[1].split("```")[0]
    tensors = [line.rsplit(" ", 1)[0] for line in shown.splitlines()]
    assert tensors == [line.rsplit(" ", 1)[0] for line in printed.splitlines()[-len(tensors) :]]


@pytest.mark.slow
@NO_COMPILER
def test_what_is_no_description_is_refused_in_one_line(tmp_path, program):
    whole = described(NnpiProblem(load("alexnet"), load_chip("nnpi")), RULES[0])
    files = {
        "empty": "",
        "cut": whole[: len(whole) // 2],
        "other": whole.replace("lifetime", "life_time"),
        "memory": whole.replace(" into 1 ", " into 7 "),
        "edge": re.sub(r"\n0 1 (\d+)\n", r"\n1 1 \1\n", whole, count=1),
        "word": whole.replace("ops", "oops"),
    }
    assert whole not in files.values()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in (*files, "missing"):
        for argv in ([str(program)], [sys.executable, str(FOLDER / "rule.py")]):
            done = subprocess.run([*argv, str(tmp_path / name)], check=False, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (name, argv)
            assert done.stderr.startswith(f"rule: {tmp_path / name}: expected ")
