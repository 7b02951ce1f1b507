"""What SAC learns from: the decisions of one task, and transitions of its episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.graph import Graph


@dataclass(frozen=True)
class Task:
    """What is decided: a graph of N nodes, int16 [N, H] numbers of choices, bool [N, H] live decisions."""

    graph: Graph
    num_choices: NDArray[np.int16]
    live: NDArray[np.bool_]

    def __post_init__(self) -> None:
        for name, array in (("num_choices", self.num_choices), ("live", self.live)):
            if array.ndim != 2 or len(array) != self.graph.nodes or array.shape != self.live.shape:
                raise ValueError(
                    f"{name}: expected shape [{self.graph.nodes}, H], received {list(array.shape)}"
                )


@dataclass(frozen=True)
class Transitions:
    """B transitions of one task.

    Attributes:
        x: float32 [N, F] (one state) or [B, N, F].
        action: int16 [B, N, H], -1 = unused.
        reward: float32 [B], unscaled.
        next_x: as x; looked at only where a row is not done.
        done: bool [B], the episode ended with this transition.
        elite: float32 [N, H, C], each choice's share among the best mappings, or None: nothing to imitate.
    """

    x: NDArray[np.float32]
    action: NDArray[np.int16]
    reward: NDArray[np.float32]
    next_x: NDArray[np.float32]
    done: NDArray[np.bool_]
    elite: NDArray[np.float32] | None = None

    def check(self, task: Task, choices: int) -> None:
        """Raises ValueError where a shape does not fit a task with so many choices, or a reward is not finite."""
        size = (len(self.action), *task.num_choices.shape)
        if self.action.shape != size:
            raise ValueError(f"action: expected shape {list(size)}, received {list(self.action.shape)}")
        if self.reward.shape != size[:1] or not np.isfinite(self.reward).all():
            raise ValueError(f"reward: expected {size[0]} finite values, received {self.reward!r}")
        if self.done.shape != size[:1] or self.done.dtype != np.bool_:
            raise ValueError(f"done: expected bool [{size[0]}], received {self.done.dtype} {self.done.shape}")
        if self.elite is not None and self.elite.shape != (*size[1:], choices):
            raise ValueError(
                f"elite: expected shape {[*size[1:], choices]}, received {list(self.elite.shape)}"
            )
        legal = self.action < np.maximum(task.num_choices, 1)
        if not legal.all() or self.action.min(initial=0) < -1:
            raise ValueError("action: expected -1 or a choice below num_choices, received another number")
