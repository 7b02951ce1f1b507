"""Several problems for a method that is made for one: one instance per problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals
from hwsim.problem import Evaluation


class Several(Method):
    """One instance per problem. The next batch comes from the instance with the fewest evaluations so far; from
    the first, if several are equal.

    The metrics are those of the first problem's instance. There is no policy: each instance has one of its own.
    """

    def __init__(self, context: Context, build: Callable[[Context], Method]) -> None:
        """`build` makes a method for the context of one problem."""
        count = len(context.problems)
        self._parts = [build(context.part(number)) for number in range(count)]
        self._asked = [0] * count
        self._over = [False] * count
        self.ahead = min(part.ahead for part in self._parts)

    def ask(self) -> Proposals | None:
        """The next batch; an instance that has nothing more to propose is skipped."""
        while not all(self._over):
            number = min(
                (k for k, over in enumerate(self._over) if not over), key=lambda k: (self._asked[k], k)
            )
            batch = self._parts[number].ask()
            if batch is not None:
                self._asked[number] += len(batch)
                return replace(batch, problem=number)
            self._over[number] = True
        return None

    def learn(self) -> None:
        """Every instance learns what is due."""
        for part in self._parts:
            part.learn()

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Tell the instance that asked."""
        self._parts[proposals.problem].tell(replace(proposals, problem=0), evaluation)

    def metrics(self) -> Mapping[str, float]:
        """Those of the first problem's instance."""
        return self._parts[0].metrics()

    def champion(self, problem: int) -> int | None:
        """What the problem's instance says."""
        return self._parts[problem].champion(0)

    def state_dict(self) -> dict[str, Any] | None:
        """The states of the instances; None where one has none."""
        states = [part.state_dict() for part in self._parts]
        if any(state is None for state in states):
            return None
        return {"parts": states, "asked": self._asked, "over": self._over}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        for part, saved in zip(self._parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self._asked, self._over = list(state["asked"]), list(state["over"])
