"""UMAP: points in two dimensions whose neighbours are those of given distances.

Source: McInnes, Healy and Melville, "UMAP: Uniform Manifold Approximation and Projection" (2018), section 4 and
algorithms 1 to 5; the values of its package umap-learn where the paper leaves them open (negative samples, clipping,
number of epochs, curve of `min_dist` 0.1).

The package itself compiles its kernels anew in each process, a quarter of a minute for a fifth of a second of work.

Deviations:
- Neighbours are exact, by sorting: for hundreds of points that takes no time.
- The first places are eigenvectors of the whole graph's Laplacian, where it falls into parts, too; umap-learn lays
  these out by themselves first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel

Floats = NDArray[np.float64]

A, B = 1.5769434603113077, 0.8950608779109733
"""Of the curve 1 / (1 + a d^(2b)) that is near 1 up to `min_dist` 0.1 and falls off from there (umap-learn's fit)."""
EPOCHS = 500
NEGATIVE = 5
"""Points that are pushed away for each neighbour that is pulled."""
CLIP = 4.0
WIDTH = 10.0
"""Of the first places, in each dimension."""
STEPS = 64
"""Of the bisection for a point's scale."""
LEAST = 1e-3
"""A point's scale is at least this share of the mean distance to its neighbours."""


def umap(distance: Floats, neighbours: int, seed: int) -> Floats:
    """float64 [M, 2] of distances [M, M]; `neighbours` of a point are counted with the point itself."""
    graph = _graph(np.asarray(distance, np.float64), neighbours)
    rng = np.random.default_rng(seed)
    points = _first(graph, rng)
    head, tail = np.nonzero(graph >= graph.max() / EPOCHS)
    every = graph.max() / graph[head, tail]
    _lay_out(points, head, tail, every, EPOCHS, int(rng.integers(1, 2**31)))
    return points


def _graph(distance: Floats, neighbours: int) -> Floats:
    """How sure it is that two points are neighbours, float64 [M, M], symmetric."""
    count = len(distance)
    order = np.argsort(distance, axis=1, kind="stable")[:, :neighbours]
    near = np.take_along_axis(distance, order, axis=1)
    nearest = np.array([row[row > 0].min(initial=np.inf) for row in near])
    nearest = np.where(np.isfinite(nearest), nearest, 0.0)
    beyond = np.maximum(near - nearest[:, None], 0.0)
    low, high, scale = np.zeros(count), np.full(count, np.inf), np.ones(count)
    for _ in range(STEPS):
        total = np.exp(-beyond[:, 1:] / scale[:, None]).sum(axis=1)
        above = total > np.log2(neighbours)
        high, low = np.where(above, scale, high), np.where(above, low, scale)
        scale = np.where(np.isfinite(high), (low + high) / 2, scale * 2)
    mean = np.where(nearest > 0, near.mean(axis=1), near.mean())
    scale = np.maximum(scale, np.maximum(LEAST * mean, np.finfo(np.float64).tiny))
    sure = np.zeros((count, count))
    np.put_along_axis(sure, order, np.exp(-beyond / scale[:, None]), axis=1)
    np.fill_diagonal(sure, 0.0)
    return np.asarray(sure + sure.T - sure * sure.T)


def _first(graph: Floats, rng: np.random.Generator) -> Floats:
    """First places, float64 [M, 2]: eigenvectors of the normalised Laplacian, spread out, with a little noise."""
    root = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-12))
    _, vectors = np.linalg.eigh(np.eye(len(graph)) - root[:, None] * graph * root)
    points = vectors[:, 1:3]
    points = points / max(float(np.abs(points).max()), 1e-12) * WIDTH + rng.normal(0, 1e-4, points.shape)
    low, high = points.min(axis=0), points.max(axis=0)
    return np.ascontiguousarray(WIDTH * (points - low) / np.maximum(high - low, 1e-12))


@kernel
def _lay_out(
    points: Floats,
    head: NDArray[np.int64],
    tail: NDArray[np.int64],
    every: Floats,
    epochs: int,
    seed: int,
) -> None:
    """Move points [M, 2]: edge k pulls its ends together every `every[k]` epochs, and pushes others away each time."""
    state = seed
    due = every.copy()
    for epoch in range(epochs):
        rate = 1.0 - epoch / epochs
        for k in range(len(head)):
            if due[k] > epoch:
                continue
            due[k] += every[k]
            i, j = head[k], tail[k]
            squared = (points[i, 0] - points[j, 0]) ** 2 + (points[i, 1] - points[j, 1]) ** 2
            if squared > 0.0:
                pull = -2.0 * A * B * squared ** (B - 1.0) / (A * squared**B + 1.0)
                for d in range(2):
                    step = min(max(pull * (points[i, d] - points[j, d]), -CLIP), CLIP)
                    points[i, d] += rate * step
                    points[j, d] -= rate * step
            for _ in range(NEGATIVE):
                state = (1103515245 * state + 12345) % 2147483648  # ISO C's example of rand
                other = (state >> 8) % len(points)
                squared = (points[i, 0] - points[other, 0]) ** 2 + (points[i, 1] - points[other, 1]) ** 2
                if other == i or squared == 0.0:
                    continue
                push = 2.0 * B / ((0.001 + squared) * (A * squared**B + 1.0))
                for d in range(2):
                    points[i, d] += rate * min(max(push * (points[i, d] - points[other, d]), -CLIP), CLIP)
