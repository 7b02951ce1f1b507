"""Large language models against published totals and closed formulas.

Published parameters: the checkpoints Meta-Llama-3-8B, Meta-Llama-3-70B and Mixtral-8x7B-v0.1 (8.03, 70.6 and 46.7
billion).
A token of Mixtral takes 12.9 billion of them (Jiang et al. 2024, section 2).
"""

from __future__ import annotations

import csv
import re
from math import prod
from pathlib import Path

import pytest

from workloads.errors import InputError
from workloads.load import load
from workloads.serialize import from_json, to_json
from workloads.workload import Workload, last_consumer
from workloads.zoo.decoder import DECODERS

PUBLISHED = {"llama3_8b": 8_030_261_248, "llama3_70b": 70_553_706_496, "mixtral_8x7b": 46_702_792_704}
SMALL = "hidden=64:intermediate=96:heads=8:kv_heads=2:vocabulary=100"
VARIANTS = [
    f"{name}:{SMALL}:layers=2:length={length}:batch={batch}:decode={decode}"
    for name in ("llama3_8b", "mixtral_8x7b")
    for length in (1, 7)
    for batch in (1, 3)
    for decode in (0, 1)
]


def held(net: Workload, ending: str) -> int:
    return sum(op.weight_bytes for op in net if op.name.endswith(ending))


@pytest.mark.parametrize("name", DECODERS)
def test_parameters_are_exactly_the_published_ones_in_prefill_and_decode(name):
    assert load(name).parameters == load(f"{name}:decode=1").parameters == PUBLISHED[name]


def test_a_token_of_mixtral_takes_12_9_billion_parameters():
    net = load("mixtral_8x7b:decode=1:length=1")
    read = sum(op.weight_read_bytes for op in net if op.parameters and op.kind != "embedding")
    assert read + 32000 * 4096 == pytest.approx(12.9e9, rel=0.005)
    experts = [op for op in net if ".expert" in op.name and op.name.endswith(".down")]
    assert sum(op.weight_read_bytes > 0 for op in experts) == 2 * 32
    assert len(experts) == 8 * 32


@pytest.mark.parametrize("name", ["llama3_8b", "llama3_70b"])
def test_a_decode_step_multiplies_each_parameter_once_and_each_cached_element_of_a_group(name):
    net = load(f"{name}:decode=1:length=100:batch=2")
    layers, hidden = (32, 4096) if name == "llama3_8b" else (80, 8192)
    norms = sum(op.parameters for op in net if op.kind == "norm")
    products = PUBLISHED[name] - 128256 * hidden - norms
    assert net.macs == 2 * (products + layers * 2 * 101 * hidden)


def test_the_cache_is_held_and_read_where_it_is_multiplied_and_is_no_parameter():
    net = load("llama3_8b:decode=1:length=1000:batch=3")
    assert held(net, ".scores") == held(net, ".context") == 32 * 3 * 1000 * 8 * 128
    assert not any(op.parameters for op in net if op.kind == "attention_matmul")
    assert held(load("llama3_8b"), ".scores") == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_sound_and_its_bytes_follow_from_its_shapes(variant):
    net = load(variant)
    assert from_json(to_json(net), variant) == net
    ops = {op.name: op for op in net}
    for op in net:
        assert op.output_bytes == op.batch * prod(op.ofm), op.name
        if op.gemm is not None:
            assert op.gemm.groups * op.gemm.rows * op.gemm.cols == op.output_bytes, op.name
        if op.inputs:
            first = op.inputs[0]
            assert first.read_bytes == op.batch * prod(op.ifm), op.name
            if ops[first.source].kind != "split" and op.kind != "split":
                assert first.read_bytes == ops[first.source].output_bytes, op.name
    readers = last_consumer(net)
    assert [op.name for i, op in enumerate(net) if readers[i] == i and op.output_bytes] == ["lm_head"]


@pytest.mark.parametrize("length", [1, 3, 8, 9])
def test_the_experts_take_every_routed_token_once(length):
    net = load(f"mixtral_8x7b:{SMALL}:layers=1:length={length}")
    rows = [op.ofm[0] for op in net if re.fullmatch(r"layer0\.mlp\.expert\d\.down", op.name)]
    assert sum(rows) == 2 * length
    assert max(rows) - min(rows) <= 1


@pytest.mark.parametrize("layers", [49, pytest.param(499, marks=pytest.mark.exhaustive)])
def test_graphs_of_any_size_have_the_ops_that_are_stated(layers):
    assert len(load(f"llama3_8b:{SMALL}:layers={layers}")) == 4 + 20 * layers
    assert len(load(f"llama3_8b:{SMALL}:layers={layers}:decode=1")) == 3 + 19 * layers
    assert len(load(f"mixtral_8x7b:{SMALL}:layers={layers}")) == 4 + 59 * layers


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("llama3_8b:heads=3", "heads: expected a divisor of hidden = 4096"),
        ("llama3_8b:kv_heads=5", "kv_heads: expected a divisor of heads = 32"),
        ("mixtral_8x7b:experts=1", "experts: expected at least 2"),
        ("llama3_8b:decode=2", "expected 0 or 1"),
        pytest.param("llama3_8b:layers=5000", "at most 100000 ops", marks=pytest.mark.exhaustive),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(variant, message):
    with pytest.raises(InputError, match=message):
        load(variant)


@pytest.mark.slow
def test_the_table_in_the_docs_states_what_is_built():
    path = Path(__file__).parents[2] / "docs" / "reference" / "data" / "language-models.csv"
    with path.open(encoding="utf-8", newline="") as file:
        stated = {row[0].strip("`"): row[1:5] for row in csv.reader(file)}
    for name in DECODERS:
        prefill, decode = load(name), load(f"{name}:decode=1")
        sizes = [
            len(prefill),
            f"{prefill.parameters:,}",
            *(f"{net.macs / 1e9:.2f}" for net in (prefill, decode)),
        ]
        assert stated[name] == list(map(str, sizes))
