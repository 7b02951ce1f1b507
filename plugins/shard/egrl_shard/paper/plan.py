"""What is run for the sharding contest: instances of a folder, methods, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from egrl_shard.load import ENDINGS
from egrl_shard.paper.published import RESULTS
from workloads.errors import InputError

EXACT = "exact"
STARTING_S = 10.0
"""Seconds of a run that are not its search; the contest gave as many for reading."""
OTHER_S = 180.0
"""Of searching on instances of which nothing is published."""


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        instances: the folder that has them.
        methods: each in the same seconds; `exact` has two threads.
        seeds: runs of `exact` on each instance.
        rival_seeds: those of each other method: they are so far behind that one shows it.
        share: of the contest's seconds.
        smallest: how many instances, those of the smallest files; 0: all.
    """

    instances: str = ""
    methods: tuple[str, ...] = (EXACT, "annealing", "ea")
    seeds: int = 3
    rival_seeds: int = 1
    share: float = 1.0
    smallest: int = 0

    @staticmethod
    def quick() -> Plan:
        """Small instances, briefly: it shows that and how it works, not what it reaches."""
        return Plan(methods=(EXACT, "annealing"), seeds=1, share=0.1, smallest=3)

    def seeds_of(self, method: str) -> int:
        """Runs of a method on each instance."""
        return self.seeds if method == EXACT else self.rival_seeds

    def files(self) -> dict[str, Path]:
        """The instances by name. InputError where the folder has none, or two of one name."""
        folder, found = Path(self.instances), dict[str, Path]()
        paths = [path for path in folder.glob("*") if path.name.lower().endswith(ENDINGS) and path.is_file()]
        if self.smallest:
            paths = sorted(paths, key=lambda path: path.stat().st_size)[: self.smallest]
        for path in sorted(paths):
            name = path.name.removesuffix(".gz").removesuffix(".json")
            if name in found:
                raise InputError(
                    f"--instances {folder}: expected one file per instance, found {found[name].name}, {path.name}"
                )
            found[name] = path
        if not found:
            raise InputError(f"--instances {folder}: expected a folder of instances ({' or '.join(ENDINGS)})")
        return found

    def seconds(self, name: str) -> float:
        """Of searching on an instance."""
        contest_s = 60.0 * RESULTS[name].minutes if name in RESULTS else OTHER_S
        return self.share * contest_s
