"""What the twin and the chip file thought of mappings before they were measured, against the measurements."""

from __future__ import annotations

import numpy as np

from egrl.methods.twin.data import gather
from egrl.methods.twin.posterior import Beliefs, fit
from egrl.methods.twin.proposer import SOURCES
from egrl.runs.past import Evaluations, PastRun
from hwsim.capabilities import HasModel
from hwsim.family import Family, HasFamily
from hwsim.problem import Floats, Mapping16
from hwsim.sections import Line, Lines

PREDICTED = 300
"""Measured mappings that are predicted again, evenly over the run."""
TWIN = ("twin", *SOURCES)
"""Sources of mappings that a twin proposed."""
FIRST = 20
"""Measurements that a twin has seen at least; it is fitted anew whenever they have doubled …"""
MOST = 200
"""… to no more than so many."""


def predictions(run: PastRun, found: Evaluations) -> list[Lines]:
    """The points of a run on a board or with a twin; nothing where there is neither. InputError of a damaged folder."""
    seen = found.mapping.reshape(len(found.mapping), -1)
    first = np.zeros(len(seen), np.bool_)
    first[np.unique(seen, axis=0, return_index=True)[1]] = True
    rows = np.flatnonzero(first & np.isfinite(found.cost) & (found.cost > 0) & (found.speedup > 0))
    mapping, cost = found.mapping[rows], found.cost[rows]
    some = np.unique(np.linspace(0, max(len(rows) - 1, 0), min(PREDICTED, len(rows))).astype(np.int64))
    lines, said = [], []
    if np.isin(found.source, TWIN).any() and len(rows) > FIRST and isinstance(run.problem, HasFamily):
        later = some[some >= FIRST]
        line = Line(
            "the twin",
            _foreseen(run.problem.family, mapping, cost)[later].tolist(),
            cost[later].tolist(),
            True,
        )
        lines.append(line)
        said.append(
            f"the twin, which of each had seen what was measured before, is off by {_error(line)} in the median"
        )
    if run.options.evaluator and isinstance(run.problem, HasModel):
        model = run.problem
        values = [model.model_cost(mapping[row]) for row in some.tolist()]
        lines.append(Line("the chip file", values, cost[some].tolist(), True))
        said.append(f"the chip file is off by {_error(lines[-1])} in the median")
    if not lines:
        return []
    values = [value for line in lines for value in (*line.x, *line.y)]
    ends = [min(values, default=0.0), max(values, default=1.0)]
    says = f"{len(some)} measured mappings; {'; '.join(said)}."
    axes, equal = ("predicted", "the board"), Line("equal", ends, ends)
    return [Lines("Predicted against measured", says, *axes, [*lines, equal], {}, ("s", "s"))]


def _error(line: Line) -> str:
    return f"{np.median(np.abs(np.array(line.x) / np.array(line.y) - 1)) if line.y else 0.0:.1%}"


def _foreseen(family: Family, mapping: Mapping16, cost: Floats) -> Floats:
    """Float64 [M]: costs of mappings [M, N, H], each by a twin of none but earlier ones; NaN of the first."""
    found, beliefs, seen = np.full(len(cost), np.nan), Beliefs((family.nominal,)), FIRST
    while seen < len(cost):
        end = min(2 * seen, len(cost))
        for posterior in fit(family, gather(family, mapping[:seen], cost[:seen], MOST), beliefs):
            if posterior is not None:
                found[seen:end] = np.exp(posterior.predict(mapping[seen:end])[0])
        seen = end
    return found
