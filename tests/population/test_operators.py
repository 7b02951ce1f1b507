"""Operators of DEAP as callables: what they are handed, what is refused, and that runs with them repeat."""

from __future__ import annotations

import csv
import random
from functools import partial

import numpy as np
import pytest
from deap import tools

import egrl
from egrl.methods.named import with_operators
from population.genome import Boltzmann, Individual, Network
from population.operators import Operators, varied
from workloads.errors import InputError

GAUSSIAN = partial(tools.mutGaussian, mu=0, sigma=0.5, indpb=1)
SPREAD = tools.selStochasticUniversalSampling


def individuals(*scores: float) -> list[Individual]:
    return [
        Individual(Network(np.full(3, k, np.float32)), k).with_fitness(score)
        for k, score in enumerate(scores)
    ]


def test_a_selection_sees_fitness_and_only_those_that_ran():
    members = individuals(1.0, float("nan"), 3.0, 2.0)
    rng = np.random.default_rng(0)
    assert [m.id for m in Operators(select=tools.selBest).selected(members, 2, 3, rng)] == [2, 3]
    spread = Operators(select=SPREAD)
    chosen = spread.selected(individuals(1.0, 1.0, 1.0, 1.0), 4, 3, rng)
    assert sorted(m.id for m in chosen) == [0, 1, 2, 3]  # equal shares: everyone once
    assert len(spread.selected(individuals(float("nan"), float("nan")), 3, 3, rng)) == 3


def test_variation_changes_copies_and_leaves_the_global_generators_alone():
    rng = np.random.default_rng(0)
    first, second = Network(np.zeros(400, np.float32)), Network(np.ones(400, np.float32))
    random.seed(5)
    before, numpys = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    child = varied(tools.cxTwoPoint, first, second, rng=rng)
    assert set(child.weights.tolist()) == {0.0, 1.0}
    moved = varied(GAUSSIAN, first, rng=rng)
    assert moved.weights.dtype == np.float32
    assert 0.4 < moved.weights.std() < 0.6
    assert not first.weights.any()
    assert second.weights.all()
    assert random.getstate() == before
    assert np.random.get_state()[1].tolist() == numpys  # noqa: NPY002
    again = [varied(GAUSSIAN, first, rng=np.random.default_rng(1)).weights for _ in range(2)]
    assert np.array_equal(*again)


def test_a_chromosome_is_its_priors():
    shape = (5, 2, 3)
    first = Boltzmann(np.zeros(shape, np.float32), np.full(shape[:2], 2.0, np.float32))
    second = Boltzmann(np.ones(shape, np.float32), np.full(shape[:2], 3.0, np.float32))
    child = varied(tools.cxOnePoint, first, second, rng=np.random.default_rng(0))
    flat = child.prior.reshape(-1)
    assert child.prior.shape == shape
    assert 0 < flat.sum() < len(flat)
    assert (np.diff(flat) >= 0).all()
    assert (child.temperature == 2.0).all()


def best(members, k):
    return sorted(members, key=lambda m: m.fitness.values)[-k:]


def copies(members, k):
    return [object()] * k


def scramble(individual):
    np.random.shuffle(np.frombuffer(individual, np.float32))  # noqa: NPY002
    return (individual,)


def nothing(individual):
    individual[0] = 1.0


def infinite(individual):
    individual[0] = float("inf")
    return (individual,)


def broken(individual):
    raise KeyError("mine")


def test_what_is_no_operator_is_said_when_it_is_used():
    rng, parent = np.random.default_rng(0), Network(np.arange(4, dtype=np.float32))
    with pytest.raises(InputError, match="select: expected 2 of the individuals"):
        Operators(select=copies).selected(individuals(1.0, 2.0), 2, 3, rng)
    with pytest.raises(InputError, match="nothing: expected a tuple of individuals, found NoneType"):
        varied(nothing, parent, rng=rng)
    with pytest.raises(InputError, match="infinite: expected 4 finite numbers"):
        varied(infinite, parent, rng=rng)
    with pytest.raises(KeyError, match="mine"):  # a mistake in it shows its traceback
        varied(broken, parent, rng=rng)


def rows(folder):
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


ALL = Operators(SPREAD, partial(tools.cxUniform, indpb=0.5), scramble)
SMALL = ["method.network.width=8", "method.network.depth=1", "method.crossover_prob=0.5"]
MINE = """from deap import tools
from egrl.methods.named import with_operators
from population.operators import"""


@pytest.mark.parametrize("survival", ["generational", "plus"])
def test_a_resumed_run_with_operators_equals_a_longer_one(tmp_path, survival, monkeypatch):
    (tmp_path / "mine.py").write_text(
        f"{MINE} Operators\nMETHOD = with_operators(Operators(select=tools.selBest))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    given = {"settings": [*SMALL, f"method.survival={survival}"], "quiet": True, "bound_seconds": 0.0}
    egrl.search("alexnet", method="mine:METHOD", gens=5, out=tmp_path / "whole", **given)
    egrl.search("alexnet", method="mine:METHOD", gens=2, out=tmp_path / "part", **given)
    random.seed(99)
    with pytest.raises(InputError, match="mine:METHOD"):
        egrl.search(resume=tmp_path / "part", gens=5, quiet=True)
    egrl.search(resume=tmp_path / "part", gens=5, quiet=True, method="mine:METHOD")
    assert rows(tmp_path / "whole") == rows(tmp_path / "part")


@pytest.mark.parametrize("survival", ["generational", "plus"])
def test_operators_change_what_is_bred(survival):
    found = {}
    for name, operators in (("ours", Operators()), ("given", ALL)):
        method, settings = with_operators(operators), [*SMALL, f"method.survival={survival}"]
        found[name] = []
        egrl.search(
            "alexnet",
            method=method,
            gens=3,
            settings=settings,
            quiet=True,
            on_generation=lambda row, to=found[name]: to.append(row["mean_reward"]),
        )
    assert found["ours"][0] == found["given"][0]
    assert found["ours"][1:] != found["given"][1:]


def test_operators_act_beside_the_learners_of_egrl_too():
    bred = {}
    for name, operators in (("ours", Operators()), ("given", ALL)):
        bred[name] = []
        result = egrl.search(
            "alexnet",
            method=with_operators(operators, "egrl"),
            gens=4,
            settings=[*SMALL, "method.profile_model.use=off"],
            quiet=True,
            on_generation=lambda row, to=bred[name]: to.append(row["mean_reward"]),
        )
        assert "sac" in {member["name"] for member in result.summary["members"]}
    assert bred["ours"][0] == bred["given"][0]
    assert bred["ours"][1:] != bred["given"][1:]
    with pytest.raises(InputError, match="with_operators: expected one of ea, egrl, found 'pg'"):
        with_operators(ALL, "pg")
