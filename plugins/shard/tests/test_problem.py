"""The problem shard: statuses, the baseline, lists of strategies, where cost and memory go."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from egrl.core import mapping_file
from egrl_shard import solving
from egrl_shard.judge import exact_cost
from egrl_shard.load import parse
from egrl_shard.problem import Shard, ShardConfig
from egrl_shard.sharding import Sharding
from hwsim.problem import Bound, Status
from make_sharding import FORBIDDEN, make
from workloads.errors import InputError

KEY = np.zeros(1, np.uint64)
NO_VALID_BASELINE = 17
"""A seed of an instance whose baseline cannot be made valid."""


def instance(seed: int = 7, **given: float) -> Sharding:
    return parse(make(seed, 7, **given), "made", "made")


def test_what_breaks_a_rule_is_invalid_or_repaired():
    penalised, mended = (Shard(instance(), ShardConfig(invalid=kind)) for kind in ("penalise", "repair"))
    rng = np.random.default_rng(0)
    drawn = (rng.random((50, 7)) * penalised.sharding.strategies).astype(np.int16)[:, :, None]
    drawn[:30] = np.where(rng.random((30, 7, 1)) < 0.2, drawn[:30], penalised.baseline.mapping)
    plain, repaired = (p.evaluate(drawn, np.zeros(50, np.uint64)) for p in (penalised, mended))
    broken = np.array([bool(penalised.judge(row)) for row in drawn])
    assert 0 < broken.sum() < 50
    np.testing.assert_array_equal(plain.status == Status.INVALID, broken)
    assert (plain.reward[broken] < 0).all()
    np.testing.assert_array_equal(plain.repaired, drawn)
    assert (repaired.status == Status.OK).all()
    np.testing.assert_array_equal(repaired.epsilon > 0, broken)


def test_the_judge_names_what_is_forbidden_and_the_worst_time():
    document = make(7, 7)
    nodes = document["problem"]["nodes"]
    nodes["costs"][0] = [FORBIDDEN, 1]
    nodes["usages"][0] = [10**6, 0]
    nodes["intervals"][0] = [2, 5]
    others = len(nodes["costs"][1])
    pairs = [FORBIDDEN] * others + [1] * others
    document["problem"]["edges"] = {"nodes": [[0, 1]], "costs": [pairs]}
    problem = Shard(parse(document, "made", "made"))
    found = [str(violation) for violation in problem.judge(np.zeros((7, 1), np.int16))]
    assert found[0].startswith("forbidden strategy 0 at node 0")
    assert found[1].startswith("forbidden pair of strategies 0 and 0 at edge 0 from node 0 to node 1")
    assert any(line.startswith("usage at time ") and "demanded 1000" in line for line in found[2:])
    with pytest.raises(ValueError, match="expected 7 nodes, received 6"):
        problem.judge(np.zeros((6, 1), np.int16))
    assert "no such strategy at node 3" in str(problem.judge(np.full((7, 1), 9, np.int16))[3])


def test_without_a_valid_baseline_it_works_and_says_so():
    problem = Shard(instance(NO_VALID_BASELINE))
    assert "it is not valid" in problem.baseline.name
    assert problem.judge(problem.baseline.mapping)
    found = problem.evaluate(problem.baseline.mapping[None], KEY)
    assert found.status[0] == Status.INVALID
    assert problem.model_cost(problem.baseline.mapping) == math.inf
    again = problem.evaluate(found.repaired, KEY)
    np.testing.assert_array_equal(again.repaired, found.repaired)


def test_a_choice_that_costs_nothing_counts_as_one():
    document = make(7, 7, forbidden=0.0)
    document["problem"]["nodes"]["costs"] = [[0] * len(row) for row in document["problem"]["nodes"]["costs"]]
    document["problem"]["edges"] = {"nodes": [], "costs": []}
    problem = Shard(parse(document, "made", "made"))
    found = problem.evaluate(problem.baseline.mapping[None], KEY)
    assert found.cost[0] == found.speedup[0] == 1.0
    assert problem.explain(problem.baseline.mapping).cost == 0


def test_a_mapping_file_holds_the_strategies_as_a_plain_list():
    problem = Shard(instance())
    text = mapping_file.dumps(problem, problem.baseline.mapping)
    listed = json.loads(json.loads(text)["plan"])
    assert listed == problem.baseline.mapping[:, 0].tolist()
    for wrong, message in (
        ("[0, 1", "expected a JSON list of 7 strategies, found '\\[0, 1'"),
        ("[0]", "expected a JSON list of 7 strategies"),
        (json.dumps([9] * 7), "node 0: expected a strategy in 0..2, found 9"),
        (json.dumps([0.0] * 7), "node 0: expected a strategy in 0..2, found 0.0"),
    ):
        with pytest.raises(InputError, match=f"x: {message}"):
            problem.read_plan(wrong, "x")


def test_its_breakdown_is_exact_and_names_who_holds_memory_when_it_is_fullest():
    problem = Shard(instance())
    found = problem.explain(problem.baseline.mapping)
    choice = problem.baseline.mapping[:, 0]
    assert found.cost == exact_cost(problem.sharding, choice.tolist()) == problem.baseline.cost
    assert found.peak == sum(holder.used for holder in found.holders)
    assert all(holder.start <= found.peak_time < holder.end for holder in found.holders)
    assert found.peak == problem.occupancy(problem.baseline.mapping).occupied_bytes.max()
    own = problem.sharding.cost[problem.sharding.first[:-1] + choice]
    assert {int(p.node): p.own_cost for p in found.payers} == dict(enumerate(own.tolist()))


def test_the_highest_bound_that_was_proved_is_remembered():
    problem = Shard(instance())
    assert problem.bound(0).cost == 0
    for cost in (5.0, 3.0):
        problem.prove(Bound(cost, math.inf, "said", 0.0))
    assert problem.bound(0).cost == problem.bound(10.0).cost == 5.0


class Hopeless:
    """A solver that proves, in its second call, that nothing is valid."""

    best, best_cost, proof, done = None, None, "said", False

    def __init__(self, sharding: Sharding, seed: int, threads: int, start: object) -> None:
        self.bound = 1.0

    def work(self, seconds: float) -> None:
        self.bound, self.done = math.inf, True


def test_an_instance_without_a_valid_choice_is_the_users_mistake(monkeypatch):
    monkeypatch.setattr(solving, "Solver", Hopeless)
    begun = Shard(instance()).solving(0)
    with pytest.raises(
        InputError, match="workload made: expected an instance with a valid choice, found none: said"
    ):
        begun.work(1.0)


def test_another_instance_has_another_fingerprint():
    digests = {Shard(instance(seed)).fingerprint() for seed in range(4)}
    assert len(digests | {Shard(instance(0), ShardConfig(invalid="penalise")).fingerprint()}) == 5
    with pytest.raises(InputError, match="expected repair or penalise"):
        Shard(instance(), ShardConfig(invalid="mend"))
