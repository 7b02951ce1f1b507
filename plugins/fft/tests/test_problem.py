"""The problem: names, costs, parts; and wisdom."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import egrl_fft
from egrl_fft import cache, wisdom
from egrl_fft.files import check_chip, load_size
from egrl_fft.grammar import Codelet
from egrl_fft.model import seconds
from egrl_fft.notation import parse
from egrl_fft.problem import FftConfig, FftProblem
from egrl_fft.race import PlanRace
from hwsim.kernel_cache import machine_name
from hwsim.problem import Status
from workloads.errors import InputError, Notice


@pytest.mark.parametrize("name", ["dft-0", "dft--4", "dft-1.5", "dft-", "fft-8", "dft-16777217", "bert"])
def test_a_wrong_workload_is_refused_in_one_line(name):
    with pytest.raises(InputError, match=r"--workload: expected dft-N with N from 1 to 16777216, found"):
        load_size(name)


def test_a_chip_other_than_this_machine_is_refused():
    with pytest.raises(InputError, match="--chip: expected host"):
        check_chip("nnpi")
    with pytest.raises(InputError, match=r"/nowhere/machine\.toml: expected the machine"):
        check_chip("/nowhere/machine.toml")


def test_a_run_s_file_names_its_size(tmp_path):
    file = tmp_path / "dft.json"
    file.write_text(FftProblem(16, FftConfig(cost="model")).files()["dft.json"])
    assert load_size(str(file)) == 16


def test_measured_costs_are_seconds_and_repeat_in_a_process():
    problem = FftProblem(16)
    rows = problem.derivation.encode(parse("fs(4,4)"))[None]
    first = problem.evaluate(rows, np.zeros(1, np.uint64))
    assert first.status[0] == Status.OK
    assert 1e-8 < first.cost[0] < 1e-2
    again = problem.evaluate(rows, np.ones(1, np.uint64))
    assert again.cost[0] == first.cost[0]


def test_a_part_counts_against_its_own_default_and_is_partial():
    problem = FftProblem(1024, FftConfig(cost="model"))
    rows = problem.derivation.encode(parse("fs(8,8)"))[None]
    found = problem.evaluate(rows, np.zeros(1, np.uint64))
    assert found.partial[0]
    assert found.cost[0] == seconds(parse("fs(8,8)")) < problem.baseline.cost
    np.testing.assert_array_equal(found.repaired, rows)


def test_the_model_prices_what_runs_more_often_higher():
    assert seconds(parse("fs(16,16)")) < seconds(parse("f(2,f(2,f(2,f(2,f(2,f(2,4))))))"))
    assert seconds(parse("fs(8,8)")) < seconds(parse("fs(8,fs(8,8))"))


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "wisdom.json"
    monkeypatch.setenv("EGRL_FFT_WISDOM", str(path))
    monkeypatch.setattr(egrl_fft, "_plans", {})
    return path


def test_a_learned_plan_is_used_from_then_on(file):
    assert str(egrl_fft.plan(16).plan) == "16"
    assert egrl_fft.learn("fs(4,4)")
    assert str(egrl_fft.plan(16).plan) == "fs(4,4)"
    assert not wisdom.remember(Codelet(16), 1.0).kept
    assert wisdom.remember(Codelet(16), 1e-12).kept
    assert str(wisdom.known()[16].plan) == "16"
    assert [entry.name for entry in file.parent.iterdir() if entry.is_file()] == ["wisdom.json"]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("machine", "other", "machine: expected"),
        ("library", 0, "library: expected 1, found 0"),
        ("version", 99, "version"),
        ("plans", {}, "plans: expected a list, found dict"),
        ("plans", [{"size": 8, "plan": "q", "seconds": 1}], r"plans\[0\]\.plan: expected a plan such as"),
        (
            "plans",
            [{"size": 9, "plan": "8", "seconds": 1}],
            "expected a complete plan for 9 points, found '8'",
        ),
        ("plans", [{"size": 8, "plan": "8", "seconds": 0}], "seconds: expected a number above 0, found 0"),
    ],
)
def test_wisdom_that_is_of_no_use_here_is_refused_and_passed_over_with_a_warning(file, key, value, line):
    wisdom.remember(Codelet(8), 1e-6)
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    with pytest.raises(InputError, match=line):
        wisdom.read(file)
    before = file.read_bytes()
    with pytest.warns(Notice, match="FFT wisdom is passed over"):
        assert wisdom.known() == {}
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", ["{", "garbage", '{"kind": "fft-wisdom", "version": 99}'])
def test_wisdom_that_cannot_be_used_is_kept_aside_under_a_name_of_its_own(content, file):
    first, second = (file.with_name(f"wisdom.json.unusable-{number}") for number in (1, 2))
    file.parent.mkdir()
    file.write_text(content)
    first.write_text("of an earlier time")
    with pytest.warns(Notice, match=f"^FFT wisdom that could not be used is kept as {second}: {file}: "):
        assert egrl_fft.learn("fs(4,4)")
    assert (first.read_text(), second.read_text()) == ("of an earlier time", content)
    assert list(wisdom.known()) == [16]
    assert wisdom.remember(Codelet(8), 1e-6).aside is None
    assert list(wisdom.known()) == [8, 16]


def test_what_is_remembered_is_said_to_be_kept_where_it_was_taken_before(file):
    problem = FftProblem(16, FftConfig(cost="model"))
    default, other = (problem.read_plan(text, "plan") for text in ("16", "fs(4,4)"))
    race = PlanRace(16, problem.derivation)
    said = [race.remember(mapping, 1e-6) for mapping in (default, other, other, default)]
    assert [line.removesuffix(f" (wisdom: {file})") for line in said] == [
        "egrl_fft.plan(16) keeps 16",
        "egrl_fft.plan(16) takes fs(4,4) from now on",
        "egrl_fft.plan(16) keeps fs(4,4)",
        "egrl_fft.plan(16) takes 16 from now on",
    ]


def test_wisdom_is_left_where_it_was_if_nothing_can_take_its_place(file, monkeypatch):
    def full(file, data):
        raise OSError(28, "No space left on device")

    file.parent.mkdir()
    file.write_text("garbage")
    monkeypatch.setattr(wisdom, "write", full)
    with pytest.raises(InputError, match="cannot write FFT wisdom: No space left on device"):
        wisdom.remember(Codelet(8), 1e-6)
    assert {entry.name: entry.read_text() for entry in file.parent.iterdir()} == {"wisdom.json": "garbage"}


def test_wisdom_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EGRL_FFT_WISDOM", str(tmp_path / "file" / "wisdom.json"))
    with pytest.raises(InputError, match="cannot write FFT wisdom"):
        wisdom.remember(Codelet(8), 1e-6)


def test_the_machine_has_a_name():
    assert "lanes" in machine_name()
    assert re.fullmatch(r"[\w.-]+-lanes-[0-9a-f]{8}", cache.file_name())
