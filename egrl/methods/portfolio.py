"""Several methods over one archive, which share the budget of a run by what they find.

The last member, the *core*, proposes whenever no other has its turn. Each of the others divides the rounds between
itself and those after it by their successes: `Credit` counts, `RoundShare` divides, `Member` is such a member. What one
member measured the others observe.
A portfolio knows its members as methods, and nothing else of them.

If a member computes while the batch before is being measured (`ahead` = 1), one batch of the portfolio is ahead of the
results, so that boards do not wait. The core's next round follows from all results of its round before: meanwhile the
last of the other members fills in. When a generation ends, the next batch may have been asked for or not, so metrics
and policy are those of the last `tell`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from egrl.core.archive import START, Proposals
from egrl.core.method import Context, Method
from hwsim.problem import Evaluation, Floats

if TYPE_CHECKING:
    from policies.store import StoredPolicy


FADE = 0.9
"""Factor on earlier successes and tries at each batch."""
LEAST_SHARE = 0.1
"""What each source gets beside its share of the success rates, which add up to 1."""

TWIN, PROFILE_MODEL = "twin", "profile_model"
"""The sources of batches that are the twin's or the profile model's alone."""
REST = "rest"
OTHERS = ("network", "boltzmann", "learner", TWIN, PROFILE_MODEL)
"""Sources that count for the rest, except the member's own."""


@dataclass
class Credit:
    """Successes and tries of K sources, float64 [K], in which earlier batches count less (`FADE`)."""

    sources: tuple[str, ...]
    success: Floats
    tries: Floats

    @staticmethod
    def fresh(sources: tuple[str, ...]) -> Credit:
        """Before anything was tried."""
        return Credit(sources, np.ones(len(sources)), np.full(len(sources), 2.0))

    def shares(self) -> Floats:
        """float64 [K], sum 1."""
        rate = self.success / self.tries
        share = LEAST_SHARE + rate / rate.sum()
        return np.asarray(share / share.sum())

    def count(self, sources: Sequence[str], success: Sequence[bool]) -> None:
        """Count the rows of a batch: the source of each, and whether it was a success."""
        self.success, self.tries = self.success * FADE, self.tries * FADE
        for source, good in zip(sources, success, strict=True):
            if source in self.sources:
                self.tries[self.sources.index(source)] += 1
                self.success[self.sources.index(source)] += good


