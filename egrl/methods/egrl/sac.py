"""Discrete soft actor-critic for many decisions at once.

Sources: EGRL, Algorithm 2 lines 22-31, Table 2 and appendix D; Haarnoja et al., "Soft actor-critic" (2018).

    critic   L = mean_b sum_j (Q_j(s, a~) - y)^2,  a~ = one-hot(a) + clip(N(0, sigma^2), -c, c),  y = scale r
    actor    L = -min_j Q_j(s, pi) - alpha H(pi(.|s)) + imitation CE(elite, pi(.|s))
    entropy  H = mean over live decisions of the entropy of that decision, in nats; CE, a cross-entropy, likewise

Deviations:
- An episode has one step (Table 2), and ends with it: y is the scaled reward. Discount, target networks and the
  entropy in y (lines 26 and 29-31) would have no effect, and are left out. The paper leaves out the end of an
  episode, and alpha.
- The critic judges the probabilities pi themselves: one pass for a whole batch, without sampling variance. It was
  trained on noisy one-hots, so Q between them is an extrapolation. Drawn one-hots whose gradient is passed on
  (straight-through) were no better and took longer (papers/egrl/log/egrl.md).
- `imitation` (the paper has none): the actor also learns to make the choices of the best mappings found so far by
  anyone, as shares a decision (after Oh et al., "Self-imitation learning", ICML 2018, and the cross-entropy method,
  de Boer et al. 2005). H being a mean over decisions, alpha / N is all that a single one feels of it, and the actor
  runs into a corner where the critic overestimates; docs/explanations/egrl.md has what imitation changes.
- Noise is added to legal choices of used decisions only: an unused row stays zero.
- Gradients are clipped by norm, after backward and before the step.
- The two critics' losses are added (they share no weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from egrl.methods.egrl.config import SacConfig
from policies.adam import Adam
from policies.boltzmann import legal_choices
from policies.critic import Critic, CriticConfig
from policies.graph import Graph
from policies.masking import cross_entropy, masked_log_probs, mean_entropy
from policies.network import NetworkConfig
from policies.pyg import make_actor
from policies.weight_vector import Weights, assign, flatten

NOISE_CLIP, CLIP_NORM = 0.5, 10.0
"""Largest size of the noise on actions (Fujimoto et al. 2018); the norm to which gradients are cut (own choice)."""


@dataclass(frozen=True)
class Task:
    """The one state of all episodes, and its decisions.

    Attributes:
        graph: of N nodes.
        x: float32 [N, F], their features.
        num_choices: int16 [N, H].
        live: bool [N, H].
    """

    graph: Graph
    x: NDArray[np.float32]
    num_choices: NDArray[np.int16]
    live: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if len(self.x) != self.graph.nodes:
            raise ValueError(f"x: expected {self.graph.nodes} rows, received {len(self.x)}")
        for name, array in (("num_choices", self.num_choices), ("live", self.live)):
            if array.ndim != 2 or len(array) != self.graph.nodes or array.shape != self.live.shape:
                raise ValueError(
                    f"{name}: expected shape [{self.graph.nodes}, H], received {list(array.shape)}"
                )


@dataclass(frozen=True)
class Transitions:
    """B episodes of one step.

    Attributes:
        action: int16 [B, N, H], -1 = unused.
        reward: float32 [B], unscaled.
        elite: float32 [N, H, C], each choice's share among the best mappings, or None: nothing to imitate.
    """

    action: NDArray[np.int16]
    reward: NDArray[np.float32]
    elite: NDArray[np.float32] | None = None

    def check(self, task: Task, choices: int) -> None:
        """Raises ValueError where a shape does not fit a task with so many choices, or a reward is not finite."""
        size = (len(self.action), *task.num_choices.shape)
        if self.action.shape != size:
            raise ValueError(f"action: expected shape {list(size)}, received {list(self.action.shape)}")
        if self.reward.shape != size[:1] or not np.isfinite(self.reward).all():
            raise ValueError(f"reward: expected {size[0]} finite values, received {self.reward!r}")
        if self.elite is not None and self.elite.shape != (*size[1:], choices):
            raise ValueError(
                f"elite: expected shape {[*size[1:], choices]}, received {list(self.elite.shape)}"
            )
        legal = self.action < np.maximum(task.num_choices, 1)
        if not legal.all() or self.action.min(initial=0) < -1:
            raise ValueError("action: expected -1 or a choice below num_choices, received another number")


class Sac:
    """Actor, twin critic and their optimizers."""

    def __init__(
        self,
        actor_config: NetworkConfig,
        critic_config: CriticConfig,
        config: SacConfig,
        task: Task,
        rng: np.random.Generator,
        choices: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Networks for C choices (by default the most that the task has), drawn from `rng`.

        Networks and minibatches live on a torch device; random numbers are drawn on the CPU, equal for every device.
        """
        self.config, self.task, self.device = config, task, torch.device(device)
        heads, features = task.num_choices.shape[1], task.x.shape[1]
        self.choices = int(task.num_choices.max()) if choices is None else choices
        self.actor = make_actor(actor_config, features, heads, self.choices, rng)
        self.critic = Critic(critic_config, features, heads, self.choices, rng)
        for net in (self.actor, self.critic):
            net.to(self.device)
        self.actor_adam = Adam(self.actor.parameters(), config.actor_lr)
        self.critic_adam = Adam(self.critic.parameters(), config.critic_lr)
        self.updates = 0
        self._graph = task.graph.on(self.device)
        self._x, self._live = self._tensor(task.x), self._tensor(task.live)
        self._num_choices = self._tensor(task.num_choices)

    def update(self, batch: Transitions, rng: np.random.Generator) -> dict[str, float]:
        """One gradient step of critic and actor (EGRL, Algorithm 2, lines 24 to 28).

        The noise on actions is drawn from `rng`.

        Returns the losses and what they are made of. Raises ValueError where shapes do not fit or a reward is not
        finite.
        """
        batch.check(self.task, self.choices)
        critic_loss, value = self._step_critic(batch, rng)
        actor_loss, entropy = self._step_actor(batch)
        self.updates += 1
        return {"critic_loss": critic_loss, "actor_loss": actor_loss, "entropy": entropy, "q": value}

    def probabilities(self) -> NDArray[np.float32]:
        """The actor's probabilities float32 [N, H, C]."""
        with torch.inference_mode():
            return masked_log_probs(self.actor(self._x, self._graph), self._num_choices).exp().cpu().numpy()

    def actor_weights(self) -> Weights:
        """A copy of the actor's weights, float32 [P]: a genome of the population."""
        return flatten(self.actor)

    def load_actor_weights(self, weights: Weights) -> None:
        """Start the actor from weights float32 [P]. Raises ValueError where P differs."""
        assign(self.actor, weights)
        self.actor_adam.reset()

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer moments as flat arrays; counters."""
        return {
            "actor": flatten(self.actor),
            "critic": flatten(self.critic),
            "actor_adam": self.actor_adam.state_dict(),
            "critic_adam": self.critic_adam.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`: training goes on bit for bit. Raises ValueError where shapes differ."""
        for name in ("actor", "critic"):
            assign(getattr(self, name), np.asarray(state[name]))
        self.actor_adam.load_state_dict(state["actor_adam"])
        self.critic_adam.load_state_dict(state["critic_adam"])
        self.updates = int(state["updates"])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _step_critic(self, batch: Transitions, rng: np.random.Generator) -> tuple[float, float]:
        """Lines 24 to 27: one step towards the scaled reward. Returns the loss and the mean value."""
        target = self._tensor(batch.reward).float() * self.config.reward_scale
        action = self.noisy_one_hot(batch.action, rng)
        # The critic sees noisy actions, so that it is smooth between one-hots, where the actor asks it for a gradient.
        value = self.critic(self._x, self._graph, action)
        loss = (value - target).square().mean(dim=1).sum()
        self._step(self.critic, self.critic_adam, loss)
        return float(loss.detach()), float(value.detach().mean())

    def noisy_one_hot(self, action: NDArray[np.int16], rng: np.random.Generator) -> Tensor:
        """Actions [B, N, H] as noisy one-hots float32 [B, N, H*C]; unused rows and illegal choices are 0."""
        # Noise on an unused row would teach the critic that it matters.
        used = (action >= 0)[..., None] & legal_choices(self.task.num_choices, self.choices)
        sigma = np.float32(self.config.noise_sigma)
        noise = np.clip(rng.standard_normal(used.shape, dtype=np.float32) * sigma, -NOISE_CLIP, NOISE_CLIP)
        one_hot = action[..., None] == np.arange(self.choices)
        return self._tensor(((one_hot + noise) * used).astype(np.float32)).flatten(2)

    def _step_actor(self, batch: Transitions) -> tuple[float, float]:
        """Line 28: one step on the soft value. Returns the loss and the mean entropy."""
        log_probs = masked_log_probs(self.actor(self._x, self._graph), self._num_choices)
        # Probabilities in place of a one-hot; dead decisions are 0, as in the actions that the critic learns from.
        action = (log_probs.exp().unsqueeze(0) * self._live.unsqueeze(-1)).flatten(2)
        # Detached weights: the gradient goes through the critic to the action, and leaves the critic as it is.
        frozen = {name: p.detach() for name, p in self.critic.named_parameters()}
        # The lower of two estimates, since one that errs upwards would be followed (Fujimoto et al. 2018).
        value = torch.func.functional_call(self.critic, frozen, (self._x, self._graph, action)).amin(dim=0)
        entropy = mean_entropy(log_probs, self._live).mean()
        loss = -value.mean() - self.config.alpha * entropy
        if batch.elite is not None and self.config.imitation > 0:
            imitated = cross_entropy(self._tensor(batch.elite), log_probs, self._live).mean()
            loss = loss + self.config.imitation * imitated
        self._step(self.actor, self.actor_adam, loss)
        return float(loss.detach()), float(entropy.detach())

    def _step(self, net: nn.Module, optimizer: Adam, loss: Tensor) -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        # One outlier among the rewards would otherwise move all weights far.
        nn.utils.clip_grad_norm_(net.parameters(), CLIP_NORM)
        optimizer.step()
