"""Ask and tell: a climber that moves a few tensors at a time, and keeps what is not slower.

egrl suite run --track measurements --method ask_tell:Climber --split test -o results.json  (in this folder)
"""

import numpy as np


class Climber:
    """`task` has sizes, first and last [N, H], memories, capacity, default; no speeds on this track."""

    def __init__(self, task, seed):
        self.rng, self.memories = np.random.default_rng(seed), len(task.memories)
        self.tensors = np.argwhere(task.sizes > 0)
        self.best, self.cost = task.default, task.default_cost

    def ask(self):
        """The next placement to measure; None ends the search."""
        mapping = self.best.copy()
        for op, head in self.rng.choice(self.tensors, size=1 + self.rng.poisson(1.0)):
            mapping[op, head] = self.rng.integers(self.memories)
        return mapping

    def tell(self, mapping, cost, profile):
        """Its cost in seconds, infinite if it cannot run; `profile` has those of the parts, or is None."""
        if cost <= self.cost:
            self.best, self.cost = mapping, cost
