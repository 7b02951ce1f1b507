"""How imported models compare with what an independent tool counts.

    python benchmarks/import_models.py FOLDER

imports every .onnx and .onnx.gz file of a folder and prints a table: ops fused and unfused, parameters, bytes of
weights, GMAC, seconds. With onnx-tool installed (`pip install onnx-tool`) its counts of the same file stand beside
them: parameters, and multiply-accumulates of convolutions and products (its totals add element-wise work, which a
workload keeps apart). That tool needs weights: those that are not there are zeros in memory.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import sys
import time
from pathlib import Path

import onnx

from workloads.importers.read import read

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def counted(file: Path) -> tuple[float, float] | None:
    """onnx-tool's parameters and multiply-accumulates of products; None where it is not installed or gives up."""
    try:
        import onnx_tool
    except ImportError:
        return None
    data = file.read_bytes()
    model = onnx.load_model_from_string(gzip.decompress(data) if file.suffix == ".gz" else data)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
            size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            tensor.raw_data = bytes(math.prod(tensor.dims) * size)
    with contextlib.redirect_stdout(io.StringIO()):
        graph = onnx_tool.Model(model, {"verbose": False}).graph
        graph.shape_infer(None)
        graph.profile()
    macs = sum(node.macs[0] for node in graph.nodemap.values() if node.op_type in PRODUCTS)
    return float(graph.params), float(macs)


def main(argv: list[str]) -> int:
    """Print the table; 2 where no folder with models is named."""
    files = sorted(Path(argv[0]).glob("*.onnx*")) if argv else []
    if not files:
        print(
            "usage: python benchmarks/import_models.py FOLDER (with .onnx or .onnx.gz files)", file=sys.stderr
        )
        return 2
    print("| model | ops | unfused | parameters | onnx-tool | weights, MB | GMAC | onnx-tool | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for file in files:
        begun = time.perf_counter()
        found = read(str(file))
        seconds = time.perf_counter() - begun
        net, plain = found.workload, read(str(file), fuse=False).workload
        other = counted(file)
        parameters, gmac = (f"{other[0]:,.0f}", f"{other[1] / 1e9:.3f}") if other else ("-", "-")
        held = sum(op.weight_bytes for op in net) / 1e6
        print(
            f"| `{net.name}` | {len(net)} | {len(plain)} | {net.parameters:,} | {parameters} | {held:.1f} |"
            f" {net.macs / 1e9:.3f} | {gmac} | {seconds:.2f} |",
            flush=True,
        )
        for remark in found.remarks:
            print(f"{net.name}: {remark}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
