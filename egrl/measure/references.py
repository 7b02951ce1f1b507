"""References for a measurement: the baseline, and the best mapping that was known when it was requested."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from egrl.core.archive import Archive
from egrl.core.failure import RunFailure
from egrl.measure.board import BoardFailure
from egrl.measure.config import EvaluatorConfig
from egrl.measure.op_seconds import Profile, ReadProfile, as_rows, mean_profile
from egrl.measure.records import Measurements, Record, digest
from egrl.measure.retrying_board import RetryingBoard
from hwsim.measure import Measurement, Practice, Statistic, repeat
from hwsim.problem import Evaluation, Status

BASELINE_SAMPLES = 5
"""The baseline is measured at least so often: its spread is the noise that everything else is judged by."""

TIMED = 3
"""Requests after which it is known how long one takes: the first starts the board."""


def baseline_record(
    board: RetryingBoard,
    request: Mapping[str, Any],
    config: EvaluatorConfig,
    read: ReadProfile,
    timed: Callable[[float], None] = lambda seconds: None,
) -> Record:
    """Measure the baseline, often enough to know its noise; `read` reads profiles, `timed` is called once, after
    `TIMED` requests, how long the quickest took.

    RunFailure where it cannot be measured.
    """
    quickest, asked = np.inf, 0
    profiles: list[Profile] = []

    def sample() -> float:
        nonlocal quickest, asked
        begun = time.monotonic()
        answer = board.ask(request, config.timeout_s)
        quickest, asked = min(quickest, time.monotonic() - begun), asked + 1
        if asked == TIMED:
            timed(float(quickest))
        if answer.status != Status.OK:
            raise BoardFailure(answer.reason or f"it calls the mapping invalid, epsilon {answer.epsilon:g}")
        value = Measurement(answer.samples_s, config.statistic).value
        profiles.append(read(answer.op_seconds, value))
        return value

    most = max(BASELINE_SAMPLES, config.repeats)
    practice = Practice(config.warmup, BASELINE_SAMPLES, most, config.width, config.statistic)
    try:
        found = repeat(sample, practice)
    except BoardFailure as error:
        raise RunFailure(f"--evaluator: the baseline cannot be measured: {error}") from error
    return Record(Status.OK, found.samples, request_s=float(quickest), profile=mean_profile(profiles))


def best_before(reported: int, archive: Archive, measurements: Measurements) -> tuple[float, float]:
    """The lowest cost of the first `reported` evaluations, as far back as the window, and the seconds of its request.

    (inf, 0) where nothing ran. What else the archive holds depends on the number of boards; a run must not.
    """
    first = max(0, reported - archive.window)
    cost, status = archive.column("cost")[first:reported], archive.column("status")[first:reported]
    ran = np.where(status == Status.OK, cost, np.inf)
    if not np.isfinite(ran).any():
        return np.inf, 0.0
    at = int(np.argmin(ran))
    record = None
    if first + at >= len(archive) - archive.window:
        record = measurements.get(digest(archive.mappings(np.array([first + at]))[0]))
    return float(ran[at]), 0.0 if record is None else record.request_s


def measured_row(
    modelled: Evaluation, record: Record, baseline_cost: float, statistic: Statistic
) -> Evaluation:
    """One row of an evaluation: what the problem says of the mapping, with cost and profile as they were measured.

    The reward of what ran is (baseline cost / cost)^2, whatever the problem's own: that one is a model's.
    """
    ran, invalid = record.status == Status.OK, record.status == Status.INVALID
    cost = Measurement(record.samples_s, statistic).value if ran else np.nan
    speedup = baseline_cost / cost if ran else 0.0
    parts = as_rows([record.profile])
    if parts is not None and (modelled.parts is None or parts.shape != modelled.parts.shape):
        parts = None  # of a file that somebody changed
    reward = speedup**2 if ran else -record.epsilon if invalid else np.nan
    return replace(
        modelled,
        reward=np.array([reward]),
        cost=np.array([cost]),
        speedup=np.array([speedup]),
        epsilon=np.array([record.epsilon]) if invalid else modelled.epsilon,
        status=np.array([record.status], np.int8),
        parts=parts,
    )
