"""How an agent chooses its moves: by searches, and with noise.

Sources: as `egrl_muzero.agent`; Plappert et al., "Parameter space noise for exploration" (ICLR 2018).

Slots differ: the first few play without noise, the others with more and more of it (PUCT: all with the same). In every
second slot with noise it may be *coherent*: a random linear function of the embedding, drawn once per game and not once
per move. So each game is played by another policy, while noise drawn per move only blurs the one policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from egrl.core.method import Context
from egrl_muzero.config import PlayConfig
from egrl_muzero.mcts import Gumbel, Policy, Puct, Result, Root, search
from egrl_muzero.model import LearnedModel, TrueModel, priors
from egrl_muzero.networks import MuZeroNet
from egrl_muzero.potential import Potential
from egrl_muzero.table import Seen, Table
from hwsim.keys import derive, run_keys
from hwsim.problem import Floats, Keys
from hwsim.stepwise import Game

PLAY, REANALYSE, ACT, STRAY = 11, 12, 13, 14
"""Streams of keys."""
LONGEST = 1000
"""Moves that a slot strays at most."""

Chosen = tuple[NDArray[np.int64], Floats, Floats]
"""Actions int64 [B], policies float64 [B, A] and values float64 [B]."""


class MoveChooser:
    """See the module.

    Attributes:
        greedy: bool [B], the slots that play without noise.
        steps: gradient steps that the temperature goes by.
    """

    def __init__(
        self,
        config: PlayConfig,
        games: Sequence[Game],
        table: Table,
        net: MuZeroNet,
        potential: Potential,
        context: Context,
    ) -> None:
        self._config, self._table, self._context = config, table, context
        self.steps = 0
        self._model = LearnedModel(net, potential)
        learned = net if config.ablation != "no-learning" else None
        self._by_rules = config.dynamics == "rules" or learned is None
        self._rules = [TrueModel(game, g, table, learned, potential) for g, game in enumerate(games)]
        quiet = round(config.greedy * config.slots)
        slots = np.arange(config.slots)
        self.greedy: NDArray[np.bool_] = slots < quiet
        self._noise = np.clip((slots + 1 - quiet) / max(1, config.slots - quiet), 0, 1)
        self._numbers = {PLAY: 0, REANALYSE: 0, ACT: 0, STRAY: 0}
        self._left, self._same = np.zeros((2, config.slots), np.int64)  # stray moves to come, and which
        self._coherent = ~self.greedy & (slots % 2 == 1) & (config.coherent_scale > 0)
        self._games = np.zeros(config.slots, np.int64)
        self._bent = np.zeros((config.slots, net.config.width, games[0].num_actions))
        for slot in range(config.slots):
            self._bend(slot)

    def refresh(self) -> None:
        """The networks have changed."""
        self._model.refresh()

    def policy(self) -> Policy:
        """How searches go, at the present temperature."""
        config = self._config
        if config.search == "gumbel":
            return Gumbel(
                gumbel_scale=config.gumbel_scale,
                value_scale=config.value_scale,
                maxvisit_init=config.maxvisit_init,
                least_span=config.least_span,
            )
        return Puct(
            dirichlet_fraction=config.noise_fraction,
            dirichlet_alpha=config.noise_alpha,
            temperature=config.temperature.at(self.steps),
        )

    def choose(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Chosen:
        """For what is seen [B, …] in all slots, with legal actions [B, A], at places [B]."""
        if self._config.ablation == "no-search":
            return self._act(seen, legal, place)
        keys = self._keys(len(place), PLAY)
        if not self._by_rules:
            return self._search(
                self._model, self._model.root(seen, legal, place), np.arange(len(place)), keys
            )
        action, weights, value = np.zeros(len(place), np.int64), np.zeros(legal.shape), np.zeros(len(place))
        for model in self._rules:
            rows = model.rows
            action[rows], weights[rows], value[rows] = self._search(model, model.root(), rows, keys[rows])
        return action, weights, value

    def _search(
        self, model: LearnedModel | TrueModel, root: Root, rows: NDArray[np.int64], keys: Keys
    ) -> Chosen:
        """What searches from the roots of some slots propose, each slot with its own noise."""
        policy = self.policy()
        noise = policy.noise(keys, self._bent.shape[2])
        greedy = self.greedy[rows]
        if isinstance(policy, Gumbel):
            noise *= self._noise[rows, None]
            if not self._by_rules and self._coherent.any():
                noise = self._bent_noise(noise, _array(root.embedding[0]))
        else:
            noise[greedy] = softmax(np.asarray(root.prior_logits, np.float64)[greedy], axis=1)
        found = search(root, model.recurrent, self._config.simulations, policy, keys, noise)
        if isinstance(policy, Gumbel):
            return _choose(found)
        return np.where(greedy, found.weights.argmax(axis=1), found.action), found.weights, found.value

    def again(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Chosen:
        """Search remembered moves [M] anew, without noise of the slots' own."""
        root, keys = self._model.root(seen, legal, place), self._keys(len(place), REANALYSE)
        return _choose(search(root, self._model.recurrent, self._config.simulations, self.policy(), keys))

    def values(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Floats:
        """The values of remembered moves [M] by the networks, float64 [M]."""
        return np.asarray(self._model.root(seen, legal, place).value, np.float64)

    def _act(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Chosen:
        """Without search: actions drawn from the policy network; greedy slots take the likeliest."""
        root = self._model.root(seen, legal, place)
        prior = priors(root.prior_logits, legal)
        draw = _unit(self._keys(len(legal), ACT))
        drawn = (np.cumsum(prior, axis=1) < draw[:, None]).sum(axis=1)
        last = legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1)
        return np.where(self.greedy, prior.argmax(axis=1), np.minimum(drawn, last)), prior, root.value

    def stray(
        self, action: NDArray[np.int64], legal: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The actions [B], those of straying slots replaced, and which they are (bool [B]).

        A slot that strays does one and the same for some moves (n of them with a share of 1 / (n (n + 1))), wherever
        that is legal (Dabney, Ostrovski and Barreto, "Temporally-extended epsilon-greedy exploration", ICLR 2021).
        """
        if not self._config.stray:
            return action, np.zeros(len(action), np.bool_)
        keys = self._keys(len(action), STRAY)
        rate = self._config.stray * self._noise / self._table.unit[self._table.problem]
        begins = (self._left == 0) & (_unit(derive(keys, 1)) < rate)
        moves = np.minimum(1.0 / np.maximum(_unit(derive(keys, 2)), 1e-9), LONGEST).astype(np.int64)
        self._left = np.where(begins, moves, self._left)
        self._same = np.where(begins, (_unit(derive(keys, 3)) * legal.shape[1]).astype(np.int64), self._same)
        astray = (self._left > 0) & legal[np.arange(len(action)), self._same] & (self._same != action)
        self._left = np.maximum(self._left - 1, 0)
        return np.where(astray, self._same, action), astray

    def begin(self, slot: int) -> None:
        """A new game begins in a slot."""
        self._left[slot] = 0
        self._games[slot] += 1
        self._bend(slot)

    def _bend(self, slot: int) -> None:
        """Draw the linear function of a slot's game."""
        if self._coherent[slot]:
            rng = self._context.generator(f"muzero coherent noise {slot} {self._games[slot]}")
            self._bent[slot] = rng.standard_normal(self._bent.shape[1:]) / self._bent.shape[1] ** 0.5

    def _bent_noise(self, noise: Floats, embedding: Floats) -> Floats:
        """The noise [B, A], coherent in some slots: embeddings float64 [B, width] have a mean square of 1."""
        bent = np.einsum("bw,bwa->ba", embedding, self._bent) * self._config.coherent_scale
        return np.where(self._coherent[:, None], bent * self._noise[:, None], noise)

    def _keys(self, rows: int, stream: int) -> Keys:
        first = self._numbers[stream]
        self._numbers[stream] = first + rows
        return run_keys(self._context.seed, np.arange(first, first + rows), stream)

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        numbers = {str(stream): number for stream, number in self._numbers.items()}
        return {"numbers": numbers, "left": self._left, "same": self._same, "games": self._games}

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self._numbers = {int(stream): int(number) for stream, number in state["numbers"].items()}
        self._left, self._same = np.array(state["left"]), np.array(state["same"])
        self._games = np.array(state["games"])
        for slot in range(len(self._games)):
            self._bend(slot)


def _choose(found: Result) -> Chosen:
    """The proposals of a search."""
    return found.action, found.weights, found.value


def _array(embedding: Any) -> Floats:
    """An embedding [B, width], of numpy or on a device."""
    return np.asarray(embedding.cpu() if hasattr(embedding, "cpu") else embedding, np.float64)


def _unit(keys: Keys) -> Floats:
    """Keys as numbers from 0 to 1."""
    return np.asarray((keys >> np.uint64(11)) * 2.0**-53, np.float64)
