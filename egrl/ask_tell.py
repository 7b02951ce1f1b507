"""Ask and tell: a search whose caller measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.budget import GENERATION, Budget
from egrl.core.external import External
from egrl.core.loop import Loop
from egrl.core.mapping_rows import rows_of
from egrl.core.proposals import Proposals
from egrl.core.recorder import Memory
from egrl.result import Result
from egrl.runs.config import RunOptions
from egrl.runs.prepare import build_problem, prepare
from egrl.runs.progress import Silent
from egrl.runs.resolve import resolve
from egrl.runs.summary import summarise
from egrl.subjects import MethodLike, is_problem, method_of, name_of, object_of
from hwsim.problem import Evaluation, Keys, Mapping16, Problem, Status


@dataclass(frozen=True)
class Batch:
    """Mappings to measure.

    Attributes:
        mapping: int16 [B, N, H], what would run of each proposal.
        source: B names, who proposes each.
        runs: bool [B]; where false a mapping breaks a rule, and seconds told for it count for nothing.
        proposals: what was proposed, with tickets; `key` uint64 [B] for `Problem.evaluate(proposals.mapping, key)`.
    """

    mapping: Mapping16
    source: list[str]
    runs: NDArray[np.bool_]
    proposals: Proposals
    key: Keys
    _modelled: Evaluation
    _problem: Problem

    def __len__(self) -> int:
        return len(self.mapping)

    @property
    def names(self) -> list[list[dict[str, Any]]]:
        """Each mapping by names, an object a node: [{"node": "conv1", "weight": "sram", …}, …]."""
        return [rows_of(self._problem, mapping) for mapping in self.mapping]


class Search:
    """A search turn by turn, in memory: `ask` for mappings, measure them, `tell` the results.

    >>> search = Search("bert", method="ea", seed=0)
    >>> while search.evaluations < 400:
    ...     batch = search.ask(limit=400 - search.evaluations)
    ...     search.tell(batch, [board(mapping) for mapping in batch.mapping])
    >>> search.result()

    Attributes:
        problem: what is searched.
        baseline_cost: what speedups are over: the problem's own, or the seconds told of its mapping.
    """

    def __init__(
        self,
        workload: Any,
        *,
        method: MethodLike = "",
        problem: str = "nnpi",
        chip: Any = "",
        seed: int = 0,
        start: str = "",
        settings: Sequence[str] = (),
        preset: str = "",
        threads: int = 1,
        generation_evals: int = GENERATION,
    ) -> None:
        """As `egrl.search`; `workload` may be a Problem. InputError where something is wrong."""
        meant = method_of(method)
        built = is_problem(workload)
        options = RunOptions(
            name_of(workload, "workload"),
            problem=workload.about.name if built else problem,
            method=meant.name,
            chip=workload.about.chip if built else name_of(chip, "chip"),
            seed=seed,
            start=start,
            threads=threads,
            generation_evals=generation_evals,
            bound_seconds=0.0,
        )
        resolved = resolve(options, settings, preset, meant.definition, built)
        self._resolved = resolved if meant.config is None else replace(resolved, method=meant.config)
        self.problem: Problem = (
            workload if built else build_problem(self._resolved, object_of(workload), object_of(chip))
        )
        prepared = prepare(self._resolved, self.problem, meant.definition)
        self._context, self._external, self._memory = prepared.context, External(), Memory()
        budget = Budget(0, None, generation_evals)
        self._loop = Loop(prepared.method, prepared.context, self._external, budget, self._memory, Silent())
        self.baseline_cost = self.problem.baseline.cost
        self._in_seconds: bool | None = None

    @property
    def evaluations(self) -> int:
        """How many have been told."""
        return len(self._context.archive)

    @property
    def finished(self) -> bool:
        """Whether the method has nothing more to propose."""
        return self._loop.flow.finished

    def ask(self, limit: int | None = None) -> Batch | None:
        """The next mappings to measure, `limit` at most, all of one batch of the method.

        None where the method has nothing more to propose. ValueError where what was asked for before has to be told
        first, or the limit is below 1.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"ask: expected a limit of at least 1, received {limit}")
        flow = self._loop.flow
        flow.extend(None if limit is None else flow.submitted + limit)
        while not self._external.waiting:
            if flow.finished and flow.settled:
                return None
            if not flow.due:
                raise ValueError("ask: expected the results of the last batch first (tell), received none")
            self._loop.turn()
        proposals, key = self._external.waiting.popleft()
        modelled = self.problem.evaluate(proposals.mapping, key)
        runs = modelled.status == Status.OK
        return Batch(
            modelled.repaired, proposals.source.tolist(), runs, proposals, key, modelled, self.problem
        )

    def tell(self, batch: Batch, results: Evaluation | Sequence[float]) -> None:
        """The results of a batch: an `Evaluation` of its proposals, or seconds (NaN: the measurement failed).

        With seconds the first mapping of all is the baseline's (`start="compiler"`), and its time is what speedups are
        over. ValueError where the number of results is another, the batch was told before, or seconds and evaluations
        are mixed.
        """
        if len(results) != len(batch):
            raise ValueError(f"tell: expected {len(batch)} results, received {len(results)}")
        if batch.proposals.tickets[0] < self.evaluations:
            raise ValueError("tell: expected a batch that has not been told, received one that has")
        in_seconds = not isinstance(results, Evaluation)
        if self._in_seconds not in (None, in_seconds):
            raise ValueError("tell: expected seconds or evaluations throughout, received both")
        evaluation = results if isinstance(results, Evaluation) else self._of_seconds(batch, results)
        self._in_seconds = in_seconds
        self._external.give_back(batch.proposals, evaluation)
        while self._external.back or self._loop.flow.holds or not self._loop.flow.settled:
            self._loop.turn()

    def _of_seconds(self, batch: Batch, results: Sequence[float]) -> Evaluation:
        seconds, modelled = np.asarray(results, np.float64), batch._modelled
        if batch.proposals.tickets[0] == 0:
            known = self.problem.evaluate(self.problem.baseline.mapping[None], batch.key[:1])
            if not np.array_equal(known.repaired[0], batch.mapping[0]):
                raise ValueError(
                    "tell: expected evaluations, since the search does not begin at the baseline"
                )
            if not (np.isfinite(seconds[0]) and seconds[0] > 0):
                raise ValueError(f"tell: expected the seconds of the baseline, received {seconds[0]}")
            self.baseline_cost = float(seconds[0])
        ran = batch.runs & np.isfinite(seconds) & (seconds > 0)
        measured = Evaluation.of_costs(
            seconds, self.baseline_cost, ran, modelled.repaired, modelled.epsilon, otherwise=Status.FAILED
        )
        status = np.where(batch.runs, measured.status, modelled.status).astype(np.int8)
        reward = np.where(ran, measured.reward, np.where(batch.runs, np.nan, modelled.reward))
        return replace(measured, status=status, reward=reward, partial=modelled.partial)

    def result(self, bound_seconds: float = 0.0) -> Result:
        """What has been found so far; the search can go on. A bound is proved within `bound_seconds`, if there is none.

        Of measured seconds nothing is proved.
        """
        resolved = replace(self._resolved, run=replace(self._resolved.run, bound_seconds=bound_seconds))
        measured = {"noise": None} if self._in_seconds else None
        state, archive = self._loop.state, self._context.archive
        document = summarise(
            resolved, self.problem, state, archive, self.finished, self.baseline_cost, measured
        )
        champion = state.champions[0]
        return Result(
            self.problem, document, None if champion is None else champion.mapping, None, self._memory.rows
        )
