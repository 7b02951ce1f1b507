"""A population and a learner, with or without the twin, that take turns with the profile model.

Without profiles this is the method inside alone, to the last bit. So is a run that began before there was a critic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals
from egrl.methods.hybrid.method import Hybrid
from egrl.methods.hybrid.with_twin import WithTwin
from egrl.methods.profile_model.choice import ProfileModel
from egrl.methods.profile_model.member import ProfileModelMember
from hwsim.problem import Evaluation
from policies.store import StoredPolicy


class WithCritic(Method):
    """See the module."""

    def __init__(self, context: Context, inner: Hybrid | WithTwin, model: ProfileModel, first: int) -> None:
        self._inner = inner
        self._critic = ProfileModelMember(context, model, first)
        self._shown = dict(self._critic.metrics())
        self._silent = False
        self._passed = False

    def ask(self) -> Proposals:
        """The critic's batch in its turn, without rows while it thinks; else that of the method inside."""
        if isinstance(self._inner, WithTwin):
            self._inner.begin_twin()
            self.ahead = self._inner.ahead
        if not self._silent and not self._passed and self._critic.its_turn:
            batch = self._critic.ask()
            thinking = self._critic.thinking
            self.phase = "thinking" if thinking else ""
            if len(batch) or thinking:
                return batch
            # Not asked again until another's batch is out: how often the other is asked for it depends on time.
            self._passed = True
        batch = self._inner.ask()
        self._passed = self._passed and not len(batch)
        self.phase, self.ahead = self._inner.phase, self._inner.ahead
        self._critic.wait(len(batch))
        return batch

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """To both."""
        self._inner.tell(proposals, evaluation)
        self.ahead = self._inner.ahead
        self._critic.tell(proposals)
        if not self._silent:
            self._shown = dict(self._critic.metrics())

    def learn(self) -> None:
        """Gradient steps that are due."""
        self._inner.learn()

    def metrics(self) -> Mapping[str, float]:
        """Of both; of the critic as it was when results were told last, whatever it has thought since."""
        return {**self._inner.metrics(), **self._shown}

    def policy(self) -> StoredPolicy | None:
        """That of the method inside."""
        return self._inner.policy()

    def champion(self, problem: int) -> int | None:
        """The critic's, if measurements have noise and it has learned; else that of the method inside."""
        found = self._critic.champion()
        return self._inner.champion(problem) if found is None else found

    def state_dict(self) -> dict[str, Any]:
        """Of both."""
        if self._silent:
            return self._inner.state_dict()
        own = {
            "profile_model": self._critic.state_dict(),
            "critic_shown": self._shown,
            "critic_passed": self._passed,
        }
        return {**self._inner.state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._inner.load_state_dict(state)
        self.ahead = self._inner.ahead
        self._silent = "profile_model" not in state
        if self._silent:
            self._shown = {}
            return
        self._critic.load_state_dict(state["profile_model"])
        self._shown, self._passed = dict(state["critic_shown"]), bool(state["critic_passed"])
