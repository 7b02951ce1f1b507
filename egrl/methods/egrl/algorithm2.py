"""EGRL, Algorithm 2: a mixed population and a policy-gradient learner over one archive, or either of them alone.

Source: Khadka et al., "Optimizing memory placement using evolutionary graph reinforcement learning", Algorithm 2,
section 3 and appendices C to E.

    line 1         the mixed population                    `first_population`, `population.create`
    line 3         random numbers                          `Context.generator`
    lines 2, 7     the replay buffer, and what enters it   `replay`, `Learner.add`
    lines 4-7      a generation: a mapping of each member  `ask`, `rollouts`; `tell`
    lines 8-20     the next population                     `population.generational` (by default: `.island_search`)
    lines 21-31    gradient steps                          `learn`, `Learner.learn`, `sac`
    line 32        the learner joins the population        `_evolve`, `Generational._migrate`

One *round* is one mapping of every member and every rollout of the learner, each an episode of one step (Table 2).

Deviations:
- The learner trains while the following round is measured, so its weights are one round older when they act
  and migrate than in the paper (which trains between rounds).
- The start mapping takes the place of one rollout, and is the prior of one chromosome, unless shipped rules fill the
  first generation: then it joins the first island. Where it is another than the
  compiler's, the compiler's is measured, too: what a rough model thinks best may be worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.methods import policy_fit
from egrl.methods.egrl.config import LearnerConfig
from egrl.methods.egrl.parts import LEARNER_SOURCE, Learner, Parts, first_population
from egrl.methods.egrl.rollouts import COMPILER, LEARNER, Rollouts, Round
from hwsim.problem import Evaluation
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights
from population.genome import Network
from population.local_search import Immigrant
from population.population import Population

POPULATION_METRICS = ("network_fitness", "boltzmann_fitness")


class Algorithm2(Method):
    """See the module."""

    def __init__(self, context: Context, parts: Parts) -> None:
        """Raises InputError where `context.init` does not fit."""
        torch.set_num_threads(context.threads)
        self._context, self._parts = context, parts
        self._problem = context.problems[0]
        self._rng = context.generator("hybrid")  # its name before: another one gives other results
        rankers = None if parts.ranking is None else parts.ranking.rankers()
        init = policy_fit.init_weights(context, parts.network, rankers)
        self._population: Population | None = None
        if parts.evolution is not None:  # line 1
            self._population = first_population(context, parts, parts.evolution, self._rng, init)
        self._learner: Learner | None = None
        if parts.learner is not None:  # line 2
            self._learner = _learner(parts.learner, parts, context, self._rng, init)
        self._rollouts = Rollouts(context, parts, self._population, self._learner, self._rng)
        self._told = 0
        self._immigrants: list[Immigrant] = []
        self._current: Round | None = None
        self._metrics: dict[str, float] = {}
        self._top = (-np.inf, 0.0)  # reward and speedup of the top-ranked policy

    # ---- the method

    def ask(self) -> Proposals:
        """Lines 4 to 6: after the population has evolved, the next mapping of each member and of the learner."""
        before, start = self._current, self._context.start[0]
        if before is not None:
            self._evolve(before)
        policies = np.array([*self._members(), *self._learners(begins=before is None)], dtype=np.int64)
        mapping = self._rollouts.draw(policies, self._told)
        baseline = self._problem.baseline.mapping
        if before is None and start is not None and not np.array_equal(start, baseline):
            mapping = np.concatenate([baseline[None], mapping])
            policies = np.concatenate([[COMPILER], policies])
        self._current = Round.of(policies)
        return proposals(mapping, [self._source(policy) for policy in policies.tolist()])

    def _members(self) -> range:
        return range(0 if self._population is None else len(self._population))

    def _learners(self, begins: bool) -> list[int]:
        rollouts = 0 if self._learner is None else self._learner.per_round
        if begins and rollouts and self._context.start[0] is not None:
            rollouts -= 1  # the start mapping takes the place of one rollout
        return [LEARNER] * rollouts

    def _source(self, member: int) -> str:
        if member == LEARNER:
            return LEARNER_SOURCE
        if member == COMPILER or self._population is None:
            return "compiler"
        return self._population.members[member].encoding

    def _evolve(self, last: Round) -> None:
        """Lines 8 to 20 and 32: the next generation, from what the mappings of the last round were worth."""
        if self._population is None:
            return
        ran = self._context.archive.mappings(last.ticket)
        others = np.flatnonzero((last.member < 0) & last.usable)
        immigrants = [*self._immigrants, *(Immigrant(ran[row], float(last.reward[row])) for row in others)]
        self._immigrants = []
        learner = self._learner
        self._population.tell(
            last.reward[last.member >= 0],
            None if learner is None else learner.migrant(),
            self._rng,
            observation=policy_fit.observation(self._problem),
            ran=ran[last.member >= 0],
            immigrants=immigrants,
        )

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Lines 6 and 7: the members' fitness; what ran enters the replay buffer, and gradient steps become due."""
        if START in proposals.source:
            self.observe(proposals, evaluation)
            return
        self._record(proposals, evaluation)
        assert self._current is not None
        self._current.take(proposals.tickets, evaluation)
        self._note(self._current)

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """What others measured is learned from, and what ran of it will join the population."""
        self._record(proposals, evaluation)
        ran = np.flatnonzero(evaluation.usable)
        self._immigrants += [
            Immigrant(evaluation.repaired[row], float(evaluation.reward[row])) for row in ran
        ]
        if self._population is not None:
            self._population.known.add(evaluation.repaired[ran])

    def _record(self, proposals: Proposals, evaluation: Evaluation) -> None:
        self._told += len(proposals)
        if self._learner is not None:
            self._learner.add(proposals.tickets, evaluation.usable)

    def learn(self) -> None:
        """Lines 21 to 31: the gradient steps that are due for the results so far."""
        if self._learner is not None:
            self._metrics.update(self._learner.learn())

    # ---- what is shown

    def _note(self, current: Round) -> None:
        """Metrics of a measured round."""
        if self._population is None:
            learners = current.speedup[current.member == LEARNER]
            self._metrics["deployable_speedup"] = float(learners.mean()) if len(learners) else np.nan
            return
        acted = current.member >= 0
        reward, member = current.reward[acted], current.member[acted]
        best = int(np.argmax(np.where(np.isfinite(reward), reward, -np.inf)))
        if np.isfinite(reward[best]) and self._population.improves(float(reward[best]), self._top[0]):
            self._top = (float(reward[best]), float(current.speedup[acted][best]))
        self._metrics["deployable_speedup"] = self._top[1]
        encodings = np.array([self._population.members[m].encoding for m in member])
        for encoding in ("network", "boltzmann"):
            chosen = reward[encodings == encoding]
            self._metrics[f"{encoding}_fitness"] = float(chosen.mean()) if len(chosen) else np.nan

    def metrics(self) -> Mapping[str, float]:
        """Losses and entropy are means over the last gradient steps."""
        names = ["deployable_speedup"]
        names += POPULATION_METRICS if self._population is not None else ()
        names += self._learner.metric_names if self._learner is not None else ()
        return {name: self._metrics.get(name, np.nan) for name in names}

    def policy(self) -> StoredPolicy | None:
        """The top-ranked network of the population, the first if none was measured; without any the learner's."""
        weights = None if self._population is None else self._top_network(self._population)
        if weights is None:
            return None if self._learner is None else self._learner.policy()
        if self._parts.ranking is not None:
            return self._parts.ranking.policy(weights, self._problem, seed=self._context.seed)
        fit = policy_fit.demands(self._problem)
        return actor_policy(weights, self._parts.network, seed=self._context.seed, **fit)

    def _top_network(self, population: Population) -> NDArray[np.float32] | None:
        """Weights of the best network that was measured, the first member if none was; None without networks."""
        found = [
            (m.score, m.genome.weights) for m in population.standings() if isinstance(m.genome, Network)
        ][:1]
        if not found:
            networks = (m.genome for m in population.members if isinstance(m.genome, Network))
            found = [(-np.inf, network.weights) for network in networks][:1]
        current = self._current
        if current is not None:
            rewards = zip(current.member.tolist(), current.reward.tolist(), strict=True)
            for score, genome in ((r, population.members[m].genome) for m, r in rewards if m >= 0):
                if isinstance(genome, Network) and np.isfinite(score):
                    found.append((score, genome.weights))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Population, learner, generator and the round under way."""
        return {
            "population": None if self._population is None else self._population.state_dict(),
            "learner": None if self._learner is None else self._learner.state_dict(),
            "rng": self._rng.bit_generator.state,
            "told": self._told,
            "round": None if self._current is None else dict(vars(self._current)),
            "metrics": self._metrics,
            "top": list(self._top),
            "immigrants": [
                {"ran": immigrant.ran, "fitness": immigrant.fitness} for immigrant in self._immigrants
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        if self._population is not None:
            self._population.load_state_dict(state["population"])
        if self._learner is not None:
            self._learner.load_state_dict(state["learner"])
        self._rng.bit_generator.state = state["rng"]
        self._told = state["told"]
        self._current = None if state["round"] is None else Round(**state["round"])
        self._metrics = dict(state["metrics"])
        self._top = (state["top"][0], state["top"][1])
        self._immigrants = [Immigrant(**immigrant) for immigrant in state["immigrants"]]


def _learner(
    config: LearnerConfig, parts: Parts, context: Context, rng: np.random.Generator, init: Weights | None
) -> Learner:
    """One that ranks where a placer reads the networks, else SAC; the other one is not loaded."""
    if parts.ranking is not None:
        from egrl.methods.egrl.rank_learner import RankLearner

        return RankLearner(config, context, rng, init, parts.ranking)
    from egrl.methods.egrl.sac_learner import SacLearner

    return SacLearner(config, parts.network, context, rng, init)
