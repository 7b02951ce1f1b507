"""Ask and tell: a search in which the caller measures."""

from __future__ import annotations

import contextlib
import math
import operator
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from egrl.api import MethodLike, new_run, options_of, say_chosen
from egrl.core.archive import Proposals, proposals
from egrl.core.contracts import Budget, Memory
from egrl.core.flow import one_thread
from egrl.core.loop import Loop
from egrl.core.mapping_file import names_of
from egrl.measure.board import excerpt
from egrl.measure.caller import CallerMeasures
from egrl.measure.config import REPORTED
from egrl.measure.evaluator import ReportedSeconds, Samples, checked
from egrl.runs.champion import champion_of_named, nearest_best
from egrl.runs.config import SEARCH_OPTIONS
from egrl.runs.naming import Named, confirm
from egrl.runs.past_run import Result
from egrl.runs.resume import check_only
from egrl.runs.run import reopen
from egrl.runs.summary import METHOD, USER, summarise
from hwsim.paired import is_same
from hwsim.problem import Evaluation, Keys, Mapping16, Problem, Status
from workloads.errors import InputError

CHECK, MOST_CHECKS = -1, 3
"""The ticket of the baseline when a search goes on, which is no evaluation; how often it may fail."""
ONCE = 0.1
"""By how much a baseline may differ, as a logarithm, that was measured once before and once now. Assumption."""


