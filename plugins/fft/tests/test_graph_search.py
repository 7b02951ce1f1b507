"""TAG and its rivals against brute force on small grammars, and what the index and the graph promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from results import results

from egrl.cli.main import main
from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl.methods import find_method
from egrl_fft.graph_search import bandits
from egrl_fft.graph_search.decisions import Decisions
from egrl_fft.graph_search.descent import GraphSearch
from egrl_fft.graph_search.search_graph import SearchGraph
from egrl_fft.problem import FftConfig, FftProblem
from hwsim.problem import Mapping16
from hwsim.stepwise import Derivation
from toys import Splits, ToyGrammar, ToyRagged


class Figure1(Derivation):
    """The grammar of the paper's Figure 1: S -> AB, A -> a, B -> b, aB -> ac; its language is {ab, ac}."""

    root: Hashable = "S"
    arrows: ClassVar = {"S": ["AB"], "AB": ["aB", "Ab"], "aB": ["ab", "ac"], "Ab": ["ab"]}

    def successors(self, vertex: Hashable) -> Sequence[str]:
        return self.arrows.get(str(vertex), [])

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        return np.array([[ord(str(vertex)[1])]], np.int16) if vertex in ("ab", "ac") else None


class Layers(Derivation):
    """Vertices are (depth, number) with arrows drawn once: equal successors, dead ends and shared vertices happen."""

    root: Hashable = (0, 0)

    def __init__(self, seed: int, widths: Sequence[int], dead: float) -> None:
        rng = np.random.default_rng(seed)
        self.arrows: dict[Hashable, list[Hashable]] = {}
        for depth, (width, below) in enumerate(itertools.pairwise(widths)):
            for number in range(width):
                count = 0 if depth and rng.random() < dead else int(rng.integers(1, 4))
                self.arrows[depth, number] = [(depth + 1, int(n)) for n in rng.integers(0, below, count)]
        self.depth = len(widths) - 1

    def successors(self, vertex: Hashable) -> Sequence[Hashable]:
        return self.arrows.get(vertex, [])

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        assert isinstance(vertex, tuple)
        return np.array([[vertex[1]]], np.int16) if vertex[0] == self.depth else None


def sinks(derivation: Derivation) -> set[bytes]:
    """Every complete plan that the root leads to, by plain enumeration."""
    found, seen, open_ = set(), set(), [derivation.root]
    while open_:
        vertex = open_.pop()
        if vertex in seen:
            continue
        seen.add(vertex)
        successors = derivation.successors(vertex)
        plan = derivation.mapping(vertex)
        if not successors and plan is not None:
            found.add(plan.tobytes())
        open_ += successors
    return found


def tag(derivation: Derivation, seed: int = 0, s: int = 3, parallel: int = 1) -> GraphSearch:
    rng = np.random.default_rng(seed)
    return GraphSearch(derivation, s, lambda _: bandits.threshold(s, 0.1), rng, parallel=parallel)


def uct(derivation: Derivation, seed: int = 0) -> GraphSearch:
    return GraphSearch(derivation, 1, lambda graph: bandits.uct(graph, 0.5), np.random.default_rng(seed))


def exhaust(search: GraphSearch) -> list[bytes]:
    """Everything that a search proposes until it has nothing more; a third fails."""
    proposed: list[bytes] = []
    while (batch := search.ask()) is not None:
        proposed.append(batch.mapping[0].tobytes())
        reward = math.nan if len(proposed) % 3 == 0 else float(batch.mapping.sum())
        search.tell(batch, results(batch, [reward]))
    return proposed


def below(graph: SearchGraph, number: int) -> set[int]:
    """The vertices that a vertex leads to in the subgraph, itself among them, by plain enumeration."""
    seen, open_ = set(), [number]
    while open_:
        at = open_.pop()
        if at not in seen:
            seen.add(at)
            arrows = graph.vertices[at].arrows
            open_ += arrows.heads if arrows else []
    return seen


@pytest.mark.parametrize("search", [tag, uct])
def test_both_words_of_figure_1_are_found_and_none_twice(search):
    for seed in range(20):
        assert sorted(exhaust(search(Figure1(), seed))) == sorted(sinks(Figure1()))


