"""Several learners over one archive, which share the budget of a run by what they find.

The last one, the *core*, proposes whenever no other has its turn. Each of the others divides the rounds between
itself and those after it by their successes (`egrl.methods.manager`). What one measured the others observe.
A portfolio knows its learners as methods, and nothing else of them.

If a learner computes while the batch before is being measured (`ahead` = 1), one batch of the portfolio is ahead of the
results, so that boards do not wait. The core's next round follows from all results of its round before: meanwhile the
last of the other learners fills in. When a generation ends, the next batch may have been asked for or not, so metrics
and policy are those of the last `tell`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from egrl.core.archive import START, Proposals
from egrl.core.method import Composition, Context, Method
from egrl.methods.learner import Learner
from hwsim.problem import Evaluation

if TYPE_CHECKING:
    from policies.store import StoredPolicy


@dataclass(frozen=True)
class Entrant:
    """A member that may come.

    Attributes:
        name: of the member.
        make: makes it.
        due: whether it has a part in the run, as far as is known; asked until the core has its first round.
    """

    name: str
    make: Callable[[Context], Learner]
    due: Callable[[Context], bool]


class Portfolio(Method):
    """See the module."""

    def __init__(self, context: Context, core: tuple[str, Method], entrants: Sequence[Entrant]) -> None:
        """The core by its name; the entrants in the order of their turns."""
        self._context, self._entrants = context, entrants
        self._name, self._core = core
        self._members: list[Learner | None] = [None] * len(entrants)
        self._begun = False  # the core has had a round, so that nobody enters any more
        self._open: list[str] = []  # who asked for the batches that were not told yet
        self._passed: set[str] = set()  # who had nothing to propose since the last batch
        self._shown: dict[str, float] = {}
        self._policy: StoredPolicy | None = None

    @property
    def _joined(self) -> list[Learner]:
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
        before: list[Learner] = []
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

    def _asked(self, name: str, before: Sequence[Learner], batch: Proposals) -> Proposals:
        """A batch of one member, for which those before it have waited."""
        for member in before:
            if member.rounds is not None:
                member.rounds.credit_others(len(batch))
        if len(batch):
            self._open.append(name)
            self._passed.clear()
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """To all: to who asked as its own, to the others as what they observe."""
        self._join()
        asked = None if START in proposals.source else self._open.pop(0)
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

    def composition(self) -> Composition:
        """The core's, and the learners that have joined or, as far as is known, will."""
        own, joined = self._core.composition(), {learner.name for learner in self._joined}
        due = [
            e.name for e in self._entrants if e.name in joined or (not self._begun and e.due(self._context))
        ]
        return replace(own, kinds={**own.kinds, **{name: name for name in due}})

    def metrics(self) -> Mapping[str, float]:
        """The metrics of all members; the core's are current unless a batch is ahead."""
        return {**self._core.metrics(), **self._shown}

    def policy(self) -> StoredPolicy | None:
        """The core's."""
        return self._core.policy() if self._policy is None else self._policy

    def champion(self, problem: int) -> int | None:
        """That of the first member which names one."""
        named = (method.champion(problem) for method in (*self._joined, self._core))
        return next((ticket for ticket in named if ticket is not None), None)

    def state_dict(self) -> dict[str, Any] | None:
        """The state of all members, and whose batches are open."""
        policy = self._policy
        return {
            "members": {name: method.state_dict() for name, method in self._by_name().items()},
            "begun": self._begun,
            "open": list(self._open),
            "passed": sorted(self._passed),
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
        self._shown = dict(state["shown"])
        self._policy = None
        if state["policy"] is not None:
            from policies.store import StoredPolicy  # it loads torch, which a twin alone does not need

            self._policy = StoredPolicy(**state["policy"])
