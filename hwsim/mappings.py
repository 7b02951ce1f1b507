"""Draw and repair mappings of any problem: by its own rule if it has one, else decision by decision.

Shapes: B mappings, N nodes, H heads (decisions per node), at most C choices per decision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import CanRepair, CanSample
from hwsim.jit import kernel
from hwsim.keys import uniform
from hwsim.problem import Keys, Mapping16, Problem
from hwsim.space import Space, check_keys


def sample(problem: Problem, probabilities: NDArray[np.floating[Any]], key: Keys) -> Mapping16:
    """Draw canonical mappings int16 [B, N, H] from probabilities [B, N, H, C]; those of dead decisions are ignored.

    Raises:
        ValueError: a shape or dtype is wrong, or a probability is negative or not finite.
    """
    if isinstance(problem, CanSample):
        return problem.sample(probabilities, key)
    return independent_sample(problem.space, probabilities, key)


def sample_uniformly(problem: Problem, key: Keys) -> Mapping16:
    """Draw as `sample` does from equal probabilities, with the same result, but without an array for them.

    Raises:
        ValueError: the key is not uint64 [B].
    """
    if isinstance(problem, CanSample):
        return problem.sample(None, key)
    return independent_sample(problem.space, None, key)


def repair(problem: Problem, mapping: Mapping16, key: Keys) -> Mapping16:
    """The nearest mappings int16 [B, N, H] by the problem's own rule; without one, their canonical form.

    Raises:
        ValueError: the shape, the dtype or a choice number is wrong.
    """
    if isinstance(problem, CanRepair):
        return problem.repair(mapping, key)
    problem.space.check(mapping, key)
    return problem.space.canonical(mapping)


# ---- decision by decision


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


@kernel
def _sample_evenly(
    num_choices: NDArray[np.int16], live: NDArray[np.bool_], keys: NDArray[np.uint64]
) -> Mapping16:
    nodes, heads = num_choices.shape
    out = np.full((len(keys), nodes, heads), -1, np.int16)
    for b in range(len(keys)):
        for n in range(nodes):
            for h in range(heads):
                # The same draw as `_sample` of equal probabilities: a uniform number by the decision's own counter.
                if live[n, h]:
                    allowed = num_choices[n, h]
                    u = uniform(keys[b], np.uint64(n * heads + h))
                    out[b, n, h] = min(int(u * allowed), allowed - 1)
    return out


def independent_sample(space: Space, probabilities: NDArray[np.floating[Any]] | None, key: Keys) -> Mapping16:
    """Draw every live decision by itself.

    Args:
        space: what there is to decide.
        probabilities: [B, N, H, C], not negative; each row is renormalised over its allowed choices (the
            first `num_choices`), and taken as uniform over them where they have no mass. Dead rows are
            ignored. None: uniform everywhere, the same draws as equal probabilities give.
        key: uint64 [B]; equal arguments and keys give equal draws.

    Returns:
        int16 [B, N, H], -1 if dead.

    Raises:
        ValueError: where a shape or dtype is wrong or a live row holds a negative or non-finite probability.
    """
    counts, live = np.ascontiguousarray(space.num_choices), np.ascontiguousarray(space.live)
    if probabilities is None:
        check_keys(key, np.size(key))
        return space.canonical(_sample_evenly(counts, live, np.ascontiguousarray(key)))
    p = np.ascontiguousarray(probabilities, np.float64)
    if p.ndim != 4 or p.shape[1:3] != space.shape:
        raise ValueError(
            f"probabilities: expected shape (B, {len(space.nodes)}, {len(space.heads)}, C), received {p.shape}"
        )
    most = int(counts[live].max(initial=0))
    if p.shape[3] < most:
        raise ValueError(f"probabilities: expected at least {most} choices, received {p.shape[3]}")
    check_keys(key, len(p))
    if not (np.isfinite(p) & (p >= 0))[:, live].all():
        raise ValueError("probabilities: expected finite numbers >= 0, received others at a live decision")
    return space.canonical(_sample(p, counts, live, np.ascontiguousarray(key)))


def choice_columns(choice_rank: NDArray[np.float32], mapping: Mapping16) -> NDArray[np.float32]:
    """float32 [N, H] or [B, N, H]: the rank in speed of each decision's choice; 0 if the choice is -1."""
    heads = np.arange(choice_rank.shape[0])
    ranks = choice_rank[heads, np.maximum(mapping, 0)]
    return np.where(mapping >= 0, ranks, np.float32(0)).astype(np.float32, copy=False)
