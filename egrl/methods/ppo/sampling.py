"""What rollouts of `ppo` set out from, and the numbers that their draws are made with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hwsim.problem import Mapping16, Problem
from hwsim.stage_order import in_order, step_by_step
from hwsim.stages import Pipeline

WAVES = 32
"""Waves that coupled numbers are made of."""
NOTHING = np.int16(-1)
HOT = 100.0
"""The highest temperature of a rollout that explores: next to uniform."""
NEAR = 2.0
"""Stages of nodes that a node may take along."""
HOTTEST = 0.99
"""Stages with that share of the greatest heat count as hottest."""


def outset(problem: Problem, kind: str) -> Mapping16:
    """The mapping that a policy sees before any result, int16 [N, H]: none (-1), or an even split over stages."""
    nothing = np.full_like(problem.space.initial, NOTHING)
    pipeline = problem.space.pipeline
    if kind == "nothing" or pipeline is None:
        return nothing
    count = problem.space.num_choices.astype(np.int64)
    place = np.minimum(np.floor(pipeline.middle(int(count.max()))[:, None] * count), count - 1)
    even = np.where(problem.space.live, place, nothing).astype(np.int16)
    return in_stages(even[None], pipeline)[0]


def coupled_uniforms(
    rng: np.random.Generator, shape: tuple[int, ...], coupling: float
) -> NDArray[np.float64]:
    """Uniform numbers [R, N, H] in [0, 1), alike for nodes near each other.

    Each is the normal distribution function of sqrt(coupling) g + sqrt(1 - coupling) e with e ~ N(0, 1) by itself and
    g(n / N), for each row and head, a sum of waves with N(0, 1 / WAVES) amplitudes: every number alone is uniform.
    A row's waves have a scale of their own, from a thirtieth of the nodes to all of them.
    """
    if coupling == 0:
        return rng.random(shape)
    rows, nodes, heads = shape
    scale = 30.0 ** rng.random((rows, 1, heads, 1))
    wave = rng.standard_normal((rows, 1, heads, WAVES)) * scale
    a, b = rng.standard_normal((2, rows, 1, heads, WAVES))
    angle = (np.arange(nodes) / nodes)[None, :, None, None] * wave
    smooth = ((a * np.cos(angle) + b * np.sin(angle)).sum(axis=-1)) / WAVES**0.5
    mixed = np.sqrt(coupling) * smooth + np.sqrt(1 - coupling) * rng.standard_normal(shape)
    return np.asarray(np.clip(ndtr(mixed), 0.0, 1 - 1e-7))


def change_one_decision(
    drawn: Mapping16,
    before: Mapping16,
    probabilities: NDArray[np.floating],
    live: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Mapping16:
    """Mappings drawn [R, N, H], with one decision changed where all were drawn as they were `before`.

    Which one, and to what, is drawn by the same `probabilities` [R, N, H, C].
    """
    out = drawn.copy()
    for row in np.flatnonzero(((drawn == before) | ~live).all(axis=(1, 2))):
        other = probabilities[row] * live[..., None]
        np.put_along_axis(other, np.maximum(before[row], 0)[..., None].astype(np.int64), 0.0, axis=-1)
        reached = np.cumsum(other, dtype=np.float64)
        if reached[-1] > 0:
            at = np.searchsorted(reached, rng.random() * reached[-1], side="right")
            node, head, choice = np.unravel_index(min(int(at), other.size - 1), other.shape)
            out[row, node, head] = choice
    return out


def in_stages(mapping: Mapping16, pipeline: Pipeline | None) -> Mapping16:
    """Mappings [B, N, H] of stages brought in order (`hwsim.stage_order.in_order`) by moving what is too early, empty
    stages left out; as they are without a pipeline."""
    return (
        mapping
        if pipeline is None
        else close_gaps(_in_order(mapping, pipeline, np.ones(len(mapping), np.bool_)))
    )


def _in_order(
    mapping: Mapping16, pipeline: Pipeline, later: NDArray[np.bool_], known: Mapping16 | None = None
) -> Mapping16:
    was = np.zeros_like(mapping) if known is None else np.maximum(known, 0)
    heads = range(mapping.shape[2])
    return np.stack([in_order(mapping[:, :, h], pipeline, later, was[:, :, h]) for h in heads], axis=2)


def carry_out(
    before: Mapping16, drawn: Mapping16, pipeline: Pipeline | None, rng: np.random.Generator
) -> Mapping16:
    """Mappings [B, N, H] that come of what was drawn after `before`, as they are proposed: after a mapping its moves
    (`move_nodes`), after nothing what was drawn, brought in order. As drawn without a pipeline."""
    if pipeline is None:
        return drawn
    later = rng.random(len(drawn)) < 0.5
    return close_gaps(_in_order(move_nodes(before, drawn, pipeline, rng), pipeline, later, before))


def soften(log_probs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Probabilities [B, ..., C] at temperatures drawn for each row from 1 to `HOT`, alike in orders of magnitude."""
    heat = np.float32(HOT) ** rng.random(len(log_probs), dtype=np.float32)
    cool = log_probs / heat.reshape(-1, *[1] * (log_probs.ndim - 1))
    found = np.exp(cool - cool.max(axis=-1, keepdims=True))
    return np.asarray(found / found.sum(axis=-1, keepdims=True), np.float32)


