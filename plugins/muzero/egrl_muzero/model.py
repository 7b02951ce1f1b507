"""Dynamics of a search that networks know: MuZero's learned ones, or a game's own rules with networks at the leaves.

Rewards and values are shaped by a `Potential`: what the networks say of a state is by how much it is better than usual.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egrl_muzero import compiled
from egrl_muzero.mcts import Root, Step, game_dynamics, unguided
from egrl_muzero.networks import MuZeroNet, tensors
from egrl_muzero.potential import Potential
from egrl_muzero.table import Seen, Table
from hwsim.problem import Floats
from hwsim.stepwise import Game


def priors(logits: NDArray[Any], legal: NDArray[np.bool_]) -> Floats:
    """Float64 [B, A], the softmax of logits [B, A] over legal actions."""
    masked = np.where(legal, logits, -np.inf)
    odds = np.exp(masked - masked.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), np.float64)


class LearnedModel:
    """Representation, dynamics and prediction networks; a game ends after its last place.

    On a CPU the networks are read through compiled copies: `refresh` takes new ones after they have learned.
    """

    def __init__(self, net: MuZeroNet, potential: Potential) -> None:
        self._net, self._potential = net, potential
        self._device = next(net.parameters()).device
        self._weights: compiled.Weights | None = None
        self.refresh()

    def refresh(self) -> None:
        """Know what the networks know now."""
        if self._device.type == "cpu":
            self._weights = compiled.copy_weights(self._net)

    def root(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Root:
        """Where searches of B games begin; `place` int64 [B], numbered through all problems."""
        with torch.inference_mode():
            embedding: Any = self._net.represent(tensors(seen, self._device))
            if self._weights is None:
                logits, scalars = self._read(embedding)
            else:
                embedding = embedding.numpy()
                logits, scalars = compiled.read(self._weights, embedding)
        return Root(logits, scalars[:, 0], (embedding, place), legal)

    def recurrent(self, given: tuple[Any, NDArray[np.int64]], action: NDArray[np.int64]) -> Step:
        """What follows actions int64 [R]."""
        before, place = given
        embedding: Any
        if self._weights is None:
            with torch.inference_mode():
                embedding = self._net.step(before, torch.from_numpy(action).to(self._device))
                logits, scalars = self._read(embedding)
        else:
            embedding, logits, scalars = compiled.step(self._weights, before, action)
        after = self._potential.following[place]
        reward = self._potential.shape(place, scalars[:, 1], after)
        discount = np.where(self._potential.following[after] == after, 0.0, self._potential.discount)
        return Step(reward, discount, logits, scalars[:, 0], (embedding, after))

    def _read(self, embedding: Tensor) -> tuple[NDArray[np.float32], Floats]:
        """Policy logits [R, A]; value and reward [R, 2]."""
        actions, bins = self._net.shapes.actions, self._net.config.bins
        out = self._net.read(embedding)
        scalars = self._net.support.mean(out[:, actions:].reshape(-1, 2, bins))
        return out[:, :actions].cpu().numpy(), scalars.cpu().numpy().astype(np.float64)


class TrueModel:
    """The rules of one problem's game; without networks all is equally likely and worth nothing, and nothing is shaped.

    Attributes:
        rows: int64 [R], the slots that play this game.
    """

    def __init__(
        self,
        game: Game,
        problem: int,
        table: Table,
        net: MuZeroNet | None,
        potential: Potential,
    ) -> None:
        self._game, self._problem, self._table, self._net = game, problem, table, net
        self._potential = potential
        evaluate = unguided(game) if net is None else self._evaluate
        self._root, self._recurrent = game_dynamics(game, evaluate)
        self.rows = np.flatnonzero(table.problem == problem)

    def root(self) -> Root:
        """Where searches of the games in `rows` begin."""
        return self._root(self._table.state_of(self._problem))

    def recurrent(self, state: Any, action: NDArray[np.int64]) -> Step:
        """What follows actions int64 [R]."""
        use, decisions = self._table.use, self._table.unit[self._problem]
        with use.timed():
            step = self._recurrent(state, action)
        use.calls += len(action) / max(1.0, decisions)
        reward = step.reward * decisions
        if self._net is not None:
            base = int(self._potential.base[self._problem])
            place, after = (self._game.place(each) + base for each in (state, step.embedding))
            reward = self._potential.shape(place, reward, after)
        return replace(step, reward=reward, discount=step.discount * self._potential.discount)

    def _evaluate(self, state: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        net = self._net
        assert net is not None
        seen = self._table.seen(self._problem, state)
        device = next(net.parameters()).device
        actions, bins = net.shapes.actions, net.config.bins
        with torch.inference_mode():
            out = net.read(net.represent(tensors(seen, device)))
            value = net.support.mean(out[:, actions : actions + bins])
        return out[:, :actions].cpu().numpy(), value.cpu().numpy()
