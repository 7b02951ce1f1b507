"""Does learning from real training steps find better plans than the model? `twin` on this machine beside `exact`.

    python -m benchmarks.training_twin -o FILE [--networks gpt2,bert] [--seeds 2] [--requests 20] [--steps 30]
    python -m benchmarks.training_twin -o FILE --table

Each small network may take 0.6 of the peak of keeping every value, with `aot_eager`. `exact` plans by measured times of
ops. `twin` begins with the plan of `exact` and its rules (`--start exact`), compiles and runs what it asks for, and
learns what steps take; its champion and the plan of `exact` then run in turn. `rules` is the fastest of the rules by
the same steps: chosen by measuring, without learning. What FILE has is not run again. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.training_models import training

import egrl
from benchmarks.lines import Lines
from egrl.reproduction import mean_interval
from egrl_training.pytorch.board import Board
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.plan import plan_of
from egrl_training.pytorch.times import Times
from egrl_training.simulator.device import Device
from egrl_training.simulator.problem import TrainingProblem
from hwsim.problem import Evaluation, Mapping16, Status

FRACTION = 0.6
RUNS = 5
"""Timed steps per request."""
KEYS = ("network", "seed", "requests")
BACKEND = "aot_eager"


def run(network: str, seed: int, requests: int, steps: int) -> dict[str, Any]:
    """Steps of the twin's champion and of the fastest rule, as shares of those of the plan of `exact`, in turn."""
    chosen = training(network, small=True)
    step = Times({}).measure(capture_joint(chosen.model, *chosen.inputs, name=network)).step
    problem = TrainingProblem(step, Device("limit", memory_fraction=FRACTION))
    exact = egrl.search(problem, method="exact", settings=["method.seconds=20"], quiet=True).mapping
    assert exact is not None
    board = Board(chosen.model, chosen.inputs, BACKEND, RUNS)

    def seconds(mapping: Mapping16) -> list[float]:
        return board.measure(plan_of(problem, mapping).keep)[0]

    search = egrl.Search(problem, method="twin", seed=seed, start="exact")
    measured: dict[bytes, float] = {}
    baseline_s = statistics.median(seconds(problem.baseline.mapping))
    while search.evaluations < requests:
        if (batch := search.ask(limit=requests - search.evaluations)) is None:
            break
        modelled = problem.evaluate(batch.proposals.mapping, batch.key)
        took = np.array([statistics.median(seconds(mapping)) for mapping in modelled.repaired])
        for mapping, each in zip(batch.proposals.mapping, took, strict=True):
            measured[mapping.tobytes()] = float(each)
        ran = modelled.status == Status.OK
        search.tell(batch, Evaluation.of_costs(took, baseline_s, ran, modelled.repaired, modelled.epsilon))
    champion = search.result().mapping
    assert champion is not None
    rules = list(problem.baseline.rules().values())
    fastest = min(rules, key=lambda rule: measured.get(rule.tobytes(), math.inf))
    plans = {"exact": exact, "twin": champion, "rules": fastest}
    times: dict[str, list[float]] = {name: [] for name in plans}
    peaks = {}
    for turn in range(math.ceil(steps / RUNS)):
        for name, mapping in plans.items():
            took_s, peaks[name] = board.measure(plan_of(problem, mapping).keep)
            if turn or len(plans) == 1:  # the first turn warms up
                times[name] += took_s
    medians = {name: statistics.median(each) for name, each in times.items() if each}
    return {
        "exact_s": medians["exact"],
        **{name: medians[name] / medians["exact"] for name in ("twin", "rules")},
        "plans": len(measured),
        "peak": peaks["twin"] / peaks["exact"],
        "differ": champion.tobytes() != exact.tobytes(),
    }


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a row per run, then means over networks."""
    rows = [
        "| network | seed | plans run | twin / exact | best rule / exact | peak, twin / exact |",
        "|---|" + "---:|" * 5,
    ]
    rows += [
        f"| {line['network']} | {line['seed']} | {line['plans']} | {line['twin']:.3f} | {line['rules']:.3f} |"
        f" {line['peak']:.3f} |"
        for line in lines
    ]
    for who in ("twin", "rules"):
        networks = dict.fromkeys(line["network"] for line in lines)
        logs = [
            statistics.fmean(math.log(line[who]) for line in lines if line["network"] == network)
            for network in networks
        ]
        if found := mean_interval(logs):
            mean, low, high = (math.exp(found[key]) for key in ("mean", "low", "high"))
            rows.append(
                f"\n`{who}`: {mean:.3f} of the step of `exact`, 95 % interval over networks {low:.3f} to {high:.3f}."
            )
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--networks", default="gpt2,bert,unet,llama,t5", help="that can be so small")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args(argv)
    lines = Lines(args.out, KEYS)
    if not args.table:
        for seed in range(args.seeds):
            for network in args.networks.split(","):
                case = (network, seed, args.requests)
                if case not in lines:
                    lines.add(case, run(*case, args.steps))
                    print(lines.all[-1], flush=True)
    print(table(lines.all))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
