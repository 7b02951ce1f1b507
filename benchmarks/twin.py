"""How many measurements of a board each method needs: the twin, its rivals, and what can be reached at all.

    python -m benchmarks.twin -o FILE [--workloads resnet101,bert] [--kinds a,b,c,d,queues,droop] [--boards 10]
                              [--methods twin,ea,egrl,annealing,rules,exact] [--requests 2100] [--twin-requests 400]
                              [--profile-noise 0.05]

Each line of FILE is one method on one board; what is there is not run again, and the table of all is printed at the
end. Every measurement is counted: rules, baseline, and the confirmations with which each method chooses its champion
at each mark (its best few measured again, in the same way for all). Champions are judged without noise. `reachable` is
a long search on the noise-free board itself, `egrl-alone` is `egrl` without the twin, `twin-profiled` the twin on
boards that say what each op took, with noise of their own; `twin-deep` has its local searches, and no profiles. A
workload may be a file that `egrl import` made.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import egrl
from benchmarks.foreign.boards import FAMILIAR, FOREIGN, Board, board, familiar, noise_of, profiler
from benchmarks.lines import Lines
from egrl.methods.twin.proposer import DEEPER, TwinConfig
from egrl.reproduction import interval_cell, mean_interval
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiProblem
from population.moves import Moves
from workloads.load import load

MARKS = (50, 100, 200, 400, 1050, 2100)
CONTENDERS, AGAIN = 5, 3
"""Mappings that are measured again at a mark, and how often."""
METHODS = {
    "egrl-alone": ("egrl", ["method.twin=off"]),
    "twin-profiled": ("twin", []),
    "nevergrad": ("egrl_suite.peers:NEVERGRAD", []),
    "optuna": ("egrl_suite.peers:OPTUNA", []),
    "twin-deep": ("twin", [f"method.steps={DEEPER * TwinConfig.steps}"]),
}
"""Methods with settings: name -> method, settings."""
RATIOS = (
    *((50, "ea", 2100), (100, "ea", 100), (100, "ea", 1050), (100, "ea", 2100), (200, "ea", 200)),
    *((400, "ea", 400), (400, "ea", 2100), (2100, "ea", 2100)),
    *((100, "annealing", 2100), (100, "nevergrad", 2100), (100, "optuna", 400), (100, "exact", 50)),
    *(
        (100, "rules", 50),
        (200, "rules", 50),
        (400, "rules", 50),
        (2100, "rules", 50),
        (400, "reachable", 2100),
    ),
)
"""Of the twin: its requests, a rival, and the rival's (the marks of one mapping alone are 50 and 2,100)."""
PROFILED = ("twin-profiled",)
"""Methods that are told profiles."""
FEW = ("twin", "twin-profiled", "twin-deep", "egrl", "egrl-alone", "optuna")
"""Methods that are given `--twin-requests`; Optuna's own work grows with each (0.4 s a request at 2,100)."""
FAMILIAR_STEPS, FOREIGN_STEPS = 300_000, 150_000


class Bench:
    """One noisy board, which counts its requests."""

    def __init__(self, problem: NnpiProblem, kind: str, seed: int, profile_noise: float = 0.0) -> None:
        self.problem, self.exact = problem, board(problem, kind, seed)
        self._profiler, self._profile_noise = profiler(problem, kind, seed), profile_noise
        self.noise, self._rng = noise_of(kind), np.random.default_rng([seed, 7])
        self.mappings: list[np.ndarray] = []
        self.seconds: list[float] = []
        self.baseline_s = self.exact(problem.baseline.mapping)

    def measure(self, mapping: np.ndarray) -> float:
        """Seconds, with noise."""
        return self.exact(mapping) * float(np.exp(self.noise * self._rng.normal()))

    def profile(self, mapping: np.ndarray) -> list[float]:
        """Seconds of each op, with noise."""
        took = self._profiler(mapping)
        return (took * np.exp(self._profile_noise * self._rng.normal(size=len(took)))).tolist()

    def search(self, mapping: np.ndarray) -> float:
        """Measure for a search: remembered."""
        self.mappings.append(mapping.copy())
        self.seconds.append(self.measure(mapping))
        return self.seconds[-1]

    def champion(self, count: int, named: np.ndarray | None = None) -> float:
        """The speedup, judged without noise, of the mapping chosen after `count` requests, confirmations included.

        Contenders are the fastest and, if it is given, the mapping [N, H] that the method names, which was measured.
        """
        searched = max(1, count - CONTENDERS * AGAIN)
        seconds = np.array(self.seconds[:searched])
        best: dict[bytes, int] = {}
        if named is not None:
            known = [row.tobytes() for row in self.mappings[:searched]]
            best[named.tobytes()] = known.index(named.tobytes())
        for at in np.argsort(seconds, kind="stable").tolist():
            if len(best) == CONTENDERS:
                break
            best.setdefault(self.mappings[at].tobytes(), at)
        means = {
            at: float(np.mean([seconds[at], *(self.measure(self.mappings[at]) for _ in range(AGAIN))]))
            for at in best.values()
        }
        return self.baseline_s / self.exact(self.mappings[min(means, key=means.__getitem__)])


