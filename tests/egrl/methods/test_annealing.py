"""What annealing promises beyond the conformance suite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.egrl.parts import Parts, decisions_of
from hwsim.mappings import sample_uniformly
from hwsim.problem import Evaluation, Status
from policies.network import NetworkConfig
from population.config import EvolutionConfig
from population.moves import Moves
from subjects import PROBLEMS
from toys import ToyRagged


def annealing(problem, **changes):
    definition = find_method("annealing")
    given = typed_tables.build(definition.config, {"t0": 1e-9, **changes}, "test")
    return definition.build(Context([problem], Archive([problem]), 0, [None], None, 1), given)


def told(method, problem, rows: list[tuple[float, float, Status]]) -> list[bytes]:
    """Where the walk is after each (reward, speedup, status), as bytes."""
    places = []
    for reward, speedup, status in rows:
        asked = method.ask()
        found = problem.evaluate(asked.mapping, np.zeros(1, np.uint64))
        changed: Evaluation = replace(
            found,
            reward=np.array([reward]),
            speedup=np.array([speedup]),
            status=np.array([status], np.int8),
        )
        method.tell(asked, changed)
        places.append((method._chains[0].mapping.tobytes(), found.repaired[0].tobytes()))
    return places


def test_it_goes_where_rewards_are_higher_whatever_that_does_to_the_speedup():
    problem = ToyRagged()
    ok = Status.OK
    rows = [(0.2, 2.0, ok), (0.3, 1.0, ok), (0.1, 3.0, ok), (0.0, 9.0, ok), (0.31, 0.5, ok)]
    places = told(annealing(problem), problem, rows)
    accepted = [walk == proposed for walk, proposed in places]
    assert [k for k, walked in enumerate(accepted) if walked] == [0, 1, 4]
    assert places[2][0] == places[3][0] == places[1][0]


def test_what_ran_for_nothing_is_better_than_what_did_not_run():
    problem = ToyRagged()
    rows = [(-0.5, 0.0, Status.INVALID), (0.0, 1.0, Status.OK), (-0.1, 0.0, Status.INVALID)]
    places = told(annealing(problem), problem, rows)
    assert places[1][0] == places[1][1]
    assert places[2][0] == places[1][0]


@pytest.mark.parametrize("speedup", [0.3, 1.0, 1.0498, 7.77, 1e-3])
def test_where_rewards_are_squares_the_energy_is_the_speedups(speedup):
    problem = ToyRagged()
    method = annealing(problem)
    told(method, problem, [(speedup**2, speedup, Status.OK)])
    assert method._chains[0].energy == pytest.approx(-np.log(speedup), rel=1e-15)


def test_on_the_mmapgame_it_raises_the_return():
    problem = PROBLEMS["mmap"]()
    method, best = annealing(problem, t0=0.02), []
    for _ in range(600):
        asked = method.ask()
        found = problem.evaluate(asked.mapping, np.zeros(len(asked), np.uint64))
        method.tell(asked, found)
        best += found.reward.tolist()
    assert np.mean(best[-200:]) > np.mean(best[:200])


def test_every_chain_takes_its_turn_however_many_there_are():
    problem = ToyRagged()
    method = annealing(problem, chains=50)
    for _ in range(105):
        asked = method.ask()
        method.tell(asked, problem.evaluate(asked.mapping, np.zeros(1, np.uint64)))
    assert sorted({chain.steps for chain in method._chains}) == [2, 3]


def test_it_draws_from_the_moves_of_the_population_which_know_sizes():
    problem = PROBLEMS["nnpi"]()
    context = Context([problem], Archive([problem]), 0, [None], None, 1)
    parts = Parts(NetworkConfig(), EvolutionConfig(boltzmann_fraction=1.0), None)
    here = sample_uniformly(problem, np.zeros(1, np.uint64))[0]
    of_annealing = annealing(problem)._moves
    of_population = decisions_of(context, parts, parts.evolution).moves
    blind = Moves(problem.space.num_choices, problem.space.live)
    otherwise = 0
    for seed in range(50):
        expected = of_population.propose(here, np.random.default_rng(seed))
        np.testing.assert_array_equal(of_annealing.propose(here, np.random.default_rng(seed)), expected)
        otherwise += (blind.propose(here, np.random.default_rng(seed)) != expected).any()
    assert otherwise > 5
