"""Dynamics and heads of MuZero's networks as one compiled kernel, for searches on a CPU.

A search calls them a thousand times a second for a few dozen rows, where torch spends more time on calling than on
arithmetic. `egrl_muzero.networks` is what they are; tests hold the two together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.categorical import EPSILON
from egrl_muzero.networks import MuZeroNet
from hwsim.jit import kernel

Float32s = NDArray[np.float32]


class Weights(NamedTuple):
    """Of W-wide embeddings, hidden layers of H, A actions, K bins; float32, inputs first.

    Attributes:
        act: [W, H]; action: [A, H], what each action adds; after, after_bias: [H, W], [W].
        scale, shift: [W], of the layer norm.
        head, head_bias: [W, H], [H]; heads, heads_bias: [H, A + 2 K], [A + 2 K].
        points: [K].
    """

    act: Float32s
    action: Float32s
    after: Float32s
    after_bias: Float32s
    scale: Float32s
    shift: Float32s
    head: Float32s
    head_bias: Float32s
    heads: Float32s
    heads_bias: Float32s
    points: Float32s


def copy_weights(net: MuZeroNet) -> Weights:
    """Copies of what a network on the CPU knows now."""

    def flat(name: str, turned: bool = False) -> Float32s:
        array = dict(net.named_parameters())[name].detach().numpy()
        return np.array(array.T if turned else array, np.float32, order="C")

    return Weights(
        flat("act.weight", True),
        flat("action.weight") + flat("act.bias"),
        flat("after.weight", True),
        flat("after.bias"),
        flat("after_norm.weight"),
        flat("after_norm.bias"),
        flat("head.weight", True),
        flat("head.bias"),
        flat("heads.weight", True),
        flat("heads.bias"),
        net.support.points.numpy().copy(),
    )


@kernel
def step(
    weights: Weights, before: Float32s, action: NDArray[np.int64]
) -> tuple[Float32s, Float32s, NDArray[np.float64]]:
    """Embeddings [R, W] and actions [R] -> what follows: embeddings, policy logits [R, A], value and reward [R, 2]."""
    hidden = np.dot(before, weights.act)
    rows, width = before.shape
    # An action is a one-hot input of the first layer: its part of the product is one row of weights.
    for r in range(rows):
        own, added = hidden[r], weights.action[action[r]]
        for j in range(len(own)):
            own[j] = max(own[j] + added[j], np.float32(0))
    after = np.dot(hidden, weights.after)
    # Residual and layer norm, in the order of the torch module: it must be equal up to rounding.
    for r in range(rows):
        own, old = after[r], before[r]
        for j in range(width):
            own[j] += old[j] + weights.after_bias[j]
        _normalise(own, weights.scale, weights.shift)
    logits, scalars = read(weights, after)
    return after, logits, scalars


@kernel
def read(weights: Weights, embedding: Float32s) -> tuple[Float32s, NDArray[np.float64]]:
    """Embeddings [R, W] -> policy logits [R, A], value and reward [R, 2]."""
    hidden = np.dot(embedding, weights.head)
    rows, bins = len(embedding), len(weights.points)
    for r in range(rows):
        own = hidden[r]
        for j in range(len(own)):
            own[j] = max(own[j] + weights.head_bias[j], np.float32(0))
    out = np.dot(hidden, weights.heads)
    actions = out.shape[1] - 2 * bins
    logits, scalars = np.empty((rows, actions), np.float32), np.empty((rows, 2))
    for r in range(rows):
        for a in range(actions):
            logits[r, a] = out[r, a] + weights.heads_bias[a]
        # Columns of `out`: A policy logits, then the bins of the value, then those of the reward.
        for k in range(2):
            begin = actions + k * bins
            part, bias = out[r, begin : begin + bins], weights.heads_bias[begin : begin + bins]
            scalars[r, k] = _scalar(part, bias, weights.points)
    return logits, scalars


@kernel
def _normalise(row: Float32s, scale: Float32s, shift: Float32s) -> None:
    """Layer norm of one row, in place; four sums at a time, so that they need not wait for one another."""
    # The order of the sums is part of the result: four of every fourth number, then what is left over to the first.
    width = len(row)
    sums, squares = np.zeros(4, np.float64), np.zeros(4, np.float64)
    for j in range(0, width - width % 4, 4):
        for k in range(4):
            sums[k] += row[j + k]
    for j in range(width - width % 4, width):
        sums[0] += row[j]
    mean = np.float32((sums[0] + sums[1] + sums[2] + sums[3]) / width)
    for j in range(0, width - width % 4, 4):
        for k in range(4):
            off = row[j + k] - mean
            squares[k] += off * off
    for j in range(width - width % 4, width):
        squares[0] += (row[j] - mean) ** 2
    spread = (squares[0] + squares[1] + squares[2] + squares[3]) / width
    factor = np.float32(1.0 / math.sqrt(spread + 1e-5))
    for j in range(width):
        row[j] = (row[j] - mean) * factor * scale[j] + shift[j]


@kernel
def _scalar(logits: Float32s, bias: Float32s, points: Float32s) -> float:
    """The value of a categorical distribution (`egrl_muzero.categorical`)."""
    # The mean of a softmax over the points, its largest logit subtracted first; then the inverse of the transform that
    # the points were made with.
    top = np.float32(-np.inf)
    for k in range(len(points)):
        top = max(top, logits[k] + bias[k])
    total, mean = np.float32(0), np.float32(0)
    for k in range(len(points)):
        odds = np.exp(logits[k] + bias[k] - top)
        total += odds
        mean += odds * points[k]
    y = float(mean) / float(total)
    root = (math.sqrt(1 + 4 * EPSILON * (abs(y) + 1 + EPSILON)) - 1) / (2 * EPSILON)
    return math.copysign(root * root - 1, y)
