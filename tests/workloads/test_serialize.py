from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.json_text import describe, parse_document
from workloads.serialize import from_json, to_json
from workloads.workload import Edge, Workload


@pytest.mark.slow
@given(data=st.data())
def test_a_workload_comes_back_equal_from_its_json(any_workload, data):
    workload = data.draw(any_workload)
    assert from_json(to_json(workload), "there") == workload


def test_whole_reads_are_written_as_names_and_partial_reads_with_their_bytes(chain):
    ops = json.loads(to_json(chain))["ops"]
    assert ops[2]["inputs"] == ["b", {"source": "a", "read_bytes": 16}]


def test_fields_at_their_default_are_left_out(chain):
    document = json.loads(to_json(chain))
    assert set(document) == {"kind", "version", "name", "ops"}
    assert set(document["ops"][1]) == {"name", "kind", "inputs", "ifm", "ofm", "output_bytes"}


def test_the_shortest_document_stands_for_the_defaults():
    text = (
        '{"kind": "workload", "version": 1, "name": "tiny", "ops": ['
        '{"name": "a", "kind": "conv", "inputs": [], "ifm": [1, 1, 1], "ofm": [1, 1, 2], "output_bytes": 2},'
        '{"name": "b", "kind": "pool", "inputs": ["a"], "ifm": [1,1,2], "ofm": [1,1,1], "output_bytes": 1}'
        "]}"
    )
    workload = from_json(text, "tiny.json")
    assert workload.ops[1].inputs == (Edge("a", 2),)
    assert workload.ops[0].batch == 1
    assert workload.ops[0].latency_s is None


def test_an_unsound_workload_is_not_written(chain):
    with pytest.raises(InputError, match="wrong order"):
        to_json(replace(chain, ops=chain.ops[::-1]))


