"""Sharding instances are read as they stand; what is wrong with a file is said in one line."""

from __future__ import annotations

import copy
import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egrl_shard.load import load_sharding, packed, parse
from make_sharding import FORBIDDEN, make
from workloads.errors import InputError

EXAMPLE: dict[str, Any] = {
    "problem": {
        "name": "example",
        "nodes": {
            "intervals": [[0, 4], [2, 6], [6, 6]],
            "costs": [[1, 2], [3], [4, FORBIDDEN, 6]],
            "usages": [[5, 6], [7], [8, 9, 10]],
        },
        "edges": {
            "nodes": [[0, 2], [2, 1], [0, 2]],
            "costs": [[1, 2, 3, 4, 5, 6], [7, 8, FORBIDDEN], [0, 0, 0, 0, 0, 0]],
        },
        "usage_limit": 12,
    }
}
OF_NODES, OF_EDGES = EXAMPLE["problem"]["nodes"], EXAMPLE["problem"]["edges"]


def written(folder: Path, document: Any, name: str = "a.json") -> str:
    file = folder / name
    text = json.dumps(document).encode()
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(file)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_an_instance_is_read_as_it_stands(tmp_path, name):
    found = load_sharding(written(tmp_path, EXAMPLE, name))
    assert (found.name, found.limit, len(found)) == ("a", 12, 3)
    assert found.start.tolist() == [0, 2, 6]
    assert found.end.tolist() == [4, 6, 6]
    assert found.busy.tolist() == [True, True, False]
    assert found.first.tolist() == [0, 2, 3, 6]
    assert found.strategies.tolist() == [2, 1, 3]
    assert found.cost.tolist() == [1, 2, 3, 4, FORBIDDEN, 6]
    assert found.usage.tolist() == [5, 6, 7, 8, 9, 10]
    assert found.edge_nodes.tolist() == [[0, 2], [2, 1], [0, 2]]
    assert found.edge_first.tolist() == [0, 6, 9, 15]
    assert found.edge_cost[6:9].tolist() == [7, 8, FORBIDDEN]
    assert [a.dtype for a in (found.start, found.first, found.cost, found.usage, found.edge_cost)] == [
        np.int64
    ] * 5
    assert found.edge_nodes.dtype == np.int32


@pytest.mark.parametrize("edges", [True, False])
def test_a_packed_copy_is_read_as_the_same_by_the_same_name(tmp_path, edges):
    document = copy.deepcopy(EXAMPLE)
    if not edges:
        document["problem"]["edges"] = {"nodes": [], "costs": []}
    first = load_sharding(written(tmp_path, document))
    file = tmp_path / "workload.json.gz"
    file.write_bytes(packed(first))
    again = load_sharding(str(file))
    for name, value in vars(first).items():
        np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    assert packed(again) == packed(first)


def test_a_copy_with_an_impossible_name_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.json: called: expected a printable name"):
        load_sharding(written(tmp_path, {**EXAMPLE, "called": "../x"}))


def test_an_instance_without_edges_is_one(tmp_path):
    document = copy.deepcopy(EXAMPLE)
    document["problem"]["edges"] = {"nodes": [], "costs": []}
    found = load_sharding(written(tmp_path, document))
    assert found.edge_nodes.shape == (0, 2)
    assert found.edge_first.tolist() == [0]


def change(*path: Any, to: Any) -> Callable[[dict], None]:
    def act(document: dict) -> None:
        at = document["problem"]
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return act


