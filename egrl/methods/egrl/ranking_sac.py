"""SAC over rankings: the learner where a placer reads the networks.

    policy   mapping = place(s + sigma e), e ~ N(0, 1) for each tensor and memory; s: the actor's scores, of unit size
    critic   what a placed mapping costs, from the shared replay, its latest 4,096 mappings (`placement_critic`)
    actor    imagined mappings are placed, and judged by the critic; the slope of its estimate goes through the scores
             into the actor (`egrl.methods.rank.gradient`)
    entropy  sigma falls or rises by the factor exp(`STEP`) a round, to a target entropy of what is placed
    rollouts the actor's own mapping if it is new; and of what was imagined the best by a draw from the critic's
             posterior for each

Source: EGRL, Algorithm 2 lines 5 and 21 to 31; Haarnoja et al., "Soft actor-critic algorithms and applications" (2018),
section 5, for the target entropy, with Christodoulou (2019) for discrete actions; the slope: Williams (1992). Rollouts:
Thompson (1933).

Deviations:
- Actions are placed rankings, so that what the policy proposed is what runs, and episodes have one step: the critic's
  target is the reward alone. The slope is estimated from draws, since placing has no derivative.
- What weighs entropy against value is the noise itself: it is fitted to the target, and the loss has no term for it.
  Its fast fall pays, not the target.
- The actor learns before it proposes (the paper trains between rounds).
- It begins with the network that ships, the best shipped rule or the one by hand, and with the population's trunk: its
  weights are those of a network of the population, and migrate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.archive import Proposals, proposals
from egrl.core.method import Context
from egrl.methods.egrl.config import LearnerConfig
from egrl.methods.egrl.parts import finite
from egrl.methods.egrl.placement_critic import PlacementCritic
from egrl.methods.egrl.ranking import Ranking
from egrl.methods.learner import Learner
from egrl.methods.manager import SAC
from egrl.methods.rank.gradient import Draws, ScoreGradient
from hwsim.problem import Evaluation, Floats, Mapping16
from policies.ranking_module import RankingModule
from policies.store import StoredPolicy
from policies.weight_vector import Weights
from population.known import Known, digest
from population.population import Judge, Migrant

FIRST_SIGMA, STEP = 0.5, 0.3
SIGMAS = (0.02, 1.0)
LONGEST = 0.3
"""Length to which a gradient is cut."""
TRAINED_RATE = 1 / 3
"""Factor on the learning rate where the actor begins with a trained ranking."""
HOPE = 0.5
"""The actor follows the mean less so many deviations: where the critic knows little, it may be better than it seems."""


METRICS = ("critic_error", "entropy", "sigma")


class RankingSac(Learner):
    """See the module."""

    name = SAC

    def __init__(self, config: LearnerConfig, context: Context, ranking: Ranking, first: Weights) -> None:
        """For the first problem of `context`; the actor begins with weights `first` float32 [P]."""
        self.config, self._context, self._ranking = config, context, ranking
        self._rankers = ranking.rankers()
        with torch.random.fork_rng(devices=[]):  # what it draws is replaced
            module = RankingModule(ranking.names, ranking.places.shape[1], ranking.network)
        module.see([ranking.places])
        module.begin_with(first, self._rankers.weight_format)
        self._training = ScoreGradient(module, LONGEST)
        self._rate = config.ranking.learning_rate * (TRAINED_RATE if ranking.rules else 1.0)
        nodes = ranking.places.shape[0]
        self._steps = max(1, round(config.ranking.steps * min(1.0, config.nodes / nodes)))
        self._critic = PlacementCritic(ranking.places, ranking.names)
        self._known = Known()
        self._fitness: dict[int, float] = {}  # by the digest of what ran
        self._sigma, self._round = FIRST_SIGMA, 0
        self._metrics: dict[str, float] = {}

    # ---- line 5: rollouts

    def ask(self) -> Proposals:
        """The actor's own mapping if it is new, and the best imagined; before there is a critic, some with noise."""
        rng = self._context.generator(f"sac round {self._round}")
        self._round += 1
        count = self.config.ranking.rollouts
        imagined = self._imagine_and_learn(rng) if self._critic.ready else None
        own = self._new(self._own())
        wanted = count - len(own)
        if imagined is not None:
            found = self._best_of(imagined, wanted, rng)
        else:
            found = self._new(self._drawn(count, rng))[:wanted]
        batch = np.concatenate([own, found])
        if len(batch) < count:  # too little is new
            batch = np.concatenate([batch, self._drawn(2 * count, rng)])[:count]
        return proposals(batch, SAC)

    def _own(self) -> Mapping16:
        """The actor's own mapping, int16 [1, N, H]."""
        scores, share = self._rankers.scores(self._weights()[None], self._ranking.places)
        return self._ranking.place(finite(scores), share)

    def _drawn(self, count: int, rng: np.random.Generator) -> Mapping16:
        """`count` mappings, or one more, with noise."""
        return self._ranking.place(*_placed(self._draws(count + count % 2, rng)))

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        return self._training.begin([self._ranking.places], count, self._sigma, rng)[0]

    def _new(self, mapping: Mapping16) -> Mapping16:
        """Those that neither ran nor were proposed."""
        return mapping[[self._known.admit(row) for row in mapping]]

    def _best_of(
        self, imagined: tuple[Mapping16, Floats, Floats], count: int, rng: np.random.Generator
    ) -> Mapping16:
        """Up to `count` new mappings int16 [K, N, H], each the best by a draw for all that were imagined."""
        mapping, mean, deviation = imagined
        found: list[int] = []
        draws = mean + deviation * rng.standard_normal((count, len(mean)))
        for row in draws:
            for k in np.argsort(row, kind="stable"):
                if self._known.admit(mapping[k]):
                    found.append(int(k))
                    break
        return mapping[found]

    # ---- lines 21 to 31: critic and actor

    def observe(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Line 7: what ran, whoever proposed it, is what the critic learns from."""
        ran = evaluation.usable & (evaluation.speedup > 0)
        mapping = evaluation.repaired[ran]
        self._known.add(mapping)
        self._fitness.update(zip(map(digest, mapping), evaluation.reward[ran].tolist(), strict=True))
        learns = np.ones(len(mapping), np.bool_) if self.config.shared else proposals.source[ran] == SAC
        if not learns.any():
            return
        mapping, cost = mapping[learns], -np.log(evaluation.speedup[ran][learns])
        if self._critic.ready:
            self._metrics["critic_error"] = float(np.abs(self._critic.judge(mapping)[0] - cost).mean())
        self._critic.add(mapping, cost)

    def _imagine_and_learn(self, rng: np.random.Generator) -> tuple[Mapping16, Floats, Floats]:
        """All that the actor imagined in a round of steps, with the critic's mean and deviation."""
        seen = []
        for _ in range(self._steps):
            draws = self._draws(self.config.ranking.samples // 2 * 2, rng)
            mapping = self._ranking.place(*_placed(draws))
            mean, deviation = self._critic.judge(mapping)
            seen.append((mapping, mean, deviation))
            losses = mean - HOPE * deviation
            if self._rate:
                losses = (losses - losses.mean()) / (losses.std() + 1e-9)
                self._training.end([draws], [losses], self._rate)
        self._fit_entropy(seen[-1][0])
        mapping, mean, deviation = (np.concatenate(part) for part in zip(*seen, strict=True))
        return mapping, mean, deviation

    def _fit_entropy(self, mapping: Mapping16) -> None:
        """Bring the noise nearer to the target entropy of what is placed, in nats per tensor."""
        places = self._ranking.places
        level = mapping[:, places.node, places.head] + places.offset
        share = np.stack([(level == memory).mean(axis=0) for memory in range(places.features.shape[1])])
        entropy = float(-(share * np.log(np.maximum(share, 1e-9))).sum(axis=0).mean())
        higher = entropy < self.config.ranking.entropy
        self._metrics |= {"entropy": entropy, "sigma": self._sigma}
        self._sigma = float(np.clip(self._sigma * np.exp(STEP if higher else -STEP), *SIGMAS))

    def metrics(self) -> Mapping[str, float]:
        """Mean error of the critic's logarithms on what was measured last; entropy and noise of the last round."""
        return {name: self._metrics.get(name, np.nan) for name in METRICS}

    @property
    def judge(self) -> Judge | None:
        """What the critic hopes of mappings int16 [K, N, H]: mean log cost less a deviation, float64 [K]."""
        return self._hoped if self._critic.ready else None

    def _hoped(self, mapping: Mapping16) -> Floats:
        mean, deviation = self._critic.judge(mapping)
        return mean - deviation

    # ---- line 32, and what is saved

    def _weights(self) -> Weights:
        return self._training.module.weights()

    def migrant(self) -> Migrant | None:
        """The actor, and what its own mapping was worth: it has not learned since it proposed that."""
        if not self.config.migration:
            return None
        return Migrant(self._weights(), self._fitness.get(digest(self._own()[0])))

    def policy(self) -> StoredPolicy:
        """The actor."""
        return self._ranking.policy(self._weights(), self._context.problems[0], seed=self._context.seed)

    def state_dict(self) -> dict[str, Any]:
        """Actor, critic, noise, and what is known."""
        return {
            "training": self._training.state_dict(),
            "critic": self._critic.state_dict(),
            "known": self._known.state_dict(),
            "fitness": {
                "digest": np.array(list(self._fitness), np.int64),
                "reward": np.array(list(self._fitness.values()), np.float64),
            },
            "sigma": self._sigma,
            "round": self._round,
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._training.load_state_dict(state["training"])
        self._critic.load_state_dict(state["critic"])
        self._known.load_state_dict(state["known"])
        ran, reward = (state["fitness"][name].tolist() for name in ("digest", "reward"))
        self._fitness = dict(zip(ran, reward, strict=True))
        self._sigma, self._round, self._metrics = state["sigma"], state["round"], dict(state["metrics"])


def _placed(draws: Draws) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    return finite(draws.scores), draws.free_share
