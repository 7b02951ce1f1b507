"""What EGRL publishes.

Source: EGRL, section 5 (text; the figures themselves have no numbers).
"""

from __future__ import annotations

PUBLISHED: dict[str, dict[str, float]] = {
    "resnet50": {"egrl": 1.28, "ea": 1.06, "greedy-dp": 0.72, "pg": 0.29},
    "resnet101": {"egrl": 1.78, "ea": 1.47, "greedy-dp": 1.27, "pg": 0.23},
    "bert": {"egrl": 1.66, "ea": 1.64, "greedy-dp": 0.67, "pg": 0.21},
}
"""Workload -> method -> mean speedup over the compiler at the end."""
NAMES = {"resnet50": "ResNet-50", "resnet101": "ResNet-101", "bert": "BERT"}
