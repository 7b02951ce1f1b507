"""What egrl finds under the name `muzero` (entry point `egrl.methods`)."""

from __future__ import annotations

from egrl.core.registry import MethodEntry

MUZERO = MethodEntry(
    "egrl_muzero.method",
    "MuZero on a problem that is a game: plans each move in a learned model, and revises its best games",
)
