"""Members as arrays, for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from population.genome import ORIGINS, Boltzmann, Genome, Gnn, Individual


def members_to_arrays(members: Sequence[Individual]) -> dict[str, Any]:
    """Arrays over the members [M], genomes of each encoding stacked apart; parents [M, 2], -1 = none."""
    gnns = [m.genome.weights for m in members if isinstance(m.genome, Gnn)]
    chromosomes = [m.genome for m in members if isinstance(m.genome, Boltzmann)]
    parents = np.full((len(members), 2), -1, dtype=np.int64)
    for row, member in zip(parents, members, strict=True):
        row[: len(member.parents)] = member.parents
    arrays: dict[str, Any] = {
        "is_gnn": np.array([m.encoding == "gnn" for m in members], dtype=np.bool_),
        "id": np.array([m.id for m in members], dtype=np.int64),
        "parents": parents,
        "origin": np.array([ORIGINS.index(m.origin) for m in members], dtype=np.int8),
        "fitness": np.array([m.score for m in members], dtype=np.float64),
        "measured": np.array([bool(m.fitness.valid) for m in members], dtype=np.bool_),
    }
    if gnns:
        arrays["weights"] = np.stack(gnns)
    if chromosomes:
        arrays["prior"] = np.stack([c.prior for c in chromosomes])
        arrays["temperature"] = np.stack([c.temperature for c in chromosomes])
    return arrays


def members_from_arrays(arrays: dict[str, Any]) -> list[Individual]:
    """Inverse of `members_to_arrays`."""
    weights = iter(arrays.get("weights", ()))
    chromosomes = zip(arrays.get("prior", ()), arrays.get("temperature", ()), strict=True)
    members = []
    for i, is_gnn in enumerate(arrays["is_gnn"]):
        genome: Genome = Gnn(next(weights).copy()) if is_gnn else Boltzmann(*map(np.copy, next(chromosomes)))
        parents = tuple(int(p) for p in arrays["parents"][i] if p >= 0)
        member = Individual(genome, int(arrays["id"][i]), parents, ORIGINS[int(arrays["origin"][i])])
        members.append(member.with_fitness(float(arrays["fitness"][i])) if arrays["measured"][i] else member)
    return members
