"""Commands that FFT plans have nothing for say so in a line; what is chosen for them, and what settings mean."""

from __future__ import annotations

import pytest
from commands import refuse

from egrl.cli.listing import known
from egrl.cli.main import main
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl_fft.graph_search.tag import TagConfig
from toys.wide import ToyWide

FFT = ["--problem", "fft", "--workload", "dft-64"]
REFUSED = [
    (
        ["reproduce", "tag", "--quick", "--quiet", "--workers", "2"],
        "--workers: expected 1: plans are timed one after",
    ),
    (
        ["bound", "--workload", "bert", "--problem", "fft"],
        "--workload: expected dft-N with N from 1 to 16777216, found",
    ),
    (
        ["run", *FFT, "--chip", "edge"],
        "--chip: expected host (plans are measured on this machine), found 'edge'",
    ),
    (["run", *FFT, "--until-gap", "1%"], "--until-gap 1%: expected a problem with a bound, found fft"),
    (
        ["bound", *FFT, "--set", "problem.cost=model"],
        "--problem fft: expected one with a model that can be solved or",
    ),
    (["explore", *FFT, "--vary", "x=1..2", "-o", "explored"], "expected one with a chip file"),
]


@pytest.mark.parametrize(("argv", "words"), REFUSED, ids=[" ".join(argv[:4]) for argv, _ in REFUSED])
def test_what_plans_have_not_is_refused_in_a_line(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse(capsys, argv, words)


@pytest.mark.parametrize(
    ("name", "found"), [("a.txt", "a table"), ("a.csv", "a table"), ("a.onnx", "a model")]
)
def test_a_problem_of_plans_takes_no_table(name, found, tmp_path, capsys):
    given = tmp_path / name
    given.write_text("node,weight,activation\nconv1,dram,dram\n", encoding="utf-8")
    argv = ["evaluate", *FFT, "--baseline", str(given)]
    refuse(capsys, argv, f"--baseline {given}: expected a mapping file (best_mapping.json), found {found}")


def test_plans_have_no_trace(tmp_path, capsys):
    argv = ["run", "--problem", "fft", "--workload", "dft-16", "--set", "problem.cost=model", "--evals", "2"]
    assert main([*argv, "--quiet", "--out", str(tmp_path / "r")]) == 0
    refuse(capsys, ["trace", str(tmp_path / "r")], "expected a problem with lifetimes of tensors")


def test_tag_is_taken_where_nothing_is_asked_for():
    assert find_problem("fft").choose(False).method == "tag"


@pytest.mark.parametrize("name", ["tag", "uct"])
def test_a_probability_a_choice_is_too_much_for_many_nodes_and_one_with_many_choices(name):
    assert "it keeps one probability per choice, and 20000 nodes" in str(find_method(name).serves(ToyWide()))


def test_settings_of_a_base_have_their_meanings():
    found = {each["name"]: each["meaning"] for each in known(TagConfig(), "method")}
    assert found["method.elites"] == "best plans that completions learn from (K)"
    assert found["method.s"].startswith("best rewards of a vertex")
