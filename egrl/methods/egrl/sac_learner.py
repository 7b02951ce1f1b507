"""The learner of a method: SAC on what an archive holds, and the mappings that it proposes itself.

Source: EGRL, Algorithm 2 lines 5 and 21 to 31, Table 2.

Deviations: a rollout perturbs the log-probabilities with N(0, rollout_noise^2) and draws from the result; the paper
says only that Gaussian noise is added in action space. Failed measurements never enter the replay buffer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context
from egrl.methods import policy_fit
from egrl.methods.egrl.config import LearnerConfig
from egrl.methods.egrl.parts import finite
from egrl.methods.egrl.replay import Replay
from egrl.methods.egrl.sac import Sac, Task, Transitions
from egrl.methods.learner import Learner
from egrl.methods.manager import SAC
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Status
from policies.graph import prepare
from policies.network import NetworkConfig
from policies.roles import NODES
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights
from population.population import Migrant
from workloads.errors import Notice

ROUNDING = 1e-9
UNTOLD = 256
"""Room in the archive's window for rows that are measured and not yet told."""


METRICS = ("critic_loss", "actor_loss", "entropy", "q")
KEYS = 1 << 40
"""The first of the keys with which it draws: the population draws with those from 0 on."""


class SacLearner(Learner):
    """Records evaluations; gradient steps become due with them, and `learn` makes these. `rng` gives every draw."""

    name = SAC

    def __init__(
        self,
        config: LearnerConfig,
        network: NetworkConfig,
        context: Context,
        rng: np.random.Generator,
        init: Weights | None,
    ) -> None:
        """For the first problem of `context`; the actor begins with weights `init` float32 [P], if given."""
        self.config, self._context, self._rng, self._network = config, context, rng, network
        problem = context.problems[0]
        observation = policy_fit.observation(problem)
        x = observation.x
        graph = prepare(observation.edge_index, len(x))
        task = Task(graph, x, problem.space.num_choices, problem.space.live)
        self._choices = problem.space.most_choices
        self._sac = Sac(network, config.critic, config.sac, task, rng, device=context.device)
        if init is not None:
            self._sac.load_actor_weights(init)
        self._replay = Replay(min(config.replay, context.archive.window))
        self._due_steps = 0.0
        self._an_evaluation = config.gradient_steps * min(1.0, config.nodes / len(x))
        if len(x) > NODES and self._an_evaluation:
            steps = f"{self._an_evaluation:.2g} gradient steps an evaluation, not {config.gradient_steps:g}"
            warnings.warn(
                Notice(f"a large graph: the learner makes {steps} (method.learner.nodes)"), stacklevel=2
            )
        self._told = self._proposed = 0
        self._metrics: dict[str, float] = {}

    def migrant(self) -> Migrant | None:
        """A copy of the actor, which has learned since it last proposed."""
        return Migrant(self._sac.actor_weights()) if self.config.migration else None

    def policy(self) -> StoredPolicy:
        """The actor."""
        problem, seed = self._context.problems[0], self._context.seed
        return actor_policy(
            self._sac.actor_weights(), self._network, seed=seed, **policy_fit.demands(problem)
        )

    def ask(self) -> Proposals:
        """Mappings drawn from noisy probabilities of the actor."""
        count = self.config.rollouts
        keys = self._context.keys(SAMPLE, KEYS + self._proposed, count)
        self._proposed += count
        clean = self._sac.probabilities()
        noise = self._rng.standard_normal((count, *clean.shape), dtype=np.float32)
        noisy = clean * np.exp(np.float32(self.config.rollout_noise) * noise)
        noisy = np.asarray(noisy / np.maximum(noisy.sum(axis=-1, keepdims=True), np.float32(1e-30)))
        return proposals(sample(self._context.problems[0], finite(noisy), keys), SAC)

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Line 7: what ran enters the replay buffer; line 21: gradient steps become due."""
        tickets = proposals.tickets
        self._told = int(tickets.max()) + 1
        self._replay.add(tickets[evaluation.usable & self._learns_from(tickets)])
        self._due_steps += len(tickets) * self._an_evaluation

    def _learns_from(self, tickets: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Whether each evaluation may be learned from, bool [B]."""
        sources = self._context.archive.sources(tickets)
        return np.ones(len(sources), np.bool_) if self.config.shared else sources == SAC

    def learn(self) -> None:
        """Make the steps that are due."""
        if not len(self._replay):
            self._due_steps = 0.0
            return
        totals = dict.fromkeys(METRICS, 0.0)
        # Due steps are sums of fractions: 0.25 four times is one step, whatever rounding made of it.
        steps = math.floor(self._due_steps + ROUNDING)
        self._due_steps = max(0.0, self._due_steps - steps)
        done, elite = 0, self._elite() if steps else None
        for _ in range(steps):
            batch = self._transitions(self._sac.config.batch, elite)
            if batch is None:
                continue
            done += 1
            for name, value in self._sac.update(batch, self._rng).items():
                if name in totals:
                    totals[name] += value
        if done:
            self._metrics = {name: total / done for name, total in totals.items()}

    def metrics(self) -> Mapping[str, float]:
        """Means over the last steps."""
        return {name: self._metrics.get(name, np.nan) for name in METRICS}

    def _oldest(self) -> int:
        """The first ticket that it may look at.

        What the archive holds beyond what was told depends on how long measuring takes; what is learned must not.
        """
        archive = self._context.archive
        return max(len(archive), self._told + UNTOLD) - archive.window

    def _elite(self) -> NDArray[np.float32] | None:
        """Float32 [N, H, C], each choice's share among the best mappings of the archive, of equal rewards the first."""
        if self.config.sac.imitation == 0:
            return None
        archive = self._context.archive
        seen = slice(max(0, self._oldest()), self._told)
        first, reward = seen.start, archive.column("reward")[seen]
        usable = (archive.column("status")[seen] <= Status.INVALID) & np.isfinite(reward)
        usable &= self._learns_from(seen)
        distinct, at = np.unique(np.where(usable, -reward, np.inf), return_index=True)
        best = first + at[np.isfinite(distinct)][: self.config.elites]
        if not len(best):
            return None
        chosen = archive.mappings(np.sort(best))[..., None] == np.arange(self._choices)
        return np.asarray(chosen.mean(axis=0), dtype=np.float32)

    def _transitions(self, batch: int, elite: NDArray[np.float32] | None) -> Transitions | None:
        """A random minibatch of the replay buffer, less what the archive has let go; None where nothing is left."""
        archive = self._context.archive
        tickets = self._replay.sample(self._rng, batch)
        tickets = tickets[tickets >= self._oldest()]
        if not len(tickets):
            return None
        reward = archive.column("reward")[tickets].astype(np.float32)
        return Transitions(archive.mappings(tickets), reward, elite)

    def state_dict(self) -> dict[str, Any]:
        """Networks, replay, due steps, and how many results there were."""
        return {
            "sac": self._sac.state_dict(),
            "replay": self._replay.state_dict(),
            "due_steps": self._due_steps,
            "told": self._told,
            "proposed": self._proposed,
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._sac.load_state_dict(state["sac"])
        self._replay.load_state_dict(state["replay"])
        self._due_steps, self._told = float(state["due_steps"]), int(state["told"])
        self._proposed, self._metrics = int(state["proposed"]), dict(state["metrics"])
