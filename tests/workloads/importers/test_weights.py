"""Weights of imported models: what is folded, held and counted, and how much of it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as each_of
from torch._higher_order_ops import scan
from torch.nn import functional

from gate import gate
from onnx_models import Net
from workloads.importers.read import Imported, read
from workloads.workload import Workload

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
"""PyTorch warns of its own code while it exports."""


class Held(nn.Module):
    """A `forward` with modules and parameters."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self, *inputs)


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


def both(module: nn.Module, tmp_path: Any, *inputs: torch.Tensor) -> tuple[Workload, Workload]:
    """The program as it is exported, and written out in simpler ops."""
    first, second = both_imported(module, tmp_path, *inputs)
    return first.workload, second.workload


def both_imported(module: nn.Module, tmp_path: Any, *inputs: torch.Tensor) -> tuple[Imported, Imported]:
    """As `both`, with what was said."""
    program = torch.export.export(module, inputs)
    found = []
    for each in (program, program.run_decompositions()):
        torch.export.save(each, tmp_path / "net.pt2")
        found.append(read(str(tmp_path / "net.pt2")))
    return found[0], found[1]


def convolution(bias: bool = True) -> nn.Module:
    return nn.Conv2d(8, 8, 1, bias=bias)


IMAGE, PIXELS = torch.zeros(2, 8, 6, 6), 2 * 8 * 36
"""What a convolution reads, and its elements."""
NORMS: dict[str, tuple[nn.Module, int, int]] = {
    "folded": (nn.Sequential(convolution(), nn.BatchNorm2d(8)), 72, 0),
    "as a bias": (nn.Sequential(convolution(bias=False), nn.BatchNorm2d(8)), 72, 0),
    "twice": (nn.Sequential(convolution(), nn.BatchNorm2d(8), nn.BatchNorm2d(8)), 72, 0),
    "after an activation": (nn.Sequential(convolution(), nn.ReLU(), nn.BatchNorm2d(8)), 88, 3 * PIXELS),
    "after a sum": (
        Held(lambda m, x: m.norm(m.conv(x) + x), conv=convolution(), norm=nn.BatchNorm2d(8)),
        88,
        3 * PIXELS,
    ),
    "beside another reader": (
        Held(
            lambda m, x: (lambda y: m.norm(y) * torch.relu(y))(m.conv(x)),
            conv=convolution(),
            norm=nn.BatchNorm2d(8),
        ),
        88,
        4 * PIXELS,
    ),
    "of other features": (
        nn.Sequential(convolution(), nn.Flatten(), nn.BatchNorm1d(288)),
        72 + 2 * 288,
        2 * PIXELS,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(NORMS, ("folded", "after a sum")))
def test_a_batch_norm_is_folded_only_into_the_weights_that_it_scales(name, tmp_path):
    module, parameters, vector_ops = NORMS[name]
    for found in both(module.eval(), tmp_path, IMAGE):
        assert found.parameters == parameters
        assert sum(op.vector_ops for op in found) == vector_ops


@pytest.mark.slow
def test_a_batch_norm_that_takes_its_statistics_from_the_batch_runs_after_all_of_it(tmp_path):
    for found in both(nn.Sequential(convolution(), nn.BatchNorm2d(8)).train(), tmp_path, IMAGE):
        assert found.parameters == 88
        (norm,) = (op for op in found if op.kind == "norm")
        assert norm.vector_ops >= 2 * PIXELS


@pytest.mark.parametrize(("constant", "kinds"), [(True, ["matmul"]), (False, ["attention_matmul"])])
def test_a_batch_norm_of_an_onnx_product_is_folded_only_into_a_constant(tmp_path, constant, kinds):
    net = Net(x=[4, 8], y=[8, 6])
    y = net.add("MatMul", "x", net.weight(8, 6) if constant else "y")
    y = net.add("BatchNormalization", y, *(net.weight(6) for _ in range(4)))
    found = read(net.save(tmp_path / "net.onnx", y)).workload
    assert [op.kind for op in found] == kinds
    assert (found.parameters, found.ops[0].vector_ops) == ((54, 0) if constant else (12, 48))


LOOPS: dict[str, tuple[nn.Module, int, int]] = {
    "sliced by scan": (
        Held(lambda m, x: scan(lambda c, w: (torch.tanh(c @ w), c.sum()), x, m.w)[0], w=weight(6, 8, 8)),
        6 * 64,
        6 * 64,
    ),
    "sliced by map": (
        Held(lambda m, x: each_of(lambda w, y: y @ w, m.w, x), w=weight(6, 8, 8)),
        6 * 64,
        6 * 64,
    ),
    "carried": (
        Held(lambda m, x: scan(lambda c, y: (c + y, c.sum()), m.start, x)[0], start=weight(8)),
        8,
        8,
    ),
    "beside a fixed one": (
        Held(
            lambda m, x: scan(lambda c, w: (c @ w @ m.v, c.sum()), x, m.w)[0],
            w=weight(6, 8, 8),
            v=weight(8, 8),
        ),
        7 * 64,
        6 * (64 + 64),  # a slice and all of the fixed one, in every step
    ),
}
"""Name -> a module, the elements of its weights, and those that its steps read."""


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(LOOPS, ("sliced by scan",)))
def test_a_loop_holds_the_weights_that_it_slices_or_carries(name, tmp_path):
    module, parameters, moved = LOOPS[name]
    for found in both(module, tmp_path, torch.zeros(2, 8)):
        assert found.parameters == parameters
        assert sum(op.weight_moved_bytes for op in found) == 4 * moved


