"""Rank as a method: it gets better by its own measurements, goes on from a policy, and serves what has a placer."""

from __future__ import annotations

import numpy as np
import pytest

import egrl
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl.methods.players import Policies
from egrl.methods.rank.config import RankConfig, ScoreGradientConfig
from egrl.methods.rank.method import Rank
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from policies.network import NetworkConfig
from policies.store import save_policy
from subjects import problem
from workloads.load import load

SMALL_CONTEXT = NetworkConfig(name="context", width=8)
SMALL = ("method.network.width=8", "method.samples=8", "method.training.rounds=40")


def problem_of(workload: str, chip: str = "nnpi") -> NnpiProblem:
    return NnpiProblem(load(workload), load_chip(chip))


@pytest.mark.slow
def test_the_networks_own_mapping_gets_better_by_what_was_measured():
    search = egrl.Search("resnet50", method="rank", seed=1, settings=SMALL, start="compiler")
    own: list[float] = []
    while len(own) < 40:
        batch = search.ask(limit=9)
        assert batch is not None
        found = search.problem.evaluate(batch.proposals.mapping, batch.key)
        own.append(float(found.speedup[0]))
        search.tell(batch, found.cost)
    assert np.mean(own[-5:]) > np.mean(own[:5]) + 0.01


def test_a_policy_of_rank_is_placed_as_it_was_measured_and_is_gone_on_from(tmp_path):
    subject = problem_of("alexnet")
    context = Context([subject], Archive([subject]), seed=3, start=[None])
    method = Rank(context, RankConfig(network=SMALL_CONTEXT))
    stored = method.policy()
    path = tmp_path / "policy.safetensors"
    save_policy(path, stored.weights, stored.metadata)
    [placed] = Policies([path]).greedy(subject)
    assert np.array_equal(placed, method.ask().mapping[0])
    again = Rank(
        Context([subject], Archive([subject]), seed=4, start=[None], init=stored),
        RankConfig(network=SMALL_CONTEXT),
    )
    assert np.array_equal(again.ask().mapping[0], placed)


def test_it_serves_what_a_placer_places_and_says_why_it_serves_nothing_else():
    serves = find_method("rank").serves
    assert serves(problem_of("alexnet")) is None
    assert serves(problem("toy-ragged")) == "nothing places its tensors by rank"


@pytest.mark.slow
def test_chips_with_other_numbers_of_memories_are_trained_on_together():
    """A network that learned on both chips is better on each than the one that it began with."""
    problems = [problem_of("resnet50"), problem_of("resnet50", "edge")]
    assert problems[0].space.most_choices != problems[1].space.most_choices
    config = RankConfig(network=SMALL_CONTEXT, samples=8, training=ScoreGradientConfig(rounds=40))
    method = Rank(Context(problems, Archive(problems), seed=1, start=[None, None]), config)
    own: list[list[float]] = [[], []]
    while len(own[1]) < 40:
        asked = method.ask()
        subject = problems[asked.problem]
        found = subject.evaluate(asked.mapping, np.zeros(len(asked.mapping), np.uint64))
        own[asked.problem].append(float(found.speedup[0]))
        method.tell(asked, found)
    assert all(np.mean(speedups[-5:]) > np.mean(speedups[:5]) for speedups in own)
