"""Numbers of the paper on multi-chip modules, beside which `egrl reproduce mcm` puts ours.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", Tables 2 and 3 and
sections 5.2 to 5.4.
"""

from __future__ import annotations

TABLE2: dict[str, tuple[str, str, str]] = {
    "random": ("305 (1.08)", "915 (0.74)", "3612 (0.41)"),
    "sa": ("255 (1.29)", "979 (0.69)", "N.A."),
    "rl": ("330 (1.00)", "676 (1.00)", "1496 (1.00)"),
    "rl-zeroshot": ("196 (1.68)", "600 (1.13)", "3652 (0.41)"),
    "rl-finetuned": ("171 (1.93)", "503 (1.34)", "1362 (1.10)"),
}
"""Variant -> samples to throughput improvements of 1.60, 1.70 and 1.80 on the test graphs, and times fewer than RL."""

TABLE3: dict[str, tuple[str, str, str]] = {
    "random": ("447 (0.25)", "N.A.", "N.A."),
    "sa": ("576 (0.19)", "N.A.", "N.A."),
    "rl": ("112 (1.00)", "423 (1.00)", "607 (1.00)"),
    "rl-zeroshot": ("N.A.", "N.A.", "N.A."),
    "rl-finetuned": ("20 (5.60)", "20 (21.15)", "161 (3.77)"),
}
"""Variant -> samples to improvements of 2.55, 2.60 and 2.65 on BERT, and times fewer than RL."""

OVER_RANDOM = {"test": 0.0436, "bert": 0.0611}
OVER_SA = {"test": 0.0649, "bert": 0.0585}
"""How much better RL's throughput is in the end."""
FEWER = {"test": 1.93, "bert": 21.15}
"""How many times fewer samples fine-tuning takes, at most."""
BUDGET_GAIN = 0.1518
"""How much better fine-tuning is than random and annealing after ten minutes of search, at most."""
INVALID = 0.135
"""Of 2,000 samples of BERT, those that do not run on hardware."""
