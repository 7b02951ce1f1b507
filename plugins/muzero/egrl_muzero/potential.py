"""The return that is expected from each place of a game, as a potential that shapes rewards and values.

Source: Ng, Harada and Russell, "Policy invariance under reward transformations" (ICML 1999): with a potential of states
Phi, rewards r + gamma Phi(s') - Phi(s) have the same best policies, and a value of V(s) - Phi(s).

A *place* is the decision that a game has come to. The potential of a place is what recent games were rewarded with
from there on, so that a network need not learn how long the rest of a program is, only by how much a state is better
or worse than usual. Going back to a backup moves to an earlier place, whose potential is greater: what is left of the
negative reward is the local loss, and what the delay costs under the discount.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from egrl.methods.revise import order
from hwsim.problem import Floats
from hwsim.stepwise import Game


class Potential:
    """Of the places of several games, numbered one after the other.

    Attributes:
        base: int64 [G + 1], the number of each game's first place.
        following: int64 [P], the place after each; the last of each game is its end and follows itself.
        value: float64 [P], Phi; 0 at the ends.
        discount: of a move; `refresh` after it was changed.
    """

    def __init__(self, games: Sequence[Game], discount: float, rate: float) -> None:
        """`rate` is how much a reward counts beside the older ones."""
        self.base = np.cumsum([0, *[len(game.following) for game in games]])
        pairs = list(zip(games, self.base.tolist(), strict=False))
        self.following = np.concatenate([game.following + base for game, base in pairs])
        self._orders = [order(game) + base for game, base in pairs]
        self.discount, self._rate = discount, rate
        self._expected = np.zeros(len(self.following))
        self._seen = np.zeros(len(self.following))
        self.value: Floats = np.zeros(len(self.following))

    def learn(self, place: NDArray[np.int64], reward: Floats, after: NDArray[np.int64]) -> None:
        """Learn from rewards [R] of moves from `place` to `after`; only moves to the following place count."""
        on = after == self.following[place]
        for p, r in zip(place[on].tolist(), reward[on].tolist(), strict=True):
            self._seen[p] += 1
            self._expected[p] += max(self._rate, 1.0 / self._seen[p]) * (r - self._expected[p])

    def refresh(self) -> None:
        """Make `value` of what has been learned."""
        for places in self._orders:
            if len(places):
                self.value[places] = lfilter([1.0], [1.0, -self.discount], self._expected[places][::-1])[::-1]

    def shape(self, place: NDArray[np.int64], reward: Floats, after: NDArray[np.int64]) -> Floats:
        """Rewards [R] with the change of potential from `place` to `after` added."""
        return reward + self.discount * self.value[after] - self.value[place]

    def local(self, place: NDArray[np.int64], reward: Floats, after: NDArray[np.int64]) -> Floats:
        """Targets of a reward model: rewards [R], with the local loss added if a game went back."""
        elsewhere = self.value[after] - self.value[self.following[place]]
        return reward + self.discount * elsewhere

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {
            "expected": self._expected,
            "seen": self._seen,
            "value": self.value,
            "discount": self.discount,
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self._expected, self._seen, self.value = (
            np.array(state[n], np.float64) for n in ("expected", "seen", "value")
        )
        self.discount = float(state["discount"])
