"""Small ONNX models for tests: nodes written down, weights left out (only their shapes are in the file)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Collects nodes and weights; every method gives the name of what it adds."""

    def __init__(self, **inputs: Sequence[int | str]) -> None:
        self.inputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def ids(self, name: str, shape: Sequence[int | str]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, shape))
        return name

    def weight(self, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        """A weight whose values lie in a file that is not there."""
        tensor = TensorProto(name=f"w{len(self.weights)}", data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="missing.bin")
        self.weights.append(tensor)
        return tensor.name

    def value(self, array: Any) -> str:
        """A constant whose values are in the file."""
        tensor = numpy_helper.from_array(np.asarray(array), f"c{len(self.weights)}")
        self.weights.append(tensor)
        return tensor.name

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        names = [f"t{len(self.nodes)}" if i == 0 else f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, names, name=name, domain=domain, **attributes))
        return names[0]

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1
    ) -> str:
        return self.add(
            "Conv",
            x,
            self.weight(outputs, inputs // groups, kernel, kernel),
            self.weight(outputs),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def model(self, *outputs: str, opset: int = 20, functions: Sequence[Any] = ()) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.weights)
        domains = {node.domain for node in self.nodes if node.domain}
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)

    def save(self, path: Path, *outputs: str, **options: Any) -> str:
        path.write_bytes(self.model(*outputs, **options).SerializeToString())
        return str(path)


def resnet50(path: Path) -> str:
    """ResNet-50 at 224 x 224 as PyTorch exports it in evaluation: batch norms in the convolutions already."""
    net = Net(image=[1, 3, 224, 224])
    x = net.add("Relu", net.conv("image", 3, 64, 7, stride=2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.add("Relu", net.conv(x, channels, width))
            y = net.add("Relu", net.conv(y, width, width, 3, stride=stride))
            y = net.conv(y, width, 4 * width)
            skip = x if block else net.conv(x, channels, 4 * width, stride=stride)
            x = net.add("Relu", net.add("Add", y, skip))
            channels = 4 * width
    x = net.add("GlobalAveragePool", x)
    x = net.add("Flatten", x)
    x = net.add("Gemm", x, net.weight(1000, 2048), net.weight(1000), transB=1)
    return net.save(path, net.add("Softmax", x))


def bert(path: Path, layers: int = 12, length: int = 128, hidden: int = 768, heads: int = 12) -> str:
    """BERT's encoder with embeddings of words and positions, without pooler, as PyTorch exports it."""
    net = Net()
    words = net.add("Gather", net.weight(30522, hidden), net.ids("ids", [1, length]))
    positions = net.add("Gather", net.weight(512, hidden), net.value(np.arange(length)[None]))
    x = _norm(net, net.add("Add", words, positions), hidden)
    for _ in range(layers):
        split = net.value(np.array([1, length, heads, hidden // heads]))
        q, k, v = (
            net.add("Transpose", net.add("Reshape", _linear(net, x, hidden, hidden), split), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = net.add("Mul", net.add("MatMul", q, k), net.value(np.float32(0.125)))
        y = net.add("MatMul", net.add("Softmax", scores), v)
        y = net.add(
            "Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3]), net.value(np.array([1, length, hidden]))
        )
        x = _norm(net, net.add("Add", _linear(net, y, hidden, hidden), x), hidden)
        y = net.add("Gelu", _linear(net, x, hidden, 4 * hidden))
        x = _norm(net, net.add("Add", _linear(net, y, 4 * hidden, hidden), x), hidden)
    return net.save(path, x)


def _linear(net: Net, x: str, inputs: int, outputs: int) -> str:
    return net.add("Add", net.add("MatMul", x, net.weight(inputs, outputs)), net.weight(outputs))


def _norm(net: Net, x: str, hidden: int) -> str:
    return net.add("LayerNormalization", x, net.weight(hidden), net.weight(hidden))


def tiny(path: Path, **inputs: Sequence[int | str]) -> str:
    """Convolution, batch norm, activation, pooling, linear layer, softmax: an image of 8 x 8."""
    net = Net(**(inputs or {"x": [1, 3, 8, 8]}))
    x = net.conv(net.inputs[0].name, 3, 4, 3)
    x = net.add("BatchNormalization", x, *(net.weight(4) for _ in range(4)))
    x = net.add("MaxPool", net.add("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Gemm", net.add("Flatten", x), net.weight(10, 64), net.weight(10), transB=1)
    return net.save(path, net.add("Softmax", x))


def branches() -> dict[str, Any]:
    """An If node's attributes: two graphs that read `outer` from outside, one with a weight of 6 elements."""
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    weight = numpy_helper.from_array(np.zeros((2, 3), np.float32), "inside")
    one = helper.make_graph(
        [helper.make_node("Add", ["outer", "inside"], ["y"])], "then", [], [output], [weight]
    )
    other = helper.make_graph([helper.make_node("Identity", ["outer"], ["y"])], "else", [], [output])
    return {"then_branch": one, "else_branch": other}
