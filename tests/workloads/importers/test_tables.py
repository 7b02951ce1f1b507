"""Tables that are read by rows: what is read is the rows, what is held is the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from onnx_models import Net
from workloads.importers.read import read
from workloads.importers.torch_export import from_torch
from workloads.workload import Op

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
"""PyTorch warns of its own code while it exports."""

MICROSOFT = {"domain": "com.microsoft"}
ROWS, WIDTH = 4096, 32
WHOLE = ROWS * WIDTH * 4
"""Bytes of one table."""


def imported(folder: Path, net: Net, *outputs: str, **options: Any) -> tuple[Op, ...]:
    return read(net.save(folder / "net.onnx", *outputs, **options), fuse=False).workload.ops


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_a_rotary_embedding_reads_a_row_of_each_table_for_each_token(domain, tokens, tmp_path):
    net = Net(x=[2, 4, tokens, 2 * WIDTH])
    at, cos, sin = net.ids("at", [2, tokens]), net.weight(ROWS, WIDTH), net.weight(ROWS, WIDTH)
    given = ("x", at, cos, sin) if domain else ("x", cos, sin, at)
    attributes = {"domain": domain} if domain else {}
    y = net.add("RotaryEmbedding", *given, **attributes)
    (op,) = imported(tmp_path, net, y, opset=23)
    assert (op.weight_bytes, op.weight_read_bytes) == (2 * WHOLE, 2 * 2 * tokens * WIDTH * 4)


def test_a_sequence_that_begins_at_a_place_reads_rows_from_there(tmp_path):
    """The fused op may have one place for all; without places, tables have the rows of the tokens already."""
    net = Net(x=[2, 4, 7, 2 * WIDTH])
    tables = net.weight(ROWS, WIDTH), net.weight(ROWS, WIDTH)
    y = net.add("RotaryEmbedding", "x", net.ids("at", [1]), *tables, **MICROSOFT)
    (op,) = imported(tmp_path, net, y)
    assert op.weight_read_bytes == 2 * 7 * WIDTH * 4
    net = Net(x=[2, 4, 7, 2 * WIDTH])
    y = net.add("RotaryEmbedding", "x", net.weight(2, 7, WIDTH), net.weight(2, 7, WIDTH))
    (op,) = imported(tmp_path, net, y, opset=23)
    assert op.weight_read_bytes == op.weight_bytes == 2 * 2 * 7 * WIDTH * 4


def test_attention_that_turns_its_queries_reads_rows_of_its_tables(tmp_path):
    net = Net(q=[2, 1, 256], k=[2, 1, 128], v=[2, 1, 128], past_k=[2, 2, 9, 64], past_v=[2, 2, 9, 64])
    lengths, total = net.ids("lengths", [2]), net.ids("total", [1])
    tables = net.weight(ROWS, WIDTH), net.weight(ROWS, WIDTH)
    y = net.add(
        "GroupQueryAttention", "q", "k", "v", "past_k", "past_v", lengths, total, *tables,
        num_heads=4, kv_num_heads=2, do_rotary=1, **MICROSOFT,
    )  # fmt: skip
    (op,) = imported(tmp_path, net, y)
    assert (op.weight_bytes, op.weight_read_bytes) == (2 * WHOLE, 2 * 2 * WIDTH * 4)


def test_a_part_of_a_constant_at_a_place_that_data_say(tmp_path):
    net = Net(x=[1, 3, WIDTH])
    at, end = net.ids("at", [1]), net.ids("end", [1])
    part = net.add("Slice", net.weight(ROWS, WIDTH), at, end)
    model = net.model(net.add("Add", "x", part))
    model.graph.value_info.append(helper.make_tensor_value_info(part, TensorProto.FLOAT, [3, WIDTH]))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    ops = read(str(tmp_path / "net.onnx")).workload.ops
    assert (ops[0].weight_bytes, ops[0].weight_read_bytes) == (WHOLE, 3 * WIDTH * 4)


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_rows_of_what_is_handed_in_or_computed_are_read_alone(op, tmp_path):
    """Blocks of a cache that a table of blocks names, say."""
    net = Net(cache=[256, WIDTH])
    shape = {"Gather": [5], "GatherElements": [5, WIDTH], "GatherND": [5, 1]}[op]
    y = net.add(op, "cache", net.ids("blocks", shape))
    z = net.add(op, net.add("Softmax", "cache"), "blocks")
    ids = 8 * {"Gather": 5, "GatherElements": 5 * WIDTH, "GatherND": 5}[op]
    found = imported(tmp_path, net, y, z)
    picks = [each for each in found if each.kind != "softmax"]
    assert [each.external_bytes for each in picks] == [5 * WIDTH * 4 + ids, ids]
    assert [edge.read_bytes for each in picks for edge in each.inputs] == [5 * WIDTH * 4]


class Held(nn.Module):
    """A table [4096, 32] beside a `forward`."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.run, self.table = forward, nn.Parameter(torch.zeros(ROWS, WIDTH))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.run(self.table, *inputs)