def drop(*path: Any) -> Callable[[dict], None]:
    def act(document: dict) -> None:
        at = document["problem"]
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return act


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change("nodes", "costs", 0, 1, to=-2), r"nodes.costs\[0\]\[1\]: expected a whole number from 0"),
        (change("nodes", "costs", 0, 1, to=2.0), r"nodes.costs\[0\]\[1\]: .* found 2.0"),
        (change("nodes", "costs", 0, 1, to=True), r"nodes.costs\[0\]\[1\]: .* found true"),
        (change("nodes", "costs", 0, 1, to=None), r"nodes.costs\[0\]\[1\]: .* found null"),
        (change("nodes", "costs", 0, 1, to=2**63), r"nodes.costs\[0\]\[1\]: .* to 2\^63 - 1, found 922"),
        (change("nodes", "costs", 0, 1, to=float("nan")), "expected finite numbers, found NaN"),
        (change("nodes", "costs", 0, to=[]), r"nodes.costs\[0\]: expected 1 to 32767 strategies, found 0"),
        (change("nodes", "costs", 0, to=7), r"nodes.costs\[0\]: expected a list, found 7"),
        (change("nodes", "costs", to=[]), r"nodes.costs: expected one node or more"),
        (drop("nodes", "costs"), r"nodes.costs: expected a list, found nothing"),
        (change("nodes", "costs", 1, 0, to=FORBIDDEN), r"nodes.costs\[1\]: expected a strategy that is allowed"),
        (drop("nodes", "usages", 2), r"nodes.usages: expected 3 lists, found 2"),
        (change("nodes", "usages", 1, to=[1, 2]), r"nodes.usages\[1\]: expected 1 numbers, as of costs, found 2"),
        (change("nodes", "usages", 0, 0, to="5"), r'nodes.usages\[0\]\[0\]: .* found "5"'),
        (drop("nodes", "intervals", 0), r"nodes.intervals: expected 3, one per node, found 2"),
        (change("nodes", "intervals", 0, to=[4, 0]), r"nodes.intervals\[0\]: expected lower <= upper, found \[4, 0\]"),
        (change("nodes", "intervals", 0, to=[4]), r"nodes.intervals\[0\]: expected 2 numbers, found 1"),
        (change("nodes", "intervals", 0, to=[-1, 4]), r"nodes.intervals\[0\]\[0\]: .* found -1"),
        (change("edges", "nodes", 0, to=[0, 3]), r"edges.nodes\[0\]: expected two nodes below 3, found \[0, 3\]"),
        (change("edges", "nodes", 1, to=[2, 2]), r"edges.nodes\[1\]: expected two nodes below 3, found \[2, 2\]"),
        (change("edges", "nodes", 1, to=[0, 1, 2]), r"edges.nodes\[1\]: expected 2 numbers, found 3"),
        (drop("edges", "costs", 0), r"edges.costs: expected 3 lists, found 2"),
        (change("edges", "costs", 1, to=[7, 8]), r"edges.costs\[1\]: expected 3 numbers, one a pair"),
        (change("edges", "costs", 1, to=[FORBIDDEN] * 3), r"edges.costs\[1\]: expected a pair of strategies that is"),
        (drop("edges"), "edges: expected an object, found nothing"),
        (drop("usage_limit"), "usage_limit: expected a whole number from 0 to .* found nothing"),
        (change("usage_limit", to=-1), "usage_limit: expected a whole number .* found -1"),
        (change("usage_limit", to=12.0), "usage_limit: expected a whole number .* found 12.0"),
        (change("usage_limit", to=11), "usage_limit: expected at least 12, .* at time 2, found 11"),
        (change("usage_limit", to=4), "usage_limit: expected at least 12"),
        (change("nodes", "usages", 2, 0, to=2**62), r"usages: expected sums below 2\^62"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_instance_is_said_in_one_line(tmp_path, damage, message):
    document = copy.deepcopy(EXAMPLE)
    damage(document)
    with pytest.raises(InputError, match=rf"^{tmp_path}/a\.json: {message}") as caught:
        load_sharding(written(tmp_path, document))
    assert "\n" not in str(caught.value)


def test_costs_that_could_overflow_together_are_refused():
    document = make(0, nodes=60)
    for row in document["problem"]["nodes"]["costs"]:
        row[:] = [99_999_999_999_999_999] * len(row)
    with pytest.raises(InputError, match=r"x: costs: expected sums below 2\^62, found up to 6000"):
        parse(document, "x", "x")


def test_text_that_is_no_instance_is_refused(tmp_path):
    file = tmp_path / "a.json"
    for text, message in (
        (b"[1]", "expected a JSON object, found a list"),
        (b"{}", "problem: expected an object, found nothing"),
        (b'{"problem": {"nodes"', "line 1, column .*: expected JSON"),
        (b"\xff\xfe", "expected JSON in UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ):
        file.write_bytes(text)
        with pytest.raises(InputError, match=message):
            load_sharding(str(file))
    for name in ("missing.json", "a.toml", "bert"):
        with pytest.raises(InputError, match="expected a"):
            load_sharding(str(tmp_path / name))


def test_gzip_that_is_cut_off_is_refused(tmp_path):
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(json.dumps(make(3, nodes=60)).encode())[:-300])
    with pytest.raises(InputError, match=r"a\.json\.gz: expected gzip, found"):
        load_sharding(str(file))


def test_what_the_script_makes_follows_its_seed():
    assert make(5) == make(5)
    assert make(5) != make(6)
    for seed in range(20):
        parse(make(seed, nodes=30), "made", "made")


@pytest.mark.slow
def test_a_small_file_of_a_large_one_is_refused_in_a_line_and_little_memory(tmp_path):
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b'{"nodes": [' + b"[]," * 1_300_000 + b'[]], "edges": []}'))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"a\.json\.gz"):
            load_sharding(str(file))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
