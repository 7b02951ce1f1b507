"""What is run for the TAG paper: sizes with their budgets, methods, seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

STARTING_S = 5.0
"""Seconds of a run that are not its search."""

GROWN = 4
"""Sizes of which the growth of the subgraph is drawn."""

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "tag": ("tag", {}),
    "printed": ("tag", {"completions": "uniform"}),
    "dp": ("greedy-dp", {"parallel": 1}),
    "uct": ("uct", {}),
    "random": ("random-plans", {}),
}
"""Label -> method and its settings."""

BUDGETS_S: dict[int, float] = {
    **{1 << k: 5.0 for k in range(4, 11)},
    **{1 << k: 12.0 for k in range(11, 15)},
    **{1 << k: 20.0 for k in range(15, 18)},
    1 << 18: 30.0,
    1 << 19: 40.0,
    1 << 20: 60.0,
    **{360: 12.0, 1000: 12.0, 1155: 12.0, 5040: 25.0, 10007: 25.0},
}
"""Seconds of searching, a run, by size: from hundreds of measurements on."""

LONG_BUDGETS_S: dict[int, float] = {1 << 17: 32.0, 1 << 18: 90.0, 1 << 19: 240.0, 1 << 20: 580.0}
"""The same for what comes near to dynamic programming, where its first pass took longer: equal time for these."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        budgets: (size of the DFT, seconds of searching of a run, the making of codelets not included).
        long_budgets: the same for `long`, where it differs.
        methods: labels of METHODS; long: those with budgets of their own.
        first_pass_seconds: what dynamic programming may take until its first pass ends.
        evaluations: a run's most, dynamic programming's first pass excepted.
        seeds: of each run.
        rounds: of the race at the end, in which every plan that was a run's best for a time is timed, in turn.
    """

    budgets: tuple[tuple[int, float], ...] = tuple(BUDGETS_S.items())
    long_budgets: tuple[tuple[int, float], ...] = tuple(LONG_BUDGETS_S.items())
    methods: tuple[str, ...] = tuple(METHODS)
    long: tuple[str, ...] = ("tag", "uct")
    first_pass_seconds: float = 600.0
    evaluations: int = 2000
    seeds: int = 3
    rounds: int = 25

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the DFTs."""
        return tuple(size for size, _ in self.budgets)

    def seconds(self, size: int, label: str) -> float:
        """Of searching of a run."""
        own = dict(self.long_budgets) if label in self.long else {}
        return own.get(size, dict(self.budgets)[size])

    def most(self, size: int, label: str) -> int:
        """Evaluations of a run; a long budget has no other end."""
        return 10**6 if label in self.long and size in dict(self.long_budgets) else self.evaluations

    @staticmethod
    def quick() -> Plan:
        """Three sizes, briefly: it shows that and how it works, not what it reaches."""
        budgets = ((64, 3.0), (256, 5.0), (1000, 5.0))
        return replace(Plan(), budgets=budgets, long_budgets=(), first_pass_seconds=30.0, rounds=9)
