"""What each part of `egrl` is worth where totals alone are told: no times of ops, no family of models.

    python -m benchmarks.placing -o FILE [--begin shipped|hand] [--folds FOLDER] [--seeds 10] [--evals 400] [--arms …]
    python -m benchmarks.placing -o FILE --table

Costs are exact, and every search begins with the default rule's mapping. The 24 networks have at least 2 % to gain.
`--begin hand`: nothing that was trained before. `--begin shipped`: the rules and the network that ship, which have seen
networks of these families; with `--folds` those of FOLDER (`placing_train folds`, `placing_network train --without …`),
for which the network's family was left out.

`before` is `egrl` with linear rules, islands and a learner of its own rollouts, as it was: of data alone. Other
arms: `egrl`, and without or with another of its parts, one at a time: `linear` (rules without a Graph U-Net),
`no-networks` and `no-chromosomes` (after the first generation), `no-temperature` (chromosomes are read without noise),
`no-seeding` (no scores of networks in chromosomes), `sac-frozen` (the actor stays what it begins with),
`sac-untrained` (it begins with a random network), `no-critic` (children of chromosomes are not chosen by SAC's critic),
`own-replay`, `no-migration`; `ea` and `pg`, each alone; `annealing` from what the first rule places; `rank`: a context
network alone, from a random start.

A line is one search: the best speedup over the default rule at each mark. The table gives geometric means over seeds
and networks and, at each mark, the mean logarithm of the ratio to `egrl` that began alike, with its 95 % interval by
Student's t over families.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import egrl
from benchmarks.lines import Lines
from benchmarks.placing_network import path_without
from benchmarks.placing_pairs import TESTED, family_of
from egrl.methods.egrl.ranking import Ranking
from egrl.reproduction import mean_interval
from policies import shipped
from policies.shipped import ShippedNetwork
from policies.store import load_policy, ranker_weights, rankers_of
from population import chromosomes, plus
from population.chromosomes import Chromosomes
from population.genome import Boltzmann
from population.policies import Policies

MARKS = (25, 50, 100, 200, 400, 1000, 2100)
SHOWN = (25, 100, 400, 2100)
"""Marks of the table."""
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "egrl": ("egrl", ()),
    "linear": ("egrl", ("method.network.name=linear",)),
    "no-networks": ("egrl", ("method.evolution.boltzmann_fraction=1.0",)),
    "no-chromosomes": ("egrl", ("method.evolution.boltzmann_fraction=0.0",)),
    "no-temperature": ("egrl", ()),
    "no-seeding": ("egrl", ()),
    "sac-frozen": ("egrl", ("method.learner.ranking.learning_rate=0",)),
    "sac-untrained": ("egrl", ()),
    "no-critic": ("egrl", ()),
    "own-replay": ("egrl", ("method.learner.shared=false",)),
    "no-migration": ("egrl", ("method.learner.migration=false",)),
    "ea": ("ea", ()),
    "pg": ("pg", ()),
    "annealing": ("annealing", ()),
    "rank": ("rank", ()),
}


class Begin(NamedTuple):
    """What a search begins with: rules [2 H F + 1], and a network or None; None: what ships."""

    name: str
    rules: list[np.ndarray] | None = None
    network: ShippedNetwork | None = None


def _cold(
    policies: Policies, chromosomes: Sequence[Boltzmann], rng: np.random.Generator
) -> NDArray[np.int16]:
    """Readings without noise."""
    return READ(
        policies, [replace(c, temperature=np.full_like(c.temperature, 1e-9)) for c in chromosomes], rng
    )


def _unseeded(make: Chromosomes, scores: Any, free: float) -> Boltzmann:
    """A chromosome that knows no network's scores: all in the slowest memory."""
    return make.anchored(np.zeros_like(make.decisions.num_choices))


def _random(ranking: Ranking) -> NDArray[np.float32]:
    """A random rule."""
    size = ranking.places.shape[1] * 2 * len(ranking.names) + 1
    return np.random.default_rng(0).standard_normal(size).astype(np.float32)


READ = Policies.read
ABLATED: dict[str, list[tuple[Any, str, Any]]] = {
    "no-temperature": [(Policies, "read", _cold)],
    "no-seeding": [(Chromosomes, "seeded", _unseeded), (chromosomes, "SCORES", 0.0)],
    "sac-untrained": [(Ranking, "first", property(_random))],
    "no-critic": [(plus, "CANDIDATES", 1)],
}
"""What is replaced in an arm that no setting makes."""


