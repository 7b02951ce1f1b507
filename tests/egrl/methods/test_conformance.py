"""What every method must do, on every problem that it serves."""

from __future__ import annotations

from method_suite import *  # noqa: F403
from method_suite import Cases

from egrl.methods import METHODS, find_method
from subjects import ONE_SHOT, VARIANTS, problem, served

EVERYWHERE = ("nnpi", "nnpi-penalise", "toy-ragged", "toy-game", "toy-grammar")
PENALISED = ("egrl", "pg", "es", "annealing", "greedy-dp", "random")
"""Methods that are tried where invalid mappings are penalised; the rest learn of rewards in the same way."""
WHOLE = [
    (variant, name)
    for variant in VARIANTS
    for name in (EVERYWHERE if variant in METHODS else ("toy-ragged", "toy-grammar"))
    if served(variant, problem(name))
    and (name != "nnpi-penalise" or variant in PENALISED)
    and (variant, name) != ("egrl-twin", "toy-ragged")
]
WHOLE += [("egrl-twin", "nnpi")]
WHOLE += [(variant, "mmap-literal") for variant in ("annealing", "greedy-dp")]
WHOLE += [(variant, "mcm") for variant in ("annealing", "annealing-distributions", "egrl", "random")]
WHOLE += [("revise", name) for name in ("toy-coins", "mmap", "mmap-literal", "mmap-lost")]
WHOLE += [("ea", "mcm-device"), ("ppo", "mcm"), ("random", "nnpi-noisy")]
LOOP = {("random", "toy-ragged"), ("random", "nnpi"), ("egrl", "toy-ragged"), ("ea", "nnpi")}
LOOP |= {("annealing-chains", "toy-ragged"), ("random", "nnpi-noisy")}
"""What tests of the loop run: methods that are asked ahead by 0, 1 and 3 batches, with rounds and without."""
CASES = Cases(WHOLE, METHODS, LOOP)
CASES.few.add(("twin", "nnpi"))


def test_every_registered_method_takes_part() -> None:
    assert {name for name, _ in VARIANTS.values()} == set(METHODS) - set(ONE_SHOT)


def test_a_method_says_why_it_cannot_serve_a_problem():
    assert "graph" in str(find_method("egrl").serves(problem("toy-grammar")))
    assert find_method("annealing").serves(problem("toy-grammar")) is None
    assert find_method("random").serves(problem("toy-grammar")) is None
