"""MuZero's learner: networks unrolled along remembered moves, trained on policies, values and rewards.

Source: MuZero (Schrittwieser et al., 2020), section 2 and appendix G; Table 6 of the MMapGame paper for the paper's
values.

Deviations:
- Gradients are clipped by their norm.
- Without search (`advantage`) there is no searched policy to imitate: the policy follows the gradient of the n-step
  advantage, with an entropy bonus and the clipped ratio of PPO (Schulman et al., 2017) to the policy that played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from torch.nn import functional as F
from typing_extensions import Doc

from egrl_muzero.networks import MuZeroNet, tensors
from policies.adam import Adam
from policies.weight_vector import assign, flatten

TRUST = 0.2
"""How far from 1 the ratio to the policy that played counts, without search."""
METRICS = ("policy_loss", "value_loss", "reward_loss", "policy_entropy", "value_error")


@dataclass(frozen=True)
class MuZeroLearnerConfig:
    """Settings of the learner."""

    batch: Annotated[int, Ge(1), Le(65536), Doc("segments per gradient step")] = 256
    unroll: Annotated[int, Ge(1), Le(64), Doc("moves that the dynamics are unrolled (K)")] = 5
    steps: Annotated[int, Ge(1), Le(10_000), Doc("moves of a return before the value takes over (n)")] = 20
    learning_rate: Annotated[float, Gt(0), Le(1), Doc("step size of Adam")] = 1e-3
    weight_decay: Annotated[float, Ge(0), Le(1), Doc("share of a weight that is added to its gradient")] = (
        1e-4
    )
    value_weight: Annotated[float, Ge(0), Le(100), Doc("weight of the value's loss")] = 0.5
    clip: Annotated[float, Gt(0), Le(1e6), Doc("norm that a gradient is cut to")] = 5.0
    entropy: Annotated[float, Ge(0), Le(10), Doc("weight of the policy's entropy, without search only")] = (
        0.05
    )
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Doc(
            'number format of matrix products; sums and weights are float32; "auto": bfloat16 if the'
            " device has instructions for it, else float32"
        ),
    ] = "auto"


@dataclass(frozen=True)
class Targets:
    """Of M segments of K moves from each of M times and slots on; position 0 is the root.

    Attributes:
        action: int64 [M, K], what was done.
        alive: bool [M, K + 1], whether the game was still going on there, and the ring remembers it.
        value: float32 [M, K + 1]; policy: float32 [M, K + 1, A].
        reward: float32 [M, K], of each action; learnt where `alive[:, :K]`.
    """

    action: NDArray[np.int64]
    alive: NDArray[np.bool_]
    value: NDArray[np.float32]
    policy: NDArray[np.float32]
    reward: NDArray[np.float32]


class MuZeroLearner:
    """Networks and their optimiser."""

    def __init__(self, config: MuZeroLearnerConfig, net: MuZeroNet, advantage: bool) -> None:
        self._config, self._net, self._advantage = config, net, advantage
        self._device = next(net.parameters()).device
        self._short = config.precision == "bfloat16" or (
            config.precision == "auto" and _is_quick(self._device)
        )
        self._adam = Adam(net.parameters(), config.learning_rate, config.weight_decay)
        self.steps = 0
        self.metrics: dict[str, float] = {}

    def step(self, seen: dict[str, NDArray[Any]], targets: Targets) -> None:
        """One gradient step on segments whose first moves were seen as `seen` [M, …]."""
        net, config = self._net, self._config
        rows, unroll = targets.action.shape
        action = torch.from_numpy(targets.action).to(self._device)
        alive = torch.from_numpy(targets.alive).to(self._device).T.float()
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._short):
            embedding = net.represent(tensors(seen, self._device))
            embeddings = [embedding]
            for k in range(unroll):
                embedding = net.step(halve_gradient(embedding), action[:, k])
                embeddings.append(embedding)
            out = net.read(torch.cat(embeddings)).float().view(unroll + 1, rows, -1)
        actions, bins = net.shapes.actions, net.config.bins
        logits = torch.log_softmax(out[..., :actions], dim=-1)
        scale = torch.full((unroll + 1, 1), 1.0 / unroll, device=self._device)
        scale[0] = 1.0
        weight = alive * scale
        value = torch.from_numpy(targets.value).to(self._device).T
        value_logits = out[..., actions : actions + bins]
        value_loss = _cross_entropy(value_logits, net.support.two_hot(value))
        reward = torch.from_numpy(targets.reward).to(self._device).T
        reward_loss = _cross_entropy(out[1:, :, actions + bins :], net.support.two_hot(reward))
        policy = torch.from_numpy(targets.policy).to(self._device).transpose(0, 1)
        if self._advantage:
            logits = _among(out[..., :actions], policy > 0)
        entropy = -(logits.exp() * logits.clamp(min=-100)).sum(-1)
        if self._advantage:
            with torch.no_grad():
                gain = value - net.support.mean(value_logits)
                gain = (gain / (gain.square().mean().sqrt() + 1e-6)).clamp(-3, 3)[:-1]
            taken, before = (
                each[:-1].gather(-1, action.T.unsqueeze(-1)).squeeze(-1) for each in (logits, policy)
            )
            ratio = (taken.clamp(min=-100) - before.clamp(min=1e-6).log()).clamp(max=10).exp()
            gained = torch.minimum(ratio * gain, ratio.clamp(1 - TRUST, 1 + TRUST) * gain)
            policy_sum = (-(gained + config.entropy * entropy[:-1]) * weight[:-1]).sum()
        else:
            policy_sum = (-(policy * logits).sum(-1) * weight).sum()
        value_sum = (value_loss * weight).sum()
        reward_sum = (reward_loss * (alive[:-1] * scale[1:])).sum()
        loss = (policy_sum + config.value_weight * value_sum + reward_sum) / rows
        self._adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), config.clip)
        self._adam.step()
        self.steps += 1
        with torch.no_grad():
            error = (net.support.mean(value_logits[0]) - value[0]).abs()
            count = alive[0].sum().clamp(min=1)
            self.metrics = {
                "policy_loss": float(policy_sum / rows),
                "value_loss": float(value_sum / rows),
                "reward_loss": float(reward_sum / rows),
                "policy_entropy": float((entropy[0] * alive[0]).sum() / count),
                "value_error": float((error * alive[0]).sum() / count),
            }

    def state(self) -> dict[str, Any]:
        """Weights, moments, numbers."""
        return {
            "weights": flatten(self._net),
            "adam": self._adam.state_dict(),
            "steps": self.steps,
            "metrics": dict(self.metrics),
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        assign(self._net, np.asarray(state["weights"], np.float32))
        self._adam.load_state_dict(state["adam"])
        self.steps, self.metrics = int(state["steps"]), dict(state["metrics"])


def _is_quick(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 faster than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    has: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # PyTorch 2.9 does not tell
    return device.type == "cpu" and bool(has.get("avx512_bf16") or has.get("amx_bf16"))


def _among(logits: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of logits [..., A] over the legal actions; where there are none, a game being over, of all."""
    legal = legal | ~legal.any(-1, keepdim=True)
    return torch.log_softmax(logits.masked_fill(~legal, -torch.inf), dim=-1)


def halve_gradient(embedding: torch.Tensor) -> torch.Tensor:
    """The same values; of the gradient of what is made of them half comes back (MuZero, appendix G)."""
    return 0.5 * embedding + 0.5 * embedding.detach()


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """[..., bins] twice -> [...]."""
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1)
