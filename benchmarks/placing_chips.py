"""Rules that rank for the solver of multi-chip modules: trained on graphs of the training set, tested on the test set.

    python -m benchmarks.placing_chips train -o RULES.json [--rules 12]
    python -m benchmarks.placing_chips once [RULES.json]
    python -m benchmarks.placing_chips search -o RUNS.jsonl [--arms … --seeds 3 --all-graphs]
    python -m benchmarks.placing_chips table RUNS.jsonl

Every graph of the training set is partitioned among the 36 chips of `mcm36`, and a drawn number of them, 4 to 36.
Training is that of `benchmarks.placing_train`; what is best known of a pair is the solve of `hwsim.mcm`. `once` has the
speedups of the rules' partitions at once, `search` those of methods that get one number a partition: no loads.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import egrl
from analysis.intervals import interval_of
from benchmarks.placing_train import Training, document
from benchmarks.terms import without_rules
from hwsim.mcm.config import McmConfig
from hwsim.mcm.package import load_package
from hwsim.mcm.placer import FEATURE_NAMES
from hwsim.mcm.problem import McmProblem
from policies.places import Places
from policies.ranker import SPREAD, by_hand, free_share
from workloads.errors import InputError
from workloads.load import load
from workloads.zoo.mcm87 import MCM87, split

LEAST, CHIPS = 0.005, 36
SOLVE_S, ROUNDS = 1.0, 150
AT = (21, 50, 126, 252, 504)
ALONE = ("method.twin=off", "method.profile_model.use=off")
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "egrl": ("egrl", ALONE),
    "no-rules": ("egrl", ALONE),
    "greedy": ("egrl", (*ALONE, "method.readout=greedy")),
    "no-learner": ("ea", ALONE),
    "no-chromosomes": ("egrl", (*ALONE, "method.evolution.boltzmann_fraction=0")),
    "rank": ("rank", ()),
    "pg": ("pg", ALONE),
    "ppo": ("ppo", ()),
    "annealing": ("annealing", ()),
    "random": ("random", ()),
    "drawn": ("", ()),
}
"""Name -> method, settings. `drawn` learns nothing: rules drawn around the one by hand, as the population's first."""


@dataclass
class Split:
    """A graph on so many chips."""

    workload: str
    chips: int
    best: float

    @property
    def family(self) -> str:
        """Of the graph."""
        return MCM87[self.workload].family

    @property
    def headroom(self) -> float:
        """What can be gained over the heuristic, as a logarithm."""
        return float(np.log(self.problem.baseline.cost / self.best))

    @cached_property
    def problem(self) -> McmProblem:
        """The graph on the package."""
        return McmProblem(load(self.workload), load_package("mcm36"), McmConfig(chips=self.chips))

    @cached_property
    def _places(self) -> Places:
        return Places.of(self.problem.placer, self.problem.space.shape)

    def costs(self, rules: np.ndarray) -> np.ndarray:
        """Seconds float64 [B] of what rules [B, P] place."""
        rules = rules.astype(np.float32)
        scores = self._places.linear(rules[:, :-1].reshape(len(rules), 1, 2, -1))
        mapping = self.problem.placer.place(scores, free_share(rules[:, -1]))
        return self.problem.evaluate(mapping, np.zeros(len(mapping), np.uint64)).cost

    def regret(self, rules: np.ndarray) -> np.ndarray:
        """The log cost of rules [B, P] over the best known, float64 [B]."""
        return np.asarray(np.log(self.costs(rules) / self.best))


def pairs(names: Sequence[str], drawn: bool) -> list[Split]:
    """The graphs on all chips and, if `drawn`, on a drawn number of them; those on which something can be gained."""
    found = []
    rng = np.random.default_rng(7)
    for name in names:
        for chips in (CHIPS, int(2 ** rng.uniform(2, 5.2))) if drawn else (CHIPS,):
            try:
                pair = Split(name, chips, np.inf)
                pair.best = pair.problem.solve(SOLVE_S, 0).cost
            except InputError as error:  # too little memory in so few chips
                print(f"{name} on {chips} chips: left out: {error}", file=sys.stderr)
                continue
            if pair.headroom > LEAST:
                found.append(pair)
    return found


