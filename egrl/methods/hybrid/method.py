"""A population and a policy-gradient learner over one archive: the engine of `egrl`, `ea` and `pg`.

Source: EGRL, Algorithm 2, section 3 and appendices C to E. One *round* is one mapping of every member and every
rollout of the learner, each an episode of one step (Table 2); then the population evolves.

    round: members and rollouts -> probabilities -> mappings -> measured -> replay, fitness
    learn: gradient steps that are due (`LearnerConfig.gradient_steps`), while the next round is being measured
    next round: the next generation, with migration of the learner (`population.generational`)

Deviations:
- The learner trains while the following round is measured, so its weights are one round older when they act
  and migrate than in the paper (which trains between rounds).
- The start mapping takes the place of one rollout, and is the prior of one chromosome, unless shipped rules fill the
  first generation: then it joins the first island. Where it is another than the
  compiler's, the compiler's is measured, too: what a rough model thinks best may be worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.failure import RunFailure
from egrl.core.keys import SAMPLE
from egrl.core.method import Context, Method
from egrl.core.proposals import Proposals, proposals
from egrl.methods import policy_fit
from egrl.methods.credit import PROFILE_MODEL, TWIN
from egrl.methods.hybrid.learner import LEARNER_METRICS, LEARNER_SOURCE, Learner, LearnerConfig
from egrl.methods.hybrid.ranking import Ranking, Readout
from egrl.methods.moves import moves_of
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16
from policies.network import NetworkConfig
from policies.store import StoredPolicy, actor_policy
from population.config import Decisions, EvolutionConfig
from population.create import create
from population.genome import Genome, Network, boltzmann_from_mapping
from population.local_search import Immigrant
from population.operators import Operators
from population.population import Population

PAPER_POPULATION: dict[str, Any] = {
    "evolution.boltzmann_fraction": 0.2,
    "evolution.survival": "generational",
    "network.name": "graph_unet",
    "readout": "sample",
    "evolution.generational.boltzmann_mutation.flips": 0.0,
}
"""What `--preset paper` sets in a population: Table 2 and Algorithm 2 as printed."""


@dataclass(frozen=True)
class Parts:
    """The parts of a hybrid; it has a population, a learner or both.

    Attributes:
        network: the actor of members and learner.
        evolution: the population, or None.
        learner: the learner, or None.
        readout: how networks are read.
        ranking: the placer that reads them, if one does.
        operators: what takes the place of the population's own operators.
    """

    network: NetworkConfig
    evolution: EvolutionConfig | None
    learner: LearnerConfig | None
    readout: Readout = "greedy"
    ranking: Ranking | None = None
    operators: Operators | None = None


def found_population(
    context: Context,
    parts: Parts,
    evolution: EvolutionConfig,
    rng: np.random.Generator,
    init: NDArray[np.float32] | None,
) -> Population:
    """A population for the context's one problem.

    The weights `init` float32 [P] are one of its networks, the start mapping is the prior of one of its chromosomes.
    """
    problem = context.problems[0]
    choices = problem.space.most_choices
    decisions = Decisions(
        problem.space.num_choices,
        problem.space.live,
        choices,
        policy_fit.observation(problem).x.shape[1],
        moves_of(problem, evolution.island.moves),
        problem.space.pipeline,
    )
    ranking = parts.ranking
    if ranking is not None:
        decisions = replace(
            decisions, places=ranking.places, feature_names=ranking.names, repaired=ranking.placer.repaired
        )
    start: list[Genome] = []
    if init is not None and evolution.boltzmann_count < evolution.population:
        start.append(Network(init))
    mapping = context.start[0]
    if mapping is None and evolution.survival == "islands":
        mapping = problem.space.initial
    # What networks propose first is better than what is near the start, which joins its island in any case.
    crowded = ranking is not None and bool(ranking.shipped())
    if mapping is not None and evolution.boltzmann_count and not crowded:
        start.append(boltzmann_from_mapping(mapping, problem.space.num_choices, choices, decisions.certainty))
    rules = [] if ranking is None else ranking.shipped()
    device, operators = context.device, parts.operators
    population = create(rng, evolution, decisions, parts.network, start, device, rules, operators)
    population.known.add([*context.rules, *(given for given in context.start[:1] if given is not None)])
    return population


LEARNER, COMPILER = -1, -2
"""What made a row, if it is no member of the population."""

FIRST_NOISE, REPLACEMENTS = 0.02, 6
"""Gumbel noise on the scores of a network whose map ran before, relative to their spread, doubled so often."""
DIVERGED = "a policy's weights have diverged to values that are not finite; try a smaller method.actor_lr"


def _most_probable(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probability 1 for each decision's most probable choice [R, N, H, C], the first if several are equal."""
    best = probabilities.argmax(axis=-1)[..., None]
    return (best == np.arange(probabilities.shape[-1])).astype(np.float32)


