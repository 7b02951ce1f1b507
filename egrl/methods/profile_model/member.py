"""The profile model as a member beside population and learner: it learns what every part takes from all profiles.

A round is either one of population and learner, or a batch of the profile model's alone; `RoundShare` divides the
rounds. Its mappings that ran join the population and the replay buffer. While its batches find nothing better, it
pauses for longer and longer, since searching its model takes more time than a round of population and learner; longest
where costs are exact.

If a model gives the costs, it has the first round: the rules that the problem knows and random mappings, so that the
first profiles differ. On a board it begins once profiles have come.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context
from egrl.methods.learner import Learner
from egrl.methods.manager import PROFILE_MODEL, RoundShare
from egrl.methods.placed import placed_by_rules
from egrl.methods.profile_model.accesses import learnable, readable
from egrl.methods.profile_model.contract import Belief, ProfileModel, ProfileModelConfig
from egrl.methods.profile_model.data import Measured
from hwsim.capabilities import HasParts
from hwsim.keys import SAMPLE
from hwsim.mappings import repair, sample_uniformly
from hwsim.problem import Evaluation, Floats, Mapping16, Problem, Status

PAUSE_S = 1.0
"""How long it thinks at a time."""
FIRST = 48
"""Rows that the profile model proposes first: a model that is learned early gives all members a better start."""
TOP = 5
"""A mapping that is among so many of the best counts as a success of its source."""
GAIN = 2e-4
"""A batch that lowers the log cost by less lets the profile model rest for ..."""
REST, LONGER = (8, 1024), 1.25
"""... so many evaluations, by this factor more each time, up to the second number."""
PATIENCE = 32
"""Where costs are exact and it rests so long, after some seven thoughts without a gain, the factor is the model's own
`longer`, and thoughts are `BRIEF`. With noise each measurement, also of a known mapping, changes what is believed of
all, so that the next thought is another one."""
BRIEF = 2
"""Searches of a brief thought, at most."""
FIRST_KEYS = 1 << 39
"""The first of the keys of its random mappings: the population draws with those from 0 on."""
REPEATS, ENOUGH = 3, 4
"""The mapping that is probably the best is measured so often, where measurements have noise, beside batches of at
least so many."""

Thought = tuple[Mapping16, Floats, Belief]


def profile_model_of(problem: Problem, config: ProfileModelConfig) -> ProfileModel | None:
    """The profile model of op times or of terms, whichever the problem's parts are; None if it is not `learnable`."""
    if not learnable(problem):
        return None
    if readable(problem):
        from egrl.methods.profile_model.op_times import OpTimesModel

        return OpTimesModel(problem, config)
    from egrl.methods.profile_model.terms import TermsModel

    assert isinstance(problem, HasParts)
    assert problem.parts.terms is not None
    return TermsModel(problem.parts, problem.parts.terms, len(problem.space.nodes), config)


