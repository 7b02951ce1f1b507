"""A task as a Gymnasium environment: an episode places one tensor after another, and is one measurement.

An observation is float32: logarithms of the tensor's bytes and of the steps that it is held, whether it is a weight,
its step, the default's memory (one of L), and of each memory the share of its bytes that is free at all of these steps.
An action is a memory. The reward comes with the last tensor: the logarithm of the default's cost over the cost. An
episode is truncated when no measurement is left. Needs `gymnasium`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from egrl_suite.tasks import Task


class PlacementEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """See the module. `task` has what is being placed; `task.left` the episodes that are left."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.first_seed, memories = task, seed, len(task.memories)
        self.tensors = np.argwhere(task.sizes > 0)
        self.action_space = gymnasium.spaces.Discrete(memories)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4 + 2 * memories,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The first tensor."""
        super().reset(seed=seed)
        self._at, self._mapping = 0, np.full(self.task.sizes.shape, -1, np.int16)
        self._free = np.repeat(self.task.capacity[:, None].astype(float), len(self.task.sizes), axis=1)
        return self._observed(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Put the tensor into a memory."""
        op, head = self.tensors[self._at]
        self._mapping[op, head] = int(action)
        self._free[int(action), self._span()] -= self.task.sizes[op, head]
        self._at += 1
        if self._at < len(self.tensors):
            return self._observed(), 0.0, False, False, {}
        self._at -= 1
        if not self.task.left:
            return self._observed(), 0.0, False, True, {}
        told = self.task.measure(self._mapping)
        gain = float(np.log(self.task.default_cost / told.cost)) if np.isfinite(told.cost) else -1.0
        return self._observed(), gain, True, False, {"cost": told.cost, "profile": told.profile}

    def _span(self) -> slice:
        op, head = self.tensors[self._at]
        return slice(self.task.first[op, head], self.task.last[op, head] + 1)

    def _observed(self) -> NDArray[np.float32]:
        (op, head), span, memories = self.tensors[self._at], self._span(), len(self.task.memories)
        size, steps = self.task.sizes[op, head], span.stop - span.start
        known = [np.log1p(size), np.log1p(steps), float(head == 0), op / len(self.task.sizes)]
        usual = np.eye(memories)[self.task.default[op, head]]
        free = self._free[:, span].min(axis=1) / self.task.capacity
        return np.concatenate([known, usual, free]).astype(np.float32)
