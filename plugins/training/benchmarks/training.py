"""Training within a limit of memory: our plans beside PyTorch's own partitioner, by simulation and by real steps.

    python -m benchmarks.training -o FOLDER [--networks gpt2,bert] [--small] [--seconds 20] [--device cuda --large]
    python -m benchmarks.training -o FOLDER --steps 20 [--backend inductor]     # real steps, interleaved
    python -m benchmarks.training -o FOLDER --steps 20 --random-kept            # beside `dp` that draws nothing twice
    python -m benchmarks.training -o FOLDER --steps 20 --limits 0.8,0.6         # the same, at limits of measured peak
    python -m benchmarks.training -o FOLDER --steps 20 --limits 0.8 --offload   # ours with the host's memory as well
    python -m benchmarks.training -o FOLDER --table

All benchmarks of this folder are run in the root of a clone, with PYTHONPATH=plugins/training.

Each network is captured once with the times of its ops on this machine (FOLDER/NAME.json). PyTorch's solvers `dp`,
`ilp` and `greedy` choose what to save at some budgets, `dp` at eleven from 0.05 to 1 besides, by their own estimate
(flops) and by our measured times, so that the gain of the solver and of the times are told apart. `blocks` is
checkpointing at equal cuts. What each saves is simulated. At the peaks of `dp`, `exact` looks for the fastest plan
within each, and at its times for the least peak, and proves what no plan can be below. With --steps plans are compiled
and run in turn: at each budget of `dp` ours within its measured peak, or, with --limits, both within that share of the
measured peak of PyTorch without a budget, `dp` at the largest budget that keeps to it. With --offload a third one,
"host", is ours with values in the memory of the host. What FOLDER has is not measured again.

With --random-kept `dp` is told to save what random ops make (see `benchmarks.training_steps`).
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.training_models import FULL, Where
from benchmarks.training_steps import BUDGETS, RANDOM_KEPT, mean_lines, must_save, run_steps, step_rows
from torch._functorch import config as functorch_config
from torch._functorch import partitioners as torch_partitioners
from torch._inductor import custom_graph_pass

import egrl
from analysis.transfer import geometric_mean
from benchmarks.lines import Lines
from egrl.reproduction import mean_interval
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.times import Times
from egrl_training.simulator.device import Device
from egrl_training.simulator.exact.facts import facts_of
from egrl_training.simulator.problem import TrainingConfig, TrainingProblem
from egrl_training.simulator.rules import plans_by_rule
from egrl_training.simulator.simulate import simulate
from egrl_training.steps.json_file import to_json
from egrl_training.steps.load import load_training
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError

partitioners: Any = torch_partitioners
SOLVERS = ("dp", "ilp", "greedy")
ESTIMATES = ("flops", "measured")
NEAR = 0.002
"""The least peak is looked for to this share of theirs."""
KEYS = ("network", "who", "estimate", "budget")
LITTLE = 1e-3
"""Recomputation of a smaller share of the step is left out of ratios."""
Plan = np.ndarray[tuple[int, ...], np.dtype[np.int16]]


# PyTorch 2.9 has no such class, and takes anything that can be called.
class Measured(getattr(custom_graph_pass, "CustomRuntimeEstimator", object)):  # type: ignore[misc]
    """The measured seconds of an op, in whole nanoseconds, for PyTorch's solvers."""

    def __init__(self, step: TrainingStep) -> None:
        self._seconds = {op.name: op.seconds for op in step.ops}

    def __call__(self, node: torch.fx.Node) -> float:
        return max(1.0, 1e9 * self._seconds.get(node.name, 0.0))

    def uuid(self) -> str:
        return "measured"


def captured(name: str, folder: Path, where: Where) -> tuple[JointGraph, TrainingStep]:
    """The joint graph of a network, and its step with the times that were measured first."""
    chosen = where.training(name)
    joint = capture_joint(chosen.model, *chosen.inputs, name=name)
    file = folder / f"{name}.json"
    if not file.exists():
        file.write_text(to_json(Times({}).measure(joint).step))
    step = load_training(str(file))
    if step.graph != joint.step.graph:
        raise SystemExit(f"{file}: captured from another graph; delete it")
    return joint, step


def rival(joint: JointGraph, step: TrainingStep, solver: str, estimate: str, budget: float) -> set[int]:
    """Positions of the values that PyTorch's partitioner saves at a budget, told which ops must not run twice."""
    graph = joint.module.graph
    for op, node in zip(step.ops, joint.ops, strict=True):
        if not op.recomputable:
            must_save(node)
    primals = [value.role for value in step.values if value.role in ("parameter", "input")]
    parameters = [number for number, role in enumerate(primals) if role == "parameter"]
    info = partitioners.classify_nodes(joint.module, parameters, joint.forward_outputs)
    far = int(1e9)
    for node in reversed(graph.nodes):
        users = [user.dist_from_bw + 1 for user in node.users] if node.op != "output" else []
        node.dist_from_bw = 0 if node.op != "output" and not info.is_required_fw(node) else min([far, *users])
    settings = {
        "activation_memory_budget": budget,
        "activation_memory_budget_solver": solver,
        "activation_memory_budget_runtime_estimator": "flops" if estimate == "flops" else Measured(step),
    }
    with functorch_config.patch(settings):
        saved = partitioners.choose_saved_values_set(graph, info, memory_budget=budget)
    number = {node: position for position, node in enumerate(joint.values)}
    return {int(step.owner[number[node]]) for node in saved if node in number}