class RoundShare:
    """Divides the rounds between one member of a portfolio and the rest by their successes.

    A mapping among the best of all is a success of its source. Each side has a least share: it is tried again and
    again, and a side that finds nothing costs little. The member begins.
    """

    def __init__(self, source: str, first: int) -> None:
        """`source` of the member's mappings; the first `first` rows are its own."""
        self._source = source
        self._credit = Credit.fresh((source, REST))
        self._due = -float(first)

    @property
    def own(self) -> bool:
        """True if the next round is the member's: no rows are due to the rest."""
        return self._due <= 0

    @property
    def share(self) -> float:
        """The member's share of the rows."""
        return float(self._credit.shares()[0])

    def asked(self, rows: int) -> None:
        """The member has proposed so many rows in a round of its own."""
        self._due += rows * float(self._credit.shares()[1])

    def waited(self, rows: int) -> None:
        """The rest have proposed so many rows."""
        self.asked(rows)
        self._due -= rows

    def count(self, sources: Sequence[str], good: Sequence[bool]) -> None:
        """Rows of these sources turned out to be among the best of all, or not."""
        kinds = [source if source == self._source else REST if source in OTHERS else "" for source in sources]
        self._credit.count(kinds, good)

    def state_dict(self) -> dict[str, Any]:
        """Successes, tries, and the rows that are due to the rest."""
        return {"success": self._credit.success, "tries": self._credit.tries, "due": self._due}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; other entries are left alone."""
        self._credit = Credit(self._credit.sources, state["success"], state["tries"])
        self._due = state["due"]


class Member(Method):
    """A method that takes turns with those after it in a portfolio.

    An empty batch says in `phase` that it thinks, or that it has nothing to propose now.

    Attributes:
        name: of the member, and of what it proposes.
        rounds: how the rounds are divided between it and those after it.
    """

    name: str
    rounds: RoundShare

    @property
    def its_turn(self) -> bool:
        """True if the next round is its own."""
        return self.rounds.own


@dataclass(frozen=True)
class Entrant:
    """A member that may come.

    Attributes:
        name: of the member.
        make: makes it.
        due: whether it has a part in the run, as far as is known; asked until the core has its first round.
    """

    name: str
    make: Callable[[Context], Member]
    due: Callable[[Context], bool]


class Portfolio(Method):
    """See the module."""

    def __init__(self, context: Context, core: tuple[str, Method], entrants: Sequence[Entrant]) -> None:
        """The core by its name; the entrants in the order of their turns."""
        self._context, self._entrants = context, entrants
        self._name, self._core = core
        self._members: list[Member | None] = [None] * len(entrants)
        self._begun = False  # the core has had a round, so that nobody enters any more
        self._open: list[str] = []  # who asked for the batches that were not told yet
        self._passed: set[str] = set()  # who had nothing to propose since the last batch
        self._measured: dict[str, int] = {}  # evaluations of each member
        self._shown: dict[str, float] = {}
        self._policy: StoredPolicy | None = None

    @property
    def _joined(self) -> list[Member]:
        return [member for member in self._members if member is not None]

    def _join(self) -> None:
        """Let those enter who have a part in the run, as far as is known."""
        if self._begun:
            return
        for place, entrant in enumerate(self._entrants):
            if self._members[place] is None and entrant.due(self._context):
                self._members[place] = member = entrant.make(self._context)
                self.ahead = max(self.ahead, member.ahead)
                self._shown |= member.metrics()

    def ask(self) -> Proposals | None:
        """A batch of the first member whose turn it is; without rows while it thinks."""
        self._join()
        before: list[Member] = []
        waits = self._name in self._open
        for member in self._joined:
            fills_in = waits and member is self._joined[-1]
            if fills_in or (member.its_turn and member.name not in self._passed):
                batch = member.ask()
                self.phase = member.phase
                assert batch is not None
                if len(batch) or member.phase or fills_in:
                    return self._asked(member.name, before, batch)
                # Not asked again until a batch is out: how often the others are asked for it depends on time.
                self._passed.add(member.name)
            before.append(member)
        own = self._core.ask()
        self._begun, self.phase = True, self._core.phase
        return None if own is None else self._asked(self._name, before, own)

    def _asked(self, name: str, before: Sequence[Member], batch: Proposals) -> Proposals:
        """A batch of one member, for which those before it have waited."""
        for member in before:
            member.rounds.waited(len(batch))
        if len(batch):
            self._open.append(name)
            self._passed.clear()
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """To all: to who asked as its own, to the others as what they observe."""
        self._join()
        asked = None if START in proposals.source else self._open.pop(0)
        if asked is not None:
            self._measured[asked] = self._measured.get(asked, 0) + len(proposals)
        for name, member in self._by_name().items():
            take = member.tell if asked in (None, name) else member.observe
            take(proposals, evaluation)
        if self.ahead:
            self._shown, self._policy = dict(self._core.metrics()), self._core.policy()
        for member in reversed(self._joined):
            self._shown |= member.metrics()

    def _by_name(self) -> dict[str, Method]:
        """The core first, then the others, last ones first."""
        return {self._name: self._core, **{member.name: member for member in reversed(self._joined)}}

    def learn(self) -> bool | None:
        """Everybody learns what is due."""
        more = [method.learn() for method in self._by_name().values()]
        return any(more)

    def shares(self) -> Mapping[str, float]:
        """Share of the evaluations that were told, by name, the core last; nothing if the core is alone."""
        others, total = [member.name for member in self._joined], sum(self._measured.values())
        if not others or not total:
            return {}
        return {name: self._measured.get(name, 0) / total for name in (*others, self._name)}

    def metrics(self) -> Mapping[str, float]:
        """Of all; of the core as of now, unless a batch is ahead."""
        return {**self._core.metrics(), **self._shown}

    def policy(self) -> StoredPolicy | None:
        """The core's."""
        return self._core.policy() if self._policy is None else self._policy

    def champion(self, problem: int) -> int | None:
        """That of the first member which names one."""
        named = (method.champion(problem) for method in (*self._joined, self._core))
        return next((ticket for ticket in named if ticket is not None), None)

    def state_dict(self) -> dict[str, Any] | None:
        """Of all, and whose batches are open."""
        policy = self._policy
        return {
            "members": {name: method.state_dict() for name, method in self._by_name().items()},
            "begun": self._begun,
            "open": list(self._open),
            "passed": sorted(self._passed),
            "measured": self._measured,
            "shown": self._shown,
            "policy": None
            if policy is None
            else {"weights": dict(policy.weights), "metadata": dict(policy.metadata)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._members = [
            entrant.make(self._context) if entrant.name in state["members"] else None
            for entrant in self._entrants
        ]
        self.ahead = max([0, *(member.ahead for member in self._joined)])
        for name, method in self._by_name().items():
            method.load_state_dict(state["members"][name])
        self._begun, self._open, self._passed = state["begun"], list(state["open"]), set(state["passed"])
        self._shown, self._measured = dict(state["shown"]), dict(state["measured"])
        self._policy = None
        if state["policy"] is not None:
            from policies.store import StoredPolicy  # it loads torch, which a twin alone does not need

            self._policy = StoredPolicy(**state["policy"])
