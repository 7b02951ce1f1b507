"""Products and parameters of PyTorch's modules beside what PyTorch itself counts when it runs them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as each_of
from torch._higher_order_ops import scan, while_loop
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import import_torch
from gate import gate
from workloads.errors import InputError
from workloads.importers.aten_products import chain
from workloads.importers.contraction import contract, einsum
from workloads.importers.read import read
from workloads.importers.torch_export import from_torch

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
"""PyTorch warns of its own code while it exports."""

Forward = Callable[..., Any]


class Net(nn.Module):
    """Two layers, a state, weights, and a `forward` that is handed in."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.a, self.b, self.run = nn.Linear(16, 32), nn.Linear(32, 32), forward
        self.register_buffer("state", torch.zeros(2, 32))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self, *inputs)


class Held(nn.Module):
    """A `forward` with modules and parameters."""

    def __init__(self, forward: Forward, **parts: Any) -> None:
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self, *inputs)


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


def products(module: nn.Module, *inputs: torch.Tensor) -> int:
    """What PyTorch counts on a device without kernels of its own, where every layer is written out."""
    torch.backends.mha.set_fastpath_enabled(False)
    given = [each.to("meta") for each in inputs]
    try:
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            module.to("meta")(*given)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    return int(counter.get_total_flops()) // 2


