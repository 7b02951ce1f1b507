"""Kernels: who is told that they are compiled, and a clock that does not count it."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import event

from hwsim import jit
from hwsim.jit import before_compiling, clock, kernel

ROOT = Path(__file__).resolve().parents[2]
HELPER = """
from hwsim.jit import kernel

@kernel
def plus(x):
    return x + 1

@kernel
def twice(x):
    return 2 * plus(x)
"""
LISTENER = """
from hwsim.jit import before_compiling, kernel
from helper import twice
told = []
with before_compiling(told.append):
    print(twice(3))
    print(twice(3.5))
print(told)
"""


@pytest.mark.slow
def test_a_listener_is_told_once_before_kernels_are_compiled_and_not_where_they_are_loaded(tmp_path):
    for name, text in (("helper", HELPER), ("caller", LISTENER)):
        (tmp_path / f"{name}.py").write_text(text)
    env = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "", "EGRL_CACHE_DIR": str(tmp_path / "cache")}
    for told in ("[True]", "[]"):
        argv = [sys.executable, str(tmp_path / "caller.py")]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
        assert done.stdout.splitlines() == ["8", "9.0", told]


def nowhere(name: str):
    """A new kernel of code that lies in no file, so that numba cannot keep what it makes of it."""
    scope: dict = {}
    exec(f"def {name}(x):\n    return x + 1", scope)
    return kernel(scope[name])


def test_a_listener_is_told_where_machine_code_cannot_be_kept():
    told: list[bool] = []
    with before_compiling(told.append):
        assert nowhere("one")(1) == 2
        assert nowhere("other")(1) == 2
    assert told == [False]


def test_a_listener_is_forgotten_when_its_block_ends():
    told: list[bool] = []
    with before_compiling(told.append):
        pass
    assert nowhere("later")(1) == 2
    assert told == []


class Wall(event.Listener):
    """A wall clock that compiling moves, each time by as much, and nothing else."""

    COMPILING_S = 1024.0

    def __init__(self) -> None:
        self.now_s, self.shown_s = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now_s

    def on_start(self, event: Any) -> None:
        self.now_s += self.COMPILING_S
        self.shown_s.append(clock())

    def on_end(self, event: Any) -> None:
        self.shown_s.append(clock())


def test_the_clock_stands_still_while_kernels_are_compiled(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "slow_to_compile.py").write_text(
        "from hwsim.jit import kernel\n\n@kernel\ndef inner(x):\n    return x + 1\n\n"
        "@kernel\ndef outer(x):\n    return inner(x) * 2\n"
    )
    from slow_to_compile import outer

    wall = Wall()
    monkeypatch.setattr(jit, "time", wall)
    with event.install_listener("numba:compile", wall):
        own = clock()
        assert outer(3) == 8
        assert len(wall.shown_s) >= 4  # of the kernel, and within it of the one that it calls
        assert [*wall.shown_s, clock()] == pytest.approx([own] * (len(wall.shown_s) + 1))
        wall.now_s += 8.0
        assert outer(3) == 8
        assert clock() == pytest.approx(own + 8.0)


@pytest.mark.exhaustive
def test_each_process_leaves_what_it_compiled_and_a_tool_adds_it_up(tmp_path):
    for name, text in (("helper", HELPER), ("caller", "from helper import twice\nprint(twice(3))\n")):
        (tmp_path / f"{name}.py").write_text(text)
    tool = [sys.executable, str(ROOT / "tools" / "compile_times.py")]
    env = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "", "HOME": str(tmp_path)}
    for cache, times in (
        ([], 2),
        (["--cache", str(tmp_path / "kept")], 2),
        (["--cache", str(tmp_path / "kept")], 0),
    ):
        argv = [*tool, *cache, sys.executable, str(tmp_path / "caller.py")]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
        assert "8" in done.stdout.splitlines()
        assert f"s of compiling, {times} times; {times} kernels by their types" in done.stdout
        assert ("helper.plus" in done.stdout) == (times > 0)
    failed = subprocess.run([*tool, sys.executable, "-c", "raise SystemExit(3)"], check=False, env=env)
    assert failed.returncode == 3


def test_what_is_inlined_divides_as_numpy_does(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "divides.py").write_text(
        "from hwsim.jit import inlined, kernel\n\n@inlined\ndef ratio(a, b):\n    return a / b\n\n"
        "@kernel\ndef sums(x):\n    total = 0.0\n    for i in range(len(x)):\n        total += ratio(1.0, x[i])\n"
        "    return total\n"
    )
    from divides import ratio, sums

    assert sums(np.array([2.0, 4.0])) == 0.75
    assert sums(np.array([0.0])) == math.inf
    assert ratio(1.0, 4.0) == 0.25


def test_calls_with_constants_take_one_kernel(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("EGRL_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "constants.py").write_text(
        "from hwsim.jit import kernel\n\n@kernel\ndef plus(x, y):\n    return x + y\n\n"
        "@kernel\ndef sums(x):\n    return plus(x, 0) + plus(x, 1) + plus(y=x, x=2) + plus(x, x)\n"
    )
    from constants import plus, sums

    assert sums(3) == 3 + 4 + 5 + 6
    assert len(plus.signatures) == 1