PICKS: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "index": (lambda t, ids: t[ids], (5,), 5 * WIDTH),
    "index_select": (lambda t, ids: t.index_select(1, ids), (5,), 5 * ROWS),
    "take": (lambda t, ids: t.take(ids), (5, 2), 10),
    "take_along_dim": (lambda t, ids: t.take_along_dim(ids, 0), (5, WIDTH), 5 * WIDTH),
    "of a slice": (lambda t, ids: t[:100][ids], (5,), 5 * WIDTH),
    "in a mapped loop": (
        lambda t, ids: torch._higher_order_ops.map(lambda i, t: t[i] * 2, ids, t),
        (5, 3),
        5 * 3 * WIDTH,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PICKS)
def test_what_picks_from_a_parameter_reads_what_it_picks(name):
    forward, shape, elements = PICKS[name]
    ops = from_torch(Held(forward), (torch.zeros(shape, dtype=torch.long),)).workload.ops
    assert sum(op.weight_read_bytes for op in ops) == elements * 4


@pytest.mark.slow
def test_what_looks_at_every_number_reads_all_of_them():
    def places(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero_static(table * x, size=3)

    ops = from_torch(Held(places), (torch.zeros(1),)).workload.ops
    assert [edge.read_bytes for op in ops for edge in op.inputs] == [WHOLE]


def test_attention_to_caches_in_blocks(tmp_path):
    """Three tokens of two sequences, each with at most 4 blocks of 8 keys; of 50 blocks 8 are read."""
    block = [50, 8, 2, 64]
    net = Net(q=[3, 256], k=[3, 128], v=[3, 128], key_cache=block, value_cache=block)
    ends, past = net.ids("ends", [3]), net.ids("past", [2])
    table = net.ids("blocks", [2, 4])
    tables = net.weight(ROWS, WIDTH), net.weight(ROWS, WIDTH)
    y = net.add(
        "PagedAttention", "q", "k", "v", "key_cache", "value_cache", ends, past, table, *tables,
        outputs=3, num_heads=4, kv_num_heads=2, do_rotary=1, **MICROSOFT,
    )  # fmt: skip
    (op,) = imported(tmp_path, net, y, f"{y}_1", f"{y}_2")
    assert op.gemm.macs == 3 * 4 * (4 * 8) * (64 + 64)
    assert (op.weight_bytes, op.weight_read_bytes) == (2 * WHOLE, 2 * 3 * WIDTH * 4)
    given = (3 * 256 + 2 * 3 * 128) * 4 + (3 + 2 + 2 * 4) * 8
    read_blocks = 2 * (2 * 4) * 8 * 2 * 64 * 4
    assert op.external_bytes == given + read_blocks
    assert op.output_bytes == (3 * 256 + 2 * 3 * 128) * 4