@pytest.mark.parametrize("search", [tag, uct])
@given(st.integers(0, 10_000), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.sampled_from([0, 0.4]))
def test_every_plan_of_any_small_grammar_is_proposed_once_and_dead_ends_never(search, seed, widths, dead):
    derivation = Layers(seed, [1, *widths], dead)
    assert sorted(exhaust(search(derivation, seed))) == sorted(sinks(derivation))


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4))
def test_every_vertex_counts_what_was_measured_below_it_once(seed, keep, parallel):
    search = tag(Layers(seed, [1, 3, 3, 4, 40], 0.2), seed, keep, parallel)
    hung: dict[int, set[int]] = {}
    hang = search.graph.hang

    def watched(number: int, evaluation: int) -> None:
        hung.setdefault(number, set()).add(evaluation)
        hang(number, evaluation)

    search.graph.hang = watched  # type: ignore[method-assign]
    rng = np.random.default_rng(seed)
    rewards: list[float] = []
    for _ in range(8):
        batch = search.ask()
        if batch is not None:
            told = [math.nan if rng.random() < 0.2 else float(rng.integers(0, 4)) for _ in batch.source]
            search.tell(batch, results(batch, told))
            rewards += told
    for number, vertex in enumerate(search.graph.vertices):
        expected = set().union(*(hung.get(at, set()) for at in below(search.graph, number)))
        ran = [(-rewards[e], e) for e in expected if not math.isnan(rewards[e])]
        failed = [(math.inf, e) for e in expected if math.isnan(rewards[e])]
        assert vertex.count == vertex.pulls == len(expected)
        assert vertex.best == (sorted(ran) + sorted(failed))[:keep]
        assert (vertex.ran, vertex.total) == (len(ran), -sum(r for r, _ in ran))


def test_the_index_is_that_of_section_3_1():
    alpha = bandits.alpha(10, 3, 0.1)
    assert alpha == pytest.approx(math.log(600))
    assert bandits.index(4, 8, alpha) == pytest.approx((4 + alpha + math.sqrt(2 * 4 * alpha + alpha**2)) / 8)
    assert bandits.index(0, 0, alpha) == math.inf


def test_the_bandit_prefers_the_arm_that_holds_the_best_rewards_to_one_better_on_average():
    graph = SearchGraph(Layers(0, [1, 1], 0), 2)
    steady, wild, parent = (type(graph.vertices[0])(name) for name in ("steady", "wild", "parent"))
    rewards = [(steady, 5.0)] * 4 + [(wild, 0.0), (wild, 9.0), (wild, 0.0), (wild, 8.0)]
    for number, (arm, reward) in enumerate(rewards):
        for vertex in (arm, parent):
            vertex.add((-reward, number), 2)
    graph.lowest, graph.highest = 0.0, 9.0
    assert bandits.threshold(2, 0.1)(parent, [steady, wild]) == 1
    assert bandits.uct(graph, 0.5)(parent, [steady, wild]) == 0


def test_only_ranks_of_rewards_matter_to_threshold_ascent():
    def proposed(scale):
        search = tag(Splits(40), 5)
        plans = []
        for _ in range(60):
            batch = search.ask()
            plans.append(batch.mapping.tobytes())
            search.tell(batch, results(batch, [scale(float(batch.mapping.sum() % 7))]))
        return plans

    assert proposed(lambda r: r) == proposed(lambda r: math.exp(3 * r) - 100)
    assert proposed(lambda r: r) != proposed(lambda r: -r)


def test_completions_are_uniform_at_each_choice_and_back_out_of_dead_ends():
    rng, tree = (
        np.random.default_rng(0),
        {"": ["a", "b"], "a": ["aa", "ab", "ac"], "b": ["ba"], "ab": ["abx"]},
    )

    class Tree(Derivation):
        root: Hashable = ""

        def successors(self, vertex: Hashable) -> Sequence[str]:
            return tree.get(str(vertex), [])

        def mapping(self, vertex: Hashable) -> Mapping16 | None:
            code = {"aa": 1, "ac": 2, "abx": 3}.get(str(vertex))
            return None if code is None else np.array([[code]], np.int16)

    drawn = [int(plan[0, 0]) for _ in range(3000) if (plan := Tree().completion("", rng)) is not None]
    assert len(drawn) == 3000  # b is a dead end: half of the draws come back from it
    assert np.bincount(drawn)[1:] == pytest.approx([1000, 1000, 1000], abs=100)
    assert Tree().completion("b", rng) is None


