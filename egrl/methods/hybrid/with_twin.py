"""A population and a learner that take turns with the twin (`egrl.methods.twin.member`), if costs are measured.

With modelled costs there is nothing for a twin to learn: the simulator is in the family. If the caller measures, this
is known from the results of the start mapping, before the first `ask`. Without the twin this is the hybrid alone, to
the last bit.

With the twin, one batch is ahead of the results, so that boards do not wait. A round of population and learner follows
from all results of their round before: while one is being measured, the next batch is the twin's. When a generation
ends, the next batch may have been asked for or not, so metrics are those of the last `tell`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals
from egrl.methods.hybrid.method import Hybrid
from hwsim.family import HasFamily
from hwsim.problem import Evaluation
from policies.store import StoredPolicy

if TYPE_CHECKING:
    from egrl.methods.twin.member import TwinMember


class WithTwin(Method):
    """See the module."""

    def __init__(self, context: Context, hybrid: Hybrid, always: bool) -> None:
        """For the first problem of `context`; `always`: it has a family, wherever costs come from."""
        self._context, self._hybrid, self._always = context, hybrid, always
        self._twin: TwinMember | None = None
        self._shown: dict[str, float] = {}
        self._weights: NDArray[np.float32] | None = None

    def begin_twin(self) -> None:
        """Before the first round of all: build the twin, if it is to take turns."""
        if self._twin is not None or self._hybrid.begun:
            return
        problem = self._context.problems[0]
        # Whether there is a family is asked last: to ask makes one.
        if self._always or (self._context.costs.measured and isinstance(problem, HasFamily)):
            self._twin = self._new_twin()

    def _new_twin(self) -> TwinMember:
        from egrl.methods.twin.member import TwinMember  # it loads what runs without it need not

        self.ahead = 1  # before the first batch is out, so that it is one for the whole run
        return TwinMember(self._context)

    def ask(self) -> Proposals:
        """A round of population and learner or, between episodes, the twin's batch; without rows while it computes."""
        self.begin_twin()
        twin = self._twin
        if twin is None:
            return self._hybrid.ask()
        if twin.its_turn or self._hybrid.waits:
            batch = twin.ask()
            self.phase = "" if len(batch) else "thinking"
            return batch
        batch = self._hybrid.ask()
        twin.wait(len(batch))
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """To both."""
        self.begin_twin()
        self._hybrid.tell(proposals, evaluation)
        if self._twin is not None:
            self._twin.tell(proposals)
            self._shown = self._metrics_now(self._twin)
            self._weights = self._hybrid.best_weights()

    def learn(self) -> None:
        """Gradient steps that are due; the twin computes when it is asked, while the batch before is being measured."""
        self._hybrid.learn()

    def metrics(self) -> Mapping[str, float]:
        """The hybrid's, and the twin's where it takes turns."""
        if self._twin is None:
            return self._hybrid.metrics()
        return self._shown or self._metrics_now(self._twin)

    def _metrics_now(self, twin: TwinMember) -> dict[str, float]:
        return {**self._hybrid.metrics(), **twin.metrics()}

    def policy(self) -> StoredPolicy | None:
        """The hybrid's."""
        return self._hybrid.policy() if self._twin is None else self._hybrid.policy_of(self._weights)

    def champion(self, problem: int) -> int | None:
        """The twin's where it takes turns."""
        return None if self._twin is None else self._twin.champion()

    def state_dict(self) -> dict[str, Any]:
        """The hybrid's, and the twin's where it takes turns."""
        if self._twin is None:
            return self._hybrid.state_dict()
        shown = {"shown": self._shown, "weights": self._weights}
        return {**self._hybrid.state_dict(), **shown, "twin": self._twin.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._hybrid.load_state_dict(state)
        self._twin = None
        if "twin" in state:
            self._twin = self._new_twin()
            self._twin.load_state_dict(state["twin"])
            self._shown, self._weights = dict(state["shown"]), state["weights"]
