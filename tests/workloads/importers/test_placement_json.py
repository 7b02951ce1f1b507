"""Profiled instances: read as they are, refused with the field that is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from workloads.errors import InputError
from workloads.importers.placement_json import parse, to_json
from workloads.load_partition import read_instance

NODES = [
    {"id": 7, "name": "a", "fpgaLatency": 1.5, "size": 10.0, "colorClass": 1, "supportedOnFpga": 1},
    {"id": 3, "name": "b", "fpgaLatency": 0, "size": 0, "colorClass": 1},
    {"id": 5, "name": "c", "fpgaLatency": 2.0, "size": 4, "colorClass": 2},
]
EDGES = [{"sourceId": 7, "destId": 3, "cost": 0.25, "size": 8}, {"sourceId": 3, "destId": 5, "cost": 0.5}]
FILE = {"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": NODES, "edges": EDGES}
REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "placement"


def test_an_instance_is_read_from_gzip(tmp_path):
    file = tmp_path / "tiny.json.gz"
    file.write_bytes(gzip.compress(json.dumps(FILE).encode()))
    found = read_instance(str(file))
    assert (found.name, found.nodes, found.devices, found.device_bytes) == ("tiny", ("a", "b", "c"), 2, 100)
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert found.group.tolist() == [1, 1, 2]
    assert found.transfer_time.tolist() == [0.25, 0.5]
    assert found.transfer_bytes.tolist() == [8, 0]
    assert found.latency.sum() == 3.5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"nodes": 1}, "f: nodes: expected a list, found 1"),
        ({"nodes": []}, "f: nodes: expected at least one, found none"),
        ({"nodes": [*NODES, NODES[0]]}, r"f: nodes\[3\].id: expected a number of its own, found 7 again"),
        (
            {"edges": [{**EDGES[0], "destId": 9}]},
            r"f: edges\[0\].destId: expected the id of a node, found 9",
        ),
        ({"edges": [{**EDGES[0], "cost": -1}]}, r"f: edges\[0\].cost: expected a number from 0, found -1"),
        (
            {"nodes": [{**NODES[0], "supportedOnFpga": 0}]},
            r"nodes\[0\].supportedOnFpga: expected true, found false",
        ),
        (
            {"nodes": [{**NODES[0], "colorClass": "x"}], "edges": []},
            r"f: nodes\[0\].colorClass: expected a whole number from 0, found \"x\"",
        ),
        (
            {"edges": [{**EDGES[0], "cost": float("nan")}]},
            r"f: edges\[0\].cost: expected a number from 0, found NaN",
        ),
        (
            {"edges": [{**EDGES[0], "cost": 10**400}]},
            r"f: edges\[0\].cost: expected a number from 0, found 1000",
        ),
        ({"name": "../../evil"}, "f: name: expected a printable name of at most 200 characters without path"),
        ({"name": "a\0"}, "f: name: expected a printable name"),
        ({"name": "\ud800"}, "f: name: expected a printable name"),
        ({"name": "n" * 201}, "f: name: expected a printable name of at most 200 characters"),
        ({"name": 3}, "f: name: expected a printable name"),
        (
            {"nodes": [{**NODES[0], "name": {}}], "edges": []},
            r"f: nodes\[0\].name: expected text, found an object",
        ),
        (
            {"nodes": [{**NODES[0], "name": "\ud800"}], "edges": []},
            r"f: nodes\[0\].name: expected text, found",
        ),
        ({"maxFPGAs": None}, "f.maxFPGAs: expected a whole number from 0, found null"),
    ],
)
def test_a_wrong_instance_is_refused_with_its_field(change, match):
    with pytest.raises(InputError, match=match):
        parse({**FILE, **change}, "f", "f")


def test_what_the_package_decides_may_be_left_out():
    found = parse({"nodes": NODES, "edges": EDGES}, "tiny", "f")
    assert (found.devices, found.device_bytes) == (None, None)
    text = to_json(found)
    assert "max" not in text
    assert to_json(parse(json.loads(text), "", "f")) == text


def test_the_name_of_a_file_is_made_one_that_an_instance_may_have(tmp_path):
    file = tmp_path / "a\nb.json"
    file.write_text(json.dumps(FILE))
    assert read_instance(str(file)).name == "a-b"


@pytest.mark.skipif(not REAL.exists(), reason="the instances are not here")
def test_the_instances_have_the_sums_that_are_published_with_their_optima():
    bert = read_instance(str(REAL / "LayerGraphs-bert24_inference.json.gz"))
    assert bert.latency.sum() == pytest.approx(92.406, abs=5e-4)
    operators = read_instance(str(REAL / "OperatorGraphs-bert_l-3_inference.json.gz"))
    assert operators.latency.sum() == pytest.approx(49.353, abs=5e-4)
    heaviest = np.bincount(operators.group, operators.latency).max()
    assert heaviest >= operators.latency.max() == pytest.approx(11.684, abs=5e-4)