class ProfileModelMember(Learner):
    """See the module."""

    name = PROFILE_MODEL
    rounds: RoundShare

    def __init__(self, context: Context, model: ProfileModel, first: int) -> None:
        """So many random mappings are measured at first, more if rules are few."""
        self._context, self._problem = context, context.problems[0]
        self._model, self._random = model, first
        self._rng = context.generator("critic of parts")  # its name before: another one gives other results
        self.rounds = RoundShare(PROFILE_MODEL, FIRST)
        self._begun = False
        self._told = self._judged = 0
        self._rest, self._until = REST[0], 0
        self._best, self._exact = np.inf, False
        self._belief: Belief | None = None
        self._champion: tuple[int, int | None] = (0, None)
        self._thinking: Generator[None, None, Thought] | None = None
        self._measured: Measured | None = None
        self._before: dict[str, Any] = {}

    @property
    def its_turn(self) -> bool:
        """True if it has begun to think, or is to: it knows enough, does not rest, and it is its turn."""
        if self._thinking is not None:
            return True
        if not self._begun and not self._context.costs.measured:
            return True
        return self.rounds.is_due and self._told >= self._until and self._profiles() >= self._model.least

    def _profiles(self) -> int:
        """Profiles among the latest evaluations, no more than are needed to begin."""
        tickets = self._tickets()[-4 * self._model.least :]
        archive = self._context.archive
        ran = (archive.column("status")[tickets] == Status.OK) & (archive.column("cost")[tickets] > 0)
        tickets = tickets[ran]
        return int(np.isfinite(archive.parts(tickets)).any(axis=1).sum())

    def ask(self) -> Proposals:
        """Its batch; no rows after about a second of thought, or if it has nothing to propose."""
        if not self._begun and not self._context.costs.measured:
            self._begun = True
            return proposals(self._first(), PROFILE_MODEL)
        self._begun, self.phase = True, "thinking"
        if self._thinking is None:
            self._before = self._beliefs()
            self._thinking = self._think()
        until = time.monotonic() + PAUSE_S
        try:
            next(self._thinking)
            while time.monotonic() < until:
                next(self._thinking)
        except StopIteration as end:
            self._thinking, self.phase = None, ""
            return proposals(self._conclude(*end.value), PROFILE_MODEL)
        return proposals(np.empty((0, *self._problem.space.shape), np.int16), [])

    def _first(self) -> Mapping16:
        """The rules that the problem knows, unless the start is cold, and others that differ from them; each once.

        The others are what the shipped rankings place, and random mappings where these are too few. Rules that a run
        measures anyhow are left out.
        """
        problem, warm = self._problem, self._context.start[0] is not None
        rules = list(problem.baseline.rules().values()) if warm else []
        known = {row.tobytes(): row for row in rules}
        others = max(self._random, self._model.least - len(known))
        wanted = len(known) + others
        keys = self._context.keys(SAMPLE, FIRST_KEYS, others)
        random = repair(self._problem, sample_uniformly(self._problem, keys), keys)
        for row in (*placed_by_rules(problem), *random):
            if len(known) < wanted:
                known.setdefault(row.tobytes(), row)
        measured = {row.tobytes() for row in self._context.rules}
        new = [row for row in known.values() if row.tobytes() not in measured]
        return np.array(new, np.int16).reshape(-1, *problem.space.shape)

    def _tickets(self) -> NDArray[np.int64]:
        """The latest results: half the window, which is kept whatever is measured meanwhile."""
        return np.arange(max(0, self._told - self._context.archive.window // 2), self._told)

    def _gathered(self) -> Measured:
        return self._model.gather(self._context.archive, self._tickets())

    def _think(self) -> Generator[None, None, Thought]:
        self._measured = self._gathered()
        seen = {row.tobytes() for row in self._measured.mapping}
        most = BRIEF if self._stands_still(self._measured) else None
        return (yield from self._model.think(self._measured, seen, self._rng, most))

    def _stands_still(self, measured: Measured) -> bool:
        """True if thoughts have gained nothing for long, and the next ones will hardly differ."""
        return measured.exact and self._rest >= PATIENCE and self._model.longer > LONGER

    def _conclude(self, batch: Mapping16, estimate: Floats, belief: Belief) -> Mapping16:
        """What to measure; the sources of the best mappings get the credit."""
        measured = self._measured
        assert measured is not None
        best, self._belief, self._exact = int(np.argmin(estimate)), belief, measured.exact
        top = set(measured.ticket[np.argsort(estimate, kind="stable")[:TOP]].tolist())
        since = self._tickets()
        since = since[since >= self._judged]
        self.rounds.count(
            self._context.archive.sources(since).tolist(), [ticket in top for ticket in since.tolist()]
        )
        improved = float(estimate[best]) < self._best - GAIN
        self._best = min(self._best, float(estimate[best]))
        if improved or self._told < FIRST:
            self._rest = REST[0]
        else:
            longer = self._model.longer if self._stands_still(measured) else LONGER
            self._rest = min(int(longer * self._rest), REST[1])
            self._until = self._told + self._rest
        self._judged = self._told
        if len(batch) >= ENOUGH and not measured.exact and measured.count[best] < REPEATS:
            batch = np.concatenate([measured.mapping[best][None], batch])
        self.rounds.charge(len(batch))
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Count the results; the next thought looks at the archive."""
        self._told = int(proposals.tickets[-1]) + 1

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Others' results teach it just as much."""
        self.tell(proposals, evaluation)

    def champion(self, problem: int) -> int | None:
        """The ticket whose mapping is probably the fastest; None if measurements are exact, or nothing is learned.

        What was measured since the last thought counts, too, by what was believed then.
        """
        if self._belief is None or self._exact:
            return None
        if self._champion[0] != self._told:
            measured = self._gathered()
            found: int | None = None
            if not measured.exact:
                found = int(measured.ticket[np.argmin(self._model.estimate(self._belief, measured))])
            self._champion = (self._told, found)
        return self._champion[1]

    def metrics(self) -> Mapping[str, float]:
        """The noise that was learned, and its share of the rows."""
        return {**self._model.metrics(), "profile_model_share": self.rounds.share}

    def _beliefs(self) -> dict[str, Any]:
        """All that a thought changes."""
        return {"model": self._model.state_dict(), "rng": self._rng.bit_generator.state}

    def state_dict(self) -> dict[str, Any]:
        """All of it; while it thinks as it was before, so that it thinks again."""
        return {
            **(self._beliefs() if self._thinking is None else self._before),
            **self.rounds.state_dict(),
            "begun": self._begun,
            "told": self._told,
            "judged": self._judged,
            "rest": [self._rest, self._until],
            "best": self._best,
            "exact": self._exact,
            **({} if self._belief is None else {"belief": self._belief.state_dict()}),
            "open": self._thinking is not None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._model.load_state_dict(state["model"])
        self._rng.bit_generator.state = state["rng"]
        self.rounds.load_state_dict(state)
        self._begun, self._told, self._judged = state["begun"], state["told"], state["judged"]
        self._rest, self._until = state["rest"]
        self._best, self._exact, self._champion = state["best"], state.get("exact", False), (0, None)
        self._belief = self._model.belief_of(state["belief"]) if "belief" in state else None
        self._thinking = self._measured = None
        if state["open"]:
            self._before = self._beliefs()
            self._thinking = self._think()
