"""Which mappings to measure next, so that all others are predicted best (an experimental design), and their measuring.

Greedy: each time the candidate whose measurement lowers the posterior variance most, summed over all candidates and
networks. Measurements do not matter for that as long as the family is nearly linear, so that a design is made at once.

Source: integrated variance as in Cohn (Neural Networks 9, 1996), of the posterior that the family has with its
discrepancy (`egrl.methods.twin.posterior`).

Deviation: the effects that are on are taken for granted.

What is measured is kept in RUN/calibration/ as a run's evaluations are in RUN/mappings/, so that every later
calibration has it; and in measurements.jsonl there, so that a mapping is paid for once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from egrl.calibrate import fit
from egrl.calibrate.measured import MEASURED_FOR_IT, Network
from egrl.core.archive import Archive
from egrl.core.proposals import proposals
from egrl.measure.config import EvaluatorConfig
from egrl.measure.evaluator import board_executor
from egrl.runs import chunks
from egrl.runs.folder import RunFolder
from egrl.runs.past_run import PastRun
from hwsim.mappings import repair
from hwsim.problem import Evaluation, Floats, Mapping16, Problem

CANDIDATES = 400
"""Of all networks together."""
CHANGED = (0.02, 0.1, 0.5)
"""Shares of the decisions that are drawn anew, in turn."""
BEST_MAPPINGS = 5
"""Measured mappings, beside the rules, that candidates are changes of."""


def choose(networks: Sequence[Network], count: int, seed: int) -> list[Mapping16]:
    """New mappings int16 [K, N, H] of each network, `count` of them in all, fewer where there are no more."""
    rng = np.random.default_rng([seed, 1])
    each = -(-CANDIDATES // len(networks))
    drawn = [candidates(network, each, rng) for network in networks]
    found = fit.fit_of(networks, None)
    rows = found.stack.rows(drawn)
    chosen = np.sort(greedy(found.posterior.joint(rows), found.posterior.scales.noise, count))
    ends = np.cumsum([len(part) for part in drawn])
    parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    first = [0, *ends[:-1].tolist()]
    return [part[at - begin] for part, at, begin in zip(drawn, parts, first, strict=True)]


def greedy(covariance: Floats, noise: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of `count` of B candidates with a joint covariance float64 [B, B], in the order of choosing."""
    left, chosen = covariance.copy(), np.zeros(len(covariance), np.bool_)
    order = []
    for _ in range(min(count, len(left))):
        variance = np.diag(left) + noise**2
        gain = np.where(chosen, -np.inf, np.square(left).sum(axis=0) / variance)
        at = int(np.argmax(gain))
        chosen[at] = True
        order.append(at)
        left -= np.outer(left[:, at], left[:, at]) / variance[at]
    return np.array(order, np.int64)


def candidates(network: Network, count: int, rng: np.random.Generator) -> Mapping16:
    """Different mappings int16 [K, N, H] that were not measured: the rules, and changes of them and of the best."""
    problem, space = network.problem, network.problem.space
    rules = list(network.family.first().values())
    best = network.mapping[np.argsort(network.cost, kind="stable")[:BEST_MAPPINGS]]
    bases = np.concatenate([np.stack(rules), best])
    changed = []
    for number in range(count):
        base = bases[number % len(bases)]
        drawn = rng.integers(0, np.maximum(space.num_choices, 1)).astype(np.int16)
        anew = space.live & (rng.random(base.shape) < CHANGED[number // len(bases) % len(CHANGED)])
        changed.append(np.where(anew, drawn, base))
    rows = np.concatenate([np.stack(rules), _valid(problem, np.stack(changed), rng)])
    measured = {row.tobytes() for row in network.mapping}
    new = {row.tobytes(): row for row in rows if row.tobytes() not in measured}
    return np.stack(list(new.values())) if new else rows[:0]


def _valid(problem: Problem, mapping: Mapping16, rng: np.random.Generator) -> Mapping16:
    """What runs of mappings [B, N, H], where something does."""
    keys = rng.integers(2**63, size=len(mapping)).astype(np.uint64)
    found = problem.evaluate(repair(problem, mapping, keys), keys)
    return found.repaired[np.isfinite(found.cost)]


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
