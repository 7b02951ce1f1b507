"""Keyed random numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsim.keys import derive, normals

KEY = st.integers(0, 2**64 - 1)


def splitmix64(state: int) -> tuple[int, int]:
    """The published sequential generator: (next state, output)."""
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


@given(KEY, st.integers(0, 20))
def test_draw_number_c_of_a_key_is_output_number_c_of_splitmix64_seeded_with_it(key: int, counter: int):
    state = key
    for _ in range(counter + 1):
        state, output = splitmix64(state)
    assert int(derive(np.array([key], np.uint64), counter)[0]) == output


def test_first_outputs_of_seed_zero_are_the_known_ones():
    zero = np.zeros(1, np.uint64)
    assert int(derive(zero, 0)[0]) == 0xE220A8397B1DCDAF
    assert int(derive(zero, 1)[0]) == 0x6E789E6AA1B965F4


def test_normals_have_mean_zero_and_variance_one_and_depend_only_on_their_key():
    keys = np.arange(40_000, dtype=np.uint64)
    drawn = normals(keys)
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.var() - 1) < 0.03
    assert np.array_equal(normals(keys[::-1])[::-1], drawn)
    assert not np.array_equal(normals(keys, 1), drawn)


@pytest.mark.slow
def test_kernels_compile_where_no_cache_folder_can_be_written(tmp_path: Path):
    (tmp_path / "twice.py").write_text(
        "from hwsim.jit import kernel\n@kernel\ndef twice(x):\n    return 2 * x\nprint(twice(21))\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "PYTHONPATH": str(root)}
    for name in ("NUMBA_CACHE_DIR", "EGRL_CACHE_DIR"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-B", str(tmp_path / "twice.py")], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "42\n", done.stderr
