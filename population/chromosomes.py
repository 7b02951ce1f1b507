"""Chromosomes that search locally: anchored on a mapping that ran, changed by moves, read with their temperatures.

Source: EGRL, section 3 and appendix E, for a prior and a temperature per decision; our own for what follows.

Deviations:
- Once its mapping has run, a chromosome's prior is that mapping: 1 for what it chose, 0 for the rest. Its temperature
  is one at which noise changes about `CHANGES` decisions, not one at which all are drawn at random.
- Mutation is a few local moves (`population.moves`), not noise on every prior, which would change either nothing or
  everything. What has moved gets twice the prior, so that a placer places it first.
- Seeding (lines 16 and 17): the prior is a network's scores, not probabilities; and a child's prior has a share
  `SCORES` of the best network's scores, which say what takes the place of what no longer fits.
- A temperature changes by log-normal factors, one for all decisions and one for each.
- A seeded chromosome keeps the share of the prefetch memory free that its network does; an anchored one none, since its
  mapping shows what fits.
- Chromosomes are not crossed: half of one mapping and half of another seldom fit together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from population.config import Decisions
from population.genome import Boltzmann, boltzmann_from_mapping
from population.moves import Moves

CHANGES = 0.1
"""Expected number of decisions that the noise of a fresh temperature changes."""
SCORES = 0.3
"""Share of a network's scores, of standard deviation 1, in the prior of a child."""
MOVED, KEPT_FAST = 2.0, 0.05
"""Prior of what has moved; least prior of the memories above the slowest for a tensor that is in one of them."""
FACTORS = (0.1, 0.2)
"""Standard deviations of the logarithms of the factors on temperatures."""
COLDEST, HOTTEST = 0.02, 0.5

Floats = NDArray[np.float32]


def mapping_of(genome: Boltzmann, live: NDArray[np.bool_]) -> NDArray[np.int16]:
    """The mapping int16 [N, H] that an anchored chromosome prefers; -1 where not live."""
    return np.where(live, genome.prior.argmax(axis=-1), -1).astype(np.int16)


def of_unit_spread(scores: Floats) -> Floats:
    """Scores float32 [T, L] over their standard deviation in the memories above the slowest."""
    spread = float(scores[:, 1:].std()) if scores[:, 1:].size else 0.0
    return scores if spread == 0 else (scores / np.float32(spread)).astype(np.float32)


@dataclass(frozen=True)
class Chromosomes:
    """Makes chromosomes for some decisions."""

    decisions: Decisions

    def anchored(self, ran: NDArray[np.int16], temperature: Floats | None = None) -> Boltzmann:
        """A chromosome with a mapping int16 [N, H] as its prior; with fresh temperatures, if none [N, H] are given."""
        given = self.decisions
        open_ = max(1, int((given.live & (given.num_choices > 1)).sum()))
        fresh = boltzmann_from_mapping(ran, given.num_choices, given.choices, 1 - min(CHANGES / open_, 0.5))
        return fresh if temperature is None else Boltzmann(fresh.prior, temperature)

    def seeded(self, scores: Floats, free: float) -> Boltzmann:
        """A chromosome with a network's scores float32 [T, L] as its prior, and its `free` share (lines 16 and 17)."""
        ranked, given = self.decisions.ranked, self.decisions
        assert ranked is not None
        prior = ranked.places.priors_of(of_unit_spread(scores)[None], given.choices)[0]
        return Boltzmann(prior, self.anchored(np.minimum(given.num_choices, 1) - 1).temperature, free)

    def child(
        self, parent: Boltzmann, scores: Floats | None, moves: Moves, rng: np.random.Generator
    ) -> Boltzmann:
        """An anchored parent after a few moves; `scores` float32 [T, L] of unit spread are in its prior, if given."""
        before = mapping_of(parent, self.decisions.live)
        moved = moves.propose(before, rng)
        prior = self.anchored(moved, parent.temperature).prior
        if scores is not None:
            prior = self._with_scores(prior, before, moved, scores)
        return Boltzmann(prior, self._changed(parent.temperature, rng))

    def _with_scores(
        self, prior: Floats, before: NDArray[np.int16], moved: NDArray[np.int16], scores: Floats
    ) -> Floats:
        """An anchored prior [N, H, C] that a placer reads: what moved first, what no longer fits by the scores."""
        ranked = self.decisions.ranked
        assert ranked is not None
        places = ranked.places
        prior = np.where((moved != before)[..., None], MOVED * prior, prior)
        found = places.scores_of(prior[None])[0]
        slow = moved[places.node, places.head] + places.offset <= 0
        found[:, 1:] += SCORES * scores[:, 1:]
        # Of a unit of prior each: what is slow stays slow, unless its scores are very high; what is fast is placed, and
        # if it no longer fits, in another of the faster memories.
        found[slow, 1:] -= 1.0
        found[~slow, 1:] = 1.0 + np.maximum(found[~slow, 1:], KEPT_FAST)
        return places.priors_of(found[None], self.decisions.choices)[0]

    def _changed(self, temperature: Floats, rng: np.random.Generator) -> Floats:
        of_all, of_each = FACTORS
        factor = np.exp(of_all * rng.standard_normal() + of_each * rng.standard_normal(temperature.shape))
        return np.clip(temperature * factor, COLDEST, HOTTEST).astype(np.float32)
