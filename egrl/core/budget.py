"""How long a run searches: generations or seconds, and what a generation is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.errors import InputError

GENERATION = 21
"""Evaluations a generation: a population of 20 and one rollout of the learner; the same for every method."""
DEFAULT_GENERATIONS = 200
BUDGETS = ("gens", "evals", "seconds")


@dataclass(frozen=True)
class Budget:
    """When to stop; each limit may be None. A run ends after the last whole generation that fits."""

    generations: int | None
    seconds: float | None

    @staticmethod
    def of(given: Mapping[str, float]) -> Budget:
        """The budget of limits by name, at most one of `BUDGETS`; none: `DEFAULT_GENERATIONS`.

        InputError where two are given, or less than one generation.
        """
        if len(given) > 1:
            raise InputError(
                f"expected one of --gens, --evals and --seconds, found {', '.join('--' + k for k in given)}"
            )
        for key, value in given.items():
            least = GENERATION if key == "evals" else 1 if key == "gens" else 0
            if not (value >= least and math.isfinite(value)):
                raise InputError(f"--{key}: expected at least {least}, found {value}")
        if "seconds" in given:
            return Budget(None, given["seconds"])
        if "evals" in given:
            return Budget(int(given["evals"]) // GENERATION, None)
        return Budget(int(given.get("gens", DEFAULT_GENERATIONS)), None)
