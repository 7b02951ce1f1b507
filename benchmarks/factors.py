"""What each part of the hybrid is worth on boards that no chip file describes: twin, critic, population, learner.

    python -m benchmarks.factors -o FILE [--workloads resnet50,...] [--rounds 3] [--requests 100] [--arms all,...]
                                 [--hours 24] [--kinds queues,droop,d]

Each line of FILE is one arm on one board; what is there is not run again, and the tables of all are printed at the
end. A board is a network and a kind of `benchmarks.foreign.boards`: `d` (the chip file's equations with other
constants, each op and each tensor off, 3 % noise), `queues` and `droop` (simulators of another structure, 1 % noise).
Each says what each op took, with 5 % noise of its own. In each round every network gets another kind. All arms begin
with the same measurements (`--start rules`). Every measurement counts, also those with which all choose their
champions in the same way: the mapping that the method names and the fastest four, measured three times again. Champions
are judged without noise.

Kind `model` is no board: `egrl run` on the chip file's own simulator, whose costs and profiles are exact. There a round
is a seed, all begin with the compiler's mapping, as a run does by default, and the twin, which would know the truth,
takes no part. A mark is the best of so many evaluations. Kind `totals` is the same without the critic: what is left is
the population and the learner of EGRL, which are told one number per evaluation.

Arms: `all` has twin, critic, population and learner; `no-X` is `all` without X; `X` and `X+Y` have these alone;
`X-frozen` is `all` with X as it is before it has learned: the chip file itself for the twin, the prior for the critic,
the network that it begins with for the learner, selection that does not see costs for the population.
`critic-totals` is `all` told no profiles,
`twin-totals` the twin alone, `twin-frozen-totals` the same without learning.

Units of the intervals are networks: the mean over the boards of a network is one value. Decided before the first run:
a part is worth something if the interval of `all` against `no-X` or against `X-frozen` lies above 0; two arms are level
if it lies within 0.005.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np

import egrl
from benchmarks.advance import advance
from benchmarks.lines import Lines
from benchmarks.twin import AGAIN, CONTENDERS, Bench
from egrl.methods.profile_model import residual
from egrl.methods.profile_model.model import Profiled
from egrl.methods.profile_model.op_times import OpTimesModel
from egrl.methods.twin import inference as inference
from egrl.methods.twin import method as twin_method
from egrl.methods.twin import proposer
from egrl.methods.twin.data import Data
from egrl.methods.twin.inference import PRIOR, Beliefs, Inference, Posterior
from egrl.reproduction import interval_cell, paired, verdict
from hwsim.family import Learnable
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from population.population import Immigrant, Population
from workloads.load import load

WORKLOADS = (
    "resnet50,resnet101,resnet152,densenet121,inception_v3,efficientnet_b4,mixer_b16,bert,gpt2,quartznet15x5"
)
KINDS = ("queues", "droop", "d")
MODEL, TOTALS = "model", "totals"
MARKS = (50, 100, 400, 2100)
PROFILE_NOISE = 0.05
NO_DATA = 1e3
"""A noise of costs beside which they say nothing."""

TWIN, NO_TWIN = "method.twin=on", "method.twin=off"
CRITIC, NO_CRITIC = "method.profile_model.use=auto", "method.profile_model.use=off"
ARMS: dict[str, tuple[str, ...]] = {
    "all": ("egrl", TWIN, CRITIC),
    "no-twin": ("egrl", NO_TWIN, CRITIC),
    "no-critic": ("egrl", TWIN, NO_CRITIC),
    "no-learner": ("ea", TWIN, CRITIC),
    "no-population": ("pg", TWIN, CRITIC),
    "twin-frozen": ("egrl", TWIN, CRITIC),
    "critic-frozen": ("egrl", TWIN, CRITIC),
    "learner-frozen": ("egrl", TWIN, CRITIC, "method.learner.ranking.learning_rate=0"),
    "population-frozen": ("egrl", TWIN, CRITIC),
    "population": ("ea", NO_TWIN, NO_CRITIC),
    "learner": ("pg", NO_TWIN, NO_CRITIC),
    "population+learner": ("egrl", NO_TWIN, NO_CRITIC),
    "population+twin": ("ea", TWIN, NO_CRITIC),
    "population+critic": ("ea", NO_TWIN, CRITIC),
    "learner+twin": ("pg", TWIN, NO_CRITIC),
    "learner+critic": ("pg", NO_TWIN, CRITIC),
    "twin": ("twin",),
    "no-chromosomes": ("egrl", TWIN, CRITIC, "method.boltzmann_fraction=0"),
    "no-networks": ("egrl", TWIN, CRITIC, "method.boltzmann_fraction=1"),
    "no-migration": ("egrl", TWIN, CRITIC, "method.migration=false"),
    "no-shared-replay": ("egrl", TWIN, CRITIC, "method.shared=false"),
    "critic-totals": ("egrl", TWIN, CRITIC),
    "twin-totals": ("twin",),
    "twin-frozen-totals": ("twin",),
    "annealing": ("annealing", "method.t0=0.003"),
}
"""Name -> method, settings."""


def _prior(critic: OpTimesModel, model: Any, data: Profiled) -> Iterator[None]:
    """In place of a fit: what is believed of ops of which nothing was measured."""
    nothing = np.full_like(data.log_seconds, np.nanmedian(data.log_seconds))
    yield
    return model.begin(Profiled(data.mapping, nothing))


def _blind(evolve: Callable[..., Any]) -> Callable[..., Any]:
    """Evolution to which every mapping that ran costs the same."""

    def evolved(population: Population, fitness: Any, *rest: Any, immigrants: Any = (), **named: Any) -> Any:
        alike = np.where(np.isfinite(fitness), 0.0, fitness)
        named["ran_fitness"] = alike
        return evolve(
            population, alike, *rest, immigrants=[Immigrant(g.ran, 0.0) for g in immigrants], **named
        )

    return evolved


def _prior_alone(family: Learnable, data: Data, beliefs: Beliefs, _: object) -> Iterator[Posterior | None]:
    """The twin's posterior where costs say nothing: the chip file, as sure as before any measurement.

    A noise that is only told would be learned away, so that the scales have to stay as well.
    """
    beliefs.scales = replace(PRIOR, noise=NO_DATA)
    return inference.fit(family, data, beliefs)


@contextmanager
def frozen(arm: str) -> Iterator[None]:
    """A part that does not learn, while the arm runs."""
    if arm.startswith("twin-frozen"):
        with (
            patch.object(proposer, "fit", _prior_alone),
            patch.object(Inference, "tune", lambda inference, near, scales: scales),
            patch.object(twin_method, "SETTINGS", replace(twin_method.SETTINGS, profiles=False)),
        ):
            yield
    elif arm == "critic-frozen":
        with patch.object(OpTimesModel, "_fit", _prior), patch.object(residual, "SIZES", (0.0,)):
            yield
    elif arm == "population-frozen":
        with patch.object(Population, "tell", _blind(Population.tell)):
            yield
    else:
        yield


def run(problem: NnpiProblem, kind: str, number: int, arm: str, requests: int) -> dict[str, Any]:
    """One arm on one board: speedups of its champions at the marks, and CPU seconds per request."""
    bench = Bench(problem, kind, number, PROFILE_NOISE)
    method, *settings = ARMS[arm]
    search = egrl.Search(bench.problem, method=method, settings=settings, seed=number, start="rules")
    begun, marks = time.process_time(), {}

    def measure(batch: Any) -> None:
        seconds = [bench.search(mapping) for mapping in batch.mapping]
        profiles = None if arm.endswith("-totals") else [bench.profile(row) for row in batch.mapping]
        search.tell(batch, seconds, op_seconds=profiles)

    for mark in [mark for mark in MARKS if mark <= requests]:
        advance(search, mark - CONTENDERS * AGAIN, measure)
        marks[str(mark)] = bench.champion(mark, search.result().mapping)
    return {"marks": marks, "seconds": (time.process_time() - begun) / max(1, search.evaluations)}


def search_model(
    problem: NnpiProblem, seed: int, arm: str, evaluations: int, critic: bool = True
) -> dict[str, Any]:
    """One arm on the chip file's own simulator: the best speedups at the marks, and CPU seconds per evaluation."""
    method, *settings = ARMS[arm]
    settings = [NO_CRITIC if text == CRITIC and not critic else text for text in settings if text != TWIN]
    begun = time.process_time()
    found = egrl.search(
        problem, method=method, settings=settings, seed=seed, evals=evaluations, generation_evals=MARKS[0]
    )
    count, best = found.history["evaluations"], found.history["best_speedup"]
    if count[-1] < evaluations and found.gap:  # neither all of it nor proved to be the best possible
        raise KeyboardInterrupt
    marks = {str(mark): float(best[count <= mark][-1]) for mark in MARKS if mark <= evaluations}
    return {"marks": marks, "seconds": (time.process_time() - begun) / max(1, int(count[-1]))}


