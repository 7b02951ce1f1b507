"""Adam for the weights of a network, its state as flat arrays, so that a checkpoint holds arrays and numbers only.

Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (ICLR 2015), Algorithm 1.

The step is the kernel of `torch.optim.Adam(fused=True)`. Building that class imports torch's compiler, some
800 modules, which takes about as long as importing torch itself (0.8 s and 0.9 s with torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Decay rates of the moments and the guard against division by zero (the source's values)."""
MOMENTS = ("exp_avg", "exp_avg_sq")
"""Names of first and second moment in a state."""


class Adam:
    """Moves parameters along their gradients. They step together: those without a gradient stay where they are.

    Attributes:
        learning_rate: of the next step.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, weight_decay: float = 0.0) -> None:
        """For float32 parameters of one device; `weight_decay` times a weight is added to its gradient."""
        self._parameters = list(parameters)
        self.learning_rate, self._weight_decay = learning_rate, weight_decay
        self.reset()

    def reset(self) -> None:
        """Forget all steps: zero moments, as at the beginning."""
        self._first = [torch.zeros_like(p, requires_grad=False) for p in self._parameters]
        self._second = [torch.zeros_like(p, requires_grad=False) for p in self._parameters]
        self._steps = torch.zeros((), device=self._parameters[0].device)

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Make one step with the gradients that there are."""
        moved = [i for i, p in enumerate(self._parameters) if p.grad is not None]
        self._steps += 1
        torch._fused_adam_(
            [self._parameters[i] for i in moved],
            [grad for p in self._parameters if (grad := p.grad) is not None],
            [self._first[i] for i in moved],
            [self._second[i] for i in moved],
            [],
            [self._steps] * len(moved),
            lr=self.learning_rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self._weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """{"step": int, "exp_avg": float32 [P], "exp_avg_sq": float32 [P]} over all parameters in order."""
        moments = zip(MOMENTS, (self._first, self._second), strict=True)
        flat = {name: torch.cat([part.reshape(-1) for part in parts]) for name, parts in moments}
        return {"step": int(self._steps), **{name: values.cpu().numpy() for name, values in flat.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`. Raises ValueError where the number of values differs."""
        total = sum(p.numel() for p in self._parameters)
        for name in MOMENTS:
            if np.shape(state[name]) != (total,):
                raise ValueError(f"{name}: expected shape [{total}], received {list(np.shape(state[name]))}")
        self._steps.fill_(float(state["step"]))
        for name, parts in zip(MOMENTS, (self._first, self._second), strict=True):
            values = torch.from_numpy(np.array(state[name], dtype=np.float32))
            offset = 0
            for part in parts:
                part.copy_(values[offset : offset + part.numel()].view_as(part))
                offset += part.numel()
