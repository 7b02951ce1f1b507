"""What rankings are worth where a model can be asked: local search on it, begun at rankings or at the compiler's rules.

    python -m benchmarks.placing_local --networks bert,model.onnx,… [--chips nnpi,edge] [-o FILE.json]

Both begin at the best of what the model is asked about: `egrl place --steps 0`, or the problem's own heuristics. The
same local search goes on, of the same steps. The table has geometric means of the speedup over the default rule, over
the pairs of a network and a chip on which a long one gains 0.5 % or more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.placing_network import CHIP_FILES, NNPI, TEST_STEPS
from benchmarks.placing_pairs import LEAST, TESTED
from egrl.methods.placed import Placed, improved, place
from egrl.problems import build_problem
from hwsim.capabilities import HasModel
from hwsim.family import HasFamily
from hwsim.problem import Problem
from workloads.errors import InputError

STEPS = (0, 500, 2000, 8000, 32_000)
RANKINGS, RULES = "rankings and heuristics", "the compiler's 12"


def rows_of(workload: str, chip: str) -> list[dict[str, Any]]:
    """A row for each start and number of steps; none where there is nothing to gain."""
    problem = build_problem(NNPI, workload, chip, ())
    starts = {RANKINGS: place(problem, steps=0), RULES: best_rule(problem)}
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
    own = problem.family.first()
    cost = {name: problem.model_cost(mapping) for name, mapping in own.items()}
    name = min(cost, key=cost.__getitem__)
    speedup = problem.baseline.cost / cost[name]
    return Placed(own[name], name, len(own), speedup, speedup)


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
    for start in (RANKINGS, RULES):
        cells = [f"the best of {start}"]
        for steps in STEPS:
            mine = [row for row in rows if (row["start"], row["steps"]) == (start, steps)]
            gained, reach = (np.log([row[key] for row in mine]) for key in ("speedup", "reached"))
            cells.append(f"{np.exp(gained.mean()):.4f} ({gained.sum() / reach.sum():.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main()
