"""Placing by score: a policy ranks tensors, and a problem's placer puts each where it still fits.

A score says how much a tensor belongs in a memory, or a node on a chip. Tensors are taken by falling *priority*, the
best of a tensor's scores less that of the slowest memory. Each goes to the memory of its highest score that still has
room for it; if no memory with a higher score than the slowest one has room, it goes to the slowest one. So every result
is valid, and what a policy proposed is what runs. On chips (`hwsim.mcm.placer`) a constraint solver takes the nodes by
how much better their best chip suits them than the second, and leaves out chips that the rules of the package forbid.

A small change of the scores changes the order of a few tensors, so that the cost changes little; where a policy names
memories and a repair moves what does not fit, one more tensor in a full memory may push out many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hwsim.problem import Mapping16, Profiles

Scores = NDArray[np.float32]


class Placer(ABC):
    """Places the T tensors of a problem in its L memories; memory 0 is the slowest and has room for all.

    Where nothing has room for all, as on chips, memory 0 is none, and every tensor is placed in one of the others.

    Attributes:
        offset: memory l is choice l - offset of a decision: 1 where memory 0 is none, else 0.
        by_key: whether the key of an evaluation decides what runs of a mapping that does not fit.
        node: int64 [T], the node that each tensor belongs to, rising.
        head: int64 [T], the decision of that node that says where the tensor is.
        features: float32 [T, L, F], what a policy sees of putting a tensor in a memory: numbers without a unit, which
            mean the same for every network and chip. Those of memory 0 are 0.
        feature_names: F names; equal names mean the same.
        profile_names: G names of what a policy may see beside these of a profile; empty if there is nothing to see.
    """

    offset: int = 0
    by_key: bool = False
    node: NDArray[np.int64]
    head: NDArray[np.int64]
    features: NDArray[np.float32]
    feature_names: tuple[str, ...]
    profile_names: tuple[str, ...] = ()

    @abstractmethod
    def place(self, scores: Scores, free_share: NDArray[np.float64]) -> Mapping16:
        """Valid canonical mappings int16 [B, N, H] of scores float32 [B, T, L].

        A score of -inf keeps a tensor out of a memory. `free_share` float64 [B], 0..1, is the share that stays empty of
        the memory into which weights are prefetched; a problem without prefetching ignores it. Of equal priorities the
        first tensor is placed first, of equal scores the tensor goes to the faster memory.

        Raises:
            ValueError: a shape or dtype is wrong, a score is neither finite nor -inf, or a share is outside 0..1.
        """

    def of_profile(self, mapping: Mapping16, profile: Profiles) -> NDArray[np.float32]:
        """What a policy sees of a canonical mapping int16 [N, H] and its profile float32 [P] (`Evaluation.parts`).

        Float32 [T, L, G]; NaN in the profile is a part that nobody measured.
        """
        return np.zeros((*self.features.shape[:2], len(self.profile_names)), np.float32)

    def check(self, scores: Scores, free_share: NDArray[np.float64]) -> None:
        """Raise ValueError as `place` says."""
        tensors, memories = self.features.shape[:2]
        if scores.dtype != np.float32 or scores.ndim != 3 or scores.shape[1:] != (tensors, memories):
            raise ValueError(
                f"scores: expected float32 [B, {tensors}, {memories}], received {scores.dtype} {list(scores.shape)}"
            )
        if np.isnan(scores).any() or np.isposinf(scores).any() or not np.isfinite(scores[:, :, 0]).all():
            raise ValueError(
                "scores: expected finite numbers, or -inf in a memory other than the slowest, received others"
            )
        if free_share.shape != scores.shape[:1] or not ((free_share >= 0) & (free_share <= 1)).all():
            raise ValueError(f"free_share: expected {len(scores)} numbers in 0..1, received {free_share!r}")


def ranked(scores: Scores) -> NDArray[np.int64]:
    """The order int64 [B, T] in which tensors of scores float32 [B, T, L] are placed; of equal ones the first first."""
    if scores.shape[2] < 2:
        return np.zeros(scores.shape[:2], np.int64) + np.arange(scores.shape[1])
    # Memory by memory: a reduction over an axis as short as this one takes several times as long.
    best = reduce(np.maximum, (scores[:, :, level] for level in range(1, scores.shape[2])))
    priority = best - scores[:, :, 0]
    order: NDArray[np.int64] = np.argsort(-priority, axis=1, kind="stable")
    return order
