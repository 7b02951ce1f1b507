"""What rankings are worth where a model can be asked: local search on it, begun at rankings or at the compiler's rules.

    python -m benchmarks.placing_local --networks bert,model.onnx,… [--chips nnpi,edge] [-o FILE.json]

Each begins at the best of what the model is asked about: `egrl place --steps 0`; rules that nobody trained, drawn
around the one by hand, and the problem's own heuristics; or these heuristics alone. The same local search goes on, of
the same steps. The table has geometric means of the speedup over the default rule, over
the pairs of a network and a chip on which a long one gains 0.5 % or more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placing_network import CHIP_FILES, NNPI, TEST_STEPS, drawn_rules
from benchmarks.placing_pairs import LEAST, TESTED
from egrl.methods import policy_fit
from egrl.methods.placed import Placed, improved, place
from egrl.problems import build_problem
from hwsim.capabilities import HasModel, HasPlacer
from hwsim.family import HasFamily
from hwsim.problem import Problem
from policies.network import LINEAR, NetworkConfig
from policies.ranker import Rankers
from workloads.errors import InputError

STEPS = (0, 500, 2000, 8000, 32_000)
RANKINGS, UNTRAINED, RULES = "rankings and heuristics", "untrained rules and heuristics", "the compiler's 12"
DRAWN = 52
"""Untrained rules: as many as there are rankings."""


def rows_of(workload: str, chip: str) -> list[dict[str, Any]]:
    """A row for each start and number of steps; none where there is nothing to gain."""
    problem = build_problem(NNPI, workload, chip, ())
    rule = best_rule(problem)
    starts = {RANKINGS: place(problem, steps=0), UNTRAINED: best_drawn(problem, rule), RULES: rule}
    reached = max(improved(problem, start, TEST_STEPS).speedup or 0.0 for start in starts.values())
    if np.log(reached) < LEAST:
        return []
    pair = {"workload": Path(workload).name, "chip": chip, "reached": reached}
    return [
        {**pair, "start": name, "steps": steps, "speedup": improved(problem, start, steps).speedup or 0.0}
        for name, start in starts.items()
        for steps in STEPS
    ]


def best_rule(problem: Problem) -> Placed:
    """The best of the problem's own heuristics, by its model."""
    assert isinstance(problem, HasFamily)
    assert isinstance(problem, HasModel)
    own = problem.baseline.rules()
    cost = {name: problem.model_cost(mapping) for name, mapping in own.items()}
    name = min(cost, key=cost.__getitem__)
    speedup = problem.baseline.cost / cost[name]
    return Placed(own[name], name, len(own), speedup, speedup)


def best_drawn(problem: Problem, rule: Placed) -> Placed:
    """The best of rules that nobody trained and of the best heuristic, by the problem's model."""
    assert isinstance(problem, HasPlacer)
    rankers = Rankers(NetworkConfig(name=LINEAR), problem.placer.feature_names, len(problem.space.heads))
    maps = problem.placer.place(*rankers.scores(drawn_rules(DRAWN), policy_fit.places_of(problem)))
    speedup = problem.evaluate(maps, np.zeros(len(maps), np.uint64)).speedup
    best = int(np.argmax(speedup))
    if rule.speedup is not None and rule.speedup >= speedup[best]:
        return rule
    return Placed(maps[best], "drawn", len(maps), float(speedup[best]), float(speedup[best]))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(TESTED))
    parser.add_argument("--chips", default=",".join((NNPI, *CHIP_FILES)))
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    rows = []
    for chip in given.chips.split(","):
        for workload in given.networks.split(","):
            try:
                rows += rows_of(workload, chip)
            except InputError as error:
                print(f"{workload} on {chip}: left out: {error}")
    if given.output is not None:
        given.output.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(f"{len({(row['workload'], row['chip']) for row in rows})} pairs")
    print("\n".join(table(rows)))


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of Markdown: geometric means, and in brackets shares of the headroom."""
    lines = [
        "| begun at, after steps | " + " | ".join(f"{steps:,}" for steps in STEPS) + " |",
        "|---" + "|---:" * len(STEPS) + "|",
    ]
    for start in (RANKINGS, UNTRAINED, RULES):
        cells = [f"the best of {start}"]
        for steps in STEPS:
            mine = [row for row in rows if (row["start"], row["steps"]) == (start, steps)]
            gained, reach = (np.log([row[key] for row in mine]) for key in ("speedup", "reached"))
            cells.append(f"{np.exp(gained.mean()):.4f} ({gained.sum() / reach.sum():.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main()
