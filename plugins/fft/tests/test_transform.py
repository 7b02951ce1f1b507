"""Every plan is a DFT: all plans of tiny sizes, random ones of every size to 512, and of some large sizes."""

from __future__ import annotations

import numpy as np
import pytest

from egrl_fft import codelets, plan
from egrl_fft import transform as executor
from egrl_fft.default import default_plan
from egrl_fft.grammar import LARGEST_CODELET, Codelet, Loop, Open, Plan, Split, expand, has_codelet, rules
from egrl_fft.instructions import Kind
from egrl_fft.transform import Fft
from workloads.errors import InputError

pytestmark = pytest.mark.usefixtures("quick_codelets")


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(shape[-1])
    return rng.normal(size=(*shape, 2)).view(np.complex128)[..., 0]


def error(text: Plan | str) -> float:
    fft = Fft(text)
    x = numbers(2, fft.size)
    before = x.copy()
    found, expected = fft(x), np.fft.fft(x)
    np.testing.assert_array_equal(x, before)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def random_plan(size: int, rng: np.random.Generator, largest: int = 16) -> Plan:
    """Derived by rules drawn at random, large codelets (slow to compile) only where there is nothing else."""
    vertex: Plan = Open(size, bare=True)
    while following := expand(vertex):
        small = [p for p in following if not _largest(p) > largest]
        vertex = (small or following)[rng.integers(len(small or following))]
    return vertex


def _largest(plan: Plan) -> int:
    match plan:
        case Codelet(size):
            return size
        case Split(_, _, radix, rest):
            return max(_largest(radix), _largest(rest))
        case Loop(_, _, inner):
            return _largest(inner)
    return 0


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12])
def test_every_plan_of_a_tiny_size_is_a_dft(size):
    seen, frontier = set(), [Open(size, bare=True)]
    while frontier:
        vertex = frontier.pop()
        if vertex in seen:
            continue
        seen.add(vertex)
        following = expand(vertex)
        frontier.extend(following)
        if not following:
            assert error(vertex) < 1e-14, str(vertex)


@pytest.mark.exhaustive
def test_a_random_plan_of_every_size_to_512_is_a_dft():
    rng = np.random.default_rng(0)
    for size in range(1, 513):
        chosen = random_plan(size, rng)
        assert error(chosen) < 1e-12, str(chosen)


@pytest.mark.exhaustive
def test_random_plans_of_large_sizes_are_dfts():
    rng = np.random.default_rng(1)
    for size in [2**13, 3**8, 10007, 2 * 3 * 5 * 7 * 11 * 13, 2**15, 99991, 5**7, 17 * 2**10, 2**20]:
        chosen = random_plan(size, rng)
        assert error(chosen) < 1e-10, str(chosen)


@pytest.mark.slow
def test_default_plans_are_dfts():
    for size in [31, 37, 74, 1009, 4096, 9102, 65537, 3 * 2**14]:
        assert error(default_plan(size)) < 1e-12, size


@pytest.mark.parametrize("size", [n for n in range(2, LARGEST_CODELET + 1) if has_codelet(n)])
def test_every_codelet_is_a_dft(size):
    assert error(str(size)) < 1e-14


@pytest.mark.parametrize(
    "text",
    [
        "r(4)",
        "r(f(2,3))",
        "z5(9)",
        "z5(fs(4,4))",
        "f(3,r(6))",
        "ts(r(6),3)",
        "t(z7(13),4)",
        "fs(r(4),z4(8))",
        "l8(f(2,2))",
        "c1(f(2,2))",
        "f(6,l4(fs(3,3)))",
        "t(c3(f(2,3)),c8(ts(2,3)))",
        "fs(fs(2,2),c8(l1(f(2,2))))",
        "z4(z8(16))",
    ],
)
def test_what_is_written_by_hand_is_run_even_if_the_grammar_does_not_propose_it(text):
    assert error(text) < 1e-13


def test_optimised_codelets_are_dfts(monkeypatch):
    monkeypatch.undo()
    for text in ("fs(8,8)", "t(16,c8(fs(8,4)))", "r(f(4,4))"):
        assert error(text) < 1e-14


def test_no_codelet_writes_where_it_should_not():
    fft = Fft("fs(5,t(3,4))")
    held = np.full(3 * 60 + 32, 7.0 + 0j)
    out = held[16:-16].reshape(3, 60)
    fft(numbers(3, 60), out)
    assert (held[:16] == 7).all()
    assert (held[-16:] == 7).all()


def test_any_leading_shape_and_layout_is_taken():
    fft = Fft("fs(3,4)")
    x = numbers(2, 3, 12)
    np.testing.assert_allclose(fft(x), np.fft.fft(x), rtol=1e-12, atol=1e-12)
    strided = numbers(4, 24)[::2, ::2]
    np.testing.assert_allclose(fft(strided), np.fft.fft(strided), rtol=1e-12, atol=1e-12)
    assert fft(np.zeros((0, 12), np.complex128)).shape == (0, 12)


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (np.zeros(8), "float64"),
        (np.zeros(9, np.complex128), r"\(9,\)"),
        (np.zeros((8, 2), np.complex64), "complex64"),
        (np.zeros((), np.complex128), r"\(\)"),
        ([1, 2], "list"),
    ],
)
def test_a_wrong_input_is_refused_in_one_line(x, found):
    with pytest.raises(InputError, match=rf"x: expected complex128 of shape \(\.\.\., 8\), found .*{found}"):
        Fft("8")(x)


def test_an_output_that_overlaps_the_input_is_refused():
    x = numbers(8)
    with pytest.raises(InputError, match="apart from x"):
        Fft("8")(x, x)


def test_a_plan_that_is_printed_says_its_size_and_its_text():
    assert str(Fft("fs(4,4)")) == repr(Fft("fs(4,4)")) == "<Fft of 16 points: fs(4,4)>"


def test_open_and_enormous_plans_are_refused():
    with pytest.raises(InputError, match="open sub-problem"):
        Fft("f(2,?4)")
    with pytest.raises(InputError, match="1 to 16777216 points"):
        Fft("f(64,f(64,f(64,f(64,2))))")


def test_a_convolution_inside_may_have_more_points_than_a_transform(monkeypatch):
    monkeypatch.setattr(executor, "MOST", 1019)
    fft, x = Fft(f"z1019({default_plan(2048)})", 1019), numbers(1019)
    assert np.abs(fft(x) - np.fft.fft(x)).max() < 1e-9
    with pytest.raises(InputError, match="1 to 1019 points, found 2048"):
        Fft(default_plan(2048), 1019)


def test_plans_of_absurd_numbers_end():
    assert error("t(8,l1000000000000(8))") < 1e-12
    with pytest.raises(InputError, match="expected"):
        Fft("9" * 5000)


@pytest.mark.parametrize("size", [0, -1, 2**24 + 1, 1.5, "8", True])
def test_a_wrong_size_is_refused(size):
    with pytest.raises(InputError, match="size: expected a whole number from 1 to 16777216, found"):
        plan(size)


def test_a_broken_twiddle_factor_is_noticed():
    fft = Fft("fs(4,4)")
    fft._factors[3] *= 1.001
    x = numbers(16)
    assert np.abs(fft(x) - np.fft.fft(x)).max() > 1e-6


def test_a_codelet_is_compiled_once():
    kind = Kind(3, True, True)
    assert codelets.address(kind) == codelets.address(kind)


@pytest.mark.slow
def test_every_size_has_a_rule():
    assert all(rules(size, bare) for size in range(1, 2000) for bare in (True, False))
