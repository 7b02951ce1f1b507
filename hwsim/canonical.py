"""What every problem does with mappings in the same way: check, canonicalise, sample, show.

Shapes: B mappings, N nodes, H heads (decisions a node), C choices a decision at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.problem import Keys, Mapping16, Observation, Problem

UNUSED = -1


def canonical(mapping: Mapping16, live: NDArray[np.bool_]) -> Mapping16:
    """A copy of int16 [N, H] or [B, N, H] in which every decision outside `live` (bool [N, H]) is -1."""
    return np.where(live, mapping, np.int16(UNUSED)).astype(np.int16, copy=False)


def check_keys(key: Keys, rows: int) -> None:
    """Raises ValueError unless key is uint64 [rows]."""
    if not isinstance(key, np.ndarray) or key.dtype != np.uint64 or key.shape != (rows,):
        raise ValueError(f"key: expected uint64 of shape ({rows},), received {_describe(key)}")


def check_mapping(problem: Problem, mapping: Mapping16, key: Keys) -> None:
    """Check mappings [B, N, H] and their keys [B].

    A live decision must hold one of its choices; a dead one may hold anything.

    Raises:
        ValueError: where a shape, a dtype or a choice number is out of range.
    """
    nodes, heads = problem.size_bytes.shape
    if (
        not isinstance(mapping, np.ndarray)
        or mapping.dtype != np.int16
        or mapping.ndim != 3
        or mapping.shape[1:] != (nodes, heads)
    ):
        raise ValueError(
            f"mapping: expected int16 of shape (B, {nodes}, {heads}), received {_describe(mapping)}"
        )
    check_keys(key, len(mapping))
    wrong = ((mapping < 0) | (mapping >= problem.num_choices)) & (problem.size_bytes > 0)
    if wrong.any():
        b, n, h = (int(v[0]) for v in np.nonzero(wrong))
        raise ValueError(
            f"mapping[{b}, {n}, {h}] ({problem.heads[h]} of {problem.nodes[n]}): expected a choice in "
            f"0..{int(problem.num_choices[n, h]) - 1} (closed), received {int(mapping[b, n, h])}"
        )


@kernel
def _sample(
    probabilities: NDArray[np.float64],
    num_choices: NDArray[np.int16],
    live: NDArray[np.bool_],
    keys: NDArray[np.uint64],
) -> Mapping16:
    batch, nodes, heads, _ = probabilities.shape
    out = np.full((batch, nodes, heads), -1, np.int16)
    for b in range(batch):
        for n in range(nodes):
            for h in range(heads):
                if not live[n, h]:
                    continue
                # Choices beyond the allowed ones have no say, so what is left is brought to a sum of 1 by the total.
                allowed = num_choices[n, h]
                total = 0.0
                for c in range(allowed):
                    total += probabilities[b, n, h, c]
                u = uniform(keys[b], np.uint64(n * heads + h))
                # The draw's counter is the decision's number: a draw depends on no other decision.
                if total <= 0.0:
                    out[b, n, h] = min(int(u * allowed), allowed - 1)
                    continue
                threshold = u * total
                cumulative = 0.0
                for c in range(allowed):
                    p = probabilities[b, n, h, c]
                    cumulative += p
                    # Every possible choice is written down, so that the last of them stays where rounding keeps the
                    # sum at or below the threshold; a choice of probability 0 is never drawn.
                    if p > 0.0:
                        out[b, n, h] = c
                        if threshold < cumulative:
                            break
    return out


def independent_sample(
    probabilities: NDArray[np.floating[Any]],
    num_choices: NDArray[np.int16],
    live: NDArray[np.bool_],
    key: Keys,
) -> Mapping16:
    """Draw every live decision by itself.

    Args:
        probabilities: [B, N, H, C], not negative; each row is renormalised over its allowed choices (the
            first `num_choices`), and taken as uniform over them where they have no mass. Dead rows are
            ignored.
        num_choices: int16 [N, H], each <= C.
        live: bool [N, H].
        key: uint64 [B]; equal arguments and keys give equal draws.

    Returns:
        int16 [B, N, H], -1 where dead.

    Raises:
        ValueError: where a shape or dtype is wrong or a live row holds a negative or non-finite probability.
    """
    p = np.ascontiguousarray(probabilities, np.float64)
    if p.ndim != 4 or p.shape[1:3] != num_choices.shape:
        raise ValueError(
            f"probabilities: expected shape (B, {num_choices.shape[0]}, {num_choices.shape[1]}, C), "
            f"received {p.shape}"
        )
    most = int(num_choices[live].max(initial=0))
    if p.shape[3] < most:
        raise ValueError(f"probabilities: expected at least {most} choices, received {p.shape[3]}")
    check_keys(key, len(p))
    if not (np.isfinite(p) & (p >= 0))[:, live].all():
        raise ValueError("probabilities: expected finite numbers >= 0, received others at a live decision")
    return _sample(
        p, np.ascontiguousarray(num_choices), np.ascontiguousarray(live), np.ascontiguousarray(key)
    )


def sample_uniformly(problem: Problem, key: Keys) -> Mapping16:
    """Draw canonical mappings [B, N, H], a key uint64 [B] each, with every choice of a decision equally likely."""
    shape = (len(key), *problem.num_choices.shape, int(problem.num_choices.max()))
    return problem.sample(np.ones(shape, np.float32), key)


def choice_columns(choice_rank: NDArray[np.float32], mapping: Mapping16) -> NDArray[np.float32]:
    """float32 [N, H] (or [B, N, H]): the rank in speed of each decision's choice; 0 where it is -1."""
    heads = np.arange(choice_rank.shape[0])
    ranks = choice_rank[heads, np.maximum(mapping, 0)]
    return np.where(mapping >= 0, ranks, np.float32(0)).astype(np.float32, copy=False)


def observe(problem: Problem, mapping: Mapping16) -> Observation:
    """What a policy sees when the current mapping is `mapping` (int16 [N, H]): the last H columns say so.

    Raises:
        ValueError: where the problem has no observation or the mapping's shape is not [N, H].
    """
    start = problem.observation
    if start is None:
        raise ValueError(f"problem: expected one with an observation, received {problem.name!r} without")
    if mapping.shape != problem.size_bytes.shape:
        raise ValueError(f"mapping: expected shape {problem.size_bytes.shape}, received {mapping.shape}")
    x = start.x.copy()
    x[:, -mapping.shape[1] :] = choice_columns(problem.choice_rank, mapping)
    return replace(start, x=x)


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__
