"""The residual of the shared model of op times: an addition per op, access and memory.

Source: Gaussian-process regression on the placements of one op, with a kernel that counts equal places (Rasmussen and
Williams, 2006, chapter 2); draws by Matheron's rule (Wilson et al., ICML 2020).

Deviations: the kernel is additive over accesses, so that an op with many inputs has a small table. One size for all
ops is chosen by the marginal likelihood; the noise is that among equal placements of an op.
"""

from __future__ import annotations

import numpy as np

from egrl.methods.profile_model.accesses import Accesses
from hwsim.problem import Floats, Mapping16

SIZES = (0.0, 0.02, 0.05, 0.1, 0.2)
"""Standard deviations of the logarithm that are tried."""
FIRST = 8
"""Accesses of an op, its last ones, that have an entry: its own tensors and some inputs."""
LARGEST = 1.0
"""The largest logarithm."""
ENOUGH = 50
"""Degrees of freedom from which the noise is taken from equal placements."""


class Residual:
    """See the module; K is the largest number of different placements of an op that were measured.

    Attributes:
        size: the standard deviation that explains the profiles best; 0: there is no residual.
        noise: standard deviation of the logarithm of a measured time.
    """

    def __init__(self, accesses: Accesses, mapping: Mapping16, left: Floats, noise: float) -> None:
        """`left` float64 [M, N] is what the model leaves of the log seconds of M mappings; NaN: not known."""
        self._accesses = accesses
        nodes, levels = len(accesses.output), len(accesses.capacity)
        self._begin = np.maximum(accesses.start[:-1], accesses.start[1:] - FIRST)
        self._width = levels * max(1, int((accesses.start[1:] - self._begin).max(initial=0)))
        groups = [self._placements(mapping, i) for i in range(nodes)]
        most = max(len(rows) for rows, _ in groups)
        self._count, self._mean = np.zeros((nodes, most)), np.zeros((nodes, most))
        self._design = np.zeros((nodes, most, self._width))
        known, value = np.isfinite(left), np.where(np.isfinite(left), left, 0.0)
        squares = 0.0
        for i, (rows, group) in enumerate(groups):
            count = np.bincount(group, known[:, i], len(rows))
            mean = np.bincount(group, value[:, i], len(rows)) / np.maximum(count, 1)
            self._count[i, : len(rows)], self._mean[i, : len(rows)] = count, mean
            row, access = np.nonzero(rows >= 0)
            self._design[i, row, access * levels + rows[row, access]] = max(1, rows.shape[1]) ** -0.5
            # Equal placements of an op differ by noise alone.
            squares += float((known[:, i] * (value[:, i] - mean[group]) ** 2).sum())
        free = float(known.sum() - (self._count > 0).sum())
        self.noise = max(0.5 * noise, (squares / free) ** 0.5) if free > ENOUGH else noise
        self._fit()

    def _placements(self, mapping: Mapping16, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The different placements [K, accesses] of op i, and which one each of M mappings has, [M]."""
        a = slice(self._begin[i], self._accesses.start[i + 1])
        places = mapping[:, self._accesses.node[a], self._accesses.head[a]]
        rows, group = np.unique(places, axis=0, return_inverse=True)
        return rows, group.reshape(-1)

    def _fit(self) -> None:
        gram = self._design @ self._design.transpose(0, 2, 1)
        seen = self._count > 0
        diagonal = np.where(seen, self.noise**2 / np.maximum(self._count, 1), 1.0)
        at = np.arange(gram.shape[1])
        # The marginal likelihood chooses the size: too small a one misfits, too large a one explains noise.
        best = -np.inf
        for size in SIZES:
            covariance = size**2 * gram
            covariance[:, at, at] += diagonal
            root = np.linalg.cholesky(covariance)
            white = np.linalg.solve(root, self._mean[:, :, None])
            evidence = -0.5 * float((white**2).sum()) - float(
                np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
            )
            if evidence > best:
                best, self.size, self._covariance = evidence, size, covariance

    def table(self, rng: np.random.Generator | None = None) -> Floats:
        """What each access in each memory adds to the log seconds of its op, float64 [A, L]: the mean, or a draw."""
        accesses, levels = self._accesses, len(self._accesses.capacity)
        found = np.zeros((len(accesses.node), levels))
        if self.size == 0.0:
            return found
        prior, target = np.zeros((len(self._mean), self._width)), self._mean
        if rng is not None:
            prior = self.size * rng.standard_normal(prior.shape)
            noise = self.noise / np.sqrt(np.maximum(self._count, 1)) * rng.standard_normal(target.shape)
            # Matheron's rule: a draw from the prior, corrected by what was measured.
            target = target - (self._design @ prior[:, :, None])[:, :, 0] - noise
        target = np.where(self._count > 0, target, 0.0)
        weights = np.linalg.solve(self._covariance, target[:, :, None])
        entries = prior + self.size**2 * (self._design.transpose(0, 2, 1) @ weights)[:, :, 0]
        for i, (begin, end) in enumerate(zip(self._begin, accesses.start[1:], strict=True)):
            if end > begin:
                own = entries[i, : (end - begin) * levels].reshape(-1, levels)
                found[begin:end] = own * (end - begin) ** -0.5
        return np.clip(found, -LARGEST, LARGEST)
