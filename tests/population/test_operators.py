"""Operators of DEAP by name: what is refused, what they are handed, and that runs with them repeat."""

from __future__ import annotations

import csv
import random
import sys

import numpy as np
import pytest

import egrl
from population.config import EvolutionConfig
from population.genome import Boltzmann, Individual, Network
from population.operators import (
    Selection,
    Variation,
    check_mating,
    check_mutation,
    check_selection,
    parse,
    refers,
)
from workloads.errors import InputError

GAUSSIAN = "deap.tools:mutGaussian(mu=0, sigma=0.5, indpb=1)"
SPREAD = "deap.tools:selStochasticUniversalSampling"


def individuals(*scores: float) -> list[Individual]:
    return [
        Individual(Network(np.full(3, k, np.float32)), k).with_fitness(score)
        for k, score in enumerate(scores)
    ]


def test_a_setting_is_a_name_with_arguments():
    assert parse("deap.tools:selBest") == ("deap.tools:selBest", {})
    assert parse(" deap.tools:cxBlend ( alpha = -0.5 )") == ("deap.tools:cxBlend", {"alpha": -0.5})
    assert parse("a.b:c(low=[0, 1], word='x(y')") == ("a.b:c", {"low": [0, 1], "word": "x(y"})


@pytest.mark.parametrize(
    "text", ["selBest", "a:b(", "a:b)", "a:b(1)", "a:b(x=y)", "a:b(x=1)(y=2)", "a:b(x=1", "a:b(**{'x': 1})"]
)
def test_a_setting_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="mutation: expected MODULE:NAME or MODULE:NAME"):
        EvolutionConfig(survival="generational", mutation=text)


def test_only_deaps_own_tools_are_no_code_of_a_stranger():
    assert not refers("")
    assert not refers(SPREAD)
    assert refers("deap.gp:compile")
    assert refers("mine:select(k=2)")


@pytest.mark.parametrize(
    ("check", "text", "words"),
    [
        (check_selection, "deap.tools:selBst", "did you mean selBest"),
        (check_selection, "nonesuch_ops:a", "expected a module nonesuch_ops"),
        (check_selection, "deap.tools:selTournament", "function of .individuals, k. .*'tournsize'"),
        (check_mating, "deap.tools:mutFlipBit(indpb=0.1)", "function of .first, second."),
        (check_mutation, "deap.tools:mutGaussian(mu=0)", "missing a required argument: 'sigma'"),
        (
            check_mutation,
            "deap.tools:mutGaussian(mu=0, sigma=1, indpb=1, x=2)",
            "unexpected keyword argument 'x'",
        ),
    ],
)
def test_an_operator_that_cannot_be_called_is_refused_in_one_line(check, text, words):
    with pytest.raises(InputError, match=words) as refusal:
        check(text, "--set method.evolution.x")
    assert "\n" not in str(refusal.value)


def test_mating_and_mutation_belong_to_generations():
    with pytest.raises(ValueError, match='mutation: expected survival = "generational"'):
        EvolutionConfig(mutation=GAUSSIAN)
    assert EvolutionConfig(selection=SPREAD).selection == SPREAD


def test_a_selection_sees_fitness_and_only_those_that_ran():
    members = individuals(1.0, float("nan"), 3.0, 2.0)
    rng = np.random.default_rng(0)
    assert [m.id for m in Selection("deap.tools:selBest")(members, 2, rng)] == [2, 3]
    chosen = Selection(SPREAD)(individuals(1.0, 1.0, 1.0, 1.0), 4, rng)
    assert sorted(m.id for m in chosen) == [0, 1, 2, 3]  # equal shares: everyone once
    assert len(Selection(SPREAD)(individuals(float("nan"), float("nan")), 3, rng)) == 3


