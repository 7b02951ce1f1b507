"""A population and a policy-gradient learner over one archive: the engine of `egrl`, `ea` and `pg`.

Source: EGRL, Algorithm 2, section 3 and appendices C to E. One *round* is one step of every member and every
rollout of the learner; after the last step of an episode the population evolves.

    round: members and rollouts -> probabilities -> mappings -> measured -> replay, fitness
    learn: due gradient steps, one an evaluation, while the next round is being measured
    end of an episode: elites, selection, crossover, mutation, migration of the learner

Deviations:
- The learner trains while the following round is measured, so its weights are one round older when they act
  and migrate than in the paper (which trains between rounds).
- The start mapping is measured once by itself, in place of a rollout, and is the prior of one chromosome. Where it is
  another than the compiler's, the compiler's is measured, too: what a rough model thinks best may be worse.
- Fitness is the mean reward of the episode.
- In episodes of several steps, the population evolves and the learner's states are the mappings that ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.failure import RunFailure
from egrl.core.keys import SAMPLE, run_keys
from egrl.core.method import Setting
from egrl.core.proposals import Proposals, proposals
from egrl.methods import policy_fit
from egrl.methods.hybrid.learner import LEARNER_METRICS, Learner
from egrl.methods.hybrid.parts import Parts, found_population
from egrl.methods.hybrid.round import COMPILER, LEARNER, START, Round
from hwsim.mappings import sample
from hwsim.observe import observe
from hwsim.problem import Evaluation, Mapping16, Observation, Status
from policies.store import StoredPolicy, actor_policy
from population.evolve import Guest, Population
from population.genome import Gnn
from workloads.errors import InputError

POPULATION_METRICS = ("gnn_fitness", "boltzmann_fitness")


class Hybrid:
    """See the module."""

    def __init__(self, setting: Setting, parts: Parts) -> None:
        """Raises InputError where there are several problems or `setting.init` does not fit."""
        if len(setting.problems) != 1:
            raise InputError(f"this method takes one workload, found {len(setting.problems)}")
        torch.set_num_threads(setting.threads)
        self._setting, self._parts = setting, parts
        self._problem = setting.problems[0]
        self._observation = policy_fit.observation(self._problem)
        self._rng = setting.generator("hybrid")
        self._choices = self._problem.space.most_choices
        learner = parts.learner
        self._rollouts = 0 if learner is None else learner.rollouts
        init = policy_fit.init_weights(setting, parts.network)
        self._population = (
            None
            if parts.evolution is None
            else found_population(setting, parts, parts.evolution, self._rng, init)
        )
        self._learner: Learner | None = None
        if learner is not None:
            self._learner = Learner(learner, parts.network, setting, self._observe, self._rng, init)
        self._told = 0
        self._step = 0
        self._guests: list[Guest] = []
        self._return = np.zeros(0)
        self._current: Round | None = None
        self._metrics: dict[str, float] = {}
        self._top = (-np.inf, 0.0)  # reward and speedup of the top-ranked policy
        self.metric_names: tuple[str, ...] = (
            "deployable_speedup",
            *(POPULATION_METRICS if parts.evolution else ()),
            *(LEARNER_METRICS if learner else ()),
        )

    # ---- the method

    def ask(self, room: int) -> Proposals | None:
        """The next rows of the current round; a new round once all of it has been told."""
        if self._current is None or self._current.measured:
            self._current = self._next_round()
        current = self._current
        rows = slice(current.asked, min(len(current.mapping), current.asked + room))
        current.asked = rows.stop
        return proposals(current.mapping[rows], [self._source(int(m)) for m in current.member[rows]])

    def _source(self, member: int) -> str:
        if member == LEARNER:
            return "learner"
        if member == COMPILER:
            return "compiler"
        if member == START or self._population is None:
            return "start"
        return self._population.members[member].encoding

    def _next_round(self) -> Round:
        """Everybody's next mapping; the population evolves first where an episode has ended."""
        before, start = self._current, self._setting.start[0]
        members = 0 if self._population is None else len(self._population)
        policies = np.array([*range(members), *[LEARNER] * self._rollouts], dtype=np.int64)
        if before is not None:
            acted = before.member >= LEARNER
            self._return = self._return + before.reward[acted]
            if before.last:
                self._evolve(before, self._return[:members] / self._parts.steps_per_episode)
                self._step, self._return = 0, np.zeros(len(policies))
            else:
                self._step += 1
                self._remember_guests(before)
        else:
            if start is not None and self._rollouts and self._parts.steps_per_episode == 1:
                policies = policies[:-1]  # the start mapping takes the place of one rollout
            self._return = np.zeros(len(policies))
        states = np.full(len(policies), -1, dtype=np.int64)
        if before is not None and self._step > 0:
            states = before.ticket[before.member >= LEARNER]
        mapping = self._draw(policies, states)
        last = self._step == self._parts.steps_per_episode - 1
        if before is None and start is not None:
            known, made_by = [start], [START]
            if not np.array_equal(start, self._problem.baseline.mapping):
                known.append(self._problem.baseline.mapping)
                made_by.append(COMPILER)
            mapping = np.concatenate([np.stack(known), mapping])
            policies = np.concatenate([made_by, policies])
            states = np.concatenate([[-1] * len(known), states])
        return Round.of(mapping, policies, states, last)

    def _draw(self, policies: NDArray[np.int64], states: NDArray[np.int64]) -> Mapping16:
        """Mappings [R, N, H] of policies [R], each setting out from its state."""
        parts = []
        for state in np.unique(states):
            rows = np.flatnonzero(states == state)
            parts.append((rows, self._probabilities(policies[rows], self._observe(int(state)))))
        shape = (len(policies), *self._problem.space.shape, self._choices)
        probabilities = np.zeros(shape, dtype=np.float32)
        for rows, values in parts:
            probabilities[rows] = values
        numbers = np.arange(self._told, self._told + len(policies))
        keys = run_keys(self._setting.seed, numbers, SAMPLE)
        return sample(self._problem, probabilities, keys)

    def _probabilities(self, policies: NDArray[np.int64], observation: Observation) -> NDArray[np.float32]:
        """Float32 [R, N, H, C] of some policies in one state."""
        parts = []
        members = policies[policies >= 0]
        if self._population is not None and len(members):
            parts.append(self._population.probabilities(observation, members))
        rollouts = int((policies == LEARNER).sum())
        if self._learner is not None and rollouts:
            parts.append(self._learner.rollouts(observation, rollouts))
        probabilities = np.concatenate(parts)
        if not np.isfinite(probabilities).all():
            raise RunFailure(
                "a policy's weights have diverged to values that are not finite; try a smaller method.actor_lr"
            )
        return probabilities

    def _observe(self, state: int) -> Observation:
        if state < 0:
            return self._observation
        return observe(self._problem, self._setting.archive.mappings(np.array([state]))[0])

    def _remember_guests(self, current: Round) -> None:
        """Keep start and compiler mappings that ran before an episode's last step, when they join the population."""
        rows = np.flatnonzero((current.member < LEARNER) & current.usable)
        ran = self._setting.archive.mappings(current.ticket[rows])
        self._guests += [Guest(r, float(current.reward[row])) for r, row in zip(ran, rows, strict=True)]

    def _evolve(self, last: Round, fitness: NDArray[np.float64]) -> None:
        """Make the next generation from the members' fitness [M] and what ran in the last round."""
        if self._population is None:
            return
        ran = self._setting.archive.mappings(last.ticket)
        others = np.flatnonzero((last.member < 0) & last.usable)
        guests = [*self._guests, *(Guest(ran[row], float(last.reward[row])) for row in others)]
        self._guests = []
        self._population.evolve(
            fitness,
            None if self._learner is None else self._learner.weights(),
            self._rng,
            observation=self._observation,
            ran=ran[last.member >= 0],
            guests=guests,
            ran_fitness=last.reward[last.member >= 0],
        )

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Store what was measured; once a round is whole, its rows enter the replay buffer and steps become due.

        (Not earlier: how a round is sliced must not change what the learner sees.)
        """
        current = self._current
        if current is None:
            raise ValueError("tell: expected results of rows that were asked for, received others")
        rows = slice(current.told, current.told + len(proposals))
        current.ticket[rows] = proposals.tickets
        current.reward[rows] = evaluation.reward
        current.speedup[rows] = evaluation.speedup
        current.told = rows.stop
        self._told += len(proposals)
        current.usable[rows] = (evaluation.status <= Status.INVALID) & np.isfinite(evaluation.reward)
        if self._learner is not None:
            self._learner.record(current.state[rows], current.last)
        if current.measured:
            if self._learner is not None:
                self._learner.add_round(current.ticket, current.usable)
            self._note(current)

    def _note(self, current: Round) -> None:
        """Metrics of a measured round."""
        if self._population is None:
            learners = current.speedup[current.member == LEARNER]
            self._metrics["deployable_speedup"] = float(learners.mean()) if len(learners) else np.nan
            return
        acted = current.member >= 0
        reward, member = current.reward[acted], current.member[acted]
        best = int(np.argmax(np.where(np.isfinite(reward), reward, -np.inf)))
        kept = self._population.config.survival == "islands" and reward[best] <= self._top[0]
        if np.isfinite(reward[best]) and not kept:
            self._top = (float(reward[best]), float(current.speedup[acted][best]))
        self._metrics["deployable_speedup"] = self._top[1]
        encodings = np.array([self._population.members[m].encoding for m in member])
        for encoding in ("gnn", "boltzmann"):
            chosen = reward[encodings == encoding]
            self._metrics[f"{encoding}_fitness"] = float(chosen.mean()) if len(chosen) else np.nan

    def learn(self) -> None:
        """Make the gradient steps that are due for what has been told."""
        if self._learner is not None:
            self._metrics.update(self._learner.learn())

    def metrics(self) -> Mapping[str, float]:
        """See `metric_names`; losses and entropy are means over the last gradient steps."""
        return {name: self._metrics.get(name, np.nan) for name in self.metric_names}

    def policy(self) -> StoredPolicy | None:
        """The top-ranked GNN of the population, or the learner where there is no population."""
        weights: NDArray[np.float32] | None = None
        if self._population is not None:
            weights = self._top_gnn(self._population)
        elif self._learner is not None:
            weights = self._learner.weights()
        if weights is None:
            return None
        fit = policy_fit.demands(self._problem)
        return actor_policy(weights, self._parts.network, seed=self._setting.seed, **fit)

    def _top_gnn(self, population: Population) -> NDArray[np.float32] | None:
        """Weights of the best GNN among those measured in this round and before; None without GNNs."""
        found = [(m.score, m.genome.weights) for m in population.standings() if isinstance(m.genome, Gnn)][:1]
        current = self._current
        if current is not None:
            rewards = zip(current.member.tolist(), current.reward.tolist(), strict=True)
            for score, genome in ((r, population.members[m].genome) for m, r in rewards if m >= 0):
                if isinstance(genome, Gnn) and np.isfinite(score):
                    found.append((score, genome.weights))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any] | None:
        """Population, learner, generator and the round under way."""
        return {
            "population": None if self._population is None else self._population.state_dict(),
            "learner": None if self._learner is None else self._learner.state_dict(),
            "rng": self._rng.bit_generator.state,
            "told": self._told,
            "step": self._step,
            "return": self._return,
            "round": None if self._current is None else dict(vars(self._current)),
            "metrics": self._metrics,
            "top": list(self._top),
            "guests": [{"ran": guest.ran, "fitness": guest.fitness} for guest in self._guests],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        if self._population is not None:
            self._population.load_state_dict(state["population"])
        if self._learner is not None:
            self._learner.load_state_dict(state["learner"])
        self._rng.bit_generator.state = state["rng"]
        self._told, self._step, self._return = state["told"], state["step"], state["return"]
        self._current = None if state["round"] is None else Round(**state["round"])
        self._metrics = dict(state["metrics"])
        self._top = (state["top"][0], state["top"][1])
        self._guests = [Guest(**guest) for guest in state["guests"]]
