"""The twin: learn from measurements how the board differs from its description, and search the learned model.

Model-based reinforcement learning over the run's archive: the model is the problem's family (`hwsim.family`),
learned by `posterior`; `proposer` chooses what to measure next. First measured are all rules of the compiler and what
the description itself likes best, then changes of those, then batches from the posterior. `surrogate` has the course
of it; here it is a method of its own, one batch ahead of the results.

Where costs are the family's own (no board) there is nothing to learn, and `exact` or the population are what to use.

The twin as a member of a portfolio: model-based learning over the same archive as population and learner.

It learns from all mappings that ran. Both sides divide the rounds by how often their mappings are among the best of
all, by the twin's posterior, which trusts what was measured near a mapping. The twin has the first round: the rules
that the problem knows. It computes when it is asked, while the batch before is being measured, from all results so far.

The learned model of one problem's board: measurements, conclusions, and what to measure next.

The method `twin` asks it for every batch, `egrl` for some of them. It thinks piece by piece, so that its caller can
look at the clock. A thought follows from what had been told when it began: what is told meanwhile waits for the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition
from egrl.methods.learner import Learner
from egrl.methods.manager import TWIN, RoundShare
from egrl.methods.twin.data import averaged
from egrl.methods.twin.proposer import TOP, Proposer, TwinConfig, unique_rows
from hwsim.family import HasFamily
from hwsim.problem import Evaluation, Floats, Mapping16, Problem, Status
from population.moves import Moves

PAUSE_S = 1.0
"""How long it thinks at a time."""


class Twin(Method):
    """See the module."""

    ahead = 1
    on_a_model = (
        "no --evaluator: the chip's model takes the place of a board, which only shows how the twin works;"
        " --method exact solves a model itself"
    )

    def __init__(self, context: Context, config: TwinConfig) -> None:
        self._shape = context.problems[0].space.shape
        self._surrogate = Surrogate(context, config)

    def ask(self) -> Proposals:
        """The next batch; no rows after about a second of thought."""
        self._surrogate.begin()
        self.phase = "thinking"
        if not self._surrogate.advance(time.monotonic() + PAUSE_S):
            return proposals(np.empty((0, *self._shape), np.int16), [])
        self.phase = ""
        return proposals(*self._surrogate.take())

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Count them; the next `ask` looks at the archive."""
        own = START not in proposals.source
        self._surrogate.tell(int(proposals.tickets[-1]) + 1, own)

    def champion(self, problem: int) -> int | None:
        """The ticket whose mapping is probably the fastest; None where measurements are exact."""
        return self._surrogate.champion()

    def metrics(self) -> Mapping[str, float]:
        """The sizes that were learned (see `inference.Scales`), and how many effects differ from the description's."""
        return self._surrogate.metrics()

    def state_dict(self) -> dict[str, Any]:
        """Beliefs, generator and what is open. While it thinks: as it was before, so that it thinks again."""
        return self._surrogate.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._surrogate.load_state_dict(state)


def serves(problem: Problem) -> str | None:
    """Only problems with a family."""
    return None if isinstance(problem, HasFamily) else "the problem has no family of models to learn"


DEFINITION = MethodDefinition(TwinConfig, Twin, serves, {})
"""Learn the board from its measurements: a family of models, what the data say of it, and what to measure next."""


SETTINGS = TwinConfig()
"""The settings of the member."""


