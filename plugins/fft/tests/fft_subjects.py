"""What of this plug-in takes part in egrl's suites: problems, and variants of its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import subjects
from egrl_fft.problem import FftConfig, FftProblem
from hwsim.problem import Problem

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "fft": lambda: FftProblem(8, FftConfig(cost="model")),
    "fft-64": lambda: FftProblem(64, FftConfig(cost="model")),
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tag": ("tag", {}),
    "uct": ("uct", {}),
    "random-plans": ("random-plans", {}),
    "tag-parallel": ("tag", {"parallel": 5, "s": 3}),
    "tag-printed": ("tag", {"completions": "uniform"}),
    "uct-decisions": ("uct", {"vertices": "decisions"}),
}
NEVER_TWICE = ("tag", "uct", "tag-parallel", "tag-printed", "uct-decisions")
"""Variants that measure no plan twice, and so end on problems with few plans."""
subjects.take_part(PROBLEMS, VARIANTS)
