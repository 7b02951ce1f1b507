"""How commands grow with the network: seconds, memory and the exponent of growth at 1,000, 10,000 and 100,000 ops.

    python benchmarks/scale.py [--sizes 1000,10000,100000] [--only NAME,…] [--limit 600] [--long]

The network is Llama 3 in small layers, as many as the size asks for; the ONNX file is a chain of products, sums and
activations. Every row is a process of its own: seconds of the processor, which a busy machine does not lengthen, and
the most memory that it held, in MiB. An exponent is log(ratio of the figures, less those of `egrl --help`) / log(ratio
of the sizes), from one size to the next; "-" where a figure is too small to say. The last line names what grows faster
than `MOST` between the two largest sizes.

A search makes one generation and proves nothing; `bound` is given 10 s. A process that takes longer than the limit
(wall time) is ended, which counts as growing too fast.

With `--long` it runs whole searches instead, those of `LONG`: 200 generations within the limit and `LONG_MIB`.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 1.2
SMALL_LAYERS = "hidden=256:heads=4:kv_heads=2:intermediate=512:vocabulary=1000:length=16"
OPS_A_LAYER = 20
LONG = (("ea", 100_000), ("egrl", 10_000))
"""Methods that make 200 generations on so many ops."""
LONG_MIB = 4096.0
LEAST_S, LEAST_MIB = 1.0, 50.0
"""Below these a figure above that of the empty process is too small for an exponent."""
WRITE_ONNX = """
import sys
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
nodes, last = [], "x"
for n in range(int(sys.argv[2])):
    kind, inputs = (("MatMul", [last, "w"]), ("Softmax", [last]), ("Add", [last, "x"]))[n % 3]
    nodes.append(helper.make_node(kind, inputs, [f"t{n}"]))
    last = f"t{n}"
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", last)]
onnx.save(helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:], [weight])), sys.argv[1])
"""


@dataclass(frozen=True)
class Cost:
    """Of one process: seconds of the processor, and MiB; infinity where it did not end in time."""

    seconds: float
    mib: float


def workload(ops: int) -> str:
    """Llama 3 in small layers, with about so many ops."""
    return f"llama3_8b:layers={max(ops // OPS_A_LAYER - 1, 1)}:{SMALL_LAYERS}"


def rows(ops: int, folder: Path) -> list[tuple[str, list[str]]]:
    """What is measured, in order, with the arguments of Python; later rows read what earlier ones write."""
    net = workload(ops)
    egrl = ["-m", "egrl"]
    file, run = str(folder / "net.json"), str(folder / "random")
    write = (
        "import sys; from workloads.load import load; from workloads.serialize import to_json;"
        "open(sys.argv[2], 'w').write(to_json(load(sys.argv[1])))"
    )
    found = [
        ("write JSON", ["-c", write, net, file]),
        ("write ONNX", ["-c", WRITE_ONNX, str(folder / "net.onnx"), str(ops)]),
        ("import ONNX", [*egrl, "import", str(folder / "net.onnx"), "-o", str(folder / "onnx.json")]),
        ("import JSON", ["-c", "import sys; from workloads.load import load; load(sys.argv[1])", file]),
        ("evaluate", [*egrl, "evaluate", "--workload", file]),
        ("bound", [*egrl, "bound", "--workload", file, "--seconds", "10"]),
    ]
    for method in ("random", "annealing", "ea", "pg", "egrl"):
        argv = [*egrl, "run", "--workload", file, "--method", method, "--gens", "1", "--bound-seconds", "0"]
        found.append((f"run: {method}", [*argv, "--quiet", "--out", str(folder / method)]))
    found += [
        ("export", [*egrl, "export", run, "-o", str(folder / "best.csv")]),
        ("allocate", [*egrl, "allocate", run]),
    ]
    for figure in ("curves", "bands", "shift", "breakdown", "utilisation", "layout"):
        output = str(folder / f"{figure}.png")
        found.append((f"plot {figure}", [*egrl, "plot", figure, run, "-o", output]))
    for problem in ("mcm", "mmap"):
        argv = ["--problem", problem, "--workload", file]
        found.append((f"evaluate: {problem}", [*egrl, "evaluate", *argv]))
        found.append((f"bound: {problem}", [*egrl, "bound", *argv, "--seconds", "10"]))
    return found


def measure(argv: Sequence[str], limit_s: float) -> Cost:
    """One process that loads the packages of this tree.

    Raises:
        RuntimeError: it failed.
    """
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *argv],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while True:
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        seconds = time.perf_counter() - begun
        if done:
            break
        if seconds > limit_s:
            process.kill()
            os.wait4(process.pid, 0)
            return Cost(math.inf, math.inf)
        time.sleep(0.01)
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"exit code {code}: {' '.join(argv)}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def exponent(small: float, large: float, factor: float, least: float) -> float | None:
    """Of growth; None where the larger figure is below `least`. What is nothing at the small size counts as `least`."""
    if large < least:
        return None
    return math.log(large / max(small, least)) / math.log(factor)


def long_searches(limit_s: float) -> int:
    """Print what each of `LONG` takes; 1 where it is more than the limit or `LONG_MIB`."""
    too_much = 0
    print("| method | ops | generations | s | MiB |\n|---|---:|---:|---:|---:|")
    for method, ops in LONG:
        with tempfile.TemporaryDirectory() as scratch:
            argv = ["-m", "egrl", "run", "--workload", workload(ops), "--method", method, "--gens", "200"]
            argv += ["--bound-seconds", "0", "--quiet", "--out", str(Path(scratch) / method)]
            cost = measure(argv, limit_s)
        print(f"| {method} | {ops:,} | 200 | {cost.seconds:.0f} | {cost.mib:.0f} |", flush=True)
        too_much |= cost.seconds == math.inf or cost.mib > LONG_MIB
    return int(too_much)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 where something grows too fast."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--only", default="", help="names of rows, separated by commas")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a process")
    parser.add_argument("--long", action="store_true", help="whole searches instead")
    args = parser.parse_args(argv)
    if args.long:
        return long_searches(args.limit)
    sizes = [int(size) for size in args.sizes.split(",")]
    empty = measure(["-m", "egrl", "--help"], args.limit)
    print(f"egrl --help: {empty.seconds:.1f} s, {empty.mib:.0f} MiB")
    print("| what | " + " | ".join(f"{size:,}: s | MiB | exp. s | exp. MiB" for size in sizes) + " |")
    print("|---|" + "---:|" * (4 * len(sizes)))
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(size) for size in sizes]
        for folder in folders:
            folder.mkdir()
        too_fast = []
        for variants in zip(*(rows(s, f) for s, f in zip(sizes, folders, strict=True)), strict=True):
            name = variants[0][0]
            if args.only and name not in args.only.split(","):
                continue
            cells, last = [], None
            costs = [measure(argv, args.limit) for _, argv in variants]
            for k, cost in enumerate(costs):
                cells += [f"{cost.seconds:.1f}", f"{cost.mib:.0f}"]
                if k == 0:
                    cells += ["-", "-"]
                    continue
                before, factor = costs[k - 1], sizes[k] / sizes[k - 1]
                last = (
                    exponent(before.seconds - empty.seconds, cost.seconds - empty.seconds, factor, LEAST_S),
                    exponent(before.mib - empty.mib, cost.mib - empty.mib, factor, LEAST_MIB),
                )
                cells += ["-" if e is None else f"{e:.2f}" for e in last]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
            if last and any(e is not None and e > MOST for e in last):
                too_fast.append(name)
    print(f"above {MOST}: {', '.join(too_fast) or 'none'}")
    return 1 if too_fast else 0


if __name__ == "__main__":
    sys.exit(main())
