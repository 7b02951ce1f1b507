"""State of a `torch.optim.Adam` as flat arrays, so that a checkpoint holds arrays and numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

MOMENTS = ("exp_avg", "exp_avg_sq")


def adam_state(optimizer: torch.optim.Adam) -> dict[str, Any]:
    """{"step": int, "exp_avg": float32 [P], "exp_avg_sq": float32 [P]} over all parameters in order.

    A parameter that was never stepped has zero moments, as at the beginning.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    steps = {int(optimizer.state[p]["step"]) for p in parameters if p in optimizer.state}
    if len(steps) > 1:
        raise ValueError(f"optimizer: expected parameters that step together, received steps {sorted(steps)}")
    state: dict[str, Any] = {"step": steps.pop() if steps else 0}
    for moment in MOMENTS:
        parts = [
            optimizer.state[p][moment].reshape(-1)
            if p in optimizer.state
            else torch.zeros(p.numel(), device=p.device)
            for p in parameters
        ]
        state[moment] = torch.cat(parts).cpu().numpy()
    return state


def load_adam_state(optimizer: torch.optim.Adam, state: dict[str, Any]) -> None:
    """Inverse of `adam_state`. Raises ValueError where the number of values differs."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.state.clear()
    total = sum(p.numel() for p in parameters)
    for moment in MOMENTS:
        if np.shape(state[moment]) != (total,):
            raise ValueError(f"{moment}: expected shape [{total}], received {list(np.shape(state[moment]))}")
    if int(state["step"]) == 0:
        return
    offset = 0
    for p in parameters:
        end = offset + p.numel()
        optimizer.state[p] = {"step": torch.tensor(float(state["step"]))} | {
            m: torch.tensor(state[m][offset:end], dtype=torch.float32, device=p.device).view_as(p)
            for m in MOMENTS
        }
        offset = end
