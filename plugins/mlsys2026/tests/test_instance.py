"""Reading instances and schedules: what is wrong is said in one line, with file and field."""

from __future__ import annotations

import json

import pytest

from contest_instances import made
from mlsys2026.instance import document_of, load_instance, parse
from mlsys2026.judge import replay
from mlsys2026.schedule import Step, read_schedule, text_of
from workloads.errors import InputError

GOOD = {
    "widths": [64, 32, 32, 32],
    "heights": [16, 64, 16, 16],
    "inputs": [[0, 1], [2]],
    "outputs": [[2], [3]],
    "base_costs": [10, 5],
    "op_types": ["MatMul", "Pointwise"],
    "fast_memory_capacity": 4000,
    "slow_memory_bandwidth": 4,
    "native_granularity": [16, 16],
}

WRONG = {
    "missing field": ({"widths": None}, "expected the field widths, found none"),
    "no list": ({"widths": 3}, "widths: expected a list of one entry or more"),
    "text": ({"widths": [64, "a", 32, 32]}, r"widths\[1\]: expected a whole number from 1"),
    "boolean": ({"widths": [64, True, 32, 32]}, r"widths\[1\]: expected a whole number from 1"),
    "zero": ({"heights": [16, 0, 16, 16]}, r"heights\[1\]: expected a whole number from 1, found 0"),
    "fraction": ({"base_costs": [10, 0.5]}, r"base_costs\[1\]: expected a whole number from 0"),
    "negative": ({"base_costs": [-1, 5]}, r"base_costs\[0\]: expected a whole number from 0, found -1"),
    "length": ({"heights": [16, 64, 16]}, "heights: expected a list of 4 entries, found 3 entries"),
    "type": ({"op_types": ["MatMul", "Conv"]}, r"op_types\[1\]: expected MatMul or Pointwise"),
    "tensor": ({"inputs": [[0, 4], [2]]}, r"inputs\[0\]\[1\]: expected a tensor in 0..3, found 4"),
    "empty": (
        {"inputs": [[0, 1], []]},
        r"inputs\[1\]: expected a list of one entry or more, found 0 entries",
    ),
    "two outputs": ({"outputs": [[2, 1], [3]]}, r"outputs\[0\]: expected one tensor, found 2"),
    "two producers": ({"outputs": [[3], [3]]}, "that no other op writes, found tensor 3 of op 0"),
    "circle": (
        {"inputs": [[0, 1], [3]], "outputs": [[2], [3]]},
        "expected a graph without circles, found op 1 in or after one",
    ),
    "one factor": ({"inputs": [[0], [2]]}, r"inputs\[0\]: expected two tensors of a MatMul, found 1"),
    "factors": ({"inputs": [[1, 0], [2]]}, "op 0: expected a left input of 16 rows"),
    "pointwise": ({"inputs": [[0, 1], [0]]}, "op 1: expected inputs of 16x32, found 16x64"),
    "capacity": ({"fast_memory_capacity": 0}, "fast_memory_capacity: expected a whole number from 1"),
    "bandwidth": ({"slow_memory_bandwidth": 1.5}, "slow_memory_bandwidth: expected a whole number from 1"),
    "native": ({"native_granularity": [16]}, "native_granularity: expected a list of 2 entries"),
    "unknown": ({"colour": "red"}, "expected the fields of a contest instance, found 'colour'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(name, tmp_path):
    change, said = WRONG[name]
    document = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=said) as caught:
        load_instance(str(file))
    assert "\n" not in str(caught.value)
    assert "wrong" in str(caught.value)


def test_a_file_that_is_no_json_or_not_there_is_refused(tmp_path):
    for name, text in (("a.json", "{"), ("b.json", "[1]"), ("c.txt", "{}")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="expected"):
            load_instance(str(tmp_path / name))
    with pytest.raises(InputError):
        load_instance(str(tmp_path / "none.json"))


@pytest.mark.parametrize("seed", range(5))
def test_an_instance_is_read_as_it_was_written(seed, tmp_path):
    instance = made(seed)
    file = tmp_path / f"{instance.name}.json"
    file.write_text(document_of(instance), encoding="utf-8")
    assert load_instance(str(file)) == instance


def test_a_schedule_is_read_as_it_was_written():
    instance = parse(GOOD, "good", "good")
    steps = (Step((0,), (16, 16, 32), (2,), (1, 0), 3.5), Step((1,), (32, 16, 1), (), None, 2.0))
    assert read_schedule(text_of(steps, [3.5, 2.0]), instance, "here") == steps


WRONG_SCHEDULES = {
    "no list": ({"subgraphs": 1}, "subgraphs: expected a list"),
    "too few": (
        {"granularities": [[16, 16, 1]]},
        "granularities: expected 2 entries, one per subgraph, found 1",
    ),
    "twice": ({"subgraphs": [[0, 0], [1]]}, r"subgraphs\[0\]: expected one op or more, each once"),
    "no op": ({"subgraphs": [[], [1]]}, r"subgraphs\[0\]: expected one op or more"),
    "unknown op": ({"subgraphs": [[0], [2]]}, r"subgraphs\[1\]: expected whole numbers in 0..1, found 2"),
    "grain": (
        {"granularities": [[16, 16, 0], [16, 16, 1]]},
        r"granularities\[0\]: expected whole numbers from 1",
    ),
    "two": ({"granularities": [[16, 16], [16, 16, 1]]}, r"granularities\[0\]: expected \[w, h, k\], found 2"),
    "tensor": ({"tensors_to_retain": [[9], []]}, r"tensors_to_retain\[0\]: expected whole numbers in 0..3"),
    "latency": ({"subgraph_latencies": ["a", 1]}, r"subgraph_latencies\[0\]: expected a number from 0"),
}


@pytest.mark.parametrize("name", WRONG_SCHEDULES)
def test_a_schedule_that_is_none_is_refused_in_one_line(name):
    change, said = WRONG_SCHEDULES[name]
    instance = parse(GOOD, "good", "good")
    good = json.loads(text_of([Step((0,), (32, 16, 64)), Step((1,), (32, 16, 1))], [1.0, 1.0]))
    with pytest.raises(InputError, match=said):
        read_schedule(json.dumps({**good, **change}), instance, "here")
    assert replay(instance, read_schedule(json.dumps(good), instance, "here")).violations == ()


BROKEN = {
    "never run": [Step((0,), (32, 16, 64))],
    "is in neither memory": [Step((1,), (32, 16, 1)), Step((0,), (32, 16, 64))],
    "not in slow memory in the end": [Step((0,), (32, 16, 64)), Step((1,), (32, 16, 1), (3,))],
    "fast memory": [Step((0, 1), (32, 16, 64), (3,)), Step((1,), (32, 16, 1)), Step((0, 1), (32, 16, 64))],
    "retained, which is no output": [Step((0,), (32, 16, 64), (0,)), Step((1,), (32, 16, 1))],
    "no permutation": [Step((0,), (16, 16, 64), (), (0, 0)), Step((1,), (32, 16, 1))],
}


@pytest.mark.parametrize("what", BROKEN)
def test_the_judge_names_each_broken_rule(what):
    room = {"fast memory": 3000}.get(what, 4000)
    instance = parse({**GOOD, "fast_memory_capacity": room}, "good", "good")
    assert any(what in str(each) for each in replay(instance, BROKEN[what]).violations)


def test_a_subgraph_with_two_outputs_is_refused():
    forked = {**GOOD, "widths": [64, 32, 32, 32, 32], "heights": [16, 64, 16, 16, 16]}
    forked |= {"inputs": [[0, 1], [2], [2]], "outputs": [[2], [3], [4]], "base_costs": [10, 5, 5]}
    instance = parse({**forked, "op_types": ["MatMul", "Pointwise", "Pointwise"]}, "forked", "forked")
    (broken, *_) = replay(instance, [Step((0, 1, 2), (32, 16, 64))]).violations
    assert broken.what == "outputs of the subgraph"
