"""Training in PyTorch within a limit of memory: which values are kept, and which are computed again.

    import egrl_training

    with egrl_training.memory_limit("6 GiB"):
        step = torch.compile(model)

Names are imported on use, since the command line asks this package what it has, and needs no PyTorch for that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egrl_training.pytorch.capture import capture as capture
    from egrl_training.pytorch.check import WrongStepError as WrongStepError
    from egrl_training.pytorch.eager import checkpoint_contexts as checkpoint_contexts
    from egrl_training.pytorch.estimates import Rates as Rates
    from egrl_training.pytorch.fit_report import Fit as Fit
    from egrl_training.pytorch.fits import fits as fits
    from egrl_training.pytorch.limit import MemoryLimitError as MemoryLimitError
    from egrl_training.pytorch.limit import memory_limit as memory_limit
    from egrl_training.pytorch.plan import Plan as Plan

_HOMES = {
    "Fit": "fit_report",
    "MemoryLimitError": "limit",
    "Plan": "plan",
    "Rates": "estimates",
    "WrongStepError": "check",
    "capture": "capture",
    "checkpoint_contexts": "eager",
    "fits": "fits",
    "memory_limit": "limit",
}
"""Name -> the file of `egrl_training.pytorch` that has it."""
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egrl_training' has no attribute {name!r}")
    return getattr(import_module(f"egrl_training.pytorch.{_HOMES[name]}"), name)
