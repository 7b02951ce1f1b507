"""Make the model of this folder again: python plugins/edge/tests/quantized/make.py (needs ai-edge-quantizer).

Two products of 640 columns; `ai-edge-quantizer` makes their weights int8, and puts them behind the flatbuffer, as it
does where weights have 256 KiB or more. `outputs.json` has what LiteRT computes of ones.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe

HERE = Path(__file__).parent
WIDTH = 640


def model() -> bytes:
    """y = (x a) b with x [1, 640] and float32 weights [640, 640] that repeat, so that the file packs well."""
    whole, graph, code = schema.ModelT(), schema.SubGraphT(), schema.OperatorCodeT()
    whole.version, whole.buffers, graph.tensors, graph.operators = 3, [schema.BufferT()], [], []
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 1
    place = np.add.outer(np.arange(WIDTH), np.arange(WIDTH))
    weights = {"a": place % 7 - 2, "b": place % 5 - 1}
    for name in ("x", "a", "b", "h", "y"):
        tensor, buffer = schema.TensorT(), schema.BufferT()
        if name in weights:
            buffer.data = (weights[name] / 1000).astype(np.float32).view(np.uint8).ravel()
        whole.buffers.append(buffer)
        shape = [WIDTH if name in weights else 1, WIDTH]
        tensor.name, tensor.shape, tensor.buffer = name, np.array(shape, np.int32), len(whole.buffers) - 1
        tensor.type = schema.TensorType.FLOAT32
        graph.tensors.append(tensor)
    for reads, makes in (([0, 1, -1], 3), ([3, 2, -1], 4)):
        op = schema.OperatorT()
        op.inputs, op.outputs = np.array(reads, np.int32), np.array([makes], np.int32)
        op.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
        op.builtinOptions = schema.FullyConnectedOptionsT()
        graph.operators.append(op)
    graph.inputs, graph.outputs = np.array([0]), np.array([4])
    signature, given, made = schema.SignatureDefT(), schema.TensorMapT(), schema.TensorMapT()
    given.name, given.tensorIndex, made.name, made.tensorIndex = "x", 0, "y", 4
    signature.signatureKey, signature.inputs, signature.outputs = "serving_default", [given], [made]
    whole.operatorCodes, whole.subgraphs, whole.signatureDefs = [code], [graph], [signature]
    builder = flatbuffers.Builder(0)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def outputs(content: bytes) -> list[float]:
    """What LiteRT computes of ones."""
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.set_tensor(given["index"], np.ones(given["shape"], np.float32))
    interpreter.invoke()
    return [float(value) for value in interpreter.get_tensor(made["index"]).ravel()]


if __name__ == "__main__":
    found = quantizer.Quantizer(bytearray(model()), recipe.dynamic_wi8_afp32()).quantize().quantized_model
    (HERE / "model.tflite.gz").write_bytes(gzip.compress(bytes(found), mtime=0))
    (HERE / "outputs.json").write_text(json.dumps(outputs(bytes(found))[:8]) + "\n")
