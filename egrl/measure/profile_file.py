"""The profile of one mapping in a file: what each op took on a board, as the board answered.

A JSON object with `op_seconds`, as boards give it (docs/guides/boards.md), and with `mapping`, as requests have it: a
list of objects per node. Without `mapping` the profile is the baseline's. Other entries are ignored, so that a request
and its answer in one object are such a file.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core import mapping_file
from egrl.measure.board import ProfileReader, as_rows
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_object


def read(path: str, problem: Problem) -> tuple[Mapping16, NDArray[np.float32]]:
    """The mapping int16 [N, H] and its profile float32 [P] (`Evaluation.parts`), NaN where nothing is known.

    InputError in one line that begins with the path, where it cannot be read or does not fit the problem.
    """
    document = parse_object(read_text(path, "a profile (.json)"), path, "profile")
    if "op_seconds" not in document:
        raise InputError(f"{path}: op_seconds: expected the seconds of each op by name, found none")
    rows = document.get("mapping")
    if rows is not None and not isinstance(rows, list):
        raise InputError(f"{path}: mapping: expected a list of nodes, found {type(rows).__name__}")
    mapping = problem.baseline.mapping
    if rows is not None:
        mapping = mapping_file.mapping_of(problem, rows, f"{path}: mapping")
    modelled = problem.evaluate(mapping[None], np.zeros(1, np.uint64)).parts  # divides what ran as one
    given, latency_s = document["op_seconds"], _latency_s(document.get("latency_s"))
    reader = ProfileReader(problem, lambda _: None)
    found = as_rows([reader.demand(given, latency_s, modelled, f"{path}: op_seconds")])
    if found is None:
        raise InputError(
            f"{path}: op_seconds: expected seconds of ops of {problem.about.workload}, found none"
        )
    return mapping, found[0]


def _latency_s(given: Any) -> float:
    """The largest of the latencies beside a profile; infinite if there is none, so that nothing is too long for it."""
    seconds = given if isinstance(given, list) else [given]
    numbers = [float(s) for s in seconds if isinstance(s, int | float) and not isinstance(s, bool)]
    return max(numbers, default=math.inf)
