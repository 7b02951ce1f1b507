"""What ranking and its parts are worth to `egrl` that is told totals only: no times of ops, no family of models.

    python -m benchmarks.placing -o FILE --folds FOLDER [--seeds 3] [--evals 400] [--arms egrl,no-learner,…]
    python -m benchmarks.placing -o FILE --table

Costs are exact, and every search begins with the default rule's mapping. The 24 networks have at least 2 % to gain.
For a network of a family the rules of FOLDER (`placing_train folds`) and the network that the learner begins with
(`placing_network train --without …`) are those for which that family was left out.

Arms: `egrl`; `rank`: one context network alone, from a random start; `rank-trained`: from the one of FOLDER
(`placing_network train --without …`) that did without the family; `no-learner`; `no-networks` (chromosomes alone
after the first generation); `no-chromosomes`; `no-rules` (networks begin around the rule by hand); `greedy`: networks
and chromosomes as before there was a placer, a Graph U-Net read decision by decision, with a learner and without;
`graph-unet`, `sage`: ranking networks over the graph; `annealing` from what the first of the rules places. `pg`,
`pg-sac`: the learner alone, with a placer and without (`-frozen`: its weights stay, so that it is noise around the
network that it begins with; `-untrained`: that is a random one; `learner-frozen`: in `egrl`); `cma-scores`,
`annealing-scores`: `benchmarks.placing_rivals`.

A line is one search: the best speedup over the default rule at each mark. The table gives means over seeds and networks
and, for pairs of marks, the mean logarithm of the ratio to `greedy`, its 95 % interval by Student's t over families.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import egrl
from benchmarks.lines import Lines
from benchmarks.placing_network import path_without
from benchmarks.placing_pairs import TESTED, family_of
from egrl.methods.egrl import rank_learner, ranking
from egrl.reproduction import mean_interval
from policies import shipped
from policies.shipped import ShippedNetwork
from policies.store import load_policy, ranker_weights, rankers_of

MARKS = (5, 25, 50, 100, 200, 400, 1000, 2100)
OLD = ("method.readout=greedy", "method.network.name=graph_unet")
FROZEN = ("method.first_rate=1e-12", "method.last_rate=1e-12")
UNTRAINED = ("method.shipped=false",)
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "egrl": ("egrl", ()),
    "rank": ("rank", ()),
    "rank-trained": ("rank", ()),
    "no-learner": ("ea", ()),
    "no-networks": ("egrl", ("method.evolution.boltzmann_fraction=1.0",)),
    "no-chromosomes": ("egrl", ("method.evolution.boltzmann_fraction=0.0",)),
    "no-rules": ("egrl", ()),
    "graph-unet": (
        "egrl",
        ("method.network.name=graph_unet", "method.network.width=32", "method.network.depth=2"),
    ),
    "sage": ("egrl", ("method.network.name=sage", "method.network.width=32", "method.network.depth=2")),
    "greedy": ("egrl", OLD),
    "greedy-no-learner": ("ea", OLD),
    "annealing": ("annealing", ()),
    "pg": ("pg", ()),
    "pg-frozen": ("pg", FROZEN),
    "pg-untrained": ("pg", UNTRAINED),
    "pg-untrained-frozen": ("pg", (*UNTRAINED, *FROZEN)),
    "learner-frozen": ("egrl", FROZEN),
    "pg-sac": ("pg", OLD),
    "cma-scores": ("benchmarks.placing_rivals:CMA_ON_SCORES", ()),
    "annealing-scores": ("benchmarks.placing_rivals:ANNEALING_ON_SCORES", ()),
}
COMPARED = ((25, 100), (100, 400), (25, 25), (100, 100), (400, 400), (2100, 2100))


def run(
    workload: str,
    arm: str,
    seed: int,
    evals: int,
    rules: list[np.ndarray],
    network: ShippedNetwork | None,
    init: str = "",
) -> dict[str, Any]:
    """Best speedups at the marks, with rules and a network in the place of the shipped ones; `init`: a policy file."""
    method, settings = ARMS[arm]
    own = [] if arm == "no-rules" else rules
    off = ["method.profile_model.use=off"] if method == "egrl" else []
    with (
        patch.object(ranking, "rules", lambda *_: own),
        patch.object(shipped, "rules", lambda *_: own),
        patch.object(rank_learner, "network", lambda *_: network),
    ):
        start = "policy" if arm == "annealing" else "compiler"
        given = [*off, *settings]
        search = egrl.Search(workload, method=method, seed=seed, settings=given, start=start, init=init)
        best, marks, begun = [], {}, time.process_time()
        while len(best) < evals:
            batch = search.ask(limit=evals - len(best))
            if batch is None:
                break
            found = search.problem.evaluate(batch.proposals.mapping, batch.key)
            search.tell(batch, replace(found, parts=None))
            for speedup in found.speedup.tolist():
                best.append(max(speedup, best[-1] if best else 0.0))
    marks = {str(mark): best[min(mark, len(best)) - 1] for mark in MARKS if mark <= evals}
    return {"best": marks, "seconds": time.process_time() - begun}


def means(lines: list[dict[str, Any]], arm: str, mark: int) -> dict[str, float]:
    """Network -> mean over the seeds of the logarithm of the speedup at a mark."""
    # A longer search with the same seed begins like a shorter one: it counts once.
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        if line["arm"] == arm and str(mark) in line["best"]:
            found.setdefault(line["workload"], {})[line["seed"]] = float(np.log(line["best"][str(mark)]))
    return {name: float(np.mean(list(values.values()))) for name, values in found.items()}


def table(lines: list[dict[str, Any]]) -> None:
    """Print the means, and what each arm gains over `greedy`."""
    arms = list(dict.fromkeys(line["arm"] for line in lines))
    marks = [mark for mark in MARKS if any(str(mark) in line["best"] for line in lines)]
    print("| arm | networks | " + " | ".join(map(str, marks)) + " |")
    print("|---|---|" + "---|" * len(marks))
    for arm in arms:
        rows = [means(lines, arm, mark) for mark in marks]
        cells = [f"{np.exp(np.mean(list(row.values()))):.4f}" if row else "" for row in rows]
        print(f"| {arm} | {len(rows[0])} | " + " | ".join(cells) + " |")
    print("\n| arm at | `greedy` at | mean | 95 % over families | families |\n|---|---|---|---|---|")
    for arm in arms:
        for own, other in COMPARED:
            a, b = means(lines, arm, own), means(lines, "greedy", other)
            families: dict[str, list[float]] = {}
            for name in sorted(set(a) & set(b)):
                families.setdefault(family_of(name), []).append(a[name] - b[name])
            if arm == "greedy" or len(families) < 3:
                continue
            found = mean_interval([float(np.mean(values)) for values in families.values()])
            assert found is not None
            mean, low, high = (100 * found[key] for key in ("mean", "low", "high"))
            print(
                f"| {arm} {own} | {other} | {mean:+.2f} % | {low:+.2f} to {high:+.2f} % | {len(families)} |"
            )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evals", type=int, default=400)
    parser.add_argument("--arms", default="egrl,no-learner,greedy")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = Lines(given.output, ("workload", "arm", "seed", "evals"))
    for arm in () if given.table else given.arms.split(","):
        for workload in TESTED:
            file = given.folds / f"{family_of(workload).replace(' ', '-')}.json"
            rules = [np.array(row, np.float32) for row in json.loads(file.read_text())["rules"]]
            path = path_without(given.folds, family_of(workload))
            policy = load_policy(path)
            rankers = rankers_of(policy)
            network = ShippedNetwork(rankers, ranker_weights(policy, rankers))
            init = str(path) if arm == "rank-trained" else ""
            for seed in range(given.seeds):
                case = (workload, arm, seed, given.evals)
                if case not in lines:
                    lines.add(case, run(workload, arm, seed, given.evals, rules, network, init))
    table(lines.all)


if __name__ == "__main__":
    main()
