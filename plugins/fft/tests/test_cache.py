"""What is kept on disk between processes: measured costs and compiled codelets; and measurements that end early."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from egrl_fft import cache, codelets, costs, measured, wisdom
from egrl_fft.notation import parse
from egrl_fft.problem import FftConfig, FftProblem
from egrl_fft.transform import Fft
from workloads.errors import InputError, Notice

X = np.random.default_rng(0).normal(size=(16, 2)).view(np.complex128)[:, 0]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "wisdom.json"))
    return tmp_path


def test_machines_that_share_a_home_keep_their_plans_apart(tmp_path, monkeypatch):
    for name in (cache.VARIABLE, "EGRL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, seconds in (("one", 2e-6), ("other", 1e-6)):
        monkeypatch.setattr(cache, "file_name", lambda name=name: name)
        assert wisdom.known() == {}
        wisdom.remember(parse("fs(4,4)"), seconds)
    monkeypatch.setattr(cache, "file_name", lambda: "one")
    assert wisdom.known()[16].seconds == 2e-6
    found = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert sorted(found) == ["egrl/one/fft-wisdom.json", "egrl/other/fft-wisdom.json"]


@pytest.fixture
def compiled(monkeypatch) -> Iterator[list[str]]:
    """The names of what is compiled from now on; nothing that this process has made counts."""
    names: list[str] = []
    keep = cache.keep_codelet
    monkeypatch.setattr(cache, "keep_codelet", lambda name, data: (names.append(name), keep(name, data))[1])
    codelets.address.cache_clear()
    yield names
    codelets.address.cache_clear()


def test_a_codelet_is_compiled_once_and_read_by_the_next_process(folder, compiled):
    assert np.allclose(Fft("fs(4,4)")(X), np.fft.fft(X))
    first = len(compiled)
    assert first == len(list((folder / "fft-codelets").iterdir())) > 0
    codelets.address.cache_clear()
    assert np.allclose(Fft("fs(4,4)")(X), np.fft.fft(X))
    assert len(compiled) == first


def test_a_damaged_codelet_is_compiled_again(folder, compiled):
    Fft("fs(4,4)")
    first = len(compiled)
    for file in (folder / "fft-codelets").iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    codelets.address.cache_clear()
    assert np.allclose(Fft("fs(4,4)")(X), np.fft.fft(X))
    assert len(compiled) == 2 * first


def test_a_folder_that_cannot_be_written_is_no_hindrance(tmp_path, monkeypatch, compiled):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "wisdom.json"))
    problem = FftProblem(16)
    assert math.isfinite(problem.seconds(parse("fs(4,4)")))
    assert compiled


def test_without_a_home_or_leave_to_read_it_nothing_is_known(monkeypatch, compiled):
    def none(*_):
        raise RuntimeError("Could not determine home directory.")

    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    for name in (cache.VARIABLE, "EGRL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as context:
        context.setattr(Path, "home", none)
        with pytest.warns(Notice, match="passed over: Could not determine home"):
            assert wisdom.known() == {}
        assert math.isfinite(FftProblem(16).seconds(parse("fs(4,4)")))
        with pytest.raises(InputError, match="cannot write FFT wisdom"):
            wisdom.remember(parse("fs(4,4)"), 1.0)
    monkeypatch.setattr(Path, "exists", forbidden)
    with pytest.warns(Notice, match="passed over: .*Permission denied"):
        assert wisdom.known() == {}


def test_a_plan_that_fails_is_not_the_best_so_far(folder, monkeypatch):
    calls = timed(monkeypatch, {"16": 2.0, "fs(4,4)": math.nan, "ts(4,4)": 3.0, "f(4,4)": 2.5})
    problem = FftProblem(16, FftConfig(give_up=2.0))
    for text in ("fs(4,4)", "ts(4,4)", "f(4,4)"):
        problem.seconds(parse(text))
    assert [limit for _, limit in calls] == [math.inf, 4.0, 4.0, 4.0]


def timed(monkeypatch, seconds: dict[str, float]) -> list[tuple[str, float]]:
    """Plans take so long; returns what is measured, with its limit."""
    calls: list[tuple[str, float]] = []

    def stand_in(plan, batch=1, limit_s=math.inf):
        calls.append((str(plan), limit_s))
        return seconds[str(plan)]

    monkeypatch.setattr(measured, "seconds", stand_in)
    return calls


def test_what_an_earlier_run_measured_is_not_measured_again_unless_asked(folder, monkeypatch):
    calls = timed(monkeypatch, {"16": 2.0, "fs(4,4)": 1.0})
    assert FftProblem(16).seconds(parse("fs(4,4)")) == 1.0
    assert FftProblem(16).seconds(parse("fs(4,4)")) == 1.0
    assert [name for name, _ in calls] == ["16", "fs(4,4)"]
    fresh = FftProblem(16, FftConfig(cache=False))
    assert fresh.seconds(parse("fs(4,4)")) == 1.0
    assert [name for name, _ in calls] == ["16", "fs(4,4)"] * 2


def test_costs_of_another_machine_are_passed_over_kept_aside_and_begun_anew(folder, monkeypatch):
    timed(monkeypatch, {"16": 2.0, "fs(4,4)": 1.0})
    FftProblem(16).seconds(parse("fs(4,4)"))
    assert costs.known(16) == {"16": 2.0, "fs(4,4)": 1.0}
    file = cache.costs_path(16)
    header, *lines = file.read_text().splitlines()
    others = "\n".join([json.dumps({**json.loads(header), "machine": "other"}), *lines]) + "\n"
    file.write_text(others)
    assert costs.known(16) == {}
    costs.keep(16, "fs(2,8)", 3.0)
    assert costs.known(16) == {"fs(2,8)": 3.0}
    assert file.with_name("dft-16.jsonl.unusable-1").read_text() == others


@pytest.mark.parametrize(
    "line", ['{"plan": "fs(4', "7", '{"plan": 3, "seconds": 1.0}', '{"plan": "16", "seconds": -1.0}', "\x00"]
)
def test_a_line_of_costs_that_says_nothing_is_passed_over(folder, line):
    costs.keep(16, "fs(4,4)", 1.0)
    with open(cache.costs_path(16), "a", encoding="utf-8") as stream:
        stream.write(line + "\n")
    costs.keep(16, "fs(2,8)", 3.0)
    assert costs.known(16) == {"fs(4,4)": 1.0, "fs(2,8)": 3.0}


def test_modelled_costs_are_not_kept(folder):
    FftProblem(16, FftConfig(cost="model")).seconds(parse("fs(4,4)"))
    assert not cache.costs_path(16).exists()


def test_a_measurement_may_end_at_so_many_times_the_best_of_its_size(folder, monkeypatch):
    calls = timed(monkeypatch, {"16": 2.0, "fs(4,4)": 1.0, "f(4,4)": 5.0, "ts(4,4)": 2.0, "8": 1.0})
    problem = FftProblem(16, FftConfig(give_up=3.0))
    for text in ("fs(4,4)", "f(4,4)", "ts(4,4)", "8"):
        problem.seconds(parse(text))
    assert calls == [
        ("16", math.inf),
        ("fs(4,4)", 6.0),
        ("f(4,4)", 3.0),
        ("ts(4,4)", 3.0),
        ("8", math.inf),
    ]


def test_a_plan_beyond_the_limit_is_sampled_twice_and_a_long_one_less_often(monkeypatch):
    runs: list[int] = []
    takes = 0.5

    class Slow:
        def __init__(self, plan, batch) -> None: ...

        def once(self) -> float:
            runs.append(1)
            return takes * (1 + 0.1 / len(runs))

        def calibrate(self):
            return lambda: runs.append(1000) or takes * (1 + 0.1 / len(runs))

    def samples(limit_s: float) -> list[int]:
        runs.clear()
        measured.seconds(parse("16"), 1, limit_s)
        return runs[1:]

    monkeypatch.setattr(measured, "_Sampler", Slow)
    assert samples(0.1) == [1, 1]
    assert set(samples(math.inf)) == {1}
    assert len(runs) - 1 >= measured.LONG.least
    takes = 1e-6
    assert samples(1e-7) == [1000] * (measured.PRACTICE.warmup + 2)
    assert set(samples(math.inf)) == {1000}
    assert len(runs) - 1 >= measured.PRACTICE.warmup + measured.PRACTICE.least
