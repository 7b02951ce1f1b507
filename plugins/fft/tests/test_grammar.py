"""Plans as texts, as rows of numbers, and as derivations; and what their judge says."""

from __future__ import annotations

import numpy as np
import pytest

from egrl_fft.derivation import PlanGraph
from egrl_fft.grammar import Open, count, expand
from egrl_fft.judge import judge
from egrl_fft.notation import parse
from fft_subjects import PROBLEMS
from hwsim.capabilities import HasPlanText
from workloads.errors import InputError


def complete(graph: PlanGraph) -> list:
    seen, frontier, found = set(), [graph.root], []
    while frontier:
        vertex = frontier.pop()
        if vertex not in seen:
            seen.add(vertex)
            frontier.extend(graph.successors(vertex))
            if graph.mapping(vertex) is not None:
                found.append(vertex)
    return found


@pytest.mark.parametrize("size", [1, 4, 6, 8, 12])
def test_the_number_of_plans_is_that_of_the_derivations(size):
    leftmost = complete(PlanGraph(size, leftmost=True))
    assert len(leftmost) == count(size)
    assert set(leftmost) == set(complete(PlanGraph(size)))


def test_plans_are_counted():
    assert [count(n) for n in (64, 1024, 17, 37)] == [64469, 80988525804, 90141, 1246813]


def test_texts_and_numbers_give_back_their_plan():
    for size in (8, 12, 17, 66, 134):
        graph, rng = PlanGraph(size), np.random.default_rng(size)
        for _ in range(40):
            row = rng.integers(-1, graph.most_rules, (graph.steps, 1)).astype(np.int16)
            row[0, 0] = max(row[0, 0], 0)
            plan = graph.decode(row)
            assert parse(str(plan)) == plan
            assert graph.decode(graph.encode(plan)) == plan
            assert judge(str(plan), size) == []


def test_a_part_is_written_by_its_size():
    graph = PlanGraph(64)
    row = graph.encode(parse("fs(4,2)"))
    assert row[0, 0] == -2 - graph.parts.index(8)
    assert str(graph.decode(row)) == "fs(4,2)"


def test_equal_partial_plans_are_one_vertex():
    radix_first = [p for p in PlanGraph(8).successors(parse("f(?2,?4)")) if str(p) == "f(2,?4)"]
    assert radix_first == [parse("f(2,?4)")]
    assert hash(radix_first[0]) == hash(parse("f(2,?4)"))
    assert len(expand(Open(2, bare=True))) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "plan: expected a plan such as"),
        ("fs(16", "plan: expected ',' at character 5, found ''"),
        ("16,", "plan: expected the end of the plan at character 2, found ','"),
        ("r(8)", "plan: expected an odd prime less 1, found r(8)"),
        ("z37(64)", "plan: expected at least 2 n - 1 points inside, found z37(64)"),
        ("999", "plan: expected the size of a codelet, found 999"),
        ("f(1,2)", "plan: expected factors above 1, found f(1,2)"),
        ("l0(4)", "plan: expected a block of at least 1, found l0(4)"),
        ("l1(" * 300 + "4" + ")" * 300, "plan: expected a plan such as"),
    ],
)
def test_a_text_that_is_no_plan_is_refused_in_one_line(text, line):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["fs(8,8", "q", "r(8)", "16", "z9(16)", "f(8,8))", "63", "f(8,,8)"])
def test_the_judge_refuses_what_is_no_plan_for_64_or_for_9(text):
    assert judge(text, 9 if text[0] in "rz" else 64) != []


def test_the_judge_accepts_large_plans():
    assert judge("fs(16,t(16,c8(f(16,16))))", 65536) == []
    assert judge("f(3,l1(z3034(t(16,fs(16,24)))))", 9102) == []


def test_a_plan_of_another_problem_is_refused():
    problem = PROBLEMS["fft"]()
    assert isinstance(problem, HasPlanText)
    for text, line in (
        ("fs(8,8)", r"^f: expected a plan for 8 points, found fs\(8,8\) for 64$"),
        ("fs(2,2)", r"^f: expected a plan for 8 points, found fs\(2,2\) for 4$"),
        ("l4(f(2,4))", "expected what the grammar proposes"),
        ("f(2,?4)", "f: expected a complete plan"),
    ):
        with pytest.raises(InputError, match=line):
            problem.read_plan(text, "f")
