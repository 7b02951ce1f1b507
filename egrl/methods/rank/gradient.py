"""The gradient of a ranking network's scores: which way they should move, judged by placed mappings.

    round: some of the problems; the network's scores s of each (`RankingModule`: their mean square is 1)
    s + sigma e_k and s - sigma e_k are placed for draws e_k ~ N(0, I); l_k are the losses of these mappings
    mean((l_k - mean(l)) e_k) / sigma estimates the gradient of the expected loss with regard to s,
    which goes on to the weights by backpropagation; its length is cut, and Adam takes a step

Source: Williams, "Simple statistical gradient-following algorithms" (1992), section 6, for Gaussian units; mirrored
draws as Salimans et al. (2017), section 2.1.

Evolution strategies put the noise on weights: their estimate gets worse with the number of weights. Here it is on
scores, of which one problem has some hundred, and each is a lesson for all weights. Scores of one size are needed:
without, a network learns to make the noise small by making its scores large, and then learns nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from policies.adam import Adam
from policies.context_module import Batch
from policies.places import Places
from policies.ranker import free_share
from policies.ranking_module import RankingModule

CUT, SMALL = 0.5, 0.02
"""Largest log cost over the least one that counts, and what is added to the log gain before its root."""


def regret(relative: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """The loss float64 [B] of mappings, by their costs over the baseline's, of which `least` is the least so far.

    It is the logarithm of cost / least, cut, over the root of what has been gained: what is hard to gain on one problem
    counts beside what is easy on another.
    """
    weight = (max(-float(np.log(least)), 0.0) + SMALL) ** -0.5
    return np.asarray(np.minimum(np.log(relative / least), CUT) * weight)


def relative_cost(usable: NDArray[np.bool_], speedup: NDArray[np.float64]) -> NDArray[np.float64]:
    """Costs over the baseline's float64 [B], infinite where nothing ran.

    By speedups, since the baseline of a board is measured: the problem knows what its model says.
    """
    ran = usable & (speedup > 0)
    return np.where(ran, 1.0 / np.where(ran, speedup, 1.0), np.inf)


@dataclass
class Draws:
    """What is placed of one problem in a round: B mappings with noise, in mirrored pairs.

    Attributes:
        scores: float32 [B, T, L].
        free_share: float64 [B].
        noise, free_noise: float32 [B, T, L - 1] and [B], what was added to the scores, over sigma.
        sigma: standard deviation of what was added.
    """

    scores: NDArray[np.float32]
    free_share: NDArray[np.float64]
    noise: NDArray[np.float32]
    free_noise: NDArray[np.float32]
    sigma: float


class ScoreGradient:
    """Trains a module, round by round: `begin`, place and measure, `end`."""

    def __init__(self, module: RankingModule, longest: float, input_noise: float = 0.0) -> None:
        """`longest` and `input_noise` are those of `ScoreGradientConfig`."""
        self.module, self.rounds = module, 0
        self._longest, self._input_noise = longest, input_noise
        self._adam = Adam(module.parameters(), 1.0)
        self._said: tuple[Tensor, Tensor] | None = None

    def begin(
        self, given: Sequence[Places], samples: int, sigma: float, rng: np.random.Generator
    ) -> list[Draws]:
        """What is to be placed of each of some problems: `samples` // 2 pairs, with noise of size `sigma`."""
        scores, free = self._said = self.module(self._blurred(Batch.of(given), rng))
        found, row = [], 0
        for places, own in zip(given, free.detach().numpy(), strict=True):
            shape = places.rows.shape[:2]
            end = row + shape[0] * shape[1]
            mine = scores.detach().numpy()[row:end].reshape(shape)
            found.append(_draws(mine, float(own), samples // 2, sigma, rng))
            row = end
        return found

    def _blurred(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """With noise on the features that a row has: a feature of 0 says that there is none."""
        if not self._input_noise:
            return batch
        features = self.module.coefficients.shape[2]
        inputs = batch.inputs.clone()
        seen = inputs[:, :features]
        noise = torch.from_numpy(rng.standard_normal(seen.shape, dtype=np.float32))
        seen += self._input_noise * noise * self.module.spread[:features] * (seen != 0)
        return replace(batch, inputs=inputs)

    def end(
        self, draws: Sequence[Draws], losses: Sequence[NDArray[np.float64]], learning_rate: float
    ) -> float:
        """Take a step by the losses of each problem's mappings, float64 [B]. Returns the gradient's length."""
        assert self._said is not None
        scores, free = self._said
        slopes, free_slopes = zip(
            *(_slopes(own, loss) for own, loss in zip(draws, losses, strict=True)), strict=True
        )
        surrogate = (scores * torch.from_numpy(np.concatenate([s.reshape(-1) for s in slopes]))).sum()
        surrogate = surrogate + (free * torch.tensor(free_slopes, dtype=torch.float32)).sum()
        self._adam.learning_rate = learning_rate
        self._adam.zero_grad()
        (surrogate / len(draws)).backward()  # type: ignore[no-untyped-call]
        length = nn.utils.clip_grad_norm_(self.module.parameters(), self._longest)
        self._adam.step()
        self._said = None
        self.rounds += 1
        return float(length)

    def state_dict(self) -> dict[str, Any]:
        """Between two rounds: weights and buffers, and what Adam keeps."""
        return {
            "module": {name: value.numpy().copy() for name, value in self.module.state_dict().items()},
            "adam": self._adam.state_dict(),
            "rounds": self.rounds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.module.load_state_dict({name: torch.tensor(value) for name, value in state["module"].items()})
        self._adam.load_state_dict(state["adam"])
        self.rounds = int(state["rounds"])


def _draws(
    scores: NDArray[np.float32], free: float, half: int, sigma: float, rng: np.random.Generator
) -> Draws:
    noise = rng.standard_normal((half, *scores.shape), dtype=np.float32)
    free_noise = rng.standard_normal(half, dtype=np.float32)
    noise, free_noise = np.concatenate([noise, -noise]), np.concatenate([free_noise, -free_noise])
    placed = np.zeros((2 * half, len(scores), scores.shape[1] + 1), np.float32)
    placed[:, :, 1:] = scores + np.float32(sigma) * noise
    return Draws(placed, free_share(free + sigma * free_noise), noise, free_noise, sigma)


def _slopes(draws: Draws, losses: NDArray[np.float64]) -> tuple[NDArray[np.float32], float]:
    """Estimated slopes of the loss with regard to the scores [T, L - 1] and to the weight of `free`."""
    centred = ((losses - losses.mean()) / (len(losses) * draws.sigma)).astype(np.float32)
    return np.tensordot(centred, draws.noise, axes=1), float(centred @ draws.free_noise)
