"""A population and a learner that take turns with the twin (`egrl.methods.hybrid.twin`), where it serves.

It serves where costs are measured: the simulator is its own family, and there is nothing to learn. A search whose
caller measures says so when it tells the start, so that it is known before the first `ask`. Without the twin this is
the hybrid alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals
from egrl.methods.hybrid.method import Hybrid
from hwsim.family import HasFamily
from hwsim.problem import Evaluation
from policies.store import StoredPolicy

if TYPE_CHECKING:
    from egrl.methods.hybrid.twin import TwinMember


class WithTwin(Method):
    """See the module."""

    def __init__(self, context: Context, hybrid: Hybrid, always: bool) -> None:
        """For the first problem of `context`; `always`: it has a family, wherever costs come from."""
        self._context, self._hybrid, self._always = context, hybrid, always
        self._twin: TwinMember | None = None

    def _settle(self) -> None:
        """Before everybody's first round: let the twin take turns, if it is to."""
        if self._twin is not None or self._hybrid.begun:
            return
        problem = self._context.problems[0]
        # Whether there is a family is asked last: to ask makes one.
        if self._always or (self._context.costs.measured and isinstance(problem, HasFamily)):
            self._twin = self._new_twin()

    def _new_twin(self) -> TwinMember:
        from egrl.methods.hybrid.twin import TwinMember  # it loads what runs without it need not

        return TwinMember(self._context)

    def ask(self) -> Proposals:
        """Everybody's round or, between episodes, the twin's batch, without rows while it thinks."""
        self._settle()
        twin = self._twin
        if twin is None:
            return self._hybrid.ask()
        if twin.its_turn and self._hybrid.between_episodes:
            batch = twin.ask()
            self.phase = "" if len(batch) else "thinking"
            return batch
        batch = self._hybrid.ask()
        twin.wait(len(batch))
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """To both."""
        self._settle()
        self._hybrid.tell(proposals, evaluation)
        if self._twin is not None:
            self._twin.tell(proposals)

    def learn(self) -> bool:
        """Gradient steps that are due, then the twin's thoughts."""
        self._hybrid.learn()
        return self._twin is not None and self._twin.learn()

    def metrics(self) -> Mapping[str, float]:
        """The hybrid's, and the twin's where it takes turns."""
        twin = {} if self._twin is None else self._twin.metrics()
        return {**self._hybrid.metrics(), **twin}

    def policy(self) -> StoredPolicy | None:
        """The hybrid's."""
        return self._hybrid.policy()

    def champion(self, problem: int) -> int | None:
        """The twin's where it takes turns."""
        return None if self._twin is None else self._twin.champion()

    def state_dict(self) -> dict[str, Any]:
        """The hybrid's, and the twin's where it takes turns."""
        twin = {} if self._twin is None else {"twin": self._twin.state_dict()}
        return {**self._hybrid.state_dict(), **twin}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._hybrid.load_state_dict(state)
        self._twin = None
        if "twin" in state:
            self._twin = self._new_twin()
            self._twin.load_state_dict(state["twin"])
