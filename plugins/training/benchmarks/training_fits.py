"""What `egrl fits` says of ten networks, beside what their steps take: PyTorch's profiler counts the bytes.

    python -m benchmarks.training_fits -o FOLDER [--networks gpt2,mlp] [--small] [--backend inductor]
    python -m benchmarks.training_fits -o FOLDER --networks strangers [--kinds float32,bfloat16] [--only TEXT]
    python -m benchmarks.training_fits -o FOLDER --table | --summary

Forward and backward are compiled with "aot_eager", or with inductor, on a processor: with every value kept, as
PyTorch's own partitioner cuts them, and with the plan of the least peak that is found; then AdamW steps, whose state is
there all the time. What is said comes from a network without data, but for strangers, architectures that nobody here
wrote (`training_strangers.py`), some of which need some to be made. FOLDER/fits.jsonl has what was measured; it is not
measured again.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.training_models import FULL, SMALL, Training
from benchmarks.training_strangers import strangers
from torch import nn

from benchmarks.lines import Lines
from egrl_training.pytorch.backend import BACKENDS, PlannedBackend
from egrl_training.pytorch.estimates import Rates
from egrl_training.pytorch.fit_report import ALL, LEAST, THEIRS
from egrl_training.pytorch.fit_steps import FitStep, FitSteps
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.no_data import batch_of, without_data
from egrl_training.pytorch.partition import Cut
from egrl_training.pytorch.peak import peak_of
from egrl_training.simulator.least import least_peak
from workloads.text import size_text

KEYS = ("network", "plan")
SEARCH_S = 10.0
PARTS = 8
"""Of the batches of `FULL`, which two cores train in minutes, one in so many samples is taken, but at least two."""


class Autoencoder(nn.Module):
    """Convolutions down, transposed ones up: the loss of the image itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        down: list[nn.Module] = [nn.Conv2d(3, width, 3, 2, 1)]
        up: list[nn.Module] = [nn.ConvTranspose2d(width, 3, 4, 2, 1)]
        wide = width
        for _ in range(3):
            down += [nn.ReLU(), nn.Conv2d(wide, 2 * wide, 3, 2, 1)]
            up = [nn.ConvTranspose2d(2 * wide, wide, 4, 2, 1), nn.ReLU(), *up]
            wide *= 2
        self.body = nn.Sequential(*down, nn.ReLU(), *up)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.body(images), images)


class Perceptron(nn.Module):
    """Layers of one width: the loss of classifying."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        each = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.GELU())]
        self.body = nn.Sequential(*each, nn.Linear(width, 1000))

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.body(x), wanted)


OTHERS: dict[str, Callable[[bool], Training]] = {
    "autoencoder": lambda small: Training(
        Autoencoder(16 if small else 64), (torch.randn(4 if small else 16, 3, *[32 if small else 128] * 2),)
    ),
    "mlp": lambda small: Training(
        Perceptron(4 if small else 12, 64 if small else 1024),
        (
            torch.randn(256 if small else 4096, 64 if small else 1024),
            torch.randint(1000, (256 if small else 4096,)),
        ),
    ),
}
NETWORKS = (*FULL, *OTHERS)
KINDS = ("float32", "bfloat16", "autocast", "channels_last")
"""How strangers are trained: numbers of one type, autocast to bfloat16, or float32 with channels last."""


class Autocast(nn.Module):
    """A network whose products are in bfloat16."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            loss: torch.Tensor = self.net(*inputs)
        return loss