def move_nodes(
    before: Mapping16, wanted: Mapping16, pipeline: Pipeline, rng: np.random.Generator
) -> Mapping16:
    """Mappings [B, N, H] that nodes get by going where it is wanted, one after another, as far as that stays near.

    A node takes along at most a number of others (`hwsim.stage_order.step_by_step`) drawn for each mapping: from none
    to those of `NEAR` stages, each order of magnitude being as likely, and twice as many until anything moves. What was
    at no stage goes where it is wanted.
    """
    rows, nodes, heads = wanted.shape
    most = NEAR * nodes / (before.max(axis=(1, 2)).clip(0) + 1)
    limit = np.floor(np.maximum(most, 1.0) ** rng.random(rows)).astype(np.int64)
    turn = rng.permuted(np.tile(np.arange(nodes), (rows, 1)), axis=1)
    out, waiting = before.copy(), np.flatnonzero((before != wanted).any(axis=(1, 2)))
    while len(waiting):
        for h in range(heads):
            own = before[waiting, :, h], wanted[waiting, :, h], pipeline, turn[waiting], limit[waiting]
            out[waiting, :, h] = step_by_step(*own)
        waiting = waiting[(out[waiting] == before[waiting]).all(axis=(1, 2)) & (limit[waiting] < nodes)]
        limit[waiting] *= 2
    return np.where(before < 0, wanted, out).astype(np.int16)


def total_heat(mapping: Mapping16, problem: Problem) -> float:
    """The heat of all stages of a mapping [N, H] together; 0 where choices are no stages."""
    pipeline = problem.space.pipeline
    return 0.0 if pipeline is None else float(pipeline.heat(mapping[None], problem.space.most_choices).sum())


def open_stage(mapping: Mapping16, problem: Problem, rng: np.random.Generator) -> Mapping16:
    """A mapping [N, H] with an empty stage behind one of its hottest, where not all are in use; else as it is.

    What has to be there for the span of edges is.
    """
    pipeline = problem.space.pipeline
    if pipeline is None or (mapping < 0).all():
        return mapping
    out, heats = mapping.copy(), pipeline.heat(mapping[None], problem.space.most_choices)[0]
    for head, heat in zip(out.T, heats, strict=True):
        if head.max() + 1 < problem.space.num_choices.min():
            hottest = np.flatnonzero(heat >= HOTTEST * heat.max())
            head[head > rng.choice(hottest)] += 1
    later = rng.random(1) < 0.5
    return _in_order(out[None], pipeline, later, mapping[None])[0]


def close_gaps(mapping: Mapping16) -> Mapping16:
    """Mappings [B, N, H] with stages that nothing is in left out: what comes behind moves up."""
    out = mapping.copy()
    for row in out:
        for head in row.T:
            live = head >= 0
            head[live] = np.unique(head[live], return_inverse=True)[1]
    return out
