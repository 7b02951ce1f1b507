"""Embedding tables on many GPUs: `Proposer` and `Partitioner` for TorchRec's planner, with a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egrl_torchrec.planner import Partitioner, Proposer

__all__ = ["Partitioner", "Proposer"]


def __getattr__(name: str) -> Any:
    """The two classes; TorchRec is imported when one is asked for."""
    if name not in __all__:
        raise AttributeError(name)
    from egrl_torchrec import planner

    return getattr(planner, name)