def logs(
    lines: list[dict[str, Any]], arm: str, mark: int, kinds: tuple[str, ...]
) -> dict[tuple[str, str, int], float]:
    """Log speedups of an arm at a mark by network, kind, and board or seed."""
    return {
        (line["workload"], line["kind"], line["board"]): float(np.log(line["marks"][str(mark)]))
        for line in lines
        if line["arm"] == arm and line["kind"] in kinds and str(mark) in line["marks"]
    }


def between(
    lines: list[dict[str, Any]], ours: tuple[str, int], theirs: tuple[str, int], kinds: tuple[str, ...]
) -> tuple[Mapping[str, float] | None, int]:
    """Mean log ratio over networks, each the mean over boards that both ran on; and the number of networks."""
    own, other = logs(lines, *ours, kinds), logs(lines, *theirs, kinds)
    both = sorted(own.keys() & other.keys())
    networks = sorted({board[0] for board in both})
    means = [
        [fmean(values[b] for b in both if b[0] == network) for network in networks] for values in (own, other)
    ]
    return paired(*means), len(networks)


def table(lines: list[dict[str, Any]], mark: int, over: tuple[str, ...]) -> None:
    """Each arm at a mark: its mean speedup, and how far `all` is above it, over some kinds and by kind."""
    print(
        f"\n{mark} requests, {', '.join(over)}\n| arm | speedup | `all` above it | networks | by kind | s per request |"
    )
    print("|---|---:|---|---:|---|---:|")
    for arm in ARMS:
        values = logs(lines, arm, mark, over)
        if not values:
            continue
        found, networks = between(lines, ("all", mark), (arm, mark), over)
        kinds = []
        for kind in over:
            of_kind, _ = between(lines, ("all", mark), (arm, mark), (kind,))
            kinds.append(f"{kind} {'–' if of_kind is None else format(of_kind['mean'], '+.4f')}")
        text = "" if found is None or arm == "all" else f"{interval_cell(found)}: {verdict(found)}"
        seconds = fmean(line["seconds"] for line in lines if line["arm"] == arm and line["kind"] in over)
        speedup = np.exp(fmean(values.values()))
        print(f"| {arm} | {speedup:.4f} | {text} | {networks} | {', '.join(kinds)} | {seconds:.2f} |")


