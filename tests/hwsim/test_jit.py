"""Machine code on disk holds no longer than what it was made of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
