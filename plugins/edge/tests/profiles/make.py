"""Make the real profiles of this folder again: python plugins/edge/tests/profiles/make.py (README.md says more)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.profiler import ProfilerActivity, profile

HERE = Path(__file__).parent
RUNS = 3
Level = onnxruntime.GraphOptimizationLevel


def model() -> onnx.ModelProto:
    """Two convolutions with ReLU, pooling, and a product."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.1, shape).astype(np.float32), name)

    def node(op: str, name: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(op, inputs.split(), [output], name=name, **attributes)

    nodes = [
        node("Conv", "conv1", "x w1 b1", "c1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "relu1", "c1", "r1"),
        node("MaxPool", "pool1", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "conv2", "p1 w2 b2", "c2", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "relu2", "c2", "r2"),
        node("GlobalAveragePool", "gap", "r2", "g"),
        node("Flatten", "flatten", "g", "f"),
        node("Gemm", "fc", "f w3 b3", "y", transB=1),
    ]
    weights = [
        weight("w1", 16, 3, 3, 3), weight("b1", 16), weight("w2", 32, 16, 3, 3), weight("b2", 32),
        weight("w3", 10, 32), weight("b3", 10),
    ]  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "net", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def onnx_runtime_profile(level: Level, name: str) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.graph_optimization_level = True, level
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(HERE / "net.onnx"), options, ["CPUExecutionProvider"])
    for _ in range(RUNS):
        session.run(None, {"x": np.ones((1, 3, 32, 32), np.float32)})
    shutil.move(session.end_profiling(), HERE / name)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 8, 3)
        self.fc = torch.nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


class Named(torch.fx.Interpreter):
    def run_node(self, node: torch.fx.Node) -> object:
        with torch.profiler.record_function(node.name):
            return super().run_node(node)


def pytorch_profile(run, name: str) -> None:
    x = torch.ones(1, 3, 16, 16)
    with torch.no_grad():
        run(x)
        with profile(activities=[ProfilerActivity.CPU]) as found:
            for _ in range(RUNS):
                run(x)
    found.export_chrome_trace(str(HERE / name))
    trace = json.loads((HERE / name).read_text())
    kept = {key: trace[key] for key in ("schemaVersion", "displayTimeUnit", "traceEvents")}
    (HERE / name).write_text(json.dumps(kept, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    onnx.save(model(), HERE / "net.onnx")
    onnx_runtime_profile(Level.ORT_DISABLE_ALL, "onnx_runtime.json")
    onnx_runtime_profile(Level.ORT_ENABLE_ALL, "onnx_runtime_optimised.json")
    exported = torch.export.export(Net().eval(), (torch.ones(1, 3, 16, 16),))
    for node in exported.graph.nodes:  # where on this machine the code lies
        node.meta.pop("stack_trace", None)
    torch.export.save(exported, HERE / "net.pt2")
    pytorch_profile(exported.module(), "pytorch.json")
    pytorch_profile(Named(exported.module()).run, "pytorch_annotated.json")