def run(workload: str, arm: str, seed: int, evals: int, begin: Begin) -> dict[str, Any]:
    """Best speedups at the marks."""
    method, settings = ARMS[arm]
    given = [*settings, *(["method.profile_model.use=off"] if method == "egrl" else [])]
    given += ["method.shipped=false"] if begin.name == "hand" and method in ("egrl", "ea", "pg") else []
    with ExitStack() as stack:
        if begin.rules is not None:
            stack.enter_context(patch.object(shipped, "rules", lambda *_: begin.rules))
            stack.enter_context(patch.object(shipped, "network", lambda *_: begin.network))
        for thing, name, value in ABLATED.get(arm, []):
            stack.enter_context(patch.object(thing, name, value))
        start = "policy" if arm == "annealing" else "compiler"
        search = egrl.Search(workload, method=method, seed=seed, settings=given, start=start)
        best, begun = [], time.process_time()
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
    """Print the means, and what each arm gains over `egrl`, for each way to begin."""
    for begin in dict.fromkeys(line["begin"] for line in lines):
        own = [line for line in lines if line["begin"] == begin]
        arms = list(dict.fromkeys(line["arm"] for line in own))
        marks = [mark for mark in SHOWN if any(str(mark) in line["best"] for line in own)]
        titles = [f"{mark} | less `egrl`, %" for mark in marks]
        print(f"\n| {begin} | networks, seeds | {' | '.join(titles)} | CPU s |")
        print("|---|---|" + "---|---|" * len(marks) + "---|")
        for arm in arms:
            mine = [line for line in own if line["arm"] == arm]
            cells = [_cell(own, arm, mark) for mark in marks]
            count = f"{len({line['workload'] for line in mine})}, {len({line['seed'] for line in mine})}"
            seconds = np.mean([line["seconds"] for line in mine])
            print(f"| {arm} | {count} | {' | '.join(cells)} | {seconds:.2f} |")


def _cell(lines: list[dict[str, Any]], arm: str, mark: int) -> str:
    """The geometric mean at a mark, and the mean logarithm over `egrl` in percent, with its interval over families.

    The ratio is of the networks and seeds that both have.
    """
    has = [
        {(line["workload"], line["seed"]) for line in lines if line["arm"] == each} for each in (arm, "egrl")
    ]
    both = [line for line in lines if (line["workload"], line["seed"]) in has[0] & has[1]]
    a, b = means(both, arm, mark), means(both, "egrl", mark)
    families: dict[str, list[float]] = {}
    for name in sorted(set(a) & set(b)):
        families.setdefault(family_of(name), []).append(a[name] - b[name])
    all_ = means(lines, arm, mark)
    mean = f"{np.exp(np.mean(list(all_.values()))):.4f}" if all_ else ""
    if arm == "egrl" or len(families) < 3:
        return f"{mean} |"
    found = mean_interval([float(np.mean(values)) for values in families.values()])
    assert found is not None
    gain, low, high = (100 * found[key] for key in ("mean", "low", "high"))
    return f"{mean} | {gain:+.2f} [{low:+.2f}, {high:+.2f}]"


def begin_of(name: str, folds: Path | None, workload: str) -> Begin:
    """What ships, or what was trained without the family of a workload."""
    if name == "hand" or folds is None:
        return Begin(name)
    file = folds / f"{family_of(workload).replace(' ', '-')}.json"
    rules = [np.array(row, np.float32) for row in json.loads(file.read_text())["rules"]]
    policy = load_policy(path_without(folds, family_of(workload)))
    rankers = rankers_of(policy)
    return Begin("folds", rules, ShippedNetwork(rankers, ranker_weights(policy, rankers)))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--begin", choices=("shipped", "hand"), default="shipped")
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evals", type=int, default=400)
    parser.add_argument("--arms", default="egrl,ea")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = Lines(given.output, ("workload", "arm", "seed", "evals", "begin"))
    for arm in () if given.table else given.arms.split(","):
        for workload in TESTED:
            begin = begin_of(given.begin, given.folds, workload)
            for seed in range(given.seeds):
                case = (workload, arm, seed, given.evals, begin.name)
                if case not in lines:
                    lines.add(case, run(workload, arm, seed, given.evals, begin))
    table(lines.all)


if __name__ == "__main__":
    main()