def simulated(problem: TrainingProblem, keep: set[int]) -> dict[str, float]:
    """Seconds and peak of the plan that keeps these values."""
    plan = np.array([[number in keep for number in problem.step.candidates]], np.int16)
    seconds, peak = simulate(problem.tables, plan)
    return {"seconds": float(seconds[0]), "peak_bytes": int(peak[0])}


def compare(name: str, folder: Path, where: Where, seconds: float, budgets: Sequence[float]) -> None:
    """Simulate the plans of PyTorch's solvers and of the rules, then ours at their peaks and at their times."""
    lines = Lines(folder / "plans.jsonl", KEYS)
    joint, step = captured(name, folder, where)
    whole = TrainingProblem(step, Device("all", memory_fraction=1.0))
    if (name, "all", "", 1.0) not in lines:
        everything = {"seconds": whole.keep_all[0], "peak_bytes": whole.keep_all[1], "ops": len(step.ops)}
        lines.add((name, "all", "", 1.0), everything)
    for solver in SOLVERS:
        for estimate in ESTIMATES:
            for budget in BUDGETS if solver == "dp" else budgets:
                if (name, solver, estimate, budget) not in lines:
                    found = simulated(whole, rival(joint, step, solver, estimate, budget))
                    lines.add((name, solver, estimate, budget), found)
    for rule, plan in plans_by_rule(step, whole.tables).items():
        if rule.startswith("checkpoints") and (name, "blocks", rule, 0.0) not in lines:
            found = simulated(whole, {step.candidates[k] for k in np.flatnonzero(plan)})
            lines.add((name, "blocks", rule, 0.0), found)
    for line in [line for line in lines.all if (line["network"], line["who"]) == (name, "dp")]:
        if line["budget"] not in budgets:
            continue
        case = (name, "ours", line["estimate"], line["budget"])
        if case not in lines and line["seconds"] > whole.keep_all[0] * (1 + LITTLE):
            lines.add(case, ours(step, line, seconds))
            print(name, lines.all[-1], flush=True)


