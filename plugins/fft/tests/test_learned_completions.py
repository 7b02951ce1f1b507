"""Completions that learn: against a twin in plain Python, and what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from results import results

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl_fft.grammar import Codelet, Open, Split, rules
from egrl_fft.graph_search import bandits
from egrl_fft.graph_search.completions import (
    Elites,
    LearnedConfig,
    LearnedDecisions,
    LearnedRules,
    Uniform,
    completions,
    softmax,
)
from egrl_fft.graph_search.decisions import Decisions
from egrl_fft.graph_search.descent import GraphSearch
from egrl_fft.problem import FftConfig, FftProblem
from toys import ToyGrammar, ToyRagged

MODEL = FftConfig(cost="model")


def plan(problem: FftProblem, text: str) -> np.ndarray:
    return problem.read_plan(text, "plan")


def test_weights_follow_the_gradient_towards_the_best_plans_as_a_plain_twin_does():
    problem = FftProblem(64, MODEL)
    settings = LearnedConfig(elites=2, rate=0.7, close=0.6)
    learner = LearnedRules(problem.derivation, settings, np.random.default_rng(0))
    told = [("fs(8,8)", 1.0), ("ts(4,16)", 2.0), ("f(8,8)", math.nan), ("fs(8,fs(2,4))", 3.0), ("64", 0.5)]
    weights: dict[Open, list[float]] = {}
    best: list[tuple[float, str]] = []
    for text, reward in told:
        learner.learn(plan(problem, text), reward)
        if not math.isnan(reward):
            best = sorted([*best, (reward, text)], reverse=True)[:2]
        wanted: dict[Open, list[float]] = {}
        for _, good in best:
            for goal, count, rule in problem.derivation.chosen(plan(problem, good)):
                wanted.setdefault(goal, [0.0] * count)[rule] += 1 / len(best)
        for goal, shares in wanted.items():
            if goal not in weights:
                kinds = [isinstance(rule, Codelet) for rule in rules(goal.size, goal.bare)]
                odds = 0.6 / 0.4 * (len(kinds) - 1) if len(kinds) > 1 else 1.0
                weights[goal] = [math.log(odds) if closes else 0.0 for closes in kinds]
            row = weights[goal]
            total = sum(math.exp(w) for w in row)
            drawn = [math.exp(w) / total for w in row]
            weights[goal] = [
                w + 0.7 * (share - sum(shares) * p) for w, share, p in zip(row, shares, drawn, strict=True)
            ]
    assert {goal for goal in learner._weights if goal in weights} == set(weights)
    for goal, row in weights.items():
        assert learner._weights[goal] == pytest.approx(row)


def test_what_can_be_closed_at_once_is_with_the_probability_asked_for_and_the_rest_is_uniform():
    problem = FftProblem(16, MODEL)
    learner = LearnedRules(problem.derivation, LearnedConfig(close=0.75), np.random.default_rng(1))
    graph, counts = problem.derivation, np.zeros(len(rules(16, True)))
    for _ in range(4000):
        drawn = learner.draw(graph.root)
        assert drawn is not None
        counts[graph.chosen(drawn)[0][2]] += 1
    assert counts[0] / 4000 == pytest.approx(0.75, abs=0.03)
    assert counts[1:] / 4000 == pytest.approx(0.25 / (len(counts) - 1), abs=0.015)


def test_a_plan_that_stays_the_best_is_drawn_more_and_more_often_wherever_its_sub_problems_occur():
    problem = FftProblem(256, MODEL)
    learner = LearnedRules(problem.derivation, LearnedConfig(), np.random.default_rng(0))
    for _ in range(60):
        learner.learn(plan(problem, "fs(4,t(2,ts(4,f(2,4))))"), 1.0)
    drawn = [str(problem.derivation.decode(learner.draw(problem.derivation.root))) for _ in range(50)]
    assert drawn.count("fs(4,t(2,ts(4,f(2,4))))") > 25
    partial = Split("t", True, Open(8), Open(32))
    below = [str(problem.derivation.decode(learner.draw(partial))) for _ in range(50)]
    assert below.count("ts(f(2,4),ts(4,f(2,4)))") > 25


def test_elites_are_the_best_rewards_and_of_equal_ones_the_first():
    elites = Elites(2)
    rows = [np.full((1, 1), n, np.int16) for n in range(5)]
    assert [
        elites.add(row, reward) for row, reward in zip(rows, [1.0, math.nan, 3.0, 1.0, 2.0], strict=True)
    ] == [True, False, True, False, True]
    assert [int(row[0, 0]) for row in elites.mappings] == [2, 4]


def test_failures_teach_nothing():
    problem = FftProblem(64, MODEL)
    learner = LearnedRules(problem.derivation, LearnedConfig(), np.random.default_rng(0))
    learner.learn(plan(problem, "fs(8,8)"), math.nan)
    assert not learner._weights


@pytest.mark.exhaustive
def test_a_search_with_completions_that_learn_proposes_every_plan_once():
    problem = FftProblem(16, MODEL)
    rng = np.random.default_rng(0)
    learner = completions(problem.derivation, LearnedConfig(rate=5.0), rng)
    search = GraphSearch(problem.derivation, 3, lambda _: bandits.threshold(3, 0.1), rng, learner)
    proposed = []
    while (batch := search.ask()) is not None:
        proposed.append(batch.mapping.tobytes())
        seconds = problem.seconds(problem.derivation.decode(batch.mapping[0]))
        search.tell(batch, results(batch, [1.0 / seconds]))
    from egrl_fft.grammar import count

    assert len(proposed) == len(set(proposed)) == count(16)


def test_derivations_that_share_nothing_are_completed_uniformly():
    derivation, rng = ToyGrammar().derivation, np.random.default_rng(0)
    assert isinstance(completions(derivation, LearnedConfig(), rng), Uniform)
    graph = FftProblem(8, MODEL).derivation
    assert isinstance(completions(graph, LearnedConfig(completions="uniform"), rng), Uniform)
    assert isinstance(completions(graph, LearnedConfig(), rng), LearnedRules)
    assert isinstance(completions(Decisions(ToyRagged(), "size"), LearnedConfig(), rng), LearnedDecisions)


def test_decisions_are_drawn_by_their_probabilities_and_what_was_decided_stays():
    problem = ToyRagged()
    graph, rng = Decisions(problem, "size"), np.random.default_rng(0)
    known = np.arange(graph.counts.max()) < graph.counts[:, None]
    weights = np.where(known, np.random.default_rng(1).normal(size=known.shape), -np.inf)
    probabilities = softmax(weights)
    first = graph.successors(graph.root)[-1]
    rows = np.array([graph.chosen(graph.drawn(first, probabilities, rng)) for _ in range(4000)])
    assert (rows[:, 0] == graph.counts[0] - 1).all()
    for decision in range(1, len(graph.counts)):
        found = np.bincount(rows[:, decision], minlength=known.shape[1]) / 4000
        assert found == pytest.approx(probabilities[decision], abs=0.04)


def test_decisions_learn_what_the_best_mappings_have_in_common():
    problem = ToyRagged()
    graph = Decisions(problem, "size")
    learner = LearnedDecisions(graph, LearnedConfig(elites=1, rate=1.0), np.random.default_rng(0))
    best = Uniform(graph, np.random.default_rng(3)).draw(graph.root)
    assert best is not None
    for _ in range(40):
        learner.learn(best, 1.0)
    same = [np.array_equal(learner.draw(graph.root), best) for _ in range(40)]
    assert sum(same) > 20


def best_after(problem: FftProblem, settings: dict[str, str], seed: int, evaluations: int) -> float:
    definition = find_method("tag")
    context = Context([problem], Archive([problem]), seed, [None])
    method = definition.build(context, typed_tables.build(definition.config, settings, "tag"))
    cost = math.inf
    for _ in range(evaluations):
        batch = method.ask()
        assert batch is not None
        found = problem.evaluate(batch.mapping, np.zeros(1, np.uint64))
        method.tell(batch, found)
        cost = min(cost, float(found.cost[0]))
    return cost


@pytest.mark.slow
def test_a_search_whose_completions_learn_finds_better_plans_than_the_printed_one():
    problem = FftProblem(4096, MODEL)
    learned = [best_after(problem, {}, seed, 60) for seed in range(3)]
    printed = [best_after(problem, {"completions": "uniform"}, seed, 60) for seed in range(3)]
    assert sorted(learned)[1] < 0.95 * sorted(printed)[1]


def test_the_papers_values_are_the_printed_algorithm():
    assert find_method("tag").paper == {"s": 100, "completions": "uniform"}