def run(bench: Bench, method: str, requests: int, seed: int) -> dict[str, Any]:
    """One method on one board: speedups at the marks, and seconds of thought a request."""
    if method == "rules":
        for mapping in bench.problem.baseline.rules().values():
            bench.search(mapping)
        return {"marks": {"50": bench.champion(50)}, "think_s": 0.0}
    if method == "exact":
        bench.search(bench.problem.baseline.mapping)
        bench.search(bench.problem.solve(20.0, seed).mapping)
        return {"marks": {"50": bench.champion(50)}, "think_s": 0.0}
    name, settings = METHODS.get(method, (method, []))
    search = egrl.Search(bench.problem, method=name, settings=settings, seed=seed)
    begun, measuring = time.monotonic(), 0.0
    while search.evaluations < requests:
        batch = search.ask(limit=requests - search.evaluations)
        if batch is None:
            break
        before = time.monotonic()
        seconds = [bench.search(mapping) for mapping in batch.mapping]
        profiles = [bench.profile(mapping) for mapping in batch.mapping] if method in PROFILED else None
        measuring += time.monotonic() - before
        search.tell(batch, seconds, op_seconds=profiles)
    think = (time.monotonic() - begun - measuring) / search.evaluations
    return {"marks": {str(m): bench.champion(m) for m in MARKS if m <= requests}, "think_s": think}


def reachable(problem: NnpiProblem, kind: str, seed: int, exact: Board) -> float:
    """The speedup of a long search on the noise-free board."""
    rules = sorted(problem.baseline.rules().values(), key=exact)
    if kind in FAMILIAR:
        model = familiar(problem, kind, seed)
        found = [
            problem.family.improve(model, start, steps=FAMILIAR_STEPS, hot=hot, key=seed)
            for start in rules[:2]
            for hot in (2e-3, 8e-3)
        ]
        return exact(problem.baseline.mapping) / min(map(exact, found))
    rng, best, best_s = np.random.default_rng(seed), rules[0], exact(rules[0])
    space = problem.space
    moves = Moves(space.num_choices, space.live, None, space.size_bytes, problem.space.pipeline)
    current, current_s = best, best_s
    for step in range(FOREIGN_STEPS):
        hot = 4e-3 * current_s * 1e-2 ** (step / FOREIGN_STEPS)
        trial = problem.rectify(moves.propose(current, rng)[None])[0]
        trial_s = exact(trial)
        if trial_s <= current_s or rng.random() < np.exp((current_s - trial_s) / hot):
            current, current_s = trial, trial_s
            if trial_s < best_s:
                best_s = trial_s
    return exact(problem.baseline.mapping) / best_s


def ratios(lines: list[dict[str, Any]]) -> None:
    """Means of the logarithm of twin over a rival with 95 % intervals: over networks, each the mean over its boards;
    of fewer than three networks over boards."""
    marks = {
        (o["workload"], o["kind"], o["board"], o["method"], int(mark)): float(np.log(value))
        for o in lines
        for mark, value in o["marks"].items()
    }
    for name, kinds in {"familiar": FAMILIAR, "foreign": FOREIGN}.items():
        boards = sorted({(o["workload"], o["kind"], o["board"]) for o in lines if o["kind"] in kinds})
        print(f"\n{name}\n| twin : rival | log ratio | networks | boards |\n|---|---:|---:|---:|")
        for at, rival, after in RATIOS:
            found: dict[str, list[float]] = {}
            for here in boards:
                own, other = (*here, "twin", at), (*here, rival, after)
                if own in marks and other in marks:
                    found.setdefault(here[0], []).append(marks[own] - marks[other])
            every = [*chain(*found.values())]
            units = [*map(fmean, found.values())] if len(found) > 2 else every
            if interval := mean_interval(units):
                text = interval_cell(interval)
                print(f"| {at} : {rival} {after} | {text} | {len(found)} | {len(every)} |")


def table(lines: list[dict[str, Any]]) -> None:
    """Geometric means over the boards, one block per workload and kind."""
    cases = sorted({(line["workload"], line["kind"]) for line in lines})
    for workload, kind in cases:
        here = [line for line in lines if (line["workload"], line["kind"]) == (workload, kind)]
        print(f"\n{workload}, {kind}: {len({line['board'] for line in here})} boards")
        print("| method | " + " | ".join(map(str, MARKS)) + " | s a request |")
        for method in dict.fromkeys(line["method"] for line in here):
            own = [line for line in here if line["method"] == method]
            cells = []
            for mark in MARKS:
                at = [line["marks"][str(mark)] for line in own if str(mark) in line["marks"]]
                cells.append(f"{np.exp(np.mean(np.log(at))):.4f}" if at else "")
            print(f"| {method} | " + " | ".join(cells) + f" | {np.mean([o['think_s'] for o in own]):.2f} |")


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--workloads", default="resnet101,bert")
    parser.add_argument("--kinds", default=",".join((*FAMILIAR, *FOREIGN)))
    parser.add_argument("--methods", default="reachable,rules,exact,twin,ea,annealing")
    parser.add_argument("--boards", type=int, default=10)
    parser.add_argument("--requests", type=int, default=2100)
    parser.add_argument("--twin-requests", type=int, default=400)
    parser.add_argument("--profile-noise", type=float, default=0.05)
    options = parser.parse_args()
    lines = Lines(options.out, ("workload", "kind", "board", "method"))
    for given in options.workloads.split(","):
        problem, name = NnpiProblem(load(given), load_chip("nnpi")), Path(given).stem
        for number in range(options.boards):
            for kind in options.kinds.split(","):
                for method in options.methods.split(","):
                    case = (name, kind, number, method)
                    if case in lines:
                        continue
                    if method == "reachable":
                        value = reachable(problem, kind, number, board(problem, kind, number))
                        found = {"marks": {"2100": value}, "think_s": 0.0}
                    else:
                        requests = options.twin_requests if method in FEW else options.requests
                        found = run(
                            Bench(problem, kind, number, options.profile_noise), method, requests, number
                        )
                    lines.add(case, found)
                    print(json.dumps(lines.all[-1]), flush=True)
    table(lines.all)
    ratios(lines.all)


if __name__ == "__main__":
    main()
