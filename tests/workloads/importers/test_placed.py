"""What is put into a tensor that is there, a row into a cache say: what moves, and what is read of it later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gate import gate
from onnx_models import Net
from workloads.importers.read import Imported, read
from workloads.importers.torch_export import from_torch
from workloads.workload import Workload

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
"""PyTorch warns of its own code while it exports."""

ROW, CACHE = 4 * 2 * 16, 4 * 2 * 64 * 16
"""Bytes of [2, 1, 16] and of [2, 64, 16]."""


class Step(nn.Module):
    """A step of decoding that writes a row into a cache, and attends to all of it."""

    def __init__(self, write: Callable[..., Any]) -> None:
        super().__init__()
        self.write = write
        self.register_buffer("cache", torch.zeros(2, 64, 16))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache = self.write(self.cache, x, at)
        return functional.scaled_dot_product_attention(x, cache, cache)


def _sliced(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, 5:6] = x
    return cache


def _indexed(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, at] = x
    return cache


def _filled(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return cache.index_fill_(1, at, 2.0)


WRITES: dict[str, Callable[..., Any]] = {
    "a slice": _sliced,
    "rows by number": _indexed,
    "index_copy": lambda cache, x, at: cache.index_copy_(1, at, x),
    "one number into a row": _filled,
    "and read it whole": lambda cache, x, at: cache.copy_(torch.slice_scatter(cache, x, 1, 5, 6)),
}


def rows(net: Workload) -> list[tuple[int, int, int]]:
    """(written, read from outside, read of other ops) of the ops that write into a tensor or attend to it."""
    ops = [op for op in net if op.kind in ("attention_matmul", "other")]
    return [(op.output_bytes, op.external_bytes, sum(each.read_bytes for each in op.inputs)) for op in ops]


@pytest.mark.parametrize("name", gate(WRITES, ("a slice", "rows by number")))
def test_a_row_that_is_written_to_a_cache_is_all_that_moves(name):
    found = from_torch(Step(WRITES[name]), (torch.zeros(2, 1, 16), torch.tensor([5])))
    write, attention = rows(found.workload)
    assert write[0] == ROW
    assert write[1] <= ROW + 8
    assert attention == (ROW, ROW + CACHE - ROW, ROW)
    assert found.remarks == ()


def test_a_mask_may_write_everything():
    def masked(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache[x.expand(2, 64, 16) > 0] = 1.0
        return cache

    net = from_torch(Step(masked), (torch.zeros(2, 1, 16), torch.tensor([5]))).workload
    assert CACHE in [op.output_bytes for op in net if "index_put" in op.name]


def test_a_tensor_that_is_needed_as_it_was_is_copied():
    def kept(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.slice_scatter(cache, x, 1, 5, 6) + cache

    found = from_torch(Step(kept), (torch.zeros(2, 1, 16), torch.tensor([5])))
    (write,) = (op for op in found.workload if "scatter" in op.name)
    assert write.output_bytes == CACHE
    assert found.remarks[0].startswith(
        "1 op put a few elements into a copy of a larger tensor (slice_scatter): all of it"
    )


def test_an_input_that_a_program_does_not_hand_out_is_copied():
    class Plain(nn.Module):
        def forward(self, cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.slice_scatter(cache, x, 1, 5, 6)

    net = from_torch(Plain(), (torch.zeros(2, 64, 16), torch.zeros(2, 1, 16))).workload
    assert [(op.output_bytes, op.external_bytes) for op in net] == [(CACHE, CACHE + ROW)]


def scattered(tmp_path: Path, op: str, *more: Any, outputs: bool = True, **given: Any) -> Imported:
    """A row scattered into a cache, a product with it, and the cache as an output where `outputs`."""
    net = Net(cache=[1, 64, 16], row=[1, 1, 16])
    before = [net.value(np.asarray(each)) for each in more]
    inputs = ["row", *before] if op == "TensorScatter" else [*before, "row"]
    cache = net.add(op, "cache", *inputs, **given)
    y = net.add("MatMul", cache, net.weight(16, 16))
    return read(net.save(tmp_path / "net.onnx", *((cache, y) if outputs else (y,)), opset=24))


SCATTERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "ScatterElements": ("ScatterElements", (np.zeros((1, 1, 16), np.int64),), {"axis": 1}),
    "ScatterND": ("ScatterND", (np.array([[[0, 5]]]),), {}),
    "TensorScatter": ("TensorScatter", (np.array([5]),), {"axis": 1}),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_a_row_that_is_scattered_into_a_cache_of_onnx_is_all_that_moves(name, tmp_path):
    op, more, given = SCATTERS[name]
    write, product = scattered(tmp_path, op, *more, **given).workload.ops
    assert (write.output_bytes, write.vector_ops) == (64, 16)
    assert write.inputs == ()
    assert write.external_bytes == 64
    assert product.external_bytes == 63 * 64
    assert [each.read_bytes for each in product.inputs] == [64]
    copied, product = scattered(tmp_path, op, *more, outputs=False, **given).workload.ops
    assert copied.output_bytes == 64 * 64 or product.output_bytes == 64 * 64


def test_an_input_of_onnx_that_is_not_handed_out_is_copied(tmp_path):
    net = Net(x=[64, 16], row=[1, 16])
    net.add("MatMul", net.add("ScatterND", "x", net.value(np.array([[0]])), "row"), net.weight(16, 16))
    copied, _ = read(net.save(tmp_path / "net.onnx", "t1")).workload.ops
    assert (copied.output_bytes, copied.external_bytes) == (64 * 64, 65 * 64)


def test_rows_that_are_written_one_after_another_are_read_where_they_are(tmp_path):
    net = Net(x=[64, 16], row=[1, 16])
    cache = net.add("Relu", "x")
    for place in (3, 9):
        cache = net.add("ScatterND", cache, net.value(np.array([[place]])), "row")
    net.add("Softmax", cache)
    made, first, second, last = read(net.save(tmp_path / "net.onnx", "t3")).workload.ops
    assert [op.output_bytes for op in (made, first, second)] == [64 * 64, 64, 64]
    assert {each.source: each.read_bytes for each in last.inputs} == {
        second.name: 64,
        first.name: 64,
        made.name: 62 * 64,
    }
    assert last.external_bytes == 0


def test_what_an_op_made_is_copied_where_another_reads_it_as_it_was(tmp_path):
    net = Net(x=[64, 16], row=[1, 16])
    made = net.add("Softmax", "x")
    net.add("MatMul", net.add("ScatterND", made, net.value(np.array([[3]])), "row"), net.weight(16, 16))
    net.add("MatMul", made, net.weight(16, 8))
    ops = read(net.save(tmp_path / "net.onnx", "t2", "t3")).workload.ops
    assert [op.output_bytes for op in ops] == [64 * 64, 64 * 64, 64 * 64, 64 * 32]
    assert sum(each.read_bytes for each in ops[1].inputs) == 64 * 64


def test_a_row_that_is_added_to_one_of_a_cache_reads_that_too(tmp_path):
    at = np.zeros((1, 1, 16), np.int64)
    write, _ = scattered(tmp_path, "ScatterElements", at, axis=1, reduction="add").workload.ops
    assert (write.output_bytes, write.external_bytes) == (64, 2 * 64)

    def added(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return cache.index_add_(1, at, x)

    write, _ = rows(from_torch(Step(added), (torch.zeros(2, 1, 16), torch.tensor([5]))).workload)
    assert write == (ROW, 2 * ROW + 8, 0)
