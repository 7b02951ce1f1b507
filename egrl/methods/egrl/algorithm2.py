"""EGRL, Algorithm 2: a mixed population and a policy-gradient learner over one archive, or either of them alone.

Source: Khadka et al., "Optimizing memory placement using evolutionary graph reinforcement learning", Algorithm 2,
section 3 and appendices C to E.

    line 1         the mixed population                    `first_population`, `population.create`
    line 3         random numbers                          `Context.generator`
    lines 2, 7     the replay buffer, and what enters it   `Learner.observe`
    lines 4-7      a generation: a mapping of each member  `ask`, `rollouts`; `tell`
    lines 8-20     the next population                     `population.plus`; as printed: `population.generational`
    lines 21-25,28 gradient steps                          `ranking_sac`; as printed: `learn`, `sac_learner`, `sac`
    lines 26,29-31 without effect in episodes of one step: the target is the reward, and there are no target networks
    line 32        the learner joins the population        `_evolve`, `Plus._migrant`, `Generational._migrate`

One *round* is one mapping of every member and every rollout of the learner, each an episode of one step (Table 2).

Deviations:
- SAC over choices (as printed) trains while the following round is measured, so its weights are one round older when
  they act and migrate than in the paper (which trains between rounds). SAC over rankings trains before it acts.
- Where the start mapping is another than the compiler's, the compiler's is measured, too: what a rough model thinks
  best may be worse.
- What others measured joins the replay, and the default population as chromosomes; printed generations ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Composition, Context, Method
from egrl.methods import policy_fit
from egrl.methods.egrl.config import LearnerConfig
from egrl.methods.egrl.parts import (
    Parts,
    decisions_of,
    first_network,
    first_population,
)
from egrl.methods.egrl.rollouts import COMPILER, Rollouts, Round
from egrl.methods.learner import Learner
from egrl.methods.manager import BOLTZMANN, NETWORK, SAC
from hwsim.problem import Evaluation, Mapping16
from policies.store import StoredPolicy, actor_policy
from policies.weight_vector import Weights
from population.genome import Network
from population.population import Immigrant, Population

POPULATION_METRICS = ("network_fitness", "boltzmann_fitness")


class Algorithm2(Method):
    """See the module."""

    def __init__(self, context: Context, parts: Parts) -> None:
        """Raises InputError where `context.init` does not fit."""
        torch.set_num_threads(context.threads)
        self._context, self._parts = context, parts
        self._problem = context.problems[0]
        self._rng = context.generator("hybrid")  # its name before: another one gives other results
        ranking = parts.ranking
        init = policy_fit.init_weights(context, parts.network, None if ranking is None else ranking.rankers())
        decisions = decisions_of(context, parts, parts.evolution)
        first = None if ranking is None else first_network(context, parts, decisions, init)
        self._population: Population | None = None
        if parts.evolution is not None:  # line 1
            self._population = first_population(
                context, parts, parts.evolution, decisions, self._rng, init, first
            )
        self._learner: Learner | None = None
        if parts.learner is not None:  # line 2
            self._learner = _learner(
                parts.learner, parts, context, self._rng, init if first is None else first
            )
        self._rollouts = Rollouts(context, parts, self._rng)
        self._told = 0
        self._immigrants: list[Immigrant] = []
        self._current: Round | None = None
        self._metrics: dict[str, float] = {}
        self._top = (-np.inf, 0.0)  # reward and speedup of the top-ranked policy

    # ---- the method

    def ask(self) -> Proposals:
        """Lines 4 to 6: after the population has evolved, the next mapping of each member, and the learner's."""
        before, problem = self._current, self._problem
        if before is not None:
            self._evolve(before)
        rows: list[tuple[Mapping16, list[str]]] = []
        start, baseline = self._context.start[0], problem.baseline.mapping
        if before is None and start is not None and not np.array_equal(start, baseline):
            rows.append((baseline[None], [COMPILER]))
        first, members = len(rows), 0
        if self._population is not None:
            members = len(self._population)
            encodings: list[str] = [member.encoding for member in self._population.members]
            rows.append((self._rollouts.draw(self._population, self._told), encodings))
        if self._learner is not None:
            own = self._learner.ask()
            assert own is not None
            rows.append((own.mapping, own.source.tolist()))
        self._current = Round(slice(first, first + members))
        return proposals(
            np.concatenate([mapping for mapping, _ in rows]), [x for _, names in rows for x in names]
        )

    def _evolve(self, last: Round) -> None:
        """Lines 8 to 20 and 32: the next generation, from what the mappings of the last round were worth."""
        if self._population is None:
            return
        ran = self._context.archive.mappings(last.ticket)
        others = np.flatnonzero(last.usable)
        others = others[(others < last.members.start) | (others >= last.members.stop)]
        immigrants = [*self._immigrants, *(Immigrant(ran[row], float(last.reward[row])) for row in others)]
        self._immigrants = []
        learner = self._learner
        self._population.tell(
            last.reward[last.members],
            None if learner is None else learner.migrant(),
            self._rng,
            observation=policy_fit.observation(self._problem),
            ran=ran[last.members],
            immigrants=immigrants,
            judge=None if learner is None else learner.judge,
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
        """What others measured is learned from, and what ran of it will join the population, if there is one."""
        self._record(proposals, evaluation)
        if self._population is None:
            return
        ran = np.flatnonzero(evaluation.usable)
        self._immigrants += [
            Immigrant(evaluation.repaired[row], float(evaluation.reward[row])) for row in ran
        ]
        self._population.known.add(evaluation.repaired[ran])

    def _record(self, proposals: Proposals, evaluation: Evaluation) -> None:
        self._told += len(proposals)
        if self._learner is not None:
            self._learner.observe(proposals, evaluation)

    def learn(self) -> None:
        """Lines 21 to 31: the gradient steps that are due for the results so far."""
        if self._learner is not None:
            self._learner.learn()

    # ---- what is shown

    def _note(self, current: Round) -> None:
        """Metrics of a measured round."""
        if self._population is None:
            self._metrics["deployable_speedup"] = float(current.speedup.mean())
            return
        reward, speedup = current.reward[current.members], current.speedup[current.members]
        best = int(np.argmax(np.where(np.isfinite(reward), reward, -np.inf)))
        if np.isfinite(reward[best]) and self._population.improves(float(reward[best]), self._top[0]):
            self._top = (float(reward[best]), float(speedup[best]))
        self._metrics["deployable_speedup"] = self._top[1]
        encodings = np.array([member.encoding for member in self._population.members])
        for encoding in ("network", "boltzmann"):
            chosen = reward[encodings == encoding]
            self._metrics[f"{encoding}_fitness"] = float(chosen.mean()) if len(chosen) else np.nan

    def metrics(self) -> Mapping[str, float]:
        """Those of the population's last round, and the learner's."""
        names = ["deployable_speedup", *(POPULATION_METRICS if self._population is not None else ())]
        own = {name: self._metrics.get(name, np.nan) for name in names}
        return own if self._learner is None else {**own, **self._learner.metrics()}

    def composition(self) -> Composition:
        """The kinds of networks, chromosomes and the learner, and how migration goes."""
        kinds: dict[str, str] = {}
        population = self._population
        if population is not None:
            share = self._parts.evolution.boltzmann_fraction if self._parts.evolution is not None else 0.0
            kinds |= {NETWORK: self._parts.network.name} if share < 1 else {}
            kinds |= {BOLTZMANN: BOLTZMANN} if share > 0 else {}
        if self._learner is not None:
            kinds[SAC] = SAC
        migration = None
        if population is not None and self._learner is not None:
            migration = {
                "offered": population.offered,
                "accepted": population.accepted,
                "alive": population.alive,
            }
        temperatures = None if population is None else population.temperatures
        return Composition(kinds, migration, temperatures, self._parts.idle)

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
        if current is not None and current.measured:
            for score, member in zip(
                current.reward[current.members].tolist(), population.members, strict=True
            ):
                if isinstance(member.genome, Network) and np.isfinite(score):
                    found.append((score, member.genome.weights))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Population, learner, generator and the round under way."""
        return {
            "population": None if self._population is None else self._population.state_dict(),
            "learner": None if self._learner is None else self._learner.state_dict(),
            "rng": self._rng.bit_generator.state,
            "told": self._told,
            "round": None if self._current is None else self._current.state_dict(),
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
        self._current = None if state["round"] is None else Round.of_state(state["round"])
        self._metrics = dict(state["metrics"])
        self._top = (state["top"][0], state["top"][1])
        self._immigrants = [Immigrant(**immigrant) for immigrant in state["immigrants"]]


def _learner(
    config: LearnerConfig, parts: Parts, context: Context, rng: np.random.Generator, init: Weights | None
) -> Learner:
    """One that ranks where a placer reads the networks, else SAC; the other one is not loaded."""
    if parts.ranking is not None:
        from egrl.methods.egrl.ranking_sac import RankingSac

        assert init is not None
        return RankingSac(config, context, parts.ranking, init)
    from egrl.methods.egrl.sac_learner import SacLearner

    return SacLearner(config, parts.network, context, rng, init)