def without_gradient(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = net.a(x)
    with torch.no_grad():
        y = net.b(x)
    return x + y


def regions_in_regions(net: Net, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        x = net.a(x)
        with torch.autocast("cpu", torch.bfloat16):
            x = net.b(x)
            with torch.enable_grad():
                return net.b(x.float())


def recomputed(net: Net, x: torch.Tensor) -> torch.Tensor:
    return checkpoint(net.b, net.a(x), use_reentrant=False)


def write_to_a_part(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.a(x)
    z = y * 2
    z[:, :16] = net.b(y)[:, :16]
    return z.relu()


def write_to_parts_of_nothing(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(2, 64)
    y[:, :32] = net.a(x)
    y[:, 32:].copy_(y[:, :32]).add_(net.b(y[:, :32]))
    return y


def write_to_the_state(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.state.add_(net.b(net.a(x)))
    return x


def write_to_a_view_of_the_state(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.state.t()[3:5].copy_(net.b(net.a(x)).t()[:2])
    return x


def write_to_an_input(net: Net, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.view(-1)[:32] += net.b(net.a(x))[0]
    return x


def both_layers(net: Net, x: torch.Tensor, *_: torch.Tensor) -> Any:
    return net.b(net.a(x))


def write_at_a_place(net: Net, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    net.state[place] = net.a(x)
    return net.b(x @ net.a.weight.t()) @ net.state.t()


def either(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = net.a(x)
    return torch.cond(x.sum() > 0, lambda x: net.b(x) @ net.b.weight, lambda x: net.b(x), (x,))


def the_larger(net: Net, x: torch.Tensor) -> torch.Tensor:
    return net.b(net.a(x)) @ net.b.weight


def scanned(net: Net, x: torch.Tensor) -> Any:
    def step(state: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = net.b(state) + part
        return state, state * 1.0

    return scan(step, net.a(x), x.new_zeros(5, 2, 32))


def five_times(net: Net, x: torch.Tensor) -> Any:
    x = net.a(x)
    for _ in range(5):
        x = net.b(x)
    return x


def last_of_scan(net: Net, x: torch.Tensor) -> Any:
    def step(state: torch.Tensor, part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return net.b(state) + part, state @ state.T

    return scan(step, net.a(x), x.new_zeros(5, 2, 32))[0]


def mapped(net: Net, x: torch.Tensor) -> Any:
    return each_of(lambda row: net.b(row[None]), net.a(x))


ROWS = torch.zeros(2, 16)
NETS: dict[str, tuple[Forward, tuple[torch.Tensor, ...], Forward | None]] = {
    "no_grad": (without_gradient, (ROWS,), None),
    "nested": (regions_in_regions, (ROWS,), lambda net, x: net.b(net.b(net.a(x)))),
    "checkpoint": (recomputed, (ROWS,), both_layers),
    "part": (write_to_a_part, (ROWS,), None),
    "parts": (write_to_parts_of_nothing, (ROWS,), both_layers),
    "state": (write_to_the_state, (ROWS,), both_layers),
    "view": (write_to_a_view_of_the_state, (ROWS,), both_layers),
    "input": (write_to_an_input, (ROWS, torch.zeros(2, 32)), both_layers),
    "cache": (write_at_a_place, (ROWS, torch.tensor([0, 1])), None),
    "cond": (either, (ROWS,), the_larger),
    "scan": (scanned, (ROWS,), five_times),
    "unread": (last_of_scan, (ROWS,), five_times),
    "map": (mapped, (ROWS,), both_layers),
}
"""Inputs, and what has the same products where PyTorch's counter does not see those of the module itself."""


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(NETS, ("cond", "scan", "cache", "view", "no_grad", "input")))
def test_regions_loops_branches_and_writes_in_place_have_all_their_products(name, tmp_path):
    forward, inputs, other = NETS[name]
    module = Net(forward).eval()
    program = torch.export.export(module, inputs)
    torch.export.save(program, tmp_path / "net.pt2")
    found = read(str(tmp_path / "net.pt2"), fuse=False).workload
    torch.export.save(program.run_decompositions({}), tmp_path / "net.pt2")
    decomposed = read(str(tmp_path / "net.pt2"), fuse=False).workload
    parameters = sum(p.numel() for p in module.parameters())
    module.run = other or forward
    expected = products(module, *inputs)
    assert (found.macs, found.parameters) == (expected, parameters)
    assert (decomposed.macs, decomposed.parameters) == (expected, parameters)


LAYERS: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]] = {
    "lstm_cell": (
        Held(lambda m, x, h, c: m.cell(x, (h, c)), cell=nn.LSTMCell(5, 7)),
        ((3, 5), (3, 7), (3, 7)),
    ),
    "gru_cell": (Held(lambda m, x, h: m.cell(x, h), cell=nn.GRUCell(5, 7)), ((3, 5), (3, 7))),
    "gru_cell_without_biases": (
        Held(lambda m, x, h: m.cell(x, h), cell=nn.GRUCell(5, 7, bias=False)),
        ((3, 5), (3, 7)),
    ),
    "rnn_cell": (Held(lambda m, x, h: m.cell(x, h), cell=nn.RNNCell(5, 7)), ((3, 5), (3, 7))),
    "state_of_a_layer": (
        Held(lambda m, x: m.rnn(x, m.start(x[:1]))[0], rnn=nn.GRU(5, 7), start=nn.Linear(5, 7)),
        ((4, 3, 5),),
    ),
    "deep_lstm": (
        Held(lambda m, x: m.rnn(x)[0], rnn=nn.LSTM(5, 7, 2, bidirectional=True, proj_size=3)),
        ((4, 3, 5),),
    ),
    "tensordot": (
        Held(lambda m, x: torch.tensordot(x, m.w, ([1, 2], [0, 1])), w=weight(4, 5, 6)),
        ((3, 4, 5),),
    ),
    "multi_dot": (
        Held(lambda m, x: torch.linalg.multi_dot([x, m.v, m.w]), v=weight(16, 9), w=weight(9, 4)),
        ((20, 16),),
    ),
    "inner": (Held(lambda m, x: torch.inner(x, m.w), w=weight(3, 16)), ((2, 16),)),
    "matrix_power": (Held(lambda m, x: torch.linalg.matrix_power(x, 5)), ((2, 4, 4),)),
    "baddbmm": (Held(lambda m, x, y, z: torch.baddbmm(x, y, z)), ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
    "einsum": (Held(lambda m, x: torch.einsum("bhqd,bhkd->bhqk", x, x)), ((2, 3, 4, 5),)),
    "one_image": (nn.Conv2d(4, 8, 3, padding="same", groups=2), ((4, 9, 7),)),
    "one_image_back": (nn.ConvTranspose2d(4, 8, 3, stride=2, groups=2), ((4, 9, 7),)),
    "weight_norm": (nn.utils.parametrizations.weight_norm(nn.Linear(64, 64)), ((2, 64),)),
    "grouped_queries": (
        Held(lambda m, q, k: functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)),
        ((2, 8, 6, 4), (2, 2, 9, 4)),
    ),
    "one_query_for_all": (
        Held(lambda m, k: functional.scaled_dot_product_attention(m.q, k, k), q=weight(1, 2, 6, 4)),
        ((5, 2, 9, 4),),
    ),
    "one_head_for_all": (
        Held(lambda m, q, k: functional.scaled_dot_product_attention(q, k, k)),
        ((2, 6, 4), (5, 2, 9, 4)),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_the_products_and_parameters_that_pytorch_counts(name):
    module, shapes = LAYERS[name]
    inputs = tuple(torch.zeros(shape) for shape in shapes)
    found = from_torch(module.eval(), inputs, fuse=False).workload
    assert found.macs == products(module, *inputs)
    assert found.parameters == pytest.approx(sum(p.numel() for p in module.parameters()), rel=0.02)
    assert found.macs > 0


UNSEEN: dict[str, tuple[Forward, tuple[torch.Tensor, ...], int]] = {
    "addbmm": (
        lambda m, x, y, z: torch.addbmm(x, y, z),
        (*map(torch.zeros, ((3, 5), (2, 3, 4), (2, 4, 5))),),
        120,
    ),
    "cdist": (lambda m, x, y: torch.cdist(x, y), (torch.zeros(30, 4), torch.zeros(40, 4)), 30 * 40 * 6),
    "bilinear": (
        lambda m, x, y, w: functional.bilinear(x, y, w),
        (*map(torch.zeros, ((3, 5), (3, 6), (7, 5, 6))),),
        756,
    ),
    "affine_grid": (
        lambda m, x: functional.affine_grid(x, [2, 3, 8, 9], align_corners=False),
        (torch.zeros(2, 2, 3),),
        2 * 72 * 6,
    ),
    "int_mm": (
        lambda m, x, y: torch._int_mm(x, y),
        (torch.ones(32, 16).char(), torch.ones(16, 8).char()),
        4096,
    ),
    "int8": (
        lambda m, x, y, s: torch.ops.aten._weight_int8pack_mm(x, y, s),
        (torch.ones(4, 16).bfloat16(), torch.ones(8, 16).char(), torch.ones(8).bfloat16()),
        512,
    ),
    "trilinear": (
        lambda m, x, w, y: torch._trilinear(x, w, y, [1, 3], [0], [1, 2], [2, 3]),
        (*map(torch.zeros, ((3, 5), (7, 5, 6), (3, 6))),),
        756,
    ),
    "mv": (lambda m, x, y: torch.mv(x, y), (torch.zeros(3, 4), torch.zeros(4)), 12),
    "addmv": (
        lambda m, x, y, z: torch.addmv(x, y, z),
        (torch.zeros(3), torch.zeros(3, 4), torch.zeros(4)),
        12,
    ),
    "dot": (lambda m, x, y: torch.dot(x, y), (torch.zeros(4), torch.zeros(4)), 4),
    "conv_tbc": (
        lambda m, x, w, b: torch.conv_tbc(x, w, b),
        (*map(torch.zeros, ((10, 2, 5), (3, 5, 6), (6,))),),
        1440,
    ),
    "grouped": (
        lambda m, x, w, ends: torch._grouped_mm(x, w, offs=ends),
        (
            torch.zeros(10, 16).bfloat16(),
            torch.zeros(3, 16, 8).bfloat16(),
            torch.tensor([3, 5, 10], dtype=torch.int32),
        ),
        1280,
    ),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_products_that_pytorchs_counter_does_not_see_are_counted(name):
    forward, inputs, macs = UNSEEN[name]
    assert from_torch(Held(forward), inputs).workload.macs == macs


def test_the_order_of_a_chain_is_the_cheapest_of_all():
    def cost(tree: Any, sizes: list[int]) -> tuple[int, int, int]:
        if isinstance(tree, int):
            return 0, sizes[tree], sizes[tree + 1]
        (left, rows, middle), (right, _, cols) = (cost(side, sizes) for side in tree)
        return left + right + rows * middle * cols, rows, cols

    def trees(first: int, last: int) -> Any:
        if first == last:
            yield first
        for middle in range(first, last):
            yield from itertools.product(trees(first, middle), trees(middle + 1, last))

    for sizes in ([7, 2, 9, 1, 5], [3, 8, 2, 8, 3], [1, 4, 9, 2, 1], [4, 7, 3, 9, 2, 5]):
        shapes = list(itertools.pairwise(sizes))
        products = contract(*einsum(chain(shapes), shapes))
        all_trees = trees(0, len(shapes) - 1)
        assert sum(gemm.macs for gemm in products) == min(cost(tree, sizes)[0] for tree in all_trees)
    assert chain([(3,), (3, 4), (4,)]) == "b,bc,c->"


@pytest.mark.slow
def test_a_loop_that_runs_until_something_is_so_is_refused_by_its_name():
    def until(net: Net, x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() < 3, lambda x: (net.b(x),), (net.a(x),))

    with pytest.raises(InputError, match=r"could multiply matrices: while_loop of unknown length"):
        from_torch(Net(until), (ROWS,))


COUNTERS: dict[str, tuple[Any, Any, Any, int | None]] = {
    # begin, test, step, and how often the body runs
    "up to a number": (lambda net: torch.tensor(0), lambda i, n: i < 5, lambda i: i + 1, 5),
    "by twos, with the last": (
        lambda net: torch.ones((), dtype=torch.int64),
        lambda i, n: i <= 9,
        lambda i: i + 2,
        5,
    ),
    "down": (lambda net: torch.full((), 7), lambda i, n: i > 0, lambda i: i - 3, 3),
    "up to a buffer": (lambda net: torch.tensor(1), lambda i, n: i < n, lambda i: i + 1, 3),
    "from a buffer": (lambda net: net.n.clone(), lambda i, n: i != 10, lambda i: i + 2, 3),
    "not at all": (lambda net: torch.tensor(5), lambda i, n: i < 5, lambda i: i + 1, 0),
    "by doubling": (lambda net: torch.tensor(1), lambda i, n: i < 9, lambda i: i * 2, None),
    "past its end": (lambda net: torch.tensor(0), lambda i, n: i != 3, lambda i: i + 2, None),
    "away from its end": (lambda net: torch.tensor(0), lambda i, n: i < 3, lambda i: i - 1, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTERS)
def test_a_loop_with_a_counter_runs_as_often_as_that_says(kind: str):
    begin, test, step, trips = COUNTERS[kind]

    def counted(net: Net, x: torch.Tensor) -> Any:
        carried = (begin(net), net.a(x))
        return while_loop(lambda i, x: test(i, net.n), lambda i, x: (step(i), net.b(x)), carried)[1]

    net = Net(counted)
    net.register_buffer("n", torch.tensor(4))
    if trips is None:
        with pytest.raises(InputError, match="while_loop of unknown length"):
            from_torch(net, (ROWS,))
        return
    once = from_torch(Net(lambda net, x: net.a(x)), (ROWS,))
    more = from_torch(net, (ROWS,)).workload.macs - once.workload.macs
    assert more == trips * ROWS.shape[0] * net.b.weight.numel()


@pytest.mark.slow
def test_the_weights_of_the_branch_that_is_not_counted_are_held():
    def other(net: Net, x: torch.Tensor) -> Any:
        return torch.cond(
            x.sum() > 0, lambda x: x @ net.a.weight.t(), lambda x: x.repeat(1, 2) * net.b.bias, (x,)
        )

    found = from_torch(Net(other), (ROWS,))
    *ops, unread = found.workload.ops
    assert (found.workload.macs, sum(op.parameters for op in ops)) == (2 * 16 * 32, 16 * 32 + 32)
    assert unread.weight_bytes == (32 + 32 * 32 + 2 * 32) * 4
    assert found.remarks == (
        "no op reads 3 constants (a.bias, b.weight, state): held, 4480 bytes",
        "cond depends on data: counted as its branch of more products",
    )


def test_a_state_is_read_and_written_and_is_no_parameter():
    ops = from_torch(Net(write_to_the_state), (ROWS,)).workload.ops
    assert [op.parameters for op in ops] == [16 * 32 + 32, 32 * 32 + 32]
    assert ops[-1].external_bytes == 2 * 32 * 4
    assert ops[-1].is_output


def test_tables_that_a_module_was_built_with_are_held_and_are_no_parameters():
    class Table(Net):
        def __init__(self) -> None:
            super().__init__(lambda net, x: net.a(x) + net.table)
            self.register_buffer("table", torch.ones(2, 32))

    op, _ = from_torch(Table(), (ROWS,)).workload.ops
    assert (op.parameters, op.weight_bytes) == (16 * 32 + 32, (16 * 32 + 32 + 64) * 4)


@pytest.mark.slow
def test_what_torch_cannot_save_is_refused_in_a_line():
    from torch.nn.attention.flex_attention import flex_attention

    heads = torch.zeros(1, 2, 16, 16)
    with pytest.raises(
        InputError, match=r"^Held: expected a module that .* can export and save, found .*flex"
    ):
        from_torch(Held(lambda m, x: flex_attention(x, x, x)), (heads,))


@pytest.mark.slow
def test_vmap_multiplies_once_for_each_sample_and_a_program_that_hides_it_is_refused(tmp_path):
    part = Held(lambda m, x: torch.vmap(lambda w: m.a(x) @ w)(m.w), a=nn.Linear(16, 16), w=weight(5, 16, 4))
    x = torch.zeros(7, 16)
    found = from_torch(part, (x,)).workload
    assert (found.macs, found.parameters, found.remarks) == (7 * 16 * 16 + 5 * 7 * 16 * 4, 592, ())
    torch.export.save(torch.export.export(part, (x,)), tmp_path / "net.pt2")
    with pytest.raises(
        InputError, match=r"torch.vmap is written out, found .*_add_batch_dim: save program.run_"
    ) as said:
        read(str(tmp_path / "net.pt2"), allow_unknown=True)
    assert "\n" not in str(said.value)


@pytest.mark.exhaustive
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(("route", "size"), [("export", 0), ("export", 1), ("onnx", 0)])
@pytest.mark.parametrize(("family", "least"), [("torchvision", 30), ("timm", 120), ("transformers", 80)])
def test_architectures_have_the_products_and_parameters_that_pytorch_counts(
    family, least, route, size, tmp_path, capsys
):
    pytest.importorskip(family)
    if route == "onnx":
        pytest.importorskip("onnxscript")
    out = tmp_path / "counts.jsonl"
    import_torch.main([str(out), family, "--route", route, "--size", str(size), "--every", "2"])
    capsys.readouterr()
    different = [row["name"] for row in import_torch.apart(out)]
    assert [name for name in different if name not in import_torch.REASONS] == []
    assert sum('"macs"' in line for line in out.read_text().splitlines()) >= least


def test_the_comparison_says_what_differs_by_more_than_one_percent(tmp_path, capsys):
    pairs = {"exact": (100, 100), "near": (1000, 1009), "apart": (100, 102), "none": (0, 5)}
    rows = [
        {"name": name, "size": 0, "macs": macs, "ours": ours, "parameters": 9, "our_parameters": 9}
        for name, (macs, ours) in pairs.items()
    ]
    out = tmp_path / "counts.jsonl"
    out.write_text("".join(json.dumps({**row, "by_op": {}, "our_ops": {}}) + "\n" for row in rows))
    assert [row["name"] for row in import_torch.apart(out)] == ["apart", "none"]
    import_torch.table(out)
    said = capsys.readouterr().out
    assert said.startswith("4 modules: 4 counted, 2 of them within 1 %,")
    assert "| apart (0) | 100 | +2.00% | 9 | +0.00% |" in said


def test_a_module_is_counted_as_it_runs_and_without_its_dead_ends():
    row = import_torch.counted(
        Net(lambda net, x: (net.b(net.a(x)), net.a(x))[1]), (torch.zeros(2, 16, device="cpu"),)
    )
    assert (row["as_run"], row["macs"], row["ours"]) == (2 * 1024 + 2048, 1024, 1024)
    assert row["parameters"] == row["our_parameters"] == 544 + 1056  # what no op reads is held, too
