"""Constants that no op needs are held and named; single numbers are parameters."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from egrl.cli.main import main
from workloads.importers.read import Imported, read
from workloads.importers.torch_export import from_torch
from workloads.importers.unread import NAME

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


class Net(nn.Module):
    """Parts that are there, and a `forward`."""

    def __init__(self, forward: Any, **parts: Any) -> None:
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


def layer(net: Any, x: torch.Tensor) -> torch.Tensor:
    return net.layer(x)


def value(name: str, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def onnx_model(
    file: Any, nodes: list[Any], *held: tuple[str, tuple[int, ...]], producer: str = ""
) -> Imported:
    """A model of x [4, 8] whose initializers have these names and shapes."""
    weights = [numpy_helper.from_array(np.full(shape, 0.5, np.float32), name) for name, shape in held]
    graph = helper.make_graph(nodes, "net", [value("x", 4, 8)], [value("y", 4, 8)], weights)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name=producer
    )
    onnx.save(made, file)
    return read(str(file))


@pytest.mark.parametrize("unread", ["module", "parameter", "frozen weight", "buffer", "mask"])
def test_what_a_module_holds_and_no_op_reads_is_held_by_an_op_of_its_own(unread):
    parts: dict[str, Any] = {
        "module": nn.Linear(30, 30, bias=False),
        "parameter": nn.Parameter(torch.zeros(30, 30)),
        "frozen weight": nn.Parameter(torch.zeros(30, 30), requires_grad=False),
        "buffer": nn.Buffer(torch.zeros(30, 30)),
        "mask": nn.Buffer(torch.zeros(30, 30, dtype=torch.bool), persistent=False),
    }
    net = Net(layer, layer=nn.Linear(8, 8), spare=parts[unread]).eval()
    found = from_torch(net, (torch.zeros(4, 8),))
    op, held = found.workload.ops
    size = 900 if unread == "mask" else 3600
    assert (op.weight_bytes, held.weight_bytes, held.weight_read_bytes) == (72 * 4, size, 0)
    assert (held.name, held.inputs, held.output_bytes) == (NAME, (), 0)
    assert found.workload.parameters == sum(each.numel() for each in net.parameters())
    name = "spare.weight" if unread == "module" else "spare"
    assert found.remarks == (f"no op reads 1 constant ({name}): held, {size} bytes",)


def test_dead_ends_are_unread_and_counters_of_batches_are_nothing():
    net = Net(
        lambda net, x: (net.spare(x), net.norm(net.layer(x)))[1],
        layer=nn.Linear(8, 8),
        spare=nn.Linear(8, 30),
        norm=nn.BatchNorm1d(8),
    )
    found = from_torch(net.eval(), (torch.zeros(4, 8),))
    assert found.remarks == ("no op reads 2 constants (spare.weight, spare.bias): held, 1080 bytes",)


def test_little_that_is_no_parameter_is_not_worth_an_op():
    net = Net(layer, layer=nn.Linear(64, 64), table=nn.Buffer(torch.zeros(3)))
    found = from_torch(net, (torch.zeros(4, 64),))
    assert (len(found.workload), found.remarks) == (1, ())


def test_a_tied_weight_is_read_where_one_of_its_names_is():
    class Tied(nn.Module):
        def __init__(self, with_head: bool) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)
            self.head.weight, self.with_head = self.table.weight, with_head

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.table(ids)
            return self.head(x) if self.with_head else x

    for with_head in (False, True):
        found = from_torch(Tied(with_head), (torch.zeros(1, 4, dtype=torch.long),))
        assert found.workload.parameters == 400
        assert NAME not in {op.name for op in found.workload}


def test_what_no_node_of_an_onnx_model_needs_is_held(tmp_path):
    """Also what a node reads whose result nobody needs; what a branch reads is needed."""
    product, dead = (helper.make_node("MatMul", ["x", w], [y]) for w, y in (("w", "y"), ("dead", "z")))
    found = onnx_model(
        tmp_path / "net.onnx", [product, dead], ("w", (8, 8)), ("dead", (8, 9)), ("spare", (7, 7))
    )
    assert found.remarks == ("no op reads 2 constants (dead, spare): held, 484 bytes",)
    assert [op.weight_bytes for op in found.workload] == [256, 484]
    assert found.workload.parameters == 64 + 72 + 49
    given = [helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    branches = [
        helper.make_graph([helper.make_node("MatMul", ["x", w], [w + "y"])], w, [], [value(w + "y", 4, 8)])
        for w in ("w", "v")
    ]
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    weights = [numpy_helper.from_array(np.ones((8, 8), np.float32), name) for name in ("w", "v")]
    graph = helper.make_graph([choice], "net", [value("x", 4, 8), *given], [value("y", 4, 8)], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
        tmp_path / "if.onnx",
    )
    assert NAME not in {op.name for op in read(str(tmp_path / "if.onnx")).workload}


def test_an_unread_number_that_is_a_parameter_gets_a_remark_and_takes_no_room():
    net = Net(layer, layer=nn.Linear(8, 8), spare=nn.Parameter(torch.tensor(2.0)))
    found = from_torch(net, (torch.zeros(4, 8),))
    assert found.remarks == ("no op reads 1 constant (spare): held, 0 bytes",)
    assert found.workload.parameters == 73


def test_single_numbers_are_parameters_and_hold_nothing():
    """A scale, a gain of one channel, a bias of one channel, a slope; numbers of formulas are none."""
    net = Net(
        lambda net, x: net.slope(net.head(x * net.scale.exp() * 0.5 + net.shift)),
        head=nn.Linear(8, 1),
        slope=nn.PReLU(),
        scale=nn.Parameter(torch.tensor(2.0)),
        shift=nn.Parameter(torch.ones(1)),
    )
    workload = from_torch(net, (torch.zeros(4, 8),)).workload
    assert workload.parameters == sum(each.numel() for each in net.parameters()) == 12
    assert sum(op.weight_bytes for op in workload) == 8 * 4


@pytest.mark.parametrize(
    ("producer", "shape", "parameters"), [("", (1,), 65), ("", (), 64), ("pytorch", (), 65)]
)
def test_numbers_of_an_onnx_model_are_parameters_where_formulas_have_others(
    producer, shape, parameters, tmp_path
):
    """An initializer with an axis is one. Without an axis: where the file has nodes for numbers of formulas."""
    formula = helper.make_node("Constant", [], ["half"], value_float=0.5)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "scale"], ["b"]),
        helper.make_node("Mul", ["b", "half"], ["y"]),
    ]
    held = ("w", (8, 8)), ("scale", shape)
    found = onnx_model(tmp_path / "net.onnx", [formula, *nodes], *held, producer=producer)
    assert found.workload.parameters == parameters
    assert sum(op.weight_bytes for op in found.workload) == 256


@pytest.mark.parametrize("kind", [np.bool_, np.int64])
@pytest.mark.parametrize("made", ["chosen", "scaled"])
def test_masks_and_places_are_no_parameters_whatever_is_made_of_them(kind, made, tmp_path):
    """The importer counts no more parameters than the file has numbers to compute with: here 64 of a weight."""
    ways = {
        "chosen": [
            helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.BOOL),
            helper.make_node("Where", ["m", "yes", "no"], ["add"]),
        ],
        "scaled": [
            helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["m", "no"], ["add"]),
        ],
    }
    product, last = (
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "add"], ["y"]),
    )
    weights = [
        numpy_helper.from_array(np.ones((8, 8), np.float32), "w"),
        numpy_helper.from_array(np.eye(4, 8).astype(kind), "mask"),
        *(numpy_helper.from_array(np.float32(number), name) for name, number in (("yes", 0), ("no", -1e9))),
    ]
    graph = helper.make_graph(
        [*ways[made], product, last], "net", [value("x", 4, 8)], [value("y", 4, 8)], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    workload = read(str(tmp_path / "net.onnx")).workload
    assert (workload.parameters, sum(op.weight_bytes for op in workload)) == (64, 256 + 128)


@pytest.mark.parametrize("scales", [(), (1,), (8,)])
def test_scales_of_a_product_that_is_quantised_as_it_comes_are_no_parameters(scales, tmp_path):
    """As ONNX Runtime writes it: one scale for the activation, and one for the weight or for each of its columns."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["xq", "wq", "xz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["xs", "ws"], ["s"]),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.zeros((8, 8), np.int8), "wq"),
        numpy_helper.from_array(np.ones(scales, np.float32), "ws"),
    ]
    graph = helper.make_graph(nodes, "net", [value("x", 4, 8)], [value("y", 4, 8)], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(made, tmp_path / "net.onnx")
    assert read(str(tmp_path / "net.onnx")).workload.parameters == 64


@pytest.mark.parametrize("problem", ["nnpi", "mmap", "mcm"])
def test_the_unread_has_a_place_in_every_problem(problem, tmp_path):
    file, out = tmp_path / "net.onnx", tmp_path / "run"
    onnx_model(file, [helper.make_node("MatMul", ["x", "w"], ["y"])], ("w", (8, 8)), ("spare", (70, 70)))
    argv = ["run", "--workload", str(file), "--problem", problem, "--method", "random", "--evals", "2"]
    assert main([*argv, "--out", str(out), "--quiet"]) == 0
    assert main(["evaluate", str(out)]) == 0
    mapping = json.loads((out / "best_mapping.json").read_text())["mapping"]
    has_place = NAME in " ".join(row["node"] for row in mapping)
    assert has_place == (problem != "mmap")  # a program has no instruction that reads it
