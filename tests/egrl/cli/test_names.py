"""Lists of names on the command line, sets of workloads among them."""

from __future__ import annotations

import pytest
from commands import refuse

from egrl.cli.output import several, several_workloads
from workloads.errors import InputError
from workloads.zoo.mcm87 import MCM87, split


def test_a_set_stands_for_its_members_among_other_names():
    found = several_workloads("bert_large, mcm87:validation,mine.json", "--workload")
    assert found == ["bert_large", *split().validation, "mine.json"]
    assert several_workloads("mcm87", "--workload") == list(MCM87)


def test_methods_are_no_sets():
    assert several("mcm87:test,annealing", "--methods") == ["mcm87:test", "annealing"]


def test_a_workload_that_is_in_a_set_and_given_too_is_refused():
    name = split().test[3]
    with pytest.raises(InputError, match=f"--workload: expected different workloads, found {name} twice"):
        several_workloads(f"mcm87:test,{name}", "--workload")


@pytest.mark.parametrize(
    "argv",
    [
        ["pretrain", "--workloads", "mcm87:train", "--out", "p"],
        ["pretrain", "--workloads", "mcm87:training", "--validation", "mcm87:valid", "--out", "p"],
        ["compare", "--workload", "mcm87:tests", "--methods", "random", "--out", "c"],
    ],
)
def test_commands_refuse_an_unknown_set(argv, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse(capsys, argv, "expected one of the sets mcm87, mcm87:training, mcm87:validation, mcm87:test")
    assert not list(tmp_path.iterdir())


def test_a_run_refuses_a_set(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse(capsys, ["run", "--problem", "mcm", "--workload", "mcm87:test"], "found a set of 16")
