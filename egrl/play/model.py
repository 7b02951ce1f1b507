"""A trained model as the dynamics of a search: MuZero's networks, or a game's own rules with networks at the leaves.

Rewards and values are shaped by a `Potential`: what the networks say of a state is by how much it is better than usual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from egrl.mcts import Root, Step
from egrl.play.potential import Potential
from policies.muzero import MuZeroNet

Seen = dict[str, NDArray[Any]]


def tensors(seen: Seen, device: torch.device) -> dict[str, Tensor]:
    """Arrays as tensors on a device."""
    return {name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in seen.items()}


class Model:
    """Networks and a potential."""

    def __init__(self, net: MuZeroNet, potential: Potential, discount: float) -> None:
        self._net, self._potential, self._discount = net, potential, discount
        self._device = next(net.parameters()).device

    def root(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Root:
        """Where searches of B games begin; `place` int64 [B], numbered through all problems."""
        with torch.inference_mode():
            embedding = self._net.represent(tensors(seen, self._device))
            logits, scalars = self._read(embedding)
        return Root(logits, scalars[:, 0], (embedding, place), legal)

    def recurrent(self, given: tuple[Tensor, NDArray[np.int64]], action: NDArray[np.int64]) -> Step:
        """What follows in the model; a game ends after its last place."""
        before, place = given
        with torch.inference_mode():
            embedding = self._net.step(before, torch.from_numpy(action).to(self._device))
            logits, scalars = self._read(embedding)
        after = self._potential.following[place]
        reward = self._potential.shaped(place, scalars[:, 1], after)
        discount = np.where(self._potential.following[after] == after, 0.0, self._discount)
        return Step(reward, discount, logits, scalars[:, 0], (embedding, after))

    def _read(self, embedding: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Policy logits [R, A]; value and reward [R, 2]."""
        actions, bins = self._net.seen.actions, self._net.config.bins
        out = self._net.read(embedding)
        scalars = self._net.support.mean(out[:, actions:].reshape(-1, 2, bins))
        return out[:, :actions].cpu().numpy(), scalars.cpu().numpy().astype(np.float64)