class TwinMember(Learner):
    """See the module."""

    name = TWIN
    rounds: RoundShare
    ahead = 1

    def __init__(self, context: Context) -> None:
        self._context, self._shape = context, context.problems[0].space.shape
        self._surrogate = Surrogate(context, SETTINGS)
        self.rounds = RoundShare(TWIN, SETTINGS.first)

    def ask(self) -> Proposals:
        """Its batch; no rows after about a second of computing."""
        self._surrogate.begin()
        self.phase = "thinking"
        if not self._surrogate.advance(time.monotonic() + PAUSE_S):
            return proposals(np.empty((0, *self._shape), np.int16), [])
        self.phase = ""
        mapping, _ = self._surrogate.take()
        in_turn = self.its_turn
        judged = self._surrogate.judged
        sources = self._context.archive.sources(judged.tickets).tolist()
        self.rounds.count(sources, judged.good.tolist())
        if in_turn:  # else it only filled the time in which a round of the others was measured
            self.rounds.charge(len(mapping))
        return proposals(mapping, TWIN)

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Results of its own batch, or the start's."""
        self._surrogate.tell(int(proposals.tickets[-1]) + 1, START not in proposals.source)

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Results of any other batch."""
        self._surrogate.tell(int(proposals.tickets[-1]) + 1, False)

    def champion(self, problem: int) -> int | None:
        """The ticket whose mapping is probably the fastest; None where measurements are exact."""
        return self._surrogate.champion()

    def metrics(self) -> Mapping[str, float]:
        """What the twin has learned, and its share of the rows."""
        return {**self._surrogate.metrics(), "twin_share": self.rounds.share}

    def state_dict(self) -> dict[str, Any]:
        """All of it; while it thinks as it was before."""
        return {"surrogate": self._surrogate.state_dict(), **self.rounds.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._surrogate.load_state_dict(state["surrogate"])
        self.rounds.load_state_dict(state)


NOMINAL_STEPS = 20_000
"""Steps of the local search that solves the description itself."""
SURE = 2e-3
"""Noise below which the champion is simply the best that was measured."""
WITHIN = 4.0
"""Measurements within so many times the noise of the best may be of the fastest mapping."""
PREDICTED = 1600
"""Measured mappings, those of least cost, that are predicted anew with each batch, so that its time has an end."""
LEAST_DATA = 2
VARIANTS = 3
"""The second batch has at least so many."""

METRICS = ("noise", "own", "residual", "discrepancy", "flipped")

Batch = tuple[Mapping16, list[str]]
"""Mappings [B, N, H], and who proposes each."""


@dataclass(frozen=True)
class Conclusion:
    """The conclusions from all results so far.

    Attributes:
        learned: the metrics.
        ticket, log_cost: the mapping that is probably the fastest, and the mean of its log cost; -1: not known.
        told: how many evaluations had been told.
    """

    learned: dict[str, float] = field(default_factory=dict)
    ticket: int = -1
    log_cost: float = np.inf
    told: int = 0


@dataclass
class _Asked:
    """A batch that was asked for: mappings [B, N, H], their sources, and what was thought before.

    `end` is the ticket after its last row, -1 before it is told.
    """

    mapping: Mapping16
    sources: list[str]
    concluded: Conclusion
    end: int = -1


@dataclass(frozen=True)
class Judged:
    """Evaluations that the last thought has judged: tickets int64 [K], and whether each is among the best, bool [K]."""

    tickets: NDArray[np.int64]
    good: NDArray[np.bool_]

    @staticmethod
    def none() -> Judged:
        """No evaluation."""
        return Judged(np.zeros(0, np.int64), np.zeros(0, np.bool_))


class Surrogate:
    """See the module.

    Attributes:
        judged: what the last thought has judged.
    """

    def __init__(self, context: Context, config: TwinConfig) -> None:
        """For the first problem of `context`, which has a family."""
        self._context, self._config, self._problem = context, config, context.problems[0]
        assert isinstance(self._problem, HasFamily)
        self._family = self._problem.family
        space = self._problem.space
        moves = Moves(space.num_choices, space.live, None, space.size_bytes, self._problem.space.pipeline)
        self._proposer = Proposer(self._problem, self._family, config, moves)
        self._rng = context.generator("twin")
        self._concluded = self._known = Conclusion()
        self._batches: list[_Asked] = []
        self._asked = self._told = 0
        self._thinking: Iterator[Batch | None] | None = None
        self._found: Batch | None = None
        self._before: dict[str, Any] = {}
        self._of = -1
        self.judged = Judged.none()

    # ---- thinking

    def begin(self) -> None:
        """Begin to think about all that has been told, unless a thought is under way."""
        if self._thinking is None:
            self.judged = Judged.none()
            self._before = self._beliefs()
            if self._of < 0:
                self._of = self._told
            self._thinking = self._think(self._of)

    def advance(self, until: float) -> bool:
        """Think until that time of `time.monotonic`, or to the end; returns whether it has come to the end."""
        assert self._thinking is not None
        with self._context.model_use.timed():
            while self._found is None:
                self._found = next(self._thinking)
                if time.monotonic() >= until:
                    break
        return self._found is not None

    def take(self) -> Batch:
        """The batch that was thought of; from now on it is asked for."""
        assert self._found is not None
        found, self._found, self._thinking, self._of = self._found, None, None, -1
        self._batches = [b for b in self._batches if b.end < 0 or b.end > self._concluded.told]
        self._batches.append(_Asked(*found, self._concluded))
        self._asked += 1
        return found

    def _think(self, told: int) -> Iterator[Batch | None]:
        """The next batch at the end, None in between."""
        if self._asked == 0:
            yield self._first()
            return
        tickets = self._tickets(told)
        mapping, cost, failed = self._measured(tickets)
        waiting = [batch.mapping for batch in self._batches if batch.end < 0 or batch.end > told]
        if self._asked == 1 or len(cost) < LEAST_DATA:
            yield self._variants(mapping, cost, waiting, self._config.first - len(tickets))
            return
        yield None
        parts = self._profiles(tickets, mapping)
        for _ in self._proposer.learn(mapping, cost, failed, self._context.costs.noise, parts):
            yield None
        likely = mapping[np.sort(np.argsort(cost, kind="stable")[:PREDICTED])]
        self._conclude(likely, tickets, told)
        seen = {row.tobytes() for rows in (mapping, failed, *waiting) for row in rows}
        yield from self._proposer.propose(likely, seen, failed, self._config.batch, self._rng)

    def _first(self) -> Batch:
        """The rules, and what the description likes best; each different mapping once, rules only if new to the run."""
        known = self._problem.baseline.rules()
        start = self._problem.baseline.mapping
        key = int(self._rng.integers(2**63))
        nominal = self._family.improve(
            self._proposer.nominal(), start, steps=NOMINAL_STEPS, hot=2e-3, key=key
        )
        rows = np.stack([*known.values(), nominal])
        measured = {row.tobytes() for row in self._context.rules}
        kept = [k for k in unique_rows(rows).tolist() if rows[k].tobytes() not in measured] or [len(known)]
        names = ["rule"] * len(known) + ["nominal"]
        return rows[kept], [names[k] for k in kept]

    def _variants(self, mapping: Mapping16, cost: Floats, waiting: list[Mapping16], most: int) -> Batch:
        """Changes of what the description likes and of the best so far, until so many are measured."""
        count = max(VARIANTS, most - sum(map(len, waiting)))
        both = waiting[-1][-1:] if waiting else mapping[:1]
        if not len(both):  # nothing has run
            both = self._problem.baseline.mapping[None]
        best = mapping[np.argsort(cost, kind="stable")[:1]] if len(cost) else both
        rows = self._proposer.variants(np.concatenate([both, best]), count, self._rng)
        return rows, ["variant"] * len(rows)

    # ---- what was measured

    def _tickets(self, told: int) -> NDArray[np.int64]:
        """The latest results: half the window, which is kept whatever is measured meanwhile."""
        return np.arange(max(0, told - self._context.archive.window // 2), told)

    def _measured(self, tickets: NDArray[np.int64]) -> tuple[Mapping16, Floats, Mapping16]:
        """Different mappings [M, N, H] that ran, their mean costs [M], and mappings [F, N, H] that did not."""
        archive = self._context.archive
        status, cost = archive.column("status")[tickets], archive.column("cost")[tickets]
        mapping = archive.mappings(tickets)
        ran = (status == Status.OK) & np.isfinite(cost) & (cost > 0)
        rows = mapping[ran]
        if not len(rows):
            return rows, np.zeros(0), mapping[~ran]
        flat = rows.reshape(len(rows), -1)
        _, first, number = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        total = np.bincount(number, np.log(cost[ran])) / np.bincount(number)
        order = np.argsort(first)
        return rows[first[order]], np.exp(total[order]), mapping[~ran]

    def _profiles(self, tickets: NDArray[np.int64], mapping: Mapping16) -> Floats | None:
        """float64 [M, Q], the mean profiles of different mappings [M, N, H]; None if no evaluation has one."""
        if not self._config.profiles:
            return None
        archive, number = self._context.archive, {row.tobytes(): at for at, row in enumerate(mapping)}
        group = np.array([number.get(row.tobytes(), -1) for row in archive.mappings(tickets)], np.int64)
        ran = group >= 0
        return averaged(archive.parts(tickets)[ran], group[ran], len(mapping))

    def _conclude(self, mapping: Mapping16, tickets: NDArray[np.int64], told: int) -> None:
        """From the posterior on the different mappings [M, N, H] of least cost; what was told since gets its credit."""
        posterior, archive = self._proposer.posterior, self._context.archive
        assert posterior is not None
        mean, _ = posterior.predict(mapping)
        top = {mapping[k].tobytes() for k in np.argsort(mean, kind="stable")[:TOP]}
        since = tickets[tickets >= self._concluded.told]
        good = np.array([row.tobytes() in top for row in archive.mappings(since)], np.bool_)
        self.judged = Judged(since, good)
        for batch in self._batches:
            if self._concluded.told < batch.end <= told:
                self._proposer.credit.count(batch.sources, [row.tobytes() in top for row in batch.mapping])

        scales = posterior.scales
        flipped = float(len(posterior.effects ^ self._family.nominal))
        ran = archive.column("status")[tickets] == Status.OK
        cost = np.where(ran, archive.column("cost")[tickets], np.inf)
        near = tickets[cost <= np.nanmin(cost) * (1 + WITHIN * scales.noise)]
        if len(near) > PREDICTED:
            near = near[np.sort(np.argsort(archive.column("cost")[near], kind="stable")[:PREDICTED])]
        likely, _ = posterior.predict(archive.mappings(near))
        at = int(np.argmin(likely))
        learned = {**asdict(scales), "flipped": flipped}
        self._concluded = Conclusion(learned, int(near[at]), float(likely[at]), told)

    def tell(self, end: int, own: bool) -> None:
        """All evaluations before ticket `end` are in the archive; the last batch was one that was taken (`own`)."""
        self._told = end
        if own:
            batch = next(batch for batch in self._batches if batch.end < 0)
            batch.end, self._known = end, batch.concluded

    def champion(self) -> int | None:
        """The ticket whose mapping is probably the fastest; None where measurements are exact.

        What the posterior thinks of all that it has seen; against what was measured since, half the noise is held.
        """
        known, archive = self._known, self._context.archive
        noise = known.learned.get("noise", 0.0)
        if known.ticket < 0 or noise < SURE:
            return None
        since = np.arange(max(known.told, len(archive) - archive.window), len(archive))
        since = since[archive.column("status")[since] == Status.OK]
        cost = np.log(archive.column("cost")[since]) + noise / 2
        if len(since) and cost.min() < known.log_cost:
            return int(since[np.argmin(cost)])
        return known.ticket

    def metrics(self) -> Mapping[str, float]:
        """The sizes that were learned (see `inference.Scales`), and how many effects differ from the description's."""
        return {name: self._known.learned.get(name, np.nan) for name in METRICS}

    # ---- checkpoints

    def _beliefs(self) -> dict[str, Any]:
        """All that a thought changes."""
        return {
            "proposer": self._proposer.state_dict(),
            "rng": self._rng.bit_generator.state,
            "concluded": asdict(self._concluded),
        }

    def state_dict(self) -> dict[str, Any]:
        """Beliefs, generator and what is open. While it thinks: as they were before, so that it thinks again."""
        return {
            **(self._beliefs() if self._thinking is None else self._before),
            "of": self._of,
            "asked": self._asked,
            "told": self._told,
            "batches": [{**vars(batch), "concluded": asdict(batch.concluded)} for batch in self._batches],
            "known": asdict(self._known),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._proposer.load_state_dict(state["proposer"])
        self._rng.bit_generator.state = state["rng"]
        self._of, self._asked, self._told = state["of"], state["asked"], state["told"]
        self._batches = [
            _Asked(**{**batch, "concluded": Conclusion(**batch["concluded"])}) for batch in state["batches"]
        ]
        self._known, self._concluded = Conclusion(**state["known"]), Conclusion(**state["concluded"])
        self._thinking = self._found = None
