"""Instances for the tests: random graphs of odd shapes, and the contest's where they are present."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mlsys2026.instance import Instance, parse
from mlsys2026.judge import replay
from mlsys2026.schedule import Step

GIVEN = Path(__file__).resolve().parents[4] / "shared" / "data" / "mlsys2026"
"""The contest's instances, if they lie beside the clone."""


def made(seed: int, ops: int = 6, sides: tuple[int, ...] = (48, 64, 80, 100), native: int = 16) -> Instance:
    """A random graph: matrix products and pointwise ops on tensors of few sizes."""
    rng = np.random.default_rng(seed)
    shapes = [(int(rng.choice(sides)), int(rng.choice(sides))) for _ in range(3)]
    inputs, outputs, types, costs = [], [], [], []
    for _ in range(ops):
        left = int(rng.integers(max(0, len(shapes) - 5), len(shapes)))
        if rng.random() < 0.55:
            wide = int(rng.choice(sides))
            shapes += [(shapes[left][1], wide), (shapes[left][0], wide)]
            inputs.append([left, len(shapes) - 2])
            types.append("MatMul")
        else:
            alike = [t for t, shape in enumerate(shapes) if shape == shapes[left]]
            inputs.append([left, int(rng.choice(alike))] if rng.random() < 0.5 else [left])
            shapes.append(shapes[left])
            types.append("Pointwise")
        outputs.append([len(shapes) - 1])
        costs.append(int(rng.integers(1, 40)) * 10)
    used = sorted({t for listed in (*inputs, *outputs) for t in listed})
    at = {t: i for i, t in enumerate(used)}
    document = {
        "widths": [shapes[t][1] for t in used],
        "heights": [shapes[t][0] for t in used],
        "inputs": [[at[t] for t in listed] for listed in inputs],
        "outputs": [[at[t] for t in listed] for listed in outputs],
        "base_costs": costs,
        "op_types": types,
        "fast_memory_capacity": int(rng.choice([1500, 3000, 8000, 20000])),
        "slow_memory_bandwidth": int(rng.choice([5, 10, 40])),
        "native_granularity": [native, native],
    }
    return parse(document, f"made-{seed}", "made")


def cost_of(instance: Instance, steps: list[Step]) -> float:
    """What the judge says that a schedule takes; it must break no rule."""
    verdict = replay(instance, steps)
    assert verdict.violations == ()
    return float(verdict.total)