def ours(step: TrainingStep, theirs: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Our fastest plan at their peak with its bound, and our least peak at their time with its bound."""
    problem = within_limit(step, theirs["peak_bytes"])
    begun = time.perf_counter()
    found = egrl.search(problem, method="exact", settings=[f"method.seconds={seconds}"])
    spent = time.perf_counter() - begun
    least, proven = least_peak(step, theirs["seconds"], theirs["peak_bytes"], seconds / 4)
    return {
        "seconds": found.cost,
        "bound": found.bound,
        "peak_bytes": theirs["peak_bytes"],
        "search_s": round(spent, 1),
        "least_peak_bytes": least,
        "peak_bound_bytes": proven,
    }


def least_peak(step: TrainingStep, most_s: float, peak_bytes: int, seconds: float) -> tuple[int, int]:
    """Of steps of `most_s`: the least peak found, `peak_bytes` at most, and one that no plan is below, as is proven."""
    facts = facts_of(TrainingProblem(step, Device("all", memory_fraction=1.0)).tables)
    every = (facts.forward_bytes, facts.backward_bytes, facts.between_bytes)
    proven, least = max(int(moments.max()) for moments in every), peak_bytes

    def solve(limit: int) -> tuple[float, float]:
        try:
            found = egrl.search(
                within_limit(step, limit), method="exact", settings=[f"method.seconds={seconds}"]
            )
        except InputError:  # no plan was found that fits, which proves nothing
            return math.inf, 0.0
        return found.cost, found.bound or 0.0

    for halvings, by_bound in ((6, False), (4, True)):
        low, high = proven, least
        for _ in range(halvings):
            if high - low < NEAR * peak_bytes:
                break
            middle = (low + high) // 2
            cost, bound = solve(middle)
            if cost <= most_s:
                least = min(least, middle)
            if bound > most_s:
                proven = max(proven, middle)
            if bound > most_s if by_bound else cost > most_s:
                low = middle
            else:
                high = middle
    return least, proven


def within_limit(step: TrainingStep, limit: int) -> TrainingProblem:
    """The step within so many bytes."""
    return TrainingProblem(step, Device("limit", memory_bytes=limit), TrainingConfig())


def table(folder: Path) -> str:
    """Markdown: a row per network, means over the budgets at which PyTorch's `dp` recomputes something."""
    lines = Lines(folder / "plans.jsonl", KEYS).all
    head = "| network | ops | step | peak | recomputation at dp's peak, ours / dp (flops) | ours / dp (measured) |"
    rows = [
        f"{head} peak at dp's time, ours / dp | no plan is below | gap, median | search |",
        "|---|" + "---:|" * 9,
    ]
    ratios: dict[str, list[float]] = {"flops": [], "measured": [], "peak": [], "proven": []}
    gaps: list[float] = []
    recomputed: list[float] = []
    for name in dict.fromkeys(line["network"] for line in lines):
        (everything,) = (line for line in lines if (line["network"], line["who"]) == (name, "all"))
        own: dict[str, list[float]] = {"flops": [], "measured": [], "peak": [], "proven": []}
        gap, spent = [], []
        for line in lines:
            if (line["network"], line["who"]) != (name, "ours"):
                continue
            dp = [other for other in lines if (other["network"], other["who"]) == (name, "dp")]
            dp = [other for other in dp if other["estimate"] == line["estimate"]]
            (asked,) = (other for other in dp if other["budget"] == line["budget"])
            # a smaller budget may take longer at the same peak: the rival is the best of its budgets
            fastest = min(other["seconds"] for other in dp if other["peak_bytes"] <= asked["peak_bytes"])
            least = min(other["peak_bytes"] for other in dp if other["seconds"] <= asked["seconds"])
            base = everything["seconds"]
            floor = LITTLE * base
            own[line["estimate"]].append(max(line["seconds"] - base, floor) / max(fastest - base, floor))
            own["peak"].append(line["least_peak_bytes"] / least)
            own["proven"].append(line["peak_bound_bytes"] / least)
            gap.append(line["seconds"] / line["bound"] - 1)
            spent.append(line["search_s"])
        if both := own["flops"] + own["measured"]:
            recomputed.append(statistics.fmean(map(math.log, both)))
        for key, values in own.items():
            ratios[key] += values
        gaps += gap
        rows.append(
            f"| {name} | {everything['ops']:,} | {everything['seconds']:.2f} s |"
            f" {everything['peak_bytes'] / 2**20:,.0f} MiB |"
            f" {' | '.join(_mean(key, own[key]) for key in ratios)} |"
            f" {statistics.median(gap) if gap else 0:.2%} | {max(spent, default=0):.0f} s |"
        )
    means = " | ".join(_mean(*each) for each in ratios.items())
    rows.append(f"| all | | | | {means} | {statistics.median(gaps or [0.0]):.2%} | |")
    if found := mean_interval(recomputed):
        mean, low, high = (math.exp(found[key]) for key in ("mean", "low", "high"))
        rows += [
            "",
            f"Recomputation at `dp`'s peaks, both estimates: {mean:.2f} of its own,"
            f" 95 % interval over networks {low:.2f} to {high:.2f}.",
            _beaten(lines),
        ]
    return "\n".join([*rows, "", *step_rows(folder), "", *mean_lines(folder)])


def _beaten(lines: Sequence[Mapping[str, Any]]) -> str:
    """How many of our plans one of PyTorch's beats within their peak, and by how much at most."""
    ours = [line for line in lines if line["who"] == "ours"]
    slower = []
    for line in ours:
        rivals = [each for each in lines if each["who"] in SOLVERS and each["network"] == line["network"]]
        fastest = min(each["seconds"] for each in rivals if each["peak_bytes"] <= line["peak_bytes"])
        slower.append(line["seconds"] / fastest - 1)
    count, most = sum(each > 0 for each in slower), max(slower)
    if not count:
        return f"Of {len(ours)} plans none is slower than the fastest of PyTorch's within their peak."
    return (
        f"Of {len(ours)} plans {count} are slower than the fastest of PyTorch's within their peak,"
        f" by {most:.2%} at most."
    )


def _mean(key: str, values: Sequence[float]) -> str:
    """The geometric mean to two digits; of what is proven, rounded down."""
    if not values:
        return "-"
    mean = float(geometric_mean([[value] for value in values])[0])
    return f"{math.floor(100 * mean) / 100 if key == 'proven' else mean:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what FOLDER lacks, or print the table of what it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(FULL))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--large", action="store_true", help="sizes for a GPU, in bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--budgets", default="0.5,0.3,0.1", help="at which ours is compared")
    parser.add_argument("--limits", help="shares of the peak of PyTorch without a budget")
    parser.add_argument("--random-kept", action="store_true", help="`dp` computes nothing random again")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--offload", action="store_true", help="ours with the memory of the host, too")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args(argv)
    if given.table:
        print(table(given.output))
        return 0
    given.output.mkdir(parents=True, exist_ok=True)
    where = Where(given.small, given.device, given.large)
    budgets = [float(text) for text in given.budgets.split(",")]
    for name in given.networks.split(","):
        if given.steps:
            asked = [(RANDOM_KEPT if given.random_kept else "budget", each) for each in budgets]
            if given.limits:
                asked = [("limit", float(text)) for text in given.limits.split(",")]
            run_steps(name, given.output, where, given.backend, given.steps, asked, given.offload)
        else:
            compare(name, given.output, where, given.seconds, budgets)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