def once(rules: np.ndarray) -> None:
    """Print geometric means over the test set of the best of the first 1, 4 and all rules, and of the solve."""
    rows = []
    for pair in pairs(split().test, False):
        gained = np.log(pair.problem.baseline.cost / pair.costs(rules))
        rows.append([gained[0], gained[:4].max(), gained.max(), pair.headroom])
        print(f"{pair.workload:20s}", *(f"{np.exp(value):.4f}" for value in rows[-1]), flush=True)
    mean = np.mean(rows, axis=0)
    print(f"{'share of headroom':20s}", *(f"{value:.3f}" for value in mean / mean[-1]))


def searched(workload: str, arm: str, seed: int, evaluations: int) -> dict[str, Any]:
    """The best speedup over the heuristic after so many partitions, from the heuristic's."""
    method, settings = ARMS[arm]
    with contextlib.ExitStack() as stack:
        if arm == "no-rules":
            stack.enter_context(without_rules())
        return {
            "workload": workload,
            "arm": arm,
            "seed": seed,
            "best": _marks(workload, method, settings, seed, evaluations),
        }


def _marks(
    workload: str, method: str, settings: Sequence[str], seed: int, evaluations: int
) -> dict[str, float]:
    if not method:
        return _drawn(workload, seed, evaluations)
    search = egrl.Search(workload, problem="mcm", method=method, seed=seed, settings=settings)
    cost: list[float] = []
    while len(cost) < evaluations:
        batch = search.ask(limit=evaluations - len(cost))
        assert batch is not None
        found = search.problem.evaluate(batch.proposals.mapping, batch.key)
        search.tell(batch, found.cost)
        cost += found.cost.tolist()
    return _best(search.problem.baseline.cost, cost)


def _drawn(workload: str, seed: int, evaluations: int) -> dict[str, float]:
    """The heuristic's partition, then those of the rule by hand and of rules drawn around it."""
    graph, rng, hand = Split(workload, CHIPS, np.inf), np.random.default_rng(seed), by_hand(FEATURE_NAMES, 1)
    rules = hand + SPREAD * rng.standard_normal((evaluations - 1, len(hand)))
    rules[0] = hand
    base = graph.problem.baseline.cost
    return _best(base, [base, *graph.costs(rules).tolist()])


def _best(base: float, cost: Sequence[float]) -> dict[str, float]:
    """The best speedups after so many partitions."""
    best = base / np.minimum.accumulate(np.minimum(cost, base))
    return {str(at): float(best[at - 1]) for at in AT if at <= len(cost)}


def table(path: Path) -> None:
    """Print geometric means, and differences of logarithms to `greedy` with intervals over graphs."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    at = [mark for mark in map(str, AT) if all(mark in row["best"] for row in rows)]
    graphs = sorted({row["workload"] for row in rows})
    logs = {arm: _logs(rows, arm, graphs, at) for arm in dict.fromkeys(row["arm"] for row in rows)}
    for arm, found in logs.items():
        mean = " | ".join(f"{value:.4f}" for value in np.exp(found.mean(axis=0)))
        over = " | ".join(_over(column) for column in (found - logs["greedy"]).T)
        print(f"| `{arm}` | {mean} | {over} |")


def _logs(rows: list[dict[str, Any]], arm: str, graphs: Sequence[str], at: Sequence[str]) -> np.ndarray:
    """Logarithms float64 [graphs, marks] of speedups, means over seeds."""
    found = []
    for graph in graphs:
        own = [row["best"] for row in rows if (row["arm"], row["workload"]) == (arm, graph)]
        found.append(np.log([[best[mark] for mark in at] for best in own]).mean(axis=0))
    return np.array(found)


def _over(differences: np.ndarray) -> str:
    found = interval_of(float(differences.mean()), float(differences.std(ddof=1)), len(differences))
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("train", "once", "search", "table"))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rules", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluations", type=int, default=504)
    parser.add_argument("--all-graphs", action="store_true", help="not those of the test set alone")
    given = parser.parse_args()
    if given.what == "train":
        hand = by_hand(FEATURE_NAMES, 1).astype(np.float64)
        training = Training(pairs(split().training, True), given.workers, hand, ROUNDS)
        given.output.write_text(document(training.rules(given.rules), FEATURE_NAMES, 1))
    elif given.what == "once":
        path = given.file or Path("policies/rules/mcm.json")
        once(np.array(json.loads(path.read_text())["rules"]))
    elif given.what == "search":
        with given.output.open("a") as file:
            for seed in range(given.seeds):
                for arm in given.arms.split(","):
                    for workload in MCM87 if given.all_graphs else split().test:
                        file.write(json.dumps(searched(workload, arm, seed, given.evaluations)) + "\n")
                        file.flush()
    else:
        table(given.file)


if __name__ == "__main__":
    main()
