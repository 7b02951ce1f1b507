"""Machine code on disk holds no longer than what it was made of."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hwsim.jit import before_compiling, clock, kernel

ROOT = Path(__file__).resolve().parents[2]
HELPER = """
from typing import NamedTuple
from hwsim.jit import kernel
import deeper
SCALE = 10

class Pair(NamedTuple):
    first: int
    second: int

@kernel
def twice(x):
    return 2 * deeper.plus(x)
"""
DEEPER = """
from hwsim.jit import kernel

@kernel
def plus(x):
    return x + 1
"""
CALLER = """
from hwsim.jit import kernel
from helper import SCALE, Pair, twice

@kernel
def answer(pair: Pair) -> int:
    return SCALE * twice(pair.first)

print(answer(Pair(3, 4)), sum(answer.stats.cache_hits.values()))
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
CHANGES = {
    "a kernel of another file": ("helper", "return 2 *", "return 3 *", 120),
    "a kernel that this one calls": ("deeper", "x + 1", "x + 2", 100),
    "a constant of another file": ("helper", "SCALE = 10", "SCALE = 11", 88),
    "the order of fields": ("helper", "first: int\n    second", "second: int\n    first", 100),
}


def run(folder: Path) -> tuple[int, int]:
    """What the program prints: its answer, and how often machine code came from disk."""
    argv = [sys.executable, str(folder / "caller.py")]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, env={"PYTHONPATH": f"{ROOT}:{folder}", "PATH": ""}
    )
    answer, hits = done.stdout.split()
    return int(answer), int(hits)


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_kernel_is_compiled_anew_when_what_it_takes_from_another_file_changes(tmp_path, change):
    for name, text in (("helper", HELPER), ("deeper", DEEPER), ("caller", CALLER)):
        (tmp_path / f"{name}.py").write_text(text)
    assert run(tmp_path) == (80, 0)
    assert run(tmp_path) == (80, 1)
    name, old, new, answer = change
    file = tmp_path / f"{name}.py"
    file.write_text(file.read_text().replace(old, new))
    assert run(tmp_path)[0] == answer
    assert run(tmp_path) == (answer, 1)


def test_a_listener_is_told_once_before_kernels_are_compiled_and_not_where_they_are_loaded(tmp_path):
    for name, text in (("helper", HELPER), ("deeper", DEEPER), ("caller", LISTENER)):
        (tmp_path / f"{name}.py").write_text(text)
    env = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": ""}
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


def test_the_clock_stands_still_while_kernels_are_compiled(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "slow_to_compile.py").write_text(
        "from hwsim.jit import kernel\n\n@kernel\ndef inner(x):\n    return x + 1\n\n"
        "@kernel\ndef outer(x):\n    return inner(x) * 2\n"
    )
    from slow_to_compile import outer

    wall, own = time.monotonic(), clock()
    assert outer(3) == 8
    compiled = time.monotonic() - wall - (clock() - own)
    assert 0.5 * (time.monotonic() - wall) < compiled <= time.monotonic() - wall
    wall, own = time.monotonic(), clock()
    time.sleep(0.3)
    assert outer(3) == 8
    assert clock() - own == pytest.approx(time.monotonic() - wall, abs=0.1)
