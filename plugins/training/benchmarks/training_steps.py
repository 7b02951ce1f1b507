"""Real training steps: our plans beside those of PyTorch's own partitioner, compiled and run in turn.

A part of `benchmarks.training`, whose text says what is compared.

Below a budget of 1 PyTorch may compute dropout again with other random numbers (its issue 190758): then its gradients
are wrong, and its plan keeps less than any correct one. `gradient_error` of a row says by how much: the largest
relative error of a parameter's gradient, with the seeds of eager mode (`aot_eager` draws the numbers that eager mode
does). With "random kept" `dp` is told to save what
random ops make.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from benchmarks.training_models import DROPOUT, Where
from torch._functorch import config as functorch_config
from torch._functorch import partitioners as torch_partitioners
from torch.utils.checkpoint import CheckpointPolicy

import egrl_training
from benchmarks.lines import Lines
from egrl.reproduction import mean_interval
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.times import DRAWS
from egrl_training.pytorch.timing import now

partitioners: Any = torch_partitioners
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
STEP_KEYS = ("network", "backend", "kind", "amount", "who")
RANDOM_KEPT = "random kept, budget"
RIGHT = 0.02
"""Relative errors of gradients below this are rounding: sums in another order, in bfloat16 on a GPU."""
SLACK_BYTES = 4096
"""What a plan may take more than theirs at its peak: tensors of a few bytes, which allocators count differently."""


def run_steps(
    name: str,
    folder: Path,
    where: Where,
    backend: str,
    steps: int,
    asked: Sequence[tuple[str, float]],
    offload: bool = False,
) -> None:
    """Compile and run PyTorch's plan and ours in turn, for each ("budget", of `dp`) or ("limit", share of its peak).

    With `offload` also ours with a host.
    """
    lines, chosen = Lines(folder / "steps.jsonl", STEP_KEYS), where.training(name)
    wanted = gradients(chosen, chosen.model)
    their_peaks = functools.cache(lambda budget, kept: _their_peak(chosen, backend, budget, kept=kept))
    for kind, amount in asked:
        case = (name, backend, kind, amount)
        left = [who for who in ("ours", *["host"] * offload) if (*case, who) not in lines]
        if not left:
            continue
        budget, limit, kept = amount, 0, kind == RANDOM_KEPT
        peak_of_budget = functools.partial(their_peaks, kept=kept)
        if kind == "limit":
            limit = int(amount * peak_of_budget(1.0))
            budget = largest_budget(peak_of_budget, limit)
        their_peak = peak_of_budget(budget)
        if kind == "limit" and their_peak > limit:
            least = min(peak_of_budget(each) for each in BUDGETS)
            lines.add((*case, "dp"), {"budget": budget, "limit_bytes": limit, "least_peak_bytes": least})
        asked_bytes = limit or their_peak + SLACK_BYTES
        with _budget(budget, kept):
            theirs = torch.compile(chosen.model, backend=backend, dynamic=False)
            _peak(chosen, theirs)
            # inductor draws other random numbers than eager mode, which proves nothing of its gradients
            same = backend == "aot_eager"
            error = {"gradient_error": gradient_error(wanted, gradients(chosen, theirs))} if same else {}
        functions: dict[str, Callable[..., Any]] = {"dp": theirs}
        found: dict[str, dict[str, Any]] = {}
        for who in left:
            with egrl_training.memory_limit(asked_bytes, quiet=True, offload=who == "host") as made:
                function = torch.compile(_other(chosen.model), backend=backend, dynamic=False)
            try:
                found[who] = {"peak_bytes": _peak(chosen, function), "limit_bytes": asked_bytes}
            except egrl_training.MemoryLimitError as error:
                lines.add((*case, who), {"error": str(error).splitlines()[0]})
                continue
            functions[who] = function
            found[who] |= allocated(where.device) | {"simulated_bytes": made[0].peak_bytes}
            found[who]["host_bytes"] = sum(value.size_bytes for value in made[0].offload)
        if not found:
            continue
        with where.alone():
            took = in_turn(chosen, functions, steps)
        if (*case, "dp") not in lines:
            spent = statistics.median(took["dp"])
            row = {"budget": budget, "seconds": spent, "peak_bytes": their_peak, **error}
            lines.add((*case, "dp"), row)
        for who, each in found.items():
            ratios = [ours / theirs for ours, theirs in zip(took[who], took["dp"], strict=True)]
            lines.add((*case, who), each | {"seconds": statistics.median(took[who]), "ratios": ratios})
            print(*case, who, f"{statistics.median(ratios):.3f}", each["peak_bytes"] / their_peak, flush=True)
        torch._dynamo.reset()


def largest_budget(peak_of_budget: Callable[[float], int], limit: int, halvings: int = 3) -> float:
    """The largest budget found whose measured peak is within `limit` bytes; 0 if none is.

    Peaks may rise while budgets fall, so that all of `BUDGETS` are tried. Halving then comes near to the next one.
    """
    fitting = [budget for budget in BUDGETS if peak_of_budget(budget) <= limit]
    low = max(fitting, default=0.0)
    high = min([budget for budget in BUDGETS if budget > low], default=1.0)
    for _ in range(halvings if fitting else 0):
        middle = (low + high) / 2
        if peak_of_budget(middle) <= limit:
            low = middle
        else:
            high = middle
    return low


def in_turn(chosen: Any, functions: Mapping[str, Callable[..., Any]], steps: int) -> dict[str, list[float]]:
    """Seconds of so many steps of each function, one step of each after another."""
    took: dict[str, list[float]] = {who: [] for who in functions}
    for _ in range(steps):
        for who, each in functions.items():
            begun = now(chosen.inputs[0].device)
            each(*chosen.inputs).backward()
            took[who].append(now(chosen.inputs[0].device) - begun)
            chosen.model.zero_grad()
    return took


def gradients(chosen: Any, function: Callable[..., Any]) -> list[torch.Tensor]:
    """Those of all parameters after a step with fixed random numbers."""
    torch.manual_seed(0)
    chosen.model.zero_grad()
    function(*chosen.inputs).backward()
    found = [parameter.grad for parameter in chosen.model.parameters()]
    chosen.model.zero_grad()
    return found


def gradient_error(wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> float:
    """The largest relative error of a parameter's gradient, in the Euclidean norm."""
    norm = torch.linalg.norm
    pairs = zip(wanted, found, strict=True)
    return max(float(norm(got - want) / norm(want).clamp_min(1e-30)) for want, got in pairs)