def test_variation_changes_copies_and_leaves_the_global_generators_alone():
    rng = np.random.default_rng(0)
    first, second = Network(np.zeros(400, np.float32)), Network(np.ones(400, np.float32))
    random.seed(5)
    before, numpys = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    child = Variation("mating", "deap.tools:cxTwoPoint", rng)(first, second)
    assert set(child.weights.tolist()) == {0.0, 1.0}
    moved = Variation("mutation", GAUSSIAN, rng)(first)
    assert moved.weights.dtype == np.float32
    assert 0.4 < moved.weights.std() < 0.6
    assert not first.weights.any()
    assert second.weights.all()
    assert random.getstate() == before
    assert np.random.get_state()[1].tolist() == numpys  # noqa: NPY002
    again = Variation("mutation", GAUSSIAN, np.random.default_rng(1))(first)
    assert np.array_equal(
        again.weights, Variation("mutation", GAUSSIAN, np.random.default_rng(1))(first).weights
    )


def test_a_chromosome_is_its_priors():
    shape = (5, 2, 3)
    first = Boltzmann(np.zeros(shape, np.float32), np.full(shape[:2], 2.0, np.float32))
    second = Boltzmann(np.ones(shape, np.float32), np.full(shape[:2], 3.0, np.float32))
    child = Variation("mating", "deap.tools:cxOnePoint", np.random.default_rng(0))(first, second)
    flat = child.prior.reshape(-1)
    assert child.prior.shape == shape
    assert 0 < flat.sum() < len(flat)
    assert (np.diff(flat) >= 0).all()
    assert (child.temperature == 2.0).all()


OWN = """
import numpy as np
def best(individuals, k): return sorted(individuals, key=lambda m: m.fitness.values)[-k:]
def copies(individuals, k): return [object()] * k
def scramble(individual):
    np.random.shuffle(np.frombuffer(individual, np.float32))
    return (individual,)
def nothing(individual): individual[0] = 1.0
def infinite(individual):
    individual[0] = float("inf")
    return (individual,)
def broken(individual): raise KeyError("mine")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "myops.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("myops", None)


def test_what_is_no_operator_is_said_when_it_is_used(own):
    rng, parent = np.random.default_rng(0), Network(np.arange(4, dtype=np.float32))
    with pytest.raises(InputError, match="myops:copies: expected 2 of the individuals"):
        Selection("myops:copies")(individuals(1.0, 2.0), 2, rng)
    with pytest.raises(InputError, match="myops:nothing: expected a tuple of individuals, found NoneType"):
        Variation("mutation", "myops:nothing", rng)(parent)
    with pytest.raises(InputError, match="myops:infinite: expected 4 finite numbers"):
        Variation("mutation", "myops:infinite", rng)(parent)
    with pytest.raises(KeyError, match="mine"):  # a mistake in it shows its traceback
        Variation("mutation", "myops:broken", rng)(parent)


def rows(folder):
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


GENERATIONAL = [
    "method.survival=generational",
    f"method.selection={SPREAD}",
    "method.mating=deap.tools:cxUniform(indpb=0.5)",
    "method.mutation=myops:scramble",
]


@pytest.mark.parametrize("settings", [GENERATIONAL, ["method.selection=myops:best"]])
def test_a_resumed_run_with_named_operators_equals_a_longer_one(tmp_path, own, settings):
    small = ["method.network.width=8", "method.network.depth=1", "method.crossover_prob=0.5"]
    start = {"method": "ea", "settings": [*settings, *small], "quiet": True, "bound_seconds": 0.0}
    egrl.search("alexnet", gens=5, out=tmp_path / "whole", **start)
    egrl.search("alexnet", gens=2, out=tmp_path / "part", **start)
    random.seed(99)
    with pytest.raises(InputError, match="was not given: code in a file is imported only if you name it"):
        egrl.search(resume=tmp_path / "part", gens=5, quiet=True)
    named = [s for s in settings if "myops" in s]
    egrl.search(resume=tmp_path / "part", gens=5, quiet=True, settings=named)
    assert rows(tmp_path / "whole") == rows(tmp_path / "part")


def test_named_operators_change_what_is_bred(tmp_path, own):
    found = {}
    for name, settings in (("ours", GENERATIONAL[:1]), ("named", GENERATIONAL)):
        egrl.search("alexnet", method="ea", gens=3, settings=settings, quiet=True, out=tmp_path / name)
        found[name] = [row["mean_reward"] for row in rows(tmp_path / name)]
    assert found["ours"][0] == found["named"][0]
    assert found["ours"][1:] != found["named"][1:]
