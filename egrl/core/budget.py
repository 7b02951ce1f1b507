"""How long a run searches: generations, evaluations or seconds, and what a generation is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.errors import InputError

GENERATION = 21
"""Evaluations a generation, unless a run says otherwise: a population of 20 and one rollout of the learner."""
DEFAULT_GENERATIONS = 200
BUDGETS = ("gens", "evals", "seconds")
REQUESTS = "requests"
"""A limit that is made one of evaluations before a run begins."""


@dataclass(frozen=True)
class Budget:
    """When to stop; each limit may be None.

    Attributes:
        evaluations: measured exactly, unless the method has no more to propose.
        seconds: of searching; after that no measurement starts.
        generation_evals: evaluations a generation, which is how often a row of metrics is written.
    """

    evaluations: int | None
    seconds: float | None
    generation_evals: int = GENERATION

    @staticmethod
    def of(given: Mapping[str, float], generation_evals: int = GENERATION) -> Budget:
        """The budget of limits by name, at most one of `BUDGETS`; none: `DEFAULT_GENERATIONS`.

        InputError where two are given, or nothing could be measured.
        """
        if len(given) > 1:
            raise InputError(
                f"expected one of --gens, --evals and --seconds, found {', '.join('--' + k for k in given)}"
            )
        for key, value in given.items():
            least = 0 if key == "seconds" else 1
            if not (value >= least and math.isfinite(value)):
                raise InputError(f"--{key}: expected at least {least}, found {value}")
        if "seconds" in given:
            return Budget(None, given["seconds"], generation_evals)
        if "evals" in given:
            return Budget(int(given["evals"]), None, generation_evals)
        return Budget.of_generations(int(given.get("gens", DEFAULT_GENERATIONS)), generation_evals)

    @staticmethod
    def of_generations(generations: int, generation_evals: int = GENERATION) -> Budget:
        """So many whole generations."""
        return Budget(generations * generation_evals, None, generation_evals)

    @property
    def generations(self) -> int | None:
        """Generations that are begun; None where the limit is in seconds."""
        return None if self.evaluations is None else -(-self.evaluations // self.generation_evals)

    def spent(self, evaluations: int, seconds: float) -> bool:
        """Whether nothing more may be asked for, so many evaluations having been made in so many seconds."""
        if self.evaluations is not None and evaluations >= self.evaluations:
            return True
        return self.seconds is not None and seconds >= self.seconds
