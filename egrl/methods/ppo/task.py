"""The input of a GraphSAGE policy for a problem, and its training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr

from hwsim.problem import Mapping16, Problem
from hwsim.stages import Pipeline, in_order, situation, step_by_step
from policies.graph import Graph
from policies.graphsage import Stages

DRAFTING, IMPROVING, OPENING, EXPLORING = 0, 1, 2, 3
"""Groups of rollouts: those that see nothing, those that see the best mapping so far (or the outset), those that see it
with an empty stage behind its fullest, and one that sees nothing and draws more evenly than the policy would."""
MEMORY = 0.8
"""The weight of the running mean and variance of rewards after a round."""
FLAT = 1e-3
"""The least deviation of rewards, in shares of their mean: where all are equal, rounding is not blown up."""


@dataclass
class Part:
    """A round's rows on one problem: the deployed mapping, then R rollouts.

    Attributes:
        problem: its number.
        deployed: 1; 0 where the start mapping was measured instead of the deployed one.
        mapping: int16 [deployed + R, N, H], what is proposed.
        before, action: int16 [T, R, N, H]; log_prob: float32, the same shape.
        group: int64 [R], which rollouts set out from the same mapping.
        reward: float64 [deployed + R], NaN where none is usable; speedup alike.
        ran: int16 [R, N, H], what ran, only where that is credited.
        base: the best reward that was known when the round began.
        told: whether the results are known.
    """

    problem: int
    deployed: int
    mapping: Mapping16
    before: Mapping16
    action: Mapping16
    log_prob: NDArray[np.float32]
    group: NDArray[np.int64]
    reward: NDArray[np.float64]
    speedup: NDArray[np.float64]
    ran: Mapping16
    base: float = -np.inf
    told: bool = False

    def gains(self) -> NDArray[np.float64]:
        """Rewards of the rollouts [R], of those that set out from the best known one no less than that had."""
        reward = self.reward[self.deployed :]
        from_best = (self.group == IMPROVING) | (self.group == OPENING)
        return np.where(from_best, np.maximum(reward, self.base), reward)


@dataclass
class Known:
    """What is known of a problem: the best mapping int16 [N, H], its reward, the heat of all its stages and
    whether it ran (until one does, the best of those that do not); and running moments of rewards."""

    best: Mapping16
    reward: float = -np.inf
    warmth: float = np.inf
    ran: bool = False
    mean: float = 0.0
    variance: float = 0.0
    rounds: int = 0

    def normalise(self, reward: NDArray[np.float64], index: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rewards [R] less their running mean, over their running deviation, once those at `index` have moved both."""
        memory = MEMORY if self.mean or self.variance else 0.0
        mean = float(reward[index].mean())
        self.variance = memory * self.variance + (1 - memory) * float(((reward[index] - mean) ** 2).mean())
        self.mean = memory * self.mean + (1 - memory) * mean
        target = (reward - self.mean) / max(self.variance**0.5, FLAT * abs(self.mean), 1e-6)
        return np.asarray(np.clip(np.nan_to_num(target), -10, 10), np.float32)


class Task:
    """A problem as the network reads it.

    Attributes:
        x: float32 [N, F]; graph: its edges; counts: int64 [N, H]; live: bool [N, H].
        pipeline: where choices are stages of a pipeline; else None.
    """

    def __init__(self, problem: Problem, x: NDArray[np.float32], graph: Graph, device: torch.device) -> None:
        self.x = torch.from_numpy(x).to(device)
        self.graph = graph.on(device)
        self.counts = torch.from_numpy(problem.space.num_choices.astype(np.int64)).clamp(min=1).to(device)
        self.live = torch.from_numpy(problem.space.live).to(device)
        self.pipeline = problem.space.pipeline
        self._problem = problem

    def stages(self, before: Mapping16) -> Stages | None:
        """What is known of the stages of mappings int16 [B, N, H] (-1: nothing); None where choices are no stages."""
        pipeline, problem = self.pipeline, self._problem
        if pipeline is None:
            return None
        choices = int(self.counts.max())
        whole = np.all((before >= 0) | (problem.space.size_bytes <= 0), axis=(1, 2))
        heat = np.zeros((len(before), before.shape[2], choices), np.float32)
        heat[whole] = pipeline.heat(before[whole], choices)
        lie = [situation(before[:, :, h], pipeline, choices) for h in range(before.shape[2])]
        arrays = (heat, pipeline.middle(choices).astype(np.float32), np.stack(lie, axis=2))
        return Stages(*(torch.from_numpy(array).to(self.x.device) for array in arrays))


@dataclass
class Rollouts:
    """R rollouts of T passes on one problem.

    Attributes:
        problem: its number.
        before, action: int16 [T, R, N, H], the mapping that a pass saw (-1: nothing) and what was drawn.
        log_prob: float32 [T, R, N, H] of it, 0 where a decision is dead.
        target: float32 [R], the normalised reward.
        group: int64 [R], which of them set out from the same mapping.
    """

    problem: int
    before: Mapping16
    action: Mapping16
    log_prob: NDArray[np.float32]
    target: NDArray[np.float32]
    group: NDArray[np.int64]

    def rows(self, index: NDArray[np.int64]) -> Rollouts:
        """Some of the rollouts."""
        return Rollouts(
            self.problem,
            self.before[:, index],
            self.action[:, index],
            self.log_prob[:, index],
            self.target[index],
            self.group[index],
        )


@dataclass(frozen=True)
class Example:
    """The target of imitation: `action` int16 [N, H] after having seen `before` int16 [N, H]."""

    problem: int
    before: Mapping16
    action: Mapping16


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
    """Mappings [B, N, H] of stages brought in order (`hwsim.stages.in_order`) by moving what is too early, empty
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

    A node takes along at most a number of others (`hwsim.stages.step_by_step`) drawn for each mapping: from none
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
