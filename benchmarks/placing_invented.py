"""Invented networks and chips, so that training sees kinds that no zoo has.

Networks are random blocks, repeated in stages.

A block is a small random graph of products with a weight, products of two activations and element-wise ops. It may
read its own input again (residual), or earlier blocks (dense). From stage to stage activations shrink and weights grow.
Some networks have a second half that mirrors the first and reads it (U-Net), a tensor that every second block reads
(cross-attention), a table of rows at the beginning, a large matrix at the end. Sizes and work are drawn over orders of
magnitude; nothing in it knows a family of the zoo.

Chips have two to four memories. Bandwidths, capacities, compute and how many products it does per byte of the slowest
memory are drawn over orders of magnitude, too; nothing in it knows a chip file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hwsim.nnpi.chip import Chip, Compute, Effects, ElementWidths, Memory, Noise, Overhead, Prefetch
from workloads.workload import Edge, Gemm, Op, Workload, check

MOST_OPS = 400


class _Op(NamedTuple):
    """An op before sizes are known, all of them relative.

    Attributes:
        sources: positions of what it reads; -1 is the network's input.
        weight, output: sizes; 0 of a weight: there is none.
        macs: products, relative to those of the whole network; vector: element operations per element.
        rows: share of the weight that is read.
    """

    sources: tuple[int, ...]
    weight: float
    output: float
    macs: float = 0.0
    vector: float = 0.0
    rows: float = 1.0


class _Part(NamedTuple):
    """An op of a block: distances back to what it reads, beyond the block its input; sizes relative to the stage's."""

    back: tuple[int, ...]
    weight: float
    output: float
    work: float


class _Stage(NamedTuple):
    """Sizes of weights and outputs, and products per weight, of the blocks of a stage."""

    weight: float
    output: float
    reuse: float


def invented(seed: int) -> Workload:
    """The network of a seed, of at most some `MOST_OPS` ops."""
    rng = np.random.default_rng([23, seed])
    weights, activation = np.exp2(rng.uniform(22.5, 28.5)), np.exp2(rng.uniform(14, 23.5))
    return _sized(f"invented{seed}", _drawn(rng), weights, activation, weights * np.exp2(rng.uniform(1, 8.5)))


