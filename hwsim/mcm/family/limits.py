"""What a chip has to hold, and what is learned of it from partitions that did not run.

Packages say what fits, and that weights must: what else a chip holds is for its compiler. A limit is two factors: on
the bytes of tensors that a chip sends and receives (buffers), and on those that the node with the most reads and makes
(working set). The prior is log-normal around 1; what ran and what did not is weighed on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from hwsim.family import Limits
from hwsim.jit import kernel
from hwsim.mcm.cost import Tables
from hwsim.problem import Floats

SPREAD, REACH, POINTS = 1.0, 2.5, 25
"""Prior standard deviation of the logarithm of each factor; how far the grid reaches; its points along an axis."""
WIDTH = 0.01
"""How sharp the limit is, as a share of a chip's memory: the grid is coarse, and so are its two terms."""
OTHER = 0.03
"""Share of failures that memory has no part in, and of partitions that run against what is thought."""


@kernel
def held(tables: Tables, made_bytes: NDArray[np.int64], places: NDArray[np.int16]) -> Floats:
    """float64 [B, C, 3]: bytes of weights, of tensors sent and received, and of the largest working set of a node."""
    out = np.zeros((len(places), tables.chips, 3))
    seen = np.empty(tables.chips, np.int64)
    read = np.empty(places.shape[1])
    for b in range(len(places)):
        place = places[b]
        seen[:] = -1
        for n in range(len(place)):
            out[b, place[n], 0] += tables.weight_bytes[n]
            read[n] = made_bytes[n]
        for k in range(len(tables.source)):
            home = place[tables.source[k]]
            for at in range(tables.read_start[k], tables.read_start[k + 1]):
                read[tables.reader[at]] += tables.tensor_bytes[k]
                chip = place[tables.reader[at]]
                if chip != home and seen[chip] != k:
                    seen[chip] = k
                    out[b, chip, 1] += tables.tensor_bytes[k]
                    if seen[home] != k:
                        seen[home] = k
                        out[b, home, 1] += tables.tensor_bytes[k]
        for n in range(len(place)):
            out[b, place[n], 2] = max(out[b, place[n], 2], read[n])
    return out


def needed(held_bytes: Floats, limit: Floats) -> Floats:
    """float64 [..., C]: bytes that chips need, of `held` [..., C, 3] and a limit float64 [2]."""
    return np.asarray(held_bytes[..., 0] + held_bytes[..., 1:] @ np.exp(limit))


@dataclass(frozen=True)
class MemoryLimits(Limits):
    """What is known of the limit of chips of some bytes: log weights float64 [G] of limits float64 [G, 2].

    A limit is the logarithms of the two factors.
    """

    tables: Tables
    made_bytes: NDArray[np.int64]
    grid: Floats
    log_weight: Floats

    @staticmethod
    def prior(tables: Tables, made_bytes: NDArray[np.int64]) -> MemoryLimits:
        """Before anything is known."""
        axis = np.linspace(-REACH, REACH, POINTS)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        log_weight = -0.5 * np.square(grid / SPREAD).sum(axis=1)
        return MemoryLimits(tables, made_bytes, grid, log_weight - logsumexp(log_weight))

    def _chance(self, places: NDArray[np.int16]) -> Floats:
        """float64 [G, B]: with each limit the probability that a partition [B, N] runs."""
        if self.tables.capacity < 0:
            return np.full((len(self.grid), len(places)), 1 - OTHER)
        bytes_held = held(self.tables, self.made_bytes, places)
        most = np.stack([needed(bytes_held, limit).max(axis=1) for limit in self.grid])
        left = (self.tables.capacity - most) / (WIDTH * max(self.tables.capacity, 1))
        return np.asarray(OTHER + (1 - 2 * OTHER) * expit(np.clip(left, -50, 50)))

    def given(self, ran: NDArray[np.int16], failed: NDArray[np.int16]) -> MemoryLimits:
        """With what is known of partitions [B, N, 1] that ran, and of others that did not."""
        log_weight = self.log_weight + np.log(self._chance(_flat(ran))).sum(axis=1)
        log_weight = log_weight + np.log(1 - self._chance(_flat(failed))).sum(axis=1)
        return MemoryLimits(self.tables, self.made_bytes, self.grid, log_weight - logsumexp(log_weight))

    def mode(self) -> Floats:
        """The most likely limit, float64 [2]."""
        return self.grid[int(np.argmax(self.log_weight))]

    def sample(self, rng: np.random.Generator) -> Floats:
        """A limit drawn by its weight, float64 [2]."""
        weight = np.exp(self.log_weight)
        return self.grid[rng.choice(len(weight), p=weight / weight.sum())]

    def probability(self, mapping: NDArray[np.int16]) -> Floats:
        """float64 [B]: how likely mappings [B, N, 1] are to run."""
        return np.asarray(np.exp(self.log_weight) @ self._chance(_flat(mapping)))


def _flat(mapping: NDArray[np.int16]) -> NDArray[np.int16]:
    return np.ascontiguousarray(mapping[:, :, 0])
