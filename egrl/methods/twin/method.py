"""The twin: learn from measurements how the board differs from its description, and search the learned model.

Model-based reinforcement learning over the run's archive: the model is the problem's family (`hwsim.family`),
learned by `posterior`; `proposer` chooses what to measure next. First measured are all rules of the compiler and what
the description itself likes best, then changes of those, then batches from the posterior.

Where costs are the family's own (no board) there is nothing to learn, and `exact` or the population are what to use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals, proposals
from egrl.core.registry import MethodDefinition
from egrl.methods.twin.proposer import TOP, Proposer, TwinConfig, unique_rows
from hwsim.capabilities import pipeline_of
from hwsim.family import HasFamily
from hwsim.problem import Evaluation, Floats, Mapping16, Problem, Status
from population.moves import Moves

PAUSE_S = 1.0
NOMINAL_STEPS = 20_000
"""Steps of the local search that solves the description itself."""
SURE = 2e-3
"""Noise below which the champion is simply the best that was measured."""
WITHIN = 4.0
"""Measurements within so many times the noise of the best may be of the fastest mapping."""
LEAST_DATA = 2
VARIANTS = 3
"""The second batch has at least so many."""

METRICS = ("noise", "own", "residual", "discrepancy", "flipped")


@dataclass(frozen=True)
class _Conclusion:
    """What was thought of all that had been told.

    Attributes:
        learned: the metrics.
        ticket, log_cost: the mapping that is probably the fastest, and the mean of its log cost; -1: not known.
        told: how many evaluations had been told.
    """

    learned: dict[str, float] = field(default_factory=dict)
    ticket: int = -1
    log_cost: float = np.inf
    told: int = 0


@dataclass(frozen=True)
class _Asked:
    """A batch that was asked for and has not been told: mappings [B, N, H], and what was thought before."""

    mapping: Mapping16
    concluded: _Conclusion


class Twin(Method):
    """See the module."""

    ahead = 1

    def __init__(self, context: Context, config: TwinConfig) -> None:
        problem = context.problems[0]
        assert isinstance(problem, HasFamily)
        self._context, self._config, self._problem = context, config, context.problems[0]
        self._family = problem.family
        space = self._problem.space
        moves = Moves(space.num_choices, space.live, None, space.size_bytes, pipeline_of(self._problem))
        self._proposer = Proposer(self._problem, self._family, config, moves)
        self._rng = context.generator("twin")
        self._asked = 0
        self._told = 0
        self._open: list[_Asked] = []
        self._thinking: Iterator[tuple[Mapping16, list[str]] | None] | None = None
        self._before: dict[str, Any] = {}
        self._known = _Conclusion()
        self._concluded = _Conclusion()

    # ---- asking

    def ask(self) -> Proposals:
        """The next batch; no rows after about a second of thought."""
        begun = time.monotonic()
        if self._thinking is None:
            self._before = self._state()
            self._thinking, self.phase = self._think(), "thinking"
        with self._context.model_use.timed():
            found = next(found for found in self._thinking if found is not None or self._late(begun))
        if found is not None:
            self._thinking, self.phase = None, ""
            self._asked += 1
            mapping, sources = found
            self._open.append(_Asked(mapping, self._concluded))
            return proposals(mapping, sources)
        return proposals(np.empty((0, *self._problem.space.shape), np.int16), [])

    @staticmethod
    def _late(begun: float) -> bool:
        return time.monotonic() - begun >= PAUSE_S

    def _think(self) -> Iterator[tuple[Mapping16, list[str]] | None]:
        """The next batch at the end, None in between."""
        if self._asked == 0:
            yield self._first()
            return
        mapping, cost, failed = self._measured()
        if self._asked == 1 or len(cost) < LEAST_DATA:
            count = max(
                VARIANTS,
                self._config.first - len(self._tickets()) - sum(len(batch.mapping) for batch in self._open),
            )
            both = self._open[-1].mapping[-1:] if self._open else mapping[:1]
            best = mapping[np.argsort(cost, kind="stable")[:1]] if len(cost) else both
            rows = self._proposer.variants(np.concatenate([both, best]), count, self._rng)
            yield rows, ["variant"] * len(rows)
            return
        yield None
        for _ in self._proposer.learn(mapping, cost):
            yield None
        self._concluded = self._conclude(mapping)
        waiting = [batch.mapping for batch in self._open]
        seen = {row.tobytes() for rows in (mapping, failed, *waiting) for row in rows}
        yield from self._proposer.propose(mapping, seen, failed, self._config.batch, self._rng)

    def _first(self) -> tuple[Mapping16, list[str]]:
        """The rules, and what the description likes best; each different mapping once."""
        known = self._family.first()
        start = self._problem.baseline.mapping
        key = int(self._rng.integers(2**63))
        nominal = self._family.improve(
            self._proposer.nominal(), start, steps=NOMINAL_STEPS, hot=2e-3, key=key
        )
        rows = np.stack([*known.values(), nominal])
        kept = unique_rows(rows)
        names = ["rule"] * len(known) + ["nominal"]
        return rows[kept], [names[k] for k in kept]

    # ---- what was measured

    def _tickets(self) -> NDArray[np.int64]:
        """What was told of this problem lately: half the window, still at hand whatever has been measured since."""
        archive = self._context.archive
        tickets = np.arange(max(0, self._told - archive.window // 2), self._told)
        return self._own(tickets)

    def _own(self, tickets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of this problem."""
        return tickets[self._context.archive.column("problem")[tickets] == self._context.number]

    def _measured(self) -> tuple[Mapping16, Floats, Mapping16]:
        """Different mappings [M, N, H] that ran, their mean costs [M], and mappings [F, N, H] that did not."""
        archive, tickets = self._context.archive, self._tickets()
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

    def _conclude(self, mapping: Mapping16) -> _Conclusion:
        """From the posterior on different mappings [M, N, H]; the batch that was told last gets its credit, too."""
        posterior, archive = self._proposer.posterior, self._context.archive
        assert posterior is not None
        mean, _ = posterior.predict(mapping)
        last = self._tickets()[-self._config.batch :]
        top = {mapping[k].tobytes() for k in np.argsort(mean, kind="stable")[:TOP]}
        good = [row.tobytes() in top for row in archive.mappings(last)]
        self._proposer.credit.count(archive.column("source")[last].tolist(), good)

        scales = posterior.scales
        flipped = float(len(posterior.effects ^ self._family.nominal))
        tickets = self._tickets()
        cost = np.where(
            archive.column("status")[tickets] == Status.OK, archive.column("cost")[tickets], np.inf
        )
        near = tickets[cost <= np.nanmin(cost) * (1 + WITHIN * scales.noise)]
        likely, _ = posterior.predict(archive.mappings(near))
        at = int(np.argmin(likely))
        learned = {**asdict(scales), "flipped": flipped}
        return _Conclusion(learned, int(near[at]), float(likely[at]), self._told)

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Count them; the next `ask` looks at the archive."""
        self._told = int(proposals.tickets[-1]) + 1
        if self._open:
            self._known = self._open.pop(0).concluded

    def champion(self, problem: int) -> int | None:
        """The ticket whose mapping is probably the fastest; None where measurements are exact.

        What the posterior thinks of all that it has seen; against what was measured since, half the noise is held.
        """
        known, archive = self._known, self._context.archive
        noise = known.learned.get("noise", 0.0)
        if known.ticket < 0 or noise < SURE:
            return None
        since = self._own(np.arange(max(known.told, len(archive) - archive.window), len(archive)))
        since = since[archive.column("status")[since] == Status.OK]
        cost = np.log(archive.column("cost")[since]) + noise / 2
        if len(since) and cost.min() < known.log_cost:
            return int(since[np.argmin(cost)])
        return known.ticket

    def metrics(self) -> Mapping[str, float]:
        """The sizes that were learned (see `inference.Scales`), and how many effects differ from the description's."""
        return {name: self._known.learned.get(name, np.nan) for name in METRICS}

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Beliefs, generator and what is open. While it thinks: as it was before, so that it thinks again."""
        return self._before if self._thinking is not None else self._state()

    def _state(self) -> dict[str, Any]:
        return {
            "proposer": self._proposer.state_dict(),
            "rng": self._rng.bit_generator.state,
            "asked": self._asked,
            "told": self._told,
            "open": [{"mapping": batch.mapping, **asdict(batch.concluded)} for batch in self._open],
            "known": asdict(self._known),
            "concluded": asdict(self._concluded),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._proposer.load_state_dict(state["proposer"])
        self._rng.bit_generator.state = state["rng"]
        self._asked, self._told = state["asked"], state["told"]
        self._open = [
            _Asked(batch["mapping"], _Conclusion(**{k: v for k, v in batch.items() if k != "mapping"}))
            for batch in state["open"]
        ]
        self._known, self._concluded = _Conclusion(**state["known"]), _Conclusion(**state["concluded"])
        self._thinking = None


def serves(problem: Problem) -> str | None:
    """Only problems with a family."""
    return None if isinstance(problem, HasFamily) else "the problem has no family of models to learn"


DEFINITION = MethodDefinition(TwinConfig, Twin, serves, {})