@pytest.mark.slow
def test_a_plan_graph_completes_as_uniform_choices_among_its_successors_do():
    problem = FftProblem(8, FftConfig(cost="model"))
    graph = problem.derivation
    rng = np.random.default_rng(0)

    class Plain(Derivation):
        root = graph.root

        def successors(self, vertex: Hashable) -> Sequence[Hashable]:
            return graph.successors(vertex)

        def mapping(self, vertex: Hashable) -> Mapping16 | None:
            return graph.mapping(vertex)

    counts: dict[bytes, list[int]] = {}
    for _ in range(4000):
        for kind, derivation in enumerate((graph, Plain())):
            plan = derivation.completion(derivation.root, rng)
            assert plan is not None
            counts.setdefault(plan.tobytes(), [0, 0])[kind] += 1
    assert len(counts) == 41
    for fast, slow in counts.values():
        assert abs(fast - slow) < 6 * math.sqrt(fast + slow)


def test_decisions_lead_to_every_mapping_largest_first():
    problem = ToyRagged()
    derivation = Decisions(problem, "size")
    first = max(np.argwhere(problem.space.live).tolist(), key=lambda at: problem.space.size_bytes[tuple(at)])
    rng = np.random.default_rng(1)
    for choice, vertex in enumerate(derivation.successors(derivation.root)):
        plan = derivation.completion(vertex, rng)
        assert plan is not None
        assert plan[tuple(first)] == choice
        assert ((plan >= 0) == (problem.space.live)).all()
    assert len(derivation.successors(derivation.root)) == problem.space.num_choices[tuple(first)]


def rewards_of(name, settings, problem, evaluations):
    definition = find_method(name)
    method = definition.build(
        Context([problem], Archive([problem]), 0, [None]),
        typed_tables.build(definition.config, settings, name),
    )
    plans, rewards = [], []
    while len(plans) < evaluations and (batch := method.ask()) is not None:
        found = problem.evaluate(batch.mapping, np.zeros(len(batch), np.uint64))
        method.tell(batch, found)
        plans += [row.tobytes() for row in batch.mapping]
        rewards += np.where(found.partial, -np.inf, found.reward).tolist()
    return plans, rewards


def test_dynamic_programming_measures_each_part_and_ends_when_every_plan_was():
    problem = FftProblem(8, FftConfig(cost="model"))
    plans, rewards = rewards_of("greedy-dp", {}, problem, 1000)
    assert len(plans) == len(set(plans))
    whole = [plan for plan, reward in zip(plans, rewards, strict=True) if reward > -np.inf]
    assert sorted(whole) == sorted(sinks(problem.derivation))
    assert max(rewards) == max(rewards_of("tag", {}, problem, 1000)[1])


def test_a_pass_of_dynamic_programming_makes_each_plan_of_the_best_parts():
    problem = FftProblem(32, FftConfig(cost="model"))
    plans, _ = rewards_of("greedy-dp", {}, problem, 1 + 1 + 4 + 1 + 8 + 1 + 12 + 1 + 16)
    decoded = [problem.derivation.decode(np.frombuffer(p, np.int16).reshape(-1, 1)) for p in plans]
    assert [plan.size for plan in decoded] == [2] * 1 + [4] * 5 + [8] * 9 + [16] * 13 + [32] * 17
    best = {
        size: str(min((p for p in decoded if p.size == size), key=problem.seconds)) for size in (2, 4, 8, 16)
    }
    for plan in decoded[-17:]:
        radix = getattr(plan, "radix", None)
        assert radix is None or str(radix) == best[radix.size]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("method.s=0", "at least 1"),
        ("method.delta=1.0", "less than 1"),
        ("method.delta=0.0", "more than 0"),
        ("method.vertices=derivation", "problem nnpi has no derivation"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_line(setting, said, capsys):
    assert main(["run", "--workload", "alexnet", "--method", "tag", "--set", setting]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert setting.split("=")[0].split(".")[1] in error
    assert len(error.splitlines()) == 1


def test_random_plans_need_a_derivation(capsys):
    assert main(["run", "--workload", "alexnet", "--method", "random-plans"]) == 2
    assert "problem nnpi: the problem has no derivation" in capsys.readouterr().err


def test_a_grammar_that_is_exhausted_ends_the_run():
    problem = ToyGrammar()
    plans, _ = rewards_of("tag", {"s": 2}, problem, 1000)
    assert sorted(plans) == sorted(sinks(problem.derivation))
