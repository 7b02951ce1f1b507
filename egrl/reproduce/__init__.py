"""`egrl reproduce`: a paper's experiments again, and a report that holds the published numbers against ours."""

from __future__ import annotations

REPORTS: dict[str, tuple[str, str]] = {
    "mmap": (
        "Tables 2 to 5, Figures 5 to 8 and 10 of the MMapGame; one agent for several programs",
        "egrl.reproduce.mmap.run",
    ),
    "mcm": (
        "Tables 2 and 3, Figures 5 to 7 of partitioning over multi-chip modules; pre-training",
        "egrl.reproduce.mcm.run",
    ),
    "tag": ("search time and quality of TAG on FFT plans, beside its rivals", "egrl.reproduce.tag.run"),
    "egrl": ("Figures 3 to 6 and F.2 of EGRL, and pre-training", "egrl.reproduce.egrl.run"),
    "shard": (
        "the sharding contest of ASPLOS / EuroSys 2025 on the instances of a folder",
        "egrl.reproduce.shard.run",
    ),
}
"""Name -> what is reproduced, in one line, and the module whose `reproduce` does it."""