@dataclass
class Round:
    """R mappings of population and learner, what made them, and their results.

    `member` is the position in the population, or LEARNER or COMPILER for their mappings.
    `ticket` is -1, and rewards and speedups NaN, before the results are known; `usable` is then false.
    """

    mapping: Mapping16
    member: NDArray[np.int64]
    ticket: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    usable: NDArray[np.bool_]

    @staticmethod
    def of(mapping: Mapping16, member: NDArray[np.int64]) -> Round:
        """A round without results."""
        rows = len(mapping)
        unknown = np.full(rows, np.nan)
        usable = np.zeros(rows, np.bool_)
        return Round(mapping, member, np.full(rows, -1), unknown, unknown.copy(), usable)

    @property
    def reported(self) -> bool:
        """True if the results are known."""
        return bool((self.ticket >= 0).all())

    def take(self, ticket: NDArray[np.int64], evaluation: Evaluation) -> None:
        """Take the results of all rows."""
        self.ticket, self.reward, self.speedup = ticket, evaluation.reward, evaluation.speedup
        self.usable = evaluation.usable


POPULATION_METRICS = ("network_fitness", "boltzmann_fitness")


class Hybrid(Method):
    """See the module."""

    def __init__(self, context: Context, parts: Parts) -> None:
        """Raises InputError where `context.init` does not fit."""
        torch.set_num_threads(context.threads)
        self._context, self._parts = context, parts
        self._problem = context.problems[0]
        self._observation = policy_fit.observation(self._problem)
        self._rng = context.generator("hybrid")
        self._choices = self._problem.space.most_choices
        learner = parts.learner
        self._rollouts = 0 if learner is None else learner.rollouts
        init = policy_fit.init_weights(
            context, parts.network, None if parts.ranking is None else parts.ranking.rankers()
        )
        self._population = (
            None
            if parts.evolution is None
            else found_population(context, parts, parts.evolution, self._rng, init)
        )
        self._learner: Learner | None = None
        if learner is not None:
            self._learner = Learner(learner, parts.network, context, self._rng, init, parts.ranking)
        self._told = 0
        self._immigrants: list[Immigrant] = []
        self._current: Round | None = None
        self._metrics: dict[str, float] = {}
        self._top = (-np.inf, 0.0)  # reward and speedup of the top-ranked policy

    # ---- the method

    def ask(self) -> Proposals:
        """The next round."""
        self._current = self._next_round()
        return proposals(
            self._current.mapping, [self._source(member) for member in self._current.member.tolist()]
        )

    @property
    def begun(self) -> bool:
        """Whether a round was asked for."""
        return self._current is not None

    @property
    def waits(self) -> bool:
        """True if a round was asked for whose results are not known."""
        return self._current is not None and not self._current.reported

    def _source(self, member: int) -> str:
        if member == LEARNER:
            return LEARNER_SOURCE
        if member == COMPILER or self._population is None:
            return "compiler"
        return self._population.members[member].encoding

    def _next_round(self) -> Round:
        """The next mapping of each member and of the learner, after the population has evolved."""
        before, start = self._current, self._context.start[0]
        if before is not None:
            self._evolve(before)
        members = 0 if self._population is None else len(self._population)
        policies = np.array([*range(members), *[LEARNER] * self._rollouts], dtype=np.int64)
        if before is None and start is not None and self._rollouts:
            policies = policies[:-1]  # the start mapping takes the place of one rollout
        mapping = self._draw(policies)
        baseline = self._problem.baseline.mapping
        if before is None and start is not None and not np.array_equal(start, baseline):
            mapping = np.concatenate([baseline[None], mapping])
            policies = np.concatenate([[COMPILER], policies])
        return Round.of(mapping, policies)

    def _draw(self, policies: NDArray[np.int64]) -> Mapping16:
        """Mappings [R, N, H] of policies [R]."""
        if self._parts.ranking is not None:
            return self._placed(policies, self._parts.ranking)
        probabilities = self._probabilities(policies)
        return sample(self._problem, probabilities, self._context.keys(SAMPLE, self._told, len(policies)))

    def _placed(self, policies: NDArray[np.int64], ranking: Ranking) -> Mapping16:
        """Mappings [R, N, H]: networks are placed by rank, chromosomes take their most probable choices."""
        mapping = np.empty((len(policies), *self._problem.space.shape), np.int16)
        chosen = policies[policies >= 0]
        rollouts = np.flatnonzero(policies == LEARNER)
        if self._population is not None and len(chosen):
            encodings = np.array([self._population.members[m].encoding for m in chosen])
            for encoding, rows in ((e, np.flatnonzero(encodings == e)) for e in ("network", "boltzmann")):
                if not len(rows):
                    continue
                if encoding == "network":
                    found = self._population.scores(self._observation, chosen[rows])
                    mapping[rows] = self._new(ranking, *self._finite(found))
                else:
                    odds = self._population.probabilities(self._observation, chosen[rows])
                    mapping[rows] = np.where(self._problem.space.live, odds.argmax(axis=-1), -1)
        if self._learner is not None and len(rollouts):
            mapping[rollouts] = self._new(ranking, *self._finite(self._learner.scores(len(rollouts))))
        return mapping

    def _new(
        self, ranking: Ranking, scores: NDArray[np.float32], free_share: NDArray[np.float64]
    ) -> Mapping16:
        """Mappings [B, N, H] of scores; one that ran before is placed again, with more and more noise on its scores."""
        mapping = ranking.place(scores, free_share)
        if self._population is None:
            return mapping
        known = self._population.known
        spread, old = scores[:, :, 1:].std(axis=(1, 2)), list(range(len(mapping)))
        for attempt in range(REPLACEMENTS + 1):
            old = [row for row in old if not known.admit(mapping[row])]
            if not old or attempt == REPLACEMENTS:
                break
            noise = self._rng.gumbel(size=scores[old].shape).astype(np.float32)
            noise[:, :, 0] = 0
            scale = (FIRST_NOISE * 2.0**attempt * spread[old]).astype(np.float32)
            mapping[old] = ranking.place(scores[old] + scale[:, None, None] * noise, free_share[old])
        return mapping

    @staticmethod
    def _finite(
        found: tuple[NDArray[np.float32], NDArray[np.float64]],
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Scores and shares, unless they are not finite."""
        if not np.isfinite(found[0]).all():
            raise RunFailure(DIVERGED)
        return found

    def _probabilities(self, policies: NDArray[np.int64]) -> NDArray[np.float32]:
        """Float32 [R, N, H, C] of some policies."""
        parts = []
        members = policies[policies >= 0]
        if self._population is not None and len(members):
            odds = self._population.probabilities(self._observation, members)
            parts.append(odds if self._parts.readout == "sample" else _most_probable(odds))
        rollouts = int((policies == LEARNER).sum())
        if self._learner is not None and rollouts:
            parts.append(self._learner.rollouts(rollouts))
        probabilities = np.concatenate(parts)
        if not np.isfinite(probabilities).all():
            raise RunFailure(DIVERGED)
        return probabilities

    def _evolve(self, last: Round) -> None:
        """Make the next generation from what the members' mappings of the last round were worth."""
        if self._population is None:
            return
        ran = self._context.archive.mappings(last.ticket)
        others = np.flatnonzero((last.member < 0) & last.usable)
        immigrants = [*self._immigrants, *(Immigrant(ran[row], float(last.reward[row])) for row in others)]
        self._immigrants = []
        learner = self._learner
        self._population.tell(
            last.reward[last.member >= 0],
            learner.weights() if learner is not None and learner.config.migration else None,
            self._rng,
            observation=self._observation,
            ran=ran[last.member >= 0],
            immigrants=immigrants,
        )

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Its rows enter the replay buffer, and gradient steps become due.

        What ran of the start's, of the twin's and of the profile model's will join the population.
        """
        alone = TWIN in proposals.source or PROFILE_MODEL in proposals.source
        current = None if alone else self._current
        self._told += len(proposals)
        if self._learner is not None:
            self._learner.add(proposals.tickets, evaluation.usable)
        if current is None:
            ran = np.flatnonzero(evaluation.usable)
            self._immigrants += [
                Immigrant(evaluation.repaired[row], float(evaluation.reward[row])) for row in ran
            ]
            if self._population is not None:
                self._population.known.add(evaluation.repaired[ran])
            return
        current.take(proposals.tickets, evaluation)
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
        if np.isfinite(reward[best]) and self._population.improves(float(reward[best]), self._top[0]):
            self._top = (float(reward[best]), float(current.speedup[acted][best]))
        self._metrics["deployable_speedup"] = self._top[1]
        encodings = np.array([self._population.members[m].encoding for m in member])
        for encoding in ("network", "boltzmann"):
            chosen = reward[encodings == encoding]
            self._metrics[f"{encoding}_fitness"] = float(chosen.mean()) if len(chosen) else np.nan

    def learn(self) -> None:
        """Make the gradient steps that are due for the results so far."""
        if self._learner is not None:
            self._metrics.update(self._learner.learn())

    def metrics(self) -> Mapping[str, float]:
        """Losses and entropy are means over the last gradient steps."""
        names = ["deployable_speedup"]
        names += POPULATION_METRICS if self._population is not None else ()
        names += LEARNER_METRICS if self._learner is not None else ()
        return {name: self._metrics.get(name, np.nan) for name in names}

    def best_weights(self) -> NDArray[np.float32] | None:
        """Those of the top-ranked network of the population, or the learner's if none was measured yet."""
        found = None if self._population is None else self._top_network(self._population)
        if found is not None or self._learner is None:
            return found
        return self._learner.weights()

    def policy(self) -> StoredPolicy | None:
        """The policy of the best weights."""
        return self.policy_of(self.best_weights())

    def policy_of(self, weights: NDArray[np.float32] | None) -> StoredPolicy | None:
        """The policy of some weights; None of none."""
        if weights is None:
            return None
        if self._parts.ranking is not None:
            return self._parts.ranking.policy(weights, self._problem, seed=self._context.seed)
        fit = policy_fit.demands(self._problem)
        return actor_policy(weights, self._parts.network, seed=self._context.seed, **fit)

    def _top_network(self, population: Population) -> NDArray[np.float32] | None:
        """Weights of the best network among those measured in this round and before; None without networks."""
        found = [
            (m.score, m.genome.weights) for m in population.standings() if isinstance(m.genome, Network)
        ][:1]
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