def by_mark(lines: list[dict[str, Any]], kind: str, marks: tuple[int, ...]) -> str:
    """How far `all` is above each other arm of one kind at the marks."""
    rows = ["| arm | " + " | ".join(f"`all` above it, {mark:,}" for mark in marks) + " | networks |"]
    rows.append("|---" * (len(marks) + 1) + "|---:|")
    for arm in ARMS:
        found = [between(lines, ("all", mark), (arm, mark), (kind,)) for mark in marks]
        if arm != "all" and found[-1][1]:
            cells = [f"{interval_cell(each)}: {verdict(each)}" for each, _ in found]
            rows.append(f"| `{arm}` | " + " | ".join(cells) + f" | {found[-1][1]} |")
    return "\n".join(rows)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--workloads", default=WORKLOADS, help="names or workload files")
    parser.add_argument("--rounds", type=int, default=len(KINDS))
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--kinds", default=",".join(KINDS), help="the kinds of boards, or model, or totals")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--hours", type=float, default=24.0, help="no new run begins after so many")
    options = parser.parse_args()
    lines, end = Lines(options.out, ("workload", "kind", "board", "arm", "requests")), time.monotonic()
    end += 3600 * options.hours
    kinds = options.kinds.split(",")
    for number in range(options.rounds):
        for place, given in enumerate(options.workloads.split(",")):
            name, kind = Path(given).stem, kinds[(place + number) % len(kinds)]
            problem = NnpiProblem(load(given), load_chip("nnpi"))
            for arm in options.arms.split(","):
                case = (name, kind, number, arm, options.requests)
                if case in lines or time.monotonic() > end:
                    continue
                with frozen(arm):
                    if kind in (MODEL, TOTALS):
                        found = search_model(problem, number, arm, options.requests, kind == MODEL)
                    else:
                        found = run(problem, kind, number, arm, options.requests)
                lines.add(case, found)
                print(json.dumps(lines.all[-1]), flush=True)
    print(by_mark(lines.all, TOTALS, MARKS[1:]))
    for over in (KINDS, (MODEL,)):
        for mark in MARKS:
            if logs(lines.all, "all", mark, over):
                table(lines.all, mark, over)


if __name__ == "__main__":
    main()