def allocated(device: str) -> dict[str, int]:
    """What the allocator of a GPU says of the last peak: bytes asked for, given with rounding, and reserved."""
    if device == "cpu":
        return {}
    stats = torch.cuda.memory_stats(device)
    kinds = ("requested_bytes", "allocated_bytes", "reserved_bytes")
    return {f"cuda_{kind}": int(stats[f"{kind}.all.peak"]) for kind in kinds}


def must_save(node: torch.fx.Node) -> None:
    """Tell PyTorch's partitioner that what a node makes must not be made twice."""
    for each in (node, *(user for user in node.users if user.target is operator.getitem)):
        each.meta["recompute"] = CheckpointPolicy.MUST_SAVE


@contextlib.contextmanager
def _budget(budget: float, kept: bool = False) -> Iterator[None]:
    """PyTorch's own partitioner at this budget; with `kept` it is told to save what random ops make."""
    choose = partitioners.choose_saved_values_set

    def choose_with_random(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> Any:
        for node in graph.nodes:
            if kept and DRAWS in getattr(node.target, "tags", ()):
                must_save(node)
        return choose(graph, *args, **kwargs)

    settings = functorch_config.patch(activation_memory_budget=budget, enable_autograd_cache=False)
    with settings, mock.patch.object(partitioners, "choose_saved_values_set", choose_with_random):
        yield


def _their_peak(chosen: Any, backend: str, budget: float, *, kept: bool = False) -> int:
    """The measured peak of PyTorch's plan at a budget, in bytes."""
    torch._dynamo.reset()
    with _budget(budget, kept):
        peak = _peak(chosen, torch.compile(chosen.model, backend=backend, dynamic=False))
    torch._dynamo.reset()
    return peak


def _other(model: torch.nn.Module) -> Callable[..., Any]:
    """The same model as another function, so that PyTorch compiles it a second time."""
    return lambda *inputs: model(*inputs)


def _peak(chosen: Any, function: Callable[..., Any]) -> int:
    """The measured peak of a step, with what is there before it, in bytes."""
    held = sum(t.nbytes for t in (*chosen.model.parameters(), *chosen.model.buffers(), *chosen.inputs))
    function(*chosen.inputs).backward()
    chosen.model.zero_grad()
    peak = peak_of(lambda: function(*chosen.inputs).backward(), chosen.inputs[0].device)
    chosen.model.zero_grad()
    return peak + held


def step_rows(folder: Path) -> list[str]:
    rows = [
        "| network | backend | asked | dp's budget | dp, s | ours, s | ours / dp | peak, ours / dp | ours / limit |"
        " planned / measured | dp's gradients |"
    ]
    rows.append("|---|---|---|" + "---:|" * 7 + "---|")
    lines = Lines(folder / "steps.jsonl", STEP_KEYS)
    known = {tuple(line[key] for key in STEP_KEYS): line for line in lines.all}
    for (*case, who), line in known.items():
        if who == "dp" or "error" in line:
            continue
        theirs = known[*case, "dp"]
        name, backend, kind, amount = case
        fits, beside_host = "seconds" in theirs, " with a host" if who == "host" else ""
        beside = f"{theirs['seconds']:.3f}" if fits else "none fits"
        ratio = f"{statistics.median(line['ratios']):.3f}" if fits else ""
        peaks = f"{line['peak_bytes'] / theirs['peak_bytes']:.3f}" if fits else ""
        rows.append(
            f"| {name}{beside_host} | {backend} | {kind} {amount:g} | {theirs['budget']:g} | {beside} |"
            f" {line['seconds']:.3f} | {ratio} | {peaks} | {line['peak_bytes'] / line['limit_bytes']:.3f} |"
            f" {line['simulated_bytes'] / line['peak_bytes']:.4f} | {_gradients_text(theirs)} |"
        )
    return rows


def mean_lines(folder: Path) -> list[str]:
    """For each backend the mean ratio at budgets, over networks, of rows in which `dp` draws nothing twice."""
    lines = [line for line in Lines(folder / "steps.jsonl", STEP_KEYS).all if line.get("ratios")]
    found = []
    for backend, who in dict.fromkeys((line["backend"], line["who"]) for line in lines):
        logs: dict[str, list[float]] = {}
        for line in lines:
            sound = line["kind"] == RANDOM_KEPT or (
                line["kind"] == "budget" and line["network"] not in DROPOUT
            )
            if sound and (line["backend"], line["who"]) == (backend, who):
                logs.setdefault(line["network"], []).append(math.log(statistics.median(line["ratios"])))
        each = [statistics.fmean(own) for own in logs.values()]
        if interval := mean_interval(each):
            mean, low, high = (math.exp(interval[key]) for key in ("mean", "low", "high"))
            with_host = " with a host" if who == "host" else ""
            found.append(
                f"{backend}{with_host}, where `dp` draws nothing twice, at budgets: {mean:.3f} of its time, 95 %"
                f" interval over {len(each)} networks {low:.3f} to {high:.3f}."
            )
    return found


def _gradients_text(line: Mapping[str, Any]) -> str:
    """Whether the gradients of a plan are right, if that was measured."""
    if "gradient_error" not in line:
        return ""
    return "right" if line["gradient_error"] < RIGHT else f"wrong by {line['gradient_error']:.0%}"
