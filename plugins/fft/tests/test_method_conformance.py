"""The methods of this plug-in do what every method must do, and methods of egrl serve FFT plans."""

from __future__ import annotations

from method_suite import *  # noqa: F403
from method_suite import Cases

from egrl.methods import find_method
from fft_subjects import NEVER_TWICE, VARIANTS
from subjects import VARIANTS as EGRLS
from subjects import problem, served

METHODS = ("tag", "uct", "random-plans")
ENDLESS = ("nnpi", "toy-ragged", "toy-game")
"""Problems with more plans than any budget here."""
WHOLE = [
    (variant, name)
    for variant in VARIANTS
    for name in (ENDLESS if variant in METHODS else ENDLESS[1:2])
    if served(variant, problem(name))
]
WHOLE += [(variant, "toy-grammar-large") for variant in NEVER_TWICE]
WHOLE += [(variant, "fft-64") for variant in (*METHODS, "tag-parallel", "greedy-dp")]
WHOLE += [(variant, name) for variant in ("tag", "uct") for name in ("mcm", "mmap")]
WHOLE += [
    ("uct-decisions", "mcm"),
    ("random-plans", "toy-grammar"),
    ("random-plans", "fft"),
]
WHOLE += [
    (variant, "fft")
    for variant in EGRLS
    if variant == EGRLS[variant][0] and variant != "greedy-dp" and served(variant, problem("fft"))
]
CASES = Cases(WHOLE, METHODS, {("tag", "toy-ragged"), ("random-plans", "fft")})


def test_a_method_says_why_it_cannot_serve_a_problem():
    assert "derivation" in str(find_method("random-plans").serves(problem("toy-ragged")))
