"""Weights of what works in steps: read in every one of them, from where they lie, unless the user says once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper, parser
from torch import nn

from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.latency import trace_latency
from hwsim.nnpi.problem import NnpiProblem
from onnx_models import Net
from workloads.errors import InputError
from workloads.importers.read import read
from workloads.importers.torch_export import from_torch
from workloads.serialize import from_json, to_json
from workloads.workload import Gemm, Op, Workload

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(folder: Path, op: str, sizes: list[int], directions: int = 1, **attributes: int) -> Path:
    net, gates = Net(x=sizes), GATES[op]
    weights = net.weight(directions, gates * 8, sizes[-1]), net.weight(directions, gates * 8, 8)
    net.add(op, "x", *weights, outputs=1, hidden_size=8, **attributes)
    return Path(net.save(folder / f"{op}.onnx", "t0"))


@pytest.mark.parametrize("op", GATES)
def test_a_recurrent_op_of_onnx_reads_its_weights_in_every_step(tmp_path, op):
    (found,) = read(str(recurrent(tmp_path, op, [50, 2, 4]))).workload.ops
    held = 4 * GATES[op] * 8 * (4 + 8)
    assert (found.weight_bytes, found.weight_read_bytes, found.steps) == (held, held, 50)
    assert found.weight_moved_bytes == 50 * held
    assert (found.gemm.groups % 50, found.gemm.rows) == (0, 2), "a step is a product of its own"
    (once,) = read(str(recurrent(tmp_path, op, [50, 2, 4])), weights_once=True).workload.ops
    assert (once.weight_read_bytes, once.steps, once.gemm.macs) == (held, 1, found.gemm.macs)
    assert once.gemm.rows == 100


def test_the_axis_of_steps_is_what_the_layout_says(tmp_path):
    net = Net(x=[3, 50, 4])
    net.add("LSTM", "x", net.weight(1, 32, 4), net.weight(1, 32, 8), hidden_size=8, layout=1)
    (op,) = read(net.save(tmp_path / "net.onnx", "t0")).workload.ops
    assert (op.steps, op.gemm.rows) == (50, 3)


def graph(folder: Path, text: str, **weights: tuple[int, ...]) -> Op:
    found = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    found.graph.initializer.extend(
        numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()
    )
    file = folder / "net.onnx"
    file.write_bytes(found.SerializeToString())
    (op,) = read(str(file), fuse=False).workload.ops
    return op


def test_a_scan_reads_what_its_body_reads_in_every_trip_and_what_it_takes_slices_of_once(tmp_path):
    op = graph(
        tmp_path,
        """g (float[4,8] x) => (float[4,8] last, float all) {
            last, all = Scan <num_scan_inputs = 1, body = b (float[4,8] h, float[8] s) => (float[4,8] n, float[4,8] o) {
                p = MatMul(h, w)
                n = Add(p, s)
                o = Relu(n)
            }> (x, table)
        }""",
        w=(8, 8),
        table=(20, 8),
    )
    assert op.steps == 20
    assert op.weight_bytes == 4 * (64 + 160)
    assert 20 * 4 * 64 + 4 * 160 <= op.weight_moved_bytes <= 20 * 4 * 64 + 4 * 160 + 20


def test_a_loop_in_a_loop_reads_in_every_trip_of_both(tmp_path):
    op = graph(
        tmp_path,
        """g (float[4,8] x) => (float[4,8] last) {
            n = Constant <value: tensor = int64 {3}> ()
            m = Constant <value: tensor = int64 {5}> ()
            go = Constant <value: tensor = bool {1}> ()
            last = Loop <body = b (int64 i, bool on, float[4,8] h) => (bool more, float[4,8] next) {
                more = Identity(on)
                k = MatMul(h, u)
                next = Loop <body = c (int64 j, bool oj, float[4,8] v) => (bool mj, float[4,8] nj) {
                    mj = Identity(oj)
                    nj = MatMul(v, w)
                }> (m, go, k)
            }> (n, go, x)
        }""",
        w=(8, 8),
        u=(8, 8),
    )
    assert op.steps == 15
    assert op.weight_bytes == 2 * 256
    assert 15 * 256 + 3 * 256 <= op.weight_moved_bytes <= 15 * 256 + 3 * 256 + 15


def test_rows_that_a_loop_looks_up_are_read_once_a_trip(tmp_path):
    op = graph(
        tmp_path,
        """g (float[1,8] x) => (float[1,8] last) {
            zero = Constant <value: tensor = int64[1] {0}> ()
            n = Constant <value: tensor = int64 {5}> ()
            go = Constant <value: tensor = bool {1}> ()
            last = Loop <body = b (int64 i, bool on, float[1,8] h) => (bool more, float[1,8] next) {
                more = Identity(on)
                at = Unsqueeze(i, zero)
                row = Gather(table, at)
                next = Add(h, row)
            }> (n, go, x)
        }""",
        table=(1000, 8),
    )
    assert (op.steps, op.weight_bytes, op.weight_read_bytes) == (1, 32_000, 5 * 32)


class Held(nn.Module):
    def __init__(self, run, **modules: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *given):
        return self.run(self, *given)


TORCH = {
    "batch first": (nn.LSTM(4, 8, batch_first=True), (3, 50, 4), 50),
    "steps first": (nn.GRU(4, 8, 2), (50, 3, 4), 50),
    "one sequence": (nn.RNN(4, 8), (50, 4), 50),
    "both directions": (nn.LSTM(4, 8, 2, bidirectional=True), (50, 3, 4), 50),
}


@pytest.mark.filterwarnings("ignore:(?s).*were assigned during export:UserWarning")
@pytest.mark.parametrize("name", TORCH)
def test_a_recurrent_layer_of_pytorch_reads_its_weights_in_every_step(name):
    layer, shape, steps = TORCH[name]
    module = Held(lambda m, x: m.layer(x)[0], layer=layer).eval()
    net = from_torch(module, (torch.zeros(shape),)).workload
    held = 4 * sum(p.numel() for p in layer.parameters())
    (op,) = [each for each in net if each.kind == "recurrent"]
    assert (op.steps, op.weight_moved_bytes) == (steps, steps * op.weight_bytes)
    assert held <= op.weight_bytes <= held + 4 * 8 * 3 * 4, "and a first state, at most"


def test_a_cell_is_one_step():
    module = Held(lambda m, x, h, c: m.cell(x, (h, c)), cell=nn.LSTMCell(4, 8)).eval()
    (op,) = from_torch(module, (torch.zeros(3, 4), torch.zeros(3, 8), torch.zeros(3, 8))).workload.ops
    assert (op.steps, op.gemm.rows) == (1, 3)


def test_steps_are_in_the_workload_file_and_weights_are_read_where_they_lie():
    size = 1_000_000
    op = Op(
        "lstm", "recurrent", (), (1, 1, 1), (1, 1, 1), 8, weight_bytes=size, weight_read_bytes=size, steps=50
    )
    net = Workload("net", (op,))
    assert from_json(to_json(net), "net.json") == net
    problem = NnpiProblem(net, load_chip("nnpi"))
    moved = [
        trace_latency(problem.tables, np.array([[memory, 0]], np.int16))[1].traffic_bytes[0]
        for memory in range(3)
    ]
    for memory, traffic in enumerate(moved):
        assert traffic[memory] >= 50 * size
    costs = [problem.model_cost(np.array([[memory, 0]], np.int16)) for memory in range(3)]
    for cost, memory in zip(costs, load_chip("nnpi").memories, strict=True):
        assert cost == pytest.approx(50 * size / memory.bandwidth_Bps + 0.5e-6, rel=0.01)
    assert problem.solve(5.0, 0).mapping[0, 0] == 2


def test_a_step_count_that_is_none_is_refused(tmp_path):
    op = Op("a", "recurrent", (), (1, 1, 1), (1, 1, 1), 8, gemm=Gemm(1, 1, 1, 1), steps=1)
    text = to_json(Workload("net", (op,))).replace('"ofm"', '"steps": 0, "ofm"')
    with pytest.raises(InputError, match=r"net.json: .*ops\[0\] \('a'\).steps: expected an integer from 1"):
        from_json(text, "net.json")


def test_the_weights_of_an_exported_onnx_model_are_those_of_its_reader(tmp_path):
    """The reference evaluator runs the same model in as many steps as are counted."""
    rng = np.random.default_rng(0)
    given = [("W", (1, 32, 4)), ("R", (1, 32, 8))]
    weights = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in given]
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=8)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [9, 1, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    made = helper.make_model(helper.make_graph([node], "g", [x], [y], weights))
    made.opset_import[0].version = 17
    (out,) = onnx.reference.ReferenceEvaluator(made).run(None, {"x": np.ones((9, 1, 4), np.float32)})
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    (op,) = read(str(tmp_path / "net.onnx")).workload.ops
    assert op.steps == len(out) == 9