@dataclass(frozen=True)
class Batch:
    """Mappings to measure.

    Attributes:
        mapping: int16 [B, N, H], what would run of each proposal.
        source: B names of what proposed each.
        runs: bool [B]; False if a mapping breaks a rule of the problem: seconds reported for it are ignored.
        proposals: what was proposed, with tickets; `key` uint64 [B] for `Problem.evaluate(proposals.mapping, key)`.
    """

    mapping: Mapping16
    source: list[str]
    runs: NDArray[np.bool_]
    proposals: Proposals
    key: Keys
    _modelled: Evaluation
    _problem: Problem
    _search: object

    def __len__(self) -> int:
        return len(self.mapping)

    @property
    def names(self) -> list[list[dict[str, Any]]]:
        """Each mapping by names, one object per node: [{"node": "conv1", "weight": "sram", …}, …]."""
        return [names_of(self._problem, mapping) for mapping in self.mapping]


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _one_at_a_time(method: Callable[Concatenate[Search, _P], _T]) -> Callable[Concatenate[Search, _P], _T]:
    """The method, which waits until no other thread is in one of these."""

    @wraps(method)
    def alone(self: Search, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock, one_thread():
            return method(self, *args, **kwargs)

    return alone


class Search:
    """A search turn by turn: `ask` for mappings, measure them, `tell` the results. In memory, or leaving a run folder.

    Example:
        >>> import egrl
        >>> def board(names):  # measures a mapping: seconds
        ...     return 1e-3 * (1 + sum(row.get("weight") == "dram" for row in names))
        >>> with egrl.Search("alexnet", method="ea", seed=0) as search:
        ...     while search.evaluations < 40:
        ...         batch = search.ask(limit=40 - search.evaluations)
        ...         search.tell(batch, [board(names) for names in batch.names])
        ...     result = search.result()
        >>> result.speedup >= 1.0
        True

    With `out="measured"`, `Search(resume="measured")` continues from the folder's last checkpoint: batches without
    results at that time, and those reported since, are asked for again. Where seconds are reported, the baseline is
    asked for first, which counts as no evaluation: `tell` refuses seconds of another board. Several threads may use one
    search: its methods run one at a time.

    Attributes:
        problem: what is searched.
        baseline_cost: cost of the baseline's mapping, by the problem or as its seconds were reported.
    """

    def __init__(
        self,
        workload: Any = "",
        *,
        method: MethodLike = "",
        chip: Any = "",
        out: str | Path | bool | None = None,
        resume: str | Path | None = None,
        settings: Sequence[str] = (),
        preset: str = "",
        **options: Any,
    ) -> None:
        """Begin a search, or go on with one.

        Args:
            workload, method, chip, out, settings, preset: as in `egrl.search`.
            resume: path of a run folder to go on with, instead of a workload; default: none. Only checkpoint_seconds
                is allowed with it; method and problem are required if they are MODULE:NAME. A folder of `egrl.search`
                or `egrl run` will do, too: a run with modelled costs continues with evaluations, one with measured
                seconds continues with seconds.
            options: the flags of `egrl run` that say what is searched, and how: problem, generation_evals, seed, start,
                init, threads, device, exact_seconds, checkpoint_seconds (`egrl.RunOptions` describes them); None
                means the default.

        Raises:
            InputError: an argument, a file or the run folder is wrong.
            RunFailure: the disk failed.
        """
        self._lock = threading.RLock()
        given = options_of(options, SEARCH_OPTIONS, workload, method, chip)
        kept = out is not None and out is not False
        with contextlib.ExitStack() as stack:
            if resume is not None:
                check_only({"out": out, "preset": preset, **given})
                run = reopen(resume, given, stack, tuple(settings or ()), external=True)
                run.restore()
                run.write_config()
            else:
                run = new_run(given, workload, method, chip, settings, preset, kept)
                if kept:
                    run.keep(out, stack)
                say_chosen(given, workload, run)
            self._run, self._context, self.problem = run, run.context, run.problem
            self._begin()
            stack.callback(self._reported.close)
            self._stack = stack.pop_all()

    def _begin(self) -> None:
        """Build the loop, which goes on from the run's state."""
        run, options = self._run, self._run.config.run
        self._executor, self._memory = CallerMeasures(), Memory()
        self._asked: set[int] = set()  # the first ticket of each batch without results
        self._loop = Loop(
            run.method,
            run.context,
            self._executor,
            Budget(0, None, options.generation_evals),
            run.folder or self._memory,
            state=run.state,
            checkpoint_seconds=options.checkpoint_seconds,
        )
        self._loop.start()
        self._reported = ReportedSeconds(self.problem, run.config.evaluator.statistic)
        self._confirmed: tuple[int, Named] | None = None  # after how many evaluations, and what was named
        self._closed, self._written = False, (-1, -1)
        self._in_seconds = False if self.evaluations else None
        self._to_check = (
            0  # how often the baseline may still be asked for, to know that the board is the same
        )
        if run.folder is not None and options.evaluator:
            self._in_seconds = True
            self._reported.attach(run.folder.path)
            if self.evaluations:
                self._reported.read_baseline(run.folder.path)
                self._context.costs.noise = self._reported.noise or None
                self._to_check = MOST_CHECKS

    def __enter__(self) -> Search:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception leave the run folder as its last checkpoint has it."""
        if kind is None:
            self.close()
        else:
            self._closed = True
            self._stack.close()

    @_one_at_a_time
    def close(self) -> None:
        """End the search: write the row of a generation that was cut off, a checkpoint and the results; let the run
        folder go. `result` still answers.
        """
        if not self._closed:
            self._loop.close()
            if self._written != self._reached:
                self._conclude(0.0)
            self._closed = True
            self._stack.close()

    @property
    def baseline_cost(self) -> float:
        """What speedups are over, in the problem's unit."""
        known = self._reported.baseline_cost
        return known if np.isfinite(known) else self.problem.baseline.cost

    @property
    def evaluations(self) -> int:
        """Number of evaluations reported so far."""
        return len(self._context.archive)

    @property
    def finished(self) -> bool:
        """Whether the method has nothing more to propose."""
        return self._loop.flow.finished

    @property
    def _reached(self) -> tuple[int, int]:
        """Evaluations and generations."""
        return self.evaluations, self._loop.state.generation

    @_one_at_a_time
    def ask(self, limit: int | None = None) -> Batch | None:
        """The next mappings to measure, `limit` at most, all of one batch of the method.

        None where the method has nothing more to propose. ValueError where what was asked for before has to be told
        first, the limit is no whole number from 1, or the search is closed.
        """
        self._check_open("ask")
        if limit is not None:
            limit = _whole(limit)
        if self._to_check and CHECK not in self._asked:
            given, key = proposals(self.problem.baseline.mapping[None], "baseline"), np.zeros(1, np.uint64)
            return self._batch(given.numbered(CHECK), key)
        flow = self._loop.flow
        if not self._executor.waiting:
            flow.extend(None if limit is None else flow.submitted + limit)
        while not self._executor.waiting:
            if flow.finished and flow.all_reported:
                return None
            if not flow.due:
                raise ValueError("ask: expected the results of the last batch first (tell), received none")
            self._loop.turn()
        return self._batch(*self._executor.take(limit))

    def _batch(self, asked: Proposals, key: Keys) -> Batch:
        """Proposals as they are handed out."""
        self._asked.add(int(asked.tickets[0]))
        modelled = self.problem.evaluate(asked.mapping, key)
        runs = modelled.status == Status.OK
        # the caller's own: a board may use it as scratch
        return Batch(
            modelled.repaired.copy(),
            asked.source.tolist(),
            runs,
            asked,
            key,
            modelled,
            self.problem,
            self,
        )

    @_one_at_a_time
    def tell(
        self,
        batch: Batch,
        results: Evaluation | Sequence[float] | Sequence[Sequence[float]],
        op_seconds: Sequence[Any] | None = None,
    ) -> None:
        """The results of a batch: an `Evaluation` of its proposals, or seconds (NaN: the measurement failed).

        Of a mapping that was measured several times, give all of its seconds as a list: their median counts
        (`evaluator.statistic`). The spread of the baseline's tells the search how noisy measurements are.

        `op_seconds` goes with seconds: for each mapping a profile, as an evaluator gives it (docs/guides/boards.md), or
        None. A profile that makes no sense is dropped with a notice.

        With seconds the first mapping of all is the baseline's (`start="compiler"`), and its time is what speedups are
        over. ValueError, and nothing is changed, where the number of results is another, a number cannot be seconds,
        the batch is of another search or was told before, seconds and evaluations are mixed, or the search is closed.
        """
        self._check_open("tell")
        self._check_batch(batch)
        if _length(results) != len(batch):
            raise ValueError(f"tell: expected {len(batch)} results, received {_counted(results)}")
        if op_seconds is not None and (isinstance(results, Evaluation) or _length(op_seconds) != len(batch)):
            found = "an Evaluation" if isinstance(results, Evaluation) else f"{_counted(op_seconds)} profiles"
            raise ValueError(f"tell: expected {len(batch)} seconds and as many profiles, received {found}")
        in_seconds = not isinstance(results, Evaluation)
        samples = [] if isinstance(results, Evaluation) else checked(results)
        if self._in_seconds not in (None, in_seconds):
            kinds = ("seconds", "evaluations") if self._in_seconds else ("evaluations", "seconds")
            raise ValueError(
                f"tell: expected {kinds[0]} throughout, as in all results so far, received {kinds[1]}"
            )
        if int(batch.proposals.tickets[0]) == CHECK:
            self._check_board(samples[0])
            return
        if isinstance(results, Evaluation):
            evaluation = _fitting(results, batch)
        else:
            evaluation = self._reported.evaluation(
                batch.proposals, batch.key, batch._modelled, samples, op_seconds
            )
            self._say_reported()
        self._in_seconds = in_seconds
        self._asked.discard(int(batch.proposals.tickets[0]))
        self._executor.give_back(batch.proposals, evaluation)
        while self._executor.back or self._loop.flow.holds or not self._loop.flow.all_reported:
            self._loop.turn()

    def _check_board(self, samples: Samples) -> None:
        """InputError if the baseline takes other seconds than before, or cannot be measured."""
        self._asked.discard(CHECK)
        self._to_check -= 1
        now = self._reported.value_of(samples)
        if not np.isfinite(now):  # it is asked for again
            if not self._to_check:
                raise InputError(
                    f"tell: expected the seconds of the baseline, received NaN {MOST_CHECKS} times"
                )
            return
        before = self._reported.baseline_s
        once = len(before) == len(samples) == 1  # then nothing is known of the noise
        apart = abs(math.log(now / self._reported.baseline_cost))
        if apart > ONCE if once else not is_same(before, samples):
            self._to_check += 1
            raise InputError(
                f"tell: expected the board that measured before, received {now * 1e6:.1f} us for the baseline instead"
                f" of {self._reported.baseline_cost * 1e6:.1f} us; for another board begin another search, with"
                " start=RUN/best_mapping.json"
            )
        self._to_check = 0

    def _check_batch(self, batch: Batch) -> None:
        """ValueError if it is no batch that this search has handed out and not been told."""
        if not isinstance(batch, Batch):
            raise ValueError(f"tell: expected a batch (from ask), received {excerpt(batch)}")
        if batch._search is not self:
            raise ValueError("tell: expected a batch of this search, received one of another")
        if int(batch.proposals.tickets[0]) not in self._asked:
            raise ValueError(
                "tell: expected a batch without results, received one whose results were given before"
            )

    def _say_reported(self) -> None:
        """Say in the config that the caller measures, so that the model's costs are never mixed with these."""
        self._context.costs.measured = True
        self._context.costs.noise = self._reported.noise or None
        run, before = self._run, self._run.config.run.evaluator
        if before != REPORTED:
            run.config = replace(run.config, run=replace(run.config.run, evaluator=REPORTED))
            run.write_config()
            if run.folder is not None and not before:
                self._reported.attach(run.folder.path)

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise ValueError(f"{what}: expected a search that is open, received a closed one")

    @_one_at_a_time
    def result(self, bound_seconds: float = 0.0) -> Result:
        """The result so far; the search can continue. A bound is proved within `bound_seconds`, if there is none.

        Of measured seconds nothing is proved. A run folder gets the results, and a checkpoint.
        """
        if not self._closed:
            self._loop.save()
        return self._conclude(bound_seconds)

    @_one_at_a_time
    def confirm(
        self, measure: Callable[[list[dict[str, Any]]], float], contenders: int = 5, rounds: int = 20
    ) -> Result:
        """Measure again which mapping is the best, as `egrl run` does at the end of a run on a noisy board.

        All mappings within three standard deviations of the best are measured in turn, until one is ahead or
        `rounds` are over. That one and the baseline are then measured alternating, `rounds` times, so that the
        luck by which it was chosen does not count. Their medians are the result's cost and speedup, and
        `Result.interval` is the speedup's 95% interval. They hold until more is told. Other threads wait meanwhile.

        Args:
            measure: seconds of one mapping, measured once. It gets names, one object per node, as `Batch.names` and the
                function of `egrl.search(evaluator=…)` have them, and is called 2 * rounds times at least.
            contenders: how many mappings race at most (as many others again, if the seconds reported for all of them
                were odd); with 1 only the best so far.
            rounds: measurements of each at most, at least 2.

        Raises:
            ValueError: the search is closed or was not told seconds, a number is out of range, or what `measure` gives
                cannot be seconds. What it raises itself is passed on. Nothing is changed then.
        """
        self._check_open("confirm")
        if not self._in_seconds or not np.isfinite(self._reported.baseline_cost):
            raise ValueError("confirm: expected a search with reported seconds, received one without")
        for name, value, least in (("contenders", contenders, 1), ("rounds", rounds, 2)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"confirm: expected {name} from {least}, received {excerpt(value)}")
        self._loop.save()
        found = confirm(self.problem, self._run, self._reported.baseline_s, measure, contenders, rounds)
        self._confirmed = None if found is None else (self.evaluations, found)
        return self._conclude(0.0)

    def _conclude(self, bound_seconds: float) -> Result:
        config, folder = self._run.config, self._run.folder
        resolved = replace(config, run=replace(config.run, bound_seconds=bound_seconds))
        measured: dict[str, Any] | None = (
            {"noise": self._reported.noise or None, "confirmed": False} if self._in_seconds else None
        )
        state, archive = self._loop.named(), self._context.archive
        baseline_cost, best = self.baseline_cost, state.champions[0]
        if self._confirmed is not None and self._confirmed[0] == self.evaluations and best is not None:
            named = self._confirmed[1]
            state = replace(state, champions=[champion_of_named(best, archive, named)])
            baseline_cost, measured = named.baseline.value, named.table()
        if measured is None:
            state = nearest_best(self.problem, state, self._run.method.proves)
        end = METHOD if self.finished else USER
        composition = self._run.method.composition()
        document = summarise(
            resolved, self.problem, state, archive, end, baseline_cost, measured, composition=composition
        )
        champion = state.champions[0]
        mapping = None if champion is None else champion.mapping
        if folder is None:
            return Result(self.problem, document, mapping, None, self._memory.rows)
        if not self._closed:
            folder.write_results(document, self.problem, mapping)
            self._written = self._reached
        return Result(self.problem, document, mapping, folder.path)


def _whole(limit: Any) -> int:
    """A limit of `ask`. ValueError if it is no whole number from 1."""
    try:
        number = 0 if isinstance(limit, bool) else operator.index(limit)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"ask: expected a limit of at least 1, a whole number, received {excerpt(limit)}")
    return number


def _length(given: Any) -> int | None:
    """How many results or profiles were given; None if that is no sequence."""
    try:
        return None if isinstance(given, str | bytes | Mapping | Set) else len(given)
    except TypeError:
        return None


def _counted(given: Any) -> str:
    length = _length(given)
    return excerpt(given) if length is None else str(length)


def _fitting(results: Evaluation, batch: Batch) -> Evaluation:
    """The evaluation, of a batch. ValueError if a column is none of the batch's problem."""
    found = np.shape(results.repaired)
    if found != batch.mapping.shape:
        raise ValueError(f"tell: expected mappings of shape {batch.mapping.shape}, received {found}")
    for name in ("reward", "cost", "speedup", "epsilon", "status", "partial"):
        given, known = getattr(results, name), getattr(batch._modelled, name)
        if not isinstance(given, np.ndarray) or (given.shape, given.dtype) != (known.shape, known.dtype):
            raise ValueError(f"tell: {name}: expected {known.dtype} {known.shape}, received {excerpt(given)}")
    if not np.isfinite(results.reward[results.status <= Status.INVALID]).all():
        raise ValueError(
            "tell: reward: expected numbers unless a measurement failed, received NaN or infinity"
        )
    return results