def five_steps(m: Held, x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = x @ functional.softplus(m.w)
    return x


def parts_and_all(m: Held, x: torch.Tensor) -> torch.Tensor:
    for part in m.w.chunk(3):
        x = x @ part.t()
    return x @ m.w.t()


DERIVED: dict[str, tuple[Callable[..., Any], dict[str, nn.Parameter]]] = {
    "scaled": (lambda m, x: x @ m.w.t() @ (m.w * 2), {"w": weight(24, 8)}),
    "normalised": (
        lambda m, x: x @ functional.normalize(m.w) @ functional.normalize(m.w),
        {"w": weight(8, 8)},
    ),
    "in each step": (five_steps, {"w": weight(8, 8)}),
    "parts, then all": (parts_and_all, {"w": weight(24, 8)}),
    "all, then a part": (lambda m, x: x @ m.w.t()[:, :8] @ m.w[8:16], {"w": weight(24, 8)}),
    "a sum, then one of it": (lambda m, x: x @ (m.w + m.v) @ m.w, {"w": weight(8, 8), "v": weight(8, 8)}),
    "a sum, then the other": (lambda m, x: x @ (m.w + m.v) @ m.v, {"w": weight(8, 8), "v": weight(8, 8)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(DERIVED, ("all, then a part", "in each step")))
def test_parameters_count_once_whatever_is_computed_from_them(name, tmp_path):
    forward, parts = DERIVED[name]
    for found in both(Held(forward, **parts), tmp_path, torch.zeros(2, 8)):
        expected = 128 if name == "all, then a part" else sum(part.numel() for part in parts.values())
        assert found.parameters == expected


COPIED = {
    "scaled": 768,
    "normalised": 256,
    "in each step": 4 * 256,
    "parts, then all": 768,
    "all, then a part": 0,
    "a sum, then one of it": 0,
    "a sum, then the other": 0,
}
"""Bytes that are held although an op before holds them, or what they are computed from."""


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(DERIVED, ("parts, then all", "scaled")))
def test_bytes_that_several_ops_hold_of_one_weight_are_said_whatever_is_computed_from_it(name, tmp_path):
    forward, parts = DERIVED[name]
    for found in both_imported(Held(forward, **parts), tmp_path, torch.zeros(2, 8)):
        total = sum(op.weight_bytes for op in found.workload)
        said = f"{COPIED[name]} of {total} bytes of weights are read by several ops: each holds them"
        assert found.remarks == ((said,) if COPIED[name] else ())


@pytest.mark.exhaustive
def test_tables_that_are_computed_of_one_small_constant_are_no_copies_of_it(tmp_path):
    def turned(m: Held, x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(m.places, m.rates)
        return torch.relu(x * angles.cos()) + torch.relu(x * angles.sin())

    module = Held(turned)
    module.register_buffer("places", torch.arange(64.0))
    module.register_buffer("rates", torch.ones(16))
    for found in both_imported(module, tmp_path, torch.zeros(64, 16)):
        assert sum(op.weight_bytes for op in found.workload) == 2 * 4 * 64 * 16
        assert found.remarks == ()


INDEXED: dict[str, tuple[Callable[..., Any], list[tuple[str, int]]]] = {
    "values alone": (lambda m, x: x.topk(4).values, [("other", 4 * 2 * 4)]),
    "places alone": (lambda m, x: x.topk(4).indices, [("other", 8 * 2 * 4)]),
    "both": (lambda m, x: tuple(x.topk(4)), [("other", 12 * 2 * 4)]),
    "a pooling": (lambda m, x: functional.max_pool1d_with_indices(x, 2)[0], [("pool", 4 * 2 * 4)]),
}


@pytest.mark.parametrize("name", gate(INDEXED, ("both",)))
def test_results_that_nobody_reads_take_no_bytes(name, tmp_path):
    forward, expected = INDEXED[name]
    for found in both(Held(forward), tmp_path, torch.zeros(2, 8)):
        assert [(op.kind, op.output_bytes) for op in found] == expected


def test_places_of_the_largest_that_nobody_reads_take_no_bytes_in_onnx(tmp_path):
    net = Net(x=[2, 8])
    y = net.add("TopK", "x", net.value(np.array([4])), outputs=2)
    (op,) = read(net.save(tmp_path / "net.onnx", y)).workload.ops
    assert (op.output_bytes, op.vector_ops) == (4 * 2 * 4, 2 * 4)


@pytest.mark.exhaustive
def test_parameters_of_a_constant_are_no_more_than_those_it_was_made_of(tmp_path):
    module = Held(lambda m, x: x @ torch.cat([m.w[:1], m.table]), w=weight(24, 8))
    module.register_buffer("table", torch.zeros(7, 8))
    for found in both(module, tmp_path, torch.zeros(2, 8)):
        assert (found.parameters, found.ops[-1].weight_bytes) == (8, 256)


def bags(m: Held, ids: torch.Tensor) -> torch.Tensor:
    return functional.embedding_bag(ids.view(-1), m.w, torch.arange(0, 40, 5))


LOOKUPS: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "embedding": (lambda m, ids: functional.embedding(ids, m.w), (5,), 5 * 16),
    "index": (lambda m, ids: m.w[ids], (5,), 5 * 16),
    "index_select": (lambda m, ids: m.w.index_select(0, ids), (5,), 5 * 16),
    "gather": (lambda m, ids: m.w.gather(0, ids), (5, 2), 5 * 2),
    "bags": (bags, (8, 5), 8 * 5 * 16),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(LOOKUPS, ("embedding", "gather", "bags")))
def test_a_look_up_reads_the_elements_of_its_table_that_it_picks(name, tmp_path):
    forward, shape, elements = LOOKUPS[name]
    module = Held(forward, w=weight(1000, 16))
    for found in both(module, tmp_path, torch.zeros(shape, dtype=torch.long)):
        (table,) = (op for op in found if op.kind == "embedding")
        assert (table.parameters, table.vector_ops) == (16000, elements)
        assert 4 * elements <= table.weight_read_bytes <= 4 * elements + 64


def test_rows_that_gathernd_looks_up_are_what_it_reads(tmp_path):
    net = Net(x=[5, 1])
    y = net.add("GatherND", net.weight(100, 16), net.add("Cast", "x", to=7))
    file = net.save(tmp_path / "net.onnx", net.add("Softmax", y))
    op = next(op for op in read(file).workload if op.parameters)
    assert (op.kind, op.weight_bytes) == ("embedding", 6400)
    assert op.weight_read_bytes == 5 * 16 * 4


@pytest.mark.slow
def test_a_parameter_that_a_program_writes_is_a_state_and_a_line_says_so(tmp_path):
    def decay(m: Held, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            m.layer.weight.mul_(0.9)
        return m.layer(x)

    for found in both(Held(decay, layer=nn.Linear(8, 8)), tmp_path, torch.zeros(2, 8)):
        assert found.parameters == 8
        assert found.remarks == (
            "64 parameters of p_layer_weight are written in an inference: counted as a state, not as weights",
        )


@pytest.mark.slow
def test_a_table_whose_rows_have_a_largest_norm_is_a_table(tmp_path):
    for found in both(nn.Embedding(100, 16, max_norm=1.0), tmp_path, torch.zeros(5, dtype=torch.long)):
        (op,) = found.ops
        assert (op.kind, op.parameters, op.weight_read_bytes) == ("embedding", 1600, 5 * 16 * 4)
        assert (op.output_bytes, found.remarks) == (5 * 16 * 4, ())