def stranger(build: Callable[[], Any], kind: str) -> Training:
    """An architecture of others, trained so."""
    torch.manual_seed(0)
    net, inputs = build()
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    net, inputs = net.to(dtype).train(), [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    if kind == "channels_last":
        net = net.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
    return Training(Autocast(net) if kind == "autocast" else net, tuple(inputs))


def network(name: str, small: bool) -> Training:
    """One of `NETWORKS` with the inputs of a step; without data under `without_data`."""
    if name in OTHERS:
        return OTHERS[name](small)
    made = (SMALL if small else FULL)[name]()
    batch = batch_of(made.inputs, 0)
    return (
        made
        if small
        else Training(made.model, tuple(each[: max(batch // PARTS, 2)].clone() for each in made.inputs))
    )


def said(
    name: str, make: Callable[[], Training], backend: str = "aot_eager"
) -> tuple[FitStep, dict[str, np.ndarray[Any, np.dtype[np.int16]]], float]:
    """What is known without a step: the step, the three plans, and the seconds that it took."""
    begun = time.perf_counter()
    made = make()
    step = FitSteps(made.model, made.inputs, 0, "adamw", Rates(), name, backend).given
    least = least_peak(step.joint.step, step.tables, SEARCH_S)
    plans = {ALL: step.everything, THEIRS: step.theirs(), LEAST: least}
    return step, plans, time.perf_counter() - begun


def measured(made: Training, backend: Any) -> tuple[int, int]:
    """Bytes at the peak of both passes with a backend of `torch.compile`, and of the optimizer's step.

    With what is there all the time, the optimizer's state included.
    """
    torch._dynamo.reset()
    function = torch.compile(made.model, backend=backend, dynamic=False)
    parameters = list(made.model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-5)

    def passes() -> torch.Tensor:
        loss = function(*made.inputs)
        loss.backward()
        return loss

    passes()  # compiles
    optimizer.step()  # makes the state
    optimizer.zero_grad()
    state = sum(t.nbytes for each in optimizer.state.values() for t in each.values())
    held = sum(t.nbytes for t in (*parameters, *made.model.buffers(), *made.inputs)) + state
    peak = peak_of(passes, torch.device("cpu"))
    optimizer.zero_grad()
    loss = passes()  # as in most loops, it is there while the optimizer steps
    there = (
        held + loss.untyped_storage().nbytes() + sum(p.grad.nbytes for p in parameters if p.grad is not None)
    )
    return held + peak, there + peak_of(optimizer.step, torch.device("cpu"))


def keeping(names: Collection[str], joint: JointGraph) -> Cut:
    """The cut of a graph that keeps the values called so."""
    return Cut(joint.positions(names))


def compare(
    name: str, make: Callable[[], Training], bare: Callable[[], Training], backend: str, lines: Lines
) -> None:
    """Add what is said of the network that `bare` makes, and measured of the one that `make` does."""
    if all((name, plan) in lines for plan in (ALL, THEIRS, LEAST)):
        return
    step, plans, seconds = said(name, bare, backend)
    torch.manual_seed(0)
    made = make()
    for plan, kept in plans.items():
        pairs = zip(step.joint.step.candidates, kept, strict=True)
        names = {step.joint.step.values[number].name for number, keep in pairs if keep}
        planned = PlannedBackend(backend, partial(keeping, names), name, False)
        peak, stepping = measured(made, backend if plan == THEIRS else planned)
        passes = step.passes_bytes(None if plan == THEIRS else kept)
        found = {
            "said_bytes": passes,
            "measured_bytes": peak,
            "said_step_bytes": step.stepping_bytes,
            "measured_step_bytes": stepping,
            "seconds": seconds,
        }
        lines.add((name, plan), found)
        print(name, plan, passes / peak, step.stepping_bytes / stepping, flush=True)
        gc.collect()


def table(lines: Lines) -> str:
    """Markdown: for each network and plan what was said over what was measured."""
    known = {tuple(line[key] for key in KEYS): line for line in lines.all}
    head = [
        "network",
        f"measured, {ALL}",
        "said / measured",
        THEIRS,
        LEAST,
        "least / all",
        "AdamW steps",
        "known in",
    ]
    rows = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for name in dict.fromkeys(line["network"] for line in lines.all):
        each = [known[name, plan] for plan in (ALL, THEIRS, LEAST)]
        ratios = [f"{line['said_bytes'] / line['measured_bytes']:.4f}" for line in each]
        share = each[2]["measured_bytes"] / each[0]["measured_bytes"]
        step = each[0]["said_step_bytes"] / each[0]["measured_step_bytes"]
        cells = [name, size_text(each[0]["measured_bytes"]), *ratios, f"{share:.2f}", f"{step:.4f}"]
        rows.append(f"| {' | '.join(cells)} | {each[0]['seconds']:.0f} s |")
    return "\n".join(rows)


def summary(lines: Lines) -> str:
    """One line for each kind of training: how far what is said of its plans is from what was measured."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for line in lines.all:
        name, _, kind = line["network"].partition(", ")
        steps = [("_step", "AdamW steps")] if line["plan"] == ALL else []  # are the same for each plan
        for key, what in (("", line["plan"]), *steps):
            off = line[f"said{key}_bytes"] / line[f"measured{key}_bytes"] - 1
            found.setdefault(kind, []).append((off, name, what))
    rows = []
    for kind, each in found.items():
        sizes = np.abs([off for off, _, _ in each])
        within = ", ".join(f"{np.mean(sizes <= most):.3f} within {most:.1%}" for most in (0.001, 0.01, 0.02))
        worst = [
            f"{name} ({what}) {off:+.2%}" for off, name, what in sorted(each, key=lambda one: -abs(one[0]))
        ]
        count = len({name for _, name, _ in each})
        rows.append(f"{kind or 'own'}: {count} networks, {within}; {'; '.join(worst[:3])}")
    return "\n".join(rows)


def bare(name: str, small: bool) -> Training:
    """One of `NETWORKS` without data."""
    with without_data():
        return network(name, small)


def compare_own(names: Sequence[str], small: bool, backend: str, lines: Lines) -> None:
    """Add what is said and measured of some of `NETWORKS`."""
    for name in names:
        compare(name, partial(network, name, small), partial(bare, name, small), backend, lines)


def compare_strangers(kinds: Sequence[str], only: str, backend: str, lines: Lines) -> None:
    """Add what is said and measured of architectures of others."""
    for kind in kinds:
        for name, build in strangers():
            if only in name and not (kind == "channels_last" and name.startswith("transformers")):
                make = partial(stranger, build, kind)
                try:
                    compare(f"{name}, {kind}", make, make, backend, lines)
                except Exception as error:  # an op that knows no bfloat16, say
                    print(f"{name}, {kind}: {type(error).__name__}: {str(error)[:200]}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what FOLDER lacks, or print the table of what it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--backend", choices=BACKENDS, default="aot_eager")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--only", default="", help="strangers whose name has this text")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    lines = Lines(options.output / "fits.jsonl", KEYS)
    if options.table:
        print(table(lines))
    elif options.summary:
        print(summary(lines))
    elif options.networks == "strangers":
        compare_strangers(options.kinds.split(","), options.only, options.backend, lines)
    else:
        compare_own(options.networks.split(","), options.small, options.backend, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
