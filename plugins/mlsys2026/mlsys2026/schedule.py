"""Schedules in the contest's own form: which ops each step runs, in which tiles, and what stays in fast memory.

Source: PROBLEM.md of the MLSys 2026 contest on graph scheduling, section "Output".
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlsys2026.instance import Instance
from workloads.errors import InputError
from workloads.json_text import describe, parse_object

LISTS = ("subgraphs", "granularities", "tensors_to_retain", "subgraph_latencies")


@dataclass(frozen=True)
class Step:
    """One step: a subgraph that runs as a whole.

    Attributes:
        ops: different ops.
        granularity: columns and rows of a tile, and depth of a slice of a sum; each from 1.
        retain: tensors that stay in fast memory for the next step.
        order: the numbers of the tiles, row by row, in the order in which they run; None: as they are numbered.
        latency: what the file says that the step takes; NaN: nothing.
    """

    ops: tuple[int, ...]
    granularity: tuple[int, int, int]
    retain: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    latency: float = math.nan


def text_of(steps: Sequence[Step], latencies: Sequence[float]) -> str:
    """The contest's output file of a schedule, JSON, with the latency of each step."""
    rows = {
        "subgraphs": [step.ops for step in steps],
        "granularities": [step.granularity for step in steps],
        "tensors_to_retain": [step.retain for step in steps],
        "traversal_orders": [step.order for step in steps],
        "subgraph_latencies": list(latencies),
    }
    return json.dumps(rows)


def read_schedule(text: str, instance: Instance, where: str) -> tuple[Step, ...]:
    """The schedule that an output file holds. Its form is checked here; whether it is valid is the judge's matter.

    Raises:
        InputError: not in the contest's form, or for another instance; one line, beginning with `where`.
    """
    found = parse_object(text, where, "schedule")
    lists = {name: _rows(found.get(name), f"{where}: {name}") for name in LISTS}
    orders = found.get("traversal_orders")
    lists["traversal_orders"] = (
        [None] * len(lists["subgraphs"]) if orders is None else _rows(orders, f"{where}: traversal_orders")
    )
    count = len(lists["subgraphs"])
    for name, rows in lists.items():
        if len(rows) != count:
            raise InputError(
                f"{where}: {name}: expected {count} entries, one per subgraph, found {len(rows)}"
            )
    return tuple(
        _step({name: rows[i] for name, rows in lists.items()}, instance, where, i) for i in range(count)
    )


def _step(row: dict[str, Any], instance: Instance, where: str, i: int) -> Step:
    ops = _whole(row["subgraphs"], f"{where}: subgraphs[{i}]", 0, len(instance) - 1)
    if not ops or len(set(ops)) < len(ops):
        raise InputError(
            f"{where}: subgraphs[{i}]: expected one op or more, each once, found {list(ops)!r:.60}"
        )
    grain = _whole(row["granularities"], f"{where}: granularities[{i}]", 1, None)
    if len(grain) != 3:
        raise InputError(f"{where}: granularities[{i}]: expected [w, h, k], found {len(grain)} numbers")
    retain = _whole(row["tensors_to_retain"], f"{where}: tensors_to_retain[{i}]", 0, len(instance.widths) - 1)
    order = row["traversal_orders"]
    latency = row["subgraph_latencies"]
    if type(latency) not in (int, float) or not math.isfinite(latency) or latency < 0:
        raise InputError(
            f"{where}: subgraph_latencies[{i}]: expected a number from 0, found {describe(latency)}"
        )
    return Step(
        ops,
        (grain[0], grain[1], grain[2]),
        retain,
        None if order is None else _whole(order, f"{where}: traversal_orders[{i}]", 0, None),
        float(latency),
    )


def _rows(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, found {describe(value)}")
    return value


def _whole(value: Any, where: str, least: int, most: int | None) -> tuple[int, ...]:
    for each in _rows(value, where):
        if type(each) is not int or each < least or (most is not None and each > most):
            span = f"from {least}" if most is None else f"in {least}..{most}"
            raise InputError(f"{where}: expected whole numbers {span}, found {describe(each)}")
    return tuple(value)
