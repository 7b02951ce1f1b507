"""What the memory of the host is worth to training within a limit of memory, by the model alone.

    python -m benchmarks.training_host -o FOLDER [--networks gpt2,resnet50,vit] [--limits 0.6,0.4] [--seconds 30]
    python -m benchmarks.training_host -o FOLDER --table

The networks have the sizes of `benchmarks.training --large` and are captured, but not run. Seconds of ops are a
roofline: the greater of operations / rate and bytes moved / bandwidth, and a launch. Those of copies are bytes / rate.
`exact` looks for the fastest plan at each share of the peak of keeping everything, without a host and with it.
Real steps with a host: `python -m benchmarks.training --steps N --offload`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.training_models import training
from torch import fx
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

import egrl
from benchmarks.lines import Lines
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.joint import JointGraph
from egrl_training.simulator.device import Device
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.steps.step import OWNER, Op, TrainingStep
from workloads.errors import InputError

KEYS = ("network", "limit", "host_Bps")
FLOPS_PER_S, BYTES_PER_S, LAUNCH_S = 400e12, 2.5e12, 5e-6
"""Of a GPU such as an H100 in bfloat16, as ops of this size reach them (assumption)."""
HOST_BPS = 25e9
"""Bytes per second of a copy to or from pinned memory, each way: PCIe 4.0 x16 (assumption)."""


def roofline(joint: JointGraph) -> TrainingStep:
    """The step of a joint graph with seconds of a roofline; 0 for ops that only make views."""
    step = joint.step
    ops = [
        replace(op, seconds=_seconds(step, op, node)) for op, node in zip(step.ops, joint.ops, strict=True)
    ]
    return replace(step, ops=tuple(ops))


def _seconds(step: TrainingStep, op: Op, node: fx.Node) -> float:
    if op.outputs and all(step.values[number].view_of != OWNER for number in op.outputs):
        return 0.0
    args, kwargs, result = fx.map_arg((node.args, node.kwargs, node), lambda source: source.meta.get("val"))
    tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
    moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    target: Any = node.target
    count = flop_registry.get(getattr(target, "overloadpacket", target))
    flops = count(*args, **kwargs, out_val=result) if count is not None else 0
    return max(flops / FLOPS_PER_S, moved / BYTES_PER_S) + LAUNCH_S


def solve(step: TrainingStep, limit: float, host_Bps: float, seconds: float) -> dict[str, Any]:
    """The best plan within that share of the peak of keeping everything, and the bound; an error if none fits."""
    device = Device("limit", memory_fraction=limit, to_host_Bps=host_Bps, from_host_Bps=host_Bps)
    try:
        problem = TrainingProblem(step, device, TrainingConfig())
    except InputError as error:
        return {"error": str(error)}
    found = egrl.search(problem, method="exact", settings=[f"method.seconds={seconds}"])
    assert found.mapping is not None
    trace = problem.trace(found.mapping)
    return {
        "all_seconds": problem.keep_all[0],
        "all_peak_bytes": problem.keep_all[1],
        "seconds": found.cost,
        "bound": found.bound,
        "ops": len(step.ops),
        "host_bytes": int(problem.tables.size_bytes[trace.order].sum()),
        "wait_s": float(trace.wait_s.sum()),
    }


def table(folder: Path) -> str:
    """Markdown: a row per network and limit, what the step takes longer without and with a host."""
    lines = Lines(folder / "host.jsonl", KEYS).all
    rows = ["| network | ops | peak | limit | without a host | gap | with it | gap | on the host | waiting |"]
    rows.append("|---|" + "---:|" * 9)
    for line in lines:
        if line["host_Bps"] or "error" in line:
            continue
        (beside,) = (
            each
            for each in lines
            if each["host_Bps"] and all(each[key] == line[key] for key in ("network", "limit"))
        )
        cells = [
            line["network"],
            f"{line['ops']:,}",
            f"{line['all_peak_bytes'] / 2**30:.1f} GiB",
            f"{line['limit']:g}",
        ]
        for each in (line, beside):
            cells += [
                f"{each['seconds'] / each['all_seconds'] - 1:+.1%}",
                f"{each['seconds'] / each['bound'] - 1:.2%}",
            ]
        cells += [
            f"{beside['host_bytes'] / 2**30:.1f} GiB",
            f"{beside['wait_s'] / beside['all_seconds']:.1%}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Solve what FOLDER lacks, or print the table of what it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", default="gpt2,resnet50,vit")
    parser.add_argument("--limits", default="0.6,0.4")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--small", action="store_true", help="small networks, to try it")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args(argv)
    if not given.table:
        given.output.mkdir(parents=True, exist_ok=True)
        lines = Lines(given.output / "host.jsonl", KEYS)
        for name in given.networks.split(","):
            chosen = training(name, small=given.small, large=not given.small)
            step = roofline(capture_joint(chosen.model, *chosen.inputs, name=name))
            for limit in (float(text) for text in given.limits.split(",")):
                for rate in (0.0, HOST_BPS):
                    if (name, limit, rate) not in lines:
                        lines.add((name, limit, rate), solve(step, limit, rate, given.seconds))
    print(table(given.output))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