def _drawn(rng: np.random.Generator) -> list[_Op]:
    """The ops, with relative sizes."""
    total, stages = np.exp2(rng.uniform(4.5, np.log2(MOST_OPS))), int(rng.integers(1, 6))
    grows, shrinks = rng.choice([1.0, 2.0, 4.0]), rng.choice([1.0, 0.5, 0.25])
    dense, shared, mirrored = rng.random() < 0.12, rng.random() < 0.12, rng.random() < 0.2
    templates = [_template(rng) for _ in range(int(rng.integers(1, 3)))]
    ops: list[_Op] = []
    if rng.random() < 0.3:
        ops.append(_Op((-1,), np.exp2(rng.uniform(0, 6)), 1.0, rows=np.exp2(-rng.uniform(2, 12))))
    context = len(ops) if shared else -1
    if shared:
        ops.append(_Op((-1,), 1.0, 1.0, 1.0))
    stage, ends = _Stage(1.0, 1.0, 1.0), [(len(ops) - 1, 1.0)]
    for number in range(stages):
        template = templates[number % len(templates)]
        share = total / stages / len(template) * rng.uniform(0.5, 1.5) / (2 if mirrored else 1)
        for repeat in range(max(1, int(share))):
            others = [place for place, _ in ends[-4:-1]] if dense else []
            others += [context] if shared and repeat % 2 else []
            _block(ops, template, ends[-1][0], others, stage)
            ends.append((len(ops) - 1, stage.output))
        stage = _Stage(stage.weight * grows, stage.output * shrinks, stage.reuse * shrinks)
    if mirrored:
        for place, output in ends[::-1][:: max(1, len(ends) // int(rng.integers(2, 9)))]:
            stage = _Stage(stage.weight / np.sqrt(grows), output, stage.reuse / np.sqrt(shrinks))
            _block(ops, templates[-1], len(ops) - 1, [place], stage)
    if rng.random() < 0.5:
        ops.append(
            _Op((len(ops) - 1,), stage.weight * np.exp2(rng.uniform(-1, 5)), stage.output / 16, stage.weight)
        )
    return ops


def _template(rng: np.random.Generator) -> list[_Part]:
    """The ops of a block."""
    weighted, vector = rng.uniform(0.25, 1.0), rng.choice([1.0, 4.0, 16.0])
    of_weights, of_outputs = rng.choice([0.0, 0.5, 1.0, 1.5], 2)
    far, second = rng.choice([0.0, 0.1, 0.4]), rng.choice([0.0, 0.15, 0.4])
    found = []
    for place in range(int(rng.integers(1, 9))):
        back = [1 if rng.random() >= far else int(rng.integers(1, place + 2))]
        back += [int(rng.integers(1, place + 2))] if rng.random() < second else []
        has_weight = rng.random() < weighted or not place
        weight = float(np.exp2(of_weights * rng.normal())) if has_weight else 0.0
        work = float(np.exp2(0.7 * rng.normal())) * (1.0 if has_weight else vector)
        found.append(_Part(tuple(back), weight, float(np.exp2(of_outputs * rng.normal())), work))
    if rng.random() < 0.5:  # residual
        found[-1] = found[-1]._replace(back=(*found[-1].back, len(found)))
    return found


def _block(ops: list[_Op], template: Sequence[_Part], x: int, others: Sequence[int], stage: _Stage) -> None:
    """Append a block that reads the op x; its first op reads others, too."""
    begin = len(ops)
    for place, part in enumerate(template):
        sources = {begin + place - back if place >= back else x for back in part.back}
        sources |= set(others) if place == 0 else set()
        weight, output = stage.weight * part.weight, stage.output * part.output
        macs, vector = weight * stage.reuse * part.work, 0.0 if weight else part.work
        if not weight and len(sources) > 1 and part.work > 4:
            macs, vector = stage.weight * stage.reuse * 0.1, 0.0  # a product of two activations
        ops.append(_Op(tuple(sorted(sources)), weight, output, macs, vector))


def _sized(name: str, ops: Sequence[_Op], weights: float, activation: float, products: float) -> Workload:
    """A workload with so many bytes of weights in all, so large a largest activation, and so many products in all."""
    of_weights = weights / sum(op.weight for op in ops)
    of_outputs = activation / max(op.output for op in ops)
    of_macs = products / max(sum(op.macs for op in ops), 1e-9)
    found: list[Op] = []
    for number, op in enumerate(ops):
        held, size = int(op.weight * of_weights), max(1, int(op.output * of_outputs))
        sources = [source for source in op.sources if source >= 0]
        outside = sum(1 for source in op.sources if source < 0)
        found.append(
            Op(
                name=f"op{number}",
                kind="matmul" if op.macs else "elementwise",
                inputs=tuple(Edge(f"op{source}", found[source].output_bytes) for source in sources),
                ifm=(1, 1, size),
                ofm=(1, 1, size),
                output_bytes=size,
                external_bytes=outside * size,
                weight_bytes=held,
                weight_read_bytes=max(1, int(held * op.rows)) if held else 0,
                parameters=held,
                gemm=_gemm(op.macs * of_macs),
                vector_ops=int(op.vector * size),
                is_output=number == len(ops) - 1,
            )
        )
    return check(Workload(name, tuple(found)))


def _gemm(macs: float) -> Gemm | None:
    """A product of about so many multiply-accumulates."""
    if macs < 1:
        return None
    side = max(1, int(macs ** (1 / 3)))
    return Gemm(1, max(1, int(macs / side**2)), side, side)


def invented_chip(seed: int) -> Chip:
    """The chip of a seed: the ranges hold what is on the market, from a core beside a microcontroller to a GPU."""
    rng = np.random.default_rng([31, seed])

    def power(low: float, high: float) -> float:
        return float(np.exp2(rng.uniform(low, high)))

    count = int(rng.choice([2, 3, 4], p=[0.4, 0.45, 0.15]))
    slow_Bps, capacity = power(1.5, 12) * 1e9, power(19, 27.5)
    memories, Bps = [Memory("memory0", 1 << 42, slow_Bps)], slow_Bps
    for level in range(1, count):
        Bps *= power(0.7, 4.5)
        memories.append(Memory(f"memory{level}", int(capacity), Bps))
        capacity /= power(1, 4)
    into = memories[1 if rng.random() < 0.75 else int(rng.integers(1, count))].name
    return Chip(
        name=f"invented{seed}",
        memories=tuple(memories),
        compute=_compute(rng, slow_Bps * power(5.5, 11)),
        overhead=Overhead(power(-2.5, 1) * 1e-6),
        element_bytes=ElementWidths(*([float(rng.choice([1.0, 1.0, 2.0]))] * 2)),
        prefetch=Prefetch(into, into),
        noise=Noise(0.01),
        effects=Effects(cross=bool(rng.random() < 0.5), prefetch=bool(rng.random() < 0.9)),
    )


def _compute(rng: np.random.Generator, macs_per_s: float) -> Compute:
    """Engines of random shape that do so many multiply-accumulates a second."""
    ices, rows, cols, depth, lanes = (
        int(2 ** rng.integers(low, high)) for low, high in ((0, 5), (0, 6), (3, 8), (2, 8), (3, 9))
    )
    return Compute(ices, rows, cols, depth, macs_per_s / (ices * rows * cols * depth), lanes)
