"""The versions of PyTorch whose partitioner this package was tested with; its helpers are not public."""

from __future__ import annotations

import torch

from workloads.errors import InputError

TESTED = ("2.9.1", "2.13.0", "2.14.1", "2.15.0")
"""Versions that the eight networks of `benchmarks/training_models.py` were trained with, gradients compared."""


def check_version() -> None:
    """InputError if this version of PyTorch is older or newer than the tested ones."""
    found = _minor(torch.__version__)
    if not _minor(TESTED[0]) <= found <= _minor(TESTED[-1]):
        raise InputError(
            f"torch: expected a version from {TESTED[0]} to {TESTED[-1]} (tested: {', '.join(TESTED)}), found"
            f" {torch.__version__}"
        )


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
