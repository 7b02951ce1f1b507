"""Measuring for a calibration: a few mappings on the board, kept in the folder of a run.

They are kept in RUN/calibration/ as a run's evaluations are in RUN/mappings/, so that every later calibration has them;
and in its measurements.jsonl, so that a mapping is paid for once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from egrl.calibrate.design import choose
from egrl.calibrate.measured import MEASURED_FOR_IT, Network
from egrl.core.archive import Archive
from egrl.core.proposals import proposals
from egrl.measure.config import EvaluatorConfig
from egrl.measure.evaluator import board_executor
from egrl.runs import chunks
from egrl.runs.folder import RunFolder
from egrl.runs.past import PastRun
from hwsim.problem import Evaluation, Mapping16

WAIT_S = 0.2


def measure(run: PastRun, mapping: Mapping16, evaluator: str, workers: int) -> None:
    """Measure mappings int16 [K, N, H] once each with a command, on so many boards, and keep them.

    InputError where the command is none or the run is going on; RunFailure where the board cannot measure.
    """
    problem, archive = run.problem, Archive([run.problem])
    config = replace(EvaluatorConfig(), repeats=1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(RunFolder.reopen(run.path)))
        boards = stack.enter_context(
            contextlib.closing(board_executor(problem, evaluator, workers, config, None))
        )
        boards.attach(run.path)
        boards.measure_baseline()
        asked = proposals(mapping, MEASURED_FOR_IT).numbered(0)
        boards.submit(asked, np.zeros(len(mapping), np.uint64))
        done: dict[int, Evaluation] = {}
        while len(done) < len(mapping):
            for part, evaluation in boards.ready(WAIT_S):
                done |= {
                    ticket: evaluation.rows(slice(row, row + 1))
                    for row, ticket in enumerate(part.tickets.tolist())
                }
        first = sum(chunk.end - chunk.first for chunk in chunks.listing(run.path / MEASURED_FOR_IT))
        archive.skip(first)
        found = Evaluation.concatenate([done[ticket] for ticket in range(len(mapping))])
        archive.append(proposals(mapping, MEASURED_FOR_IT).numbered(first), found)
        chunks.write(run.path / MEASURED_FOR_IT, archive, first)


def measure_some(
    runs: Sequence[PastRun],
    networks: Sequence[Network],
    count: int,
    evaluator: str,
    workers: int,
    seed: int,
) -> None:
    """Measure the `count` mappings of some networks that say most, and keep them with the first run of each."""
    for network, mapping in zip(networks, choose(networks, count, seed), strict=True):
        if len(mapping):
            first = next(run for run in runs if run.problem.fingerprint() == network.problem.fingerprint())
            measure(first, mapping, evaluator, workers)
