"""Training in PyTorch within a limit of memory: which values are kept, and which are computed again."""

from __future__ import annotations

from egrl.integrations.pytorch.capture import capture
from egrl.integrations.pytorch.check import WrongStepError
from egrl.integrations.pytorch.eager import checkpoint_contexts
from egrl.integrations.pytorch.estimates import Rates
from egrl.integrations.pytorch.fit_report import Fit
from egrl.integrations.pytorch.fits import fits
from egrl.integrations.pytorch.limit import MemoryLimitError, memory_limit
from egrl.integrations.pytorch.plan import Plan

__all__ = [
    "Fit",
    "MemoryLimitError",
    "Plan",
    "Rates",
    "WrongStepError",
    "capture",
    "checkpoint_contexts",
    "fits",
    "memory_limit",
]