def put(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        here: Any = document
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = to

    return change


def drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        here: Any = document
        for step in path[:-1]:
            here = here[step]
        del here[path[-1]]

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "wrong kind": (put("kind", to="mapping"), 'kind: expected "workload", found "mapping"'),
    "no kind": (drop("kind"), 'kind: expected "workload", found nothing'),
    "newer version": (put("version", to=2), "version: expected 1, found 2"),
    "true is not 1": (put("version", to=True), "version: expected 1, found true"),
    "no ops": (drop("ops"), "ops: expected a value, found nothing"),
    "ops of another type": (put("ops", to={}), "ops: expected a list, found an object"),
    "op of another type": (put("ops", 1, to=5), "ops[1]: expected an object, found 5"),
    "unknown field": (put("batch", to=1), "batch: expected one of the fields kind, version, name, ops"),
    "unknown field of an op": (
        put("ops", 1, "size", to=1),
        "ops[1].size: expected one of the fields name, kind",
    ),
    "unknown field of an edge": (
        put("ops", 2, "inputs", 1, "bytes", to=1),
        "ops[2].inputs[1].bytes: expected one of the fields source, read_bytes",
    ),
    "unknown field of a gemm": (
        put("ops", 1, "gemm", to={"groups": 1, "rows": 1, "cols": 1, "reduction": 1, "k": 1}),
        "ops[1].gemm.k: expected one of the fields groups, rows, cols, reduction",
    ),
    "missing field": (drop("ops", 1, "ofm"), "ops[1].ofm: expected a value, found nothing"),
    "text for a number": (
        put("ops", 1, "output_bytes", to="32"),
        'ops[1].output_bytes: expected an integer, found "32"',
    ),
    "fraction for an integer": (
        put("ops", 1, "output_bytes", to=32.0),
        "ops[1].output_bytes: expected an integer, found 32.0",
    ),
    "truth value for an integer": (
        put("ops", 1, "batch", to=True),
        "ops[1].batch: expected an integer, found true",
    ),
    "number for a truth value": (
        put("ops", 1, "is_output", to=1),
        "ops[1].is_output: expected true or false, found 1",
    ),
    "two axes": (put("ops", 1, "ifm", to=[1, 2]), "ops[1].ifm[2]: expected a value, found nothing"),
    "four axes": (put("ops", 1, "ifm", to=[1, 2, 3, 4]), "ops[1].ifm: expected 3 values, found 4"),
    "edge of another type": (
        put("ops", 1, "inputs", 0, to=7),
        "ops[1].inputs[0]: expected an object, found 7",
    ),
    "edge without bytes": (
        put("ops", 1, "inputs", 0, to={"source": "a"}),
        "ops[1].inputs[0].read_bytes: expected a value, found nothing",
    ),
    "edge from nowhere": (
        put("ops", 1, "inputs", 0, to="z"),
        "ops[1] ('b').inputs[0].source: expected the name of an earlier op, found 'z'",
    ),
    "name used twice": (
        put("ops", 2, "name", to="b"),
        "ops[2].name: expected a new name, found 'b' of ops[1]",
    ),
    "infinite element": (
        put("element_bytes", to={"weight": "inf"}),
        'element_bytes.weight: expected a number, found "inf"',
    ),
    "lone surrogate": (put("name", to="\ud800"), "expected valid Unicode"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_fault_of_a_document_is_named_by_file_and_field(chain, change):
    spoil, expected = CHANGES[change]
    document = json.loads(to_json(chain))
    spoil(document)
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(document), "dir/chain.json")
    message = str(caught.value)
    assert message.startswith("dir/chain.json: ")
    assert expected in message
    assert "\n" not in message


def test_further_faults_are_counted(chain):
    document = json.loads(to_json(chain))
    document["ops"][0]["ifm"] = document["ops"][1]["ofm"] = None
    with pytest.raises(InputError, match=r"ops\[0\].ifm: .* \(and 1 more\)"):
        from_json(json.dumps(document), "f")


TEXTS = {
    "": "line 1, column 1",
    '{"kind": "workload",\n "version"': "line 2, column 11",
    "[1, 2]": "expected a JSON object, found a list",
    '{"a": NaN}': "expected finite numbers, found NaN",
    '{"a": -Infinity}': "expected finite numbers, found -Infinity",
    '{"a": 1, "b": 2, "a": 3}': 'expected each field once in an object, found "a" twice',
    "[" * 200_000: "nested too deeply",
    '{"a": ' + "1" * 10_000 + "}": "few digits",
}


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_is_no_document_is_refused_with_its_place(text):
    with pytest.raises(InputError) as caught:
        from_json(text, "f.json")
    assert str(caught.value).startswith("f.json: ")
    assert TEXTS[text] in str(caught.value)


def test_every_truncation_of_a_workload_is_refused(chain):
    text = to_json(chain).rstrip()
    for end in range(len(text)):
        with pytest.raises(InputError, match=r"^f: line \d+, column \d+"):
            from_json(text[:end], "f")


def test_a_number_too_large_for_a_float_is_refused(chain):
    text = to_json(chain).replace('"name": "chain"', '"name": "chain", "element_bytes": {"weight": 1e999}')
    with pytest.raises(InputError, match=r"^f: element_bytes\.weight: expected a finite number, found"):
        from_json(text, "f")


@pytest.mark.exhaustive
def test_a_million_ops_are_refused_within_seconds():
    op = '{"name": "op%d", "kind": "conv", "inputs": [], "ifm": [1,1,1], "ofm": [1,1,1], "output_bytes": 1}'
    ops = ",".join(op % i for i in range(1_000_000))
    text = f'{{"kind": "workload", "version": 1, "name": "x", "ops": [{ops}]}}'
    started = time.process_time()
    with pytest.raises(InputError, match="at most 100000 ops, found 1000000"):
        from_json(text, "f")
    assert time.process_time() - started < 3  # a tenth: no op is looked at


def test_ops_without_shapes_are_bounded_too():
    with pytest.raises(InputError, match="at most 100000 ops, found 100001"):
        from_json(f'{{"kind": "workload", "version": 1, "ops": [{",".join(["0"] * 100_001)}]}}', "f")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_descriptions_of_values_are_short_and_on_one_line(value):
    text = describe(value)
    assert 0 < len(text) <= 60
    assert text.isprintable()


def test_the_strict_reader_serves_any_kind_of_document():
    assert parse_document('{"kind": "plan", "version": 3, "x": [1]}', "f", "plan", 3)["x"] == [1]


def test_the_workload_type_alone_carries_the_defaults(chain):
    assert from_json(to_json(chain), "f") == Workload("chain", chain.ops)


def test_a_file_of_many_remarks_leaves_some_and_how_many_more(chain):
    few, many = [tuple(f"remark {i}" for i in range(count)) for count in (51, 100_000)]
    assert from_json(to_json(replace(chain, remarks=few)), "f").remarks == few
    kept = from_json(to_json(replace(chain, remarks=many)), "f")
    assert kept.remarks == (*many[:50], "and 99,950 more remarks")
    assert from_json(to_json(kept), "f").remarks == kept.remarks
