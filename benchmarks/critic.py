"""How many evaluations the profile model saves: `egrl` with and without it, evolution, annealing, and ablations.

    python -m benchmarks.critic -o FILE [--workloads resnet101,bert] [--seeds 3] [--evals 200]
                                [--variants egrl,alone,ea,annealing,...]

Each line of FILE is one variant on one workload and seed; what is there is not run again, and the table of all is
printed at the end. Costs have 1 % noise and, unless a variant says otherwise, the time of each op another 5 %. At each
mark the champion that the method names is judged without noise (`chosen`), and the best of all that was measured
(`best`), both as speedups over the compiler. `seconds` is CPU time, of the whole process, per evaluation.

Variants: `egrl`, as it comes; `alone`, without the critic; `frozen`: the critic keeps its prior; `no-context`: op times
do not depend on what went before; `no-residual`; `noise-0`, `noise-20`: the per cent of noise of op times; `half`: half
of the ops never have a time; `fused`: of each two ops in a row only the sum is known, and each is told half of it;
`cold`: from no mapping and no rule; `ea`, `annealing` and `twin-totals`, which use no profile, with `--rival-evals`
evaluations (`twin-totals`: 400 at most). All but `cold` begin with the same measurements, `--start rules`.

The second table compares the champions of `egrl` with those of each variant at equal evaluations, and with those of
each rival at its last, paired by seed: the mean logarithm of the ratio of their speedups and its 95 % interval by
Student's t. Where there are more than two networks, a last row has these as units.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np

import egrl
from benchmarks.advance import advance
from benchmarks.factors import frozen
from benchmarks.lines import Lines
from egrl.methods.profile_model import residual
from egrl.methods.profile_model.family import Layout
from egrl.reproduction import interval_cell, mean_interval
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Evaluation
from workloads.load import load

MARKS = (25, 50, 100, 200, 400, 1000, 2000, 4000)
NOISE, OF_OPS = 0.01, {"noise-0": 0.0, "noise-20": 0.2}
USUAL = 0.05
RIVALS = {"ea": (), "annealing": ("method.t0=0.003",), "twin-totals": ()}
FEWER = {"twin-totals": 400}
SETTINGS: dict[str, tuple[str, ...]] = {"alone": ("method.profile_model.use=off",), **RIVALS}


@contextmanager
def ablated(variant: str) -> Iterator[None]:
    """Without a part of the critic, while the variant runs."""
    with ExitStack() as patches:
        if variant == "no-context":
            patches.enter_context(patch.object(Layout, "shapes", lambda layout: []))
        if variant == "no-residual":
            patches.enter_context(patch.object(residual, "SIZES", (0.0,)))
        if variant == "frozen":
            patches.enter_context(frozen("critic-frozen"))
        yield


class Bench:
    """A noisy simulator, and the same one without noise."""

    def __init__(self, workload: str, variant: str, seed: int) -> None:
        chip, network = load_chip("nnpi"), load(workload)
        loud = replace(
            chip, effects=replace(chip.effects, noise=True), noise=replace(chip.noise, sigma=NOISE)
        )
        self.noisy = NnpiProblem(network, loud, NnpiConfig(profile_noise=OF_OPS.get(variant, USUAL)))
        self.exact = NnpiProblem(network, chip)
        rng = np.random.default_rng([seed, 1])
        self._hidden = rng.random(len(self.noisy.parts)) < (0.5 if variant == "half" else 0.0)
        self._totals, self._fused = variant.endswith("-totals"), variant == "fused"
        self.true: list[float] = []

    def measure(self, mapping: np.ndarray, key: np.ndarray) -> Evaluation:
        """What a profiler would tell; true speedups are remembered."""
        self.true += self.exact.evaluate(mapping, key).speedup.tolist()
        found = self.noisy.evaluate(mapping, key)
        assert found.parts is not None
        if self._totals:
            return replace(found, parts=None)
        parts = np.where(self._hidden, np.float32(np.nan), found.parts)
        if self._fused:
            pairs = parts[:, : parts.shape[1] // 2 * 2].reshape(len(parts), -1, 2)
            pairs[:] = pairs.mean(axis=2, keepdims=True)
        return replace(found, parts=parts)


def run(workload: str, variant: str, seed: int, evals: int) -> dict[str, Any]:
    """One variant; true speedups at the marks."""
    bench = Bench(workload, variant, seed)
    method = variant.removesuffix("-totals") if variant in RIVALS else "egrl"
    options: dict[str, Any] = {"start": "cold" if variant == "cold" else "rules"}
    search = egrl.Search(
        bench.noisy, method=method, seed=seed, settings=list(SETTINGS.get(variant, ())), **options
    )
    begun, chosen, best = time.process_time(), {}, {}
    for mark in [mark for mark in MARKS if mark <= evals]:
        advance(search, mark, lambda b: search.tell(b, bench.measure(b.proposals.mapping, b.key)))
        mapping = search.result().mapping
        chosen[str(mark)] = float(bench.exact.evaluate(mapping[None], np.zeros(1, np.uint64)).speedup[0])
        best[str(mark)] = max(bench.true)
    seconds = (time.process_time() - begun) / search.evaluations
    return {"chosen": chosen, "best": best, "seconds": seconds}


def table(lines: list[dict[str, Any]]) -> None:
    """Geometric means over the seeds: `chosen (best)` at each mark."""
    for workload in sorted({line["workload"] for line in lines}):
        here = [line for line in lines if line["workload"] == workload]
        marks = [m for m in map(str, MARKS) if any(m in line["chosen"] for line in here)]
        print(f"\n{workload}\n| variant | seeds | " + " | ".join(marks) + " | s per evaluation |")
        for variant in dict.fromkeys(line["variant"] for line in here):
            own = [line for line in here if line["variant"] == variant]
            cells = []
            for mark in marks:
                means = [
                    float(np.exp(np.mean([np.log(line[kind][mark]) for line in own])))
                    for kind in ("chosen", "best")
                    if all(mark in line[kind] for line in own)
                ]
                cells.append("{:.4f} ({:.4f})".format(*means) if means else "")
            seconds = np.mean([line["seconds"] for line in own])
            print(f"| {variant} | {len(own)} | " + " | ".join(cells) + f" | {seconds:.2f} |")


def against(lines: list[dict[str, Any]]) -> None:
    """How far the champions of `egrl` at each mark are above those of the others, paired by seed, and over networks."""
    marks = [m for m in map(str, MARKS[:4]) if any(m in e["chosen"] for e in lines if e["variant"] == "egrl")]
    print("\n| network | `egrl` over | " + " | ".join(marks) + " |\n|---|---|" + "---|" * len(marks))
    logs = {
        (e["workload"], e["variant"], e["seed"], m): np.log(x) for e in lines for m, x in e["chosen"].items()
    }
    for variant in dict.fromkeys(line["variant"] for line in lines if line["variant"] != "egrl"):
        own = [line for line in lines if line["variant"] == variant]
        last = str(max(int(m) for e in own for m in e["chosen"])) if variant in RIVALS else ""
        cells: dict[str, dict[str, list[float]]] = {}
        for line, mark in product(own, marks):
            case, other = (line["workload"], "egrl", line["seed"], mark), last or mark
            if case in logs and other in line["chosen"]:
                ratio = float(logs[case] - np.log(line["chosen"][other]))
                cells.setdefault(line["workload"], {}).setdefault(mark, []).append(ratio)
        if len(cells) > 2:
            cells["networks"] = {m: [fmean(each[m]) for each in cells.values() if m in each] for m in marks}
        for network, ratios in cells.items():
            shown = [interval_cell(mean_interval(r)) for r in (ratios.get(m, []) for m in marks)]
            print(f"| {network} | `{variant}`{f', {last}' if last else ''} | " + " | ".join(shown) + " |")


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--workloads", default="resnet101,bert")
    parser.add_argument("--variants", default="egrl,alone,ea,annealing")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evals", type=int, default=200)
    parser.add_argument("--rival-evals", type=int, default=4000)
    options = parser.parse_args()
    lines = Lines(options.out, ("workload", "variant", "seed"))
    for seed in range(options.seeds):
        for workload in options.workloads.split(","):
            for variant in options.variants.split(","):
                case = (workload, variant, seed)
                if case in lines:
                    continue
                evals = options.rival_evals if variant in RIVALS else options.evals
                evals = min(evals, FEWER.get(variant, evals))
                with ablated(variant):
                    lines.add(case, run(*case, evals))
                print(json.dumps(lines.all[-1]), flush=True)
    table(lines.all)
    against(lines.all)


if __name__ == "__main__":
    main()
