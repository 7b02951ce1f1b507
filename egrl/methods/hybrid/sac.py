"""Discrete soft actor-critic for many decisions at once.

Sources: EGRL, Algorithm 2 lines 21-31, Table 2 and appendix D; Haarnoja et al., "Soft actor-critic" (2018).

    critic   L = mean_b sum_j (Q_j(s, a~) - y)^2,  a~ = one-hot(a) + clip(N(0, sigma^2), -c, c)
             y = scale r + gamma (1 - done) (min_j Q'_j(s', a') + alpha H(pi'(.|s'))),  a' ~ pi'(.|s')
    actor    L = -min_j Q_j(s, pi) - alpha H(pi(.|s)) + imitation CE(elite, pi(.|s))
    entropy  H = mean over live decisions of the entropy of that decision, in nats; CE, a cross-entropy, likewise

Deviations:
- The paper omits alpha, the done mask and the sign convention of the entropy in y; here they are as above.
  Where every row is done (one-step episodes), the target is the scaled reward and no network is evaluated.
- `actor_gradient`. "probabilities" (default) feeds pi itself to the critic: one pass for the whole batch and
  no sampling variance; since the critic was trained on noisy one-hots, Q between them is an extrapolation.
  "straight-through" feeds sampled one-hots and passes their gradient on to pi: it stays where the critic was
  trained, for one critic pass a sample. On a chain of 50 nodes whose reward is the squared share of choices
  that match a target (200 random maps, then 1,500 rollouts and steps; mean of 2 seeds, chance 0.11), the
  first reached 0.20 (arbitrary target) and 0.28 (target read off the features) in 45 s a run, the second
  0.18 and 0.21 in 52 to 60 s: no better, and dearer.
- `imitation` (the paper has none): the actor also learns to make the choices of the best mappings found so far by
  anyone, as shares a decision (after Oh et al., "Self-imitation learning", ICML 2018, and the cross-entropy method,
  de Boer et al. 2005). H being a mean over decisions, alpha / N is all that a single one feels of it, and the actor
  runs into a corner where the critic overestimates; docs/explanations/egrl.md has what imitation changes.
- Target actor as well as target critic move by tau (lines 30 and 31 name both); a' and H in y are the
  target actor's. One noise-free one-hot a' is drawn a row.
- Noise is added to legal choices of used decisions only: an unused row stays zero.
- Gradients are clipped by norm, after backward and before the step.
- The two critics' losses are added (they share no weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import Doc

from egrl.methods.adam import Adam
from policies.boltzmann import legal_choices
from policies.critic import Critic, CriticConfig
from policies.graph import Graph
from policies.masking import cross_entropy, masked_log_probs, mean_entropy
from policies.network import NetworkConfig
from policies.places import Places
from policies.pyg import make_actor
from policies.ranking_actor import RankingActor
from policies.weight_vector import Weights, assign, flatten


@dataclass(frozen=True)
class Task:
    """The decisions: a graph of N nodes, int16 [N, H] numbers of choices, bool [N, H] live decisions.

    `places` and the names of their features are given if the actor is a ranking network.
    """

    graph: Graph
    num_choices: NDArray[np.int16]
    live: NDArray[np.bool_]
    places: Places | None = None
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, array in (("num_choices", self.num_choices), ("live", self.live)):
            if array.ndim != 2 or len(array) != self.graph.nodes or array.shape != self.live.shape:
                raise ValueError(
                    f"{name}: expected shape [{self.graph.nodes}, H], received {list(array.shape)}"
                )


@dataclass(frozen=True)
class Transitions:
    """B transitions of one task.

    Attributes:
        x: float32 [N, F] (one state) or [B, N, F].
        action: int16 [B, N, H], -1 = unused.
        reward: float32 [B], unscaled.
        next_x: as x; looked at only where a row is not done.
        done: bool [B], the episode ended with this transition.
        elite: float32 [N, H, C], each choice's share among the best mappings, or None: nothing to imitate.
    """

    x: NDArray[np.float32]
    action: NDArray[np.int16]
    reward: NDArray[np.float32]
    next_x: NDArray[np.float32]
    done: NDArray[np.bool_]
    elite: NDArray[np.float32] | None = None

    def check(self, task: Task, choices: int) -> None:
        """Raises ValueError where a shape does not fit a task with so many choices, or a reward is not finite."""
        size = (len(self.action), *task.num_choices.shape)
        if self.action.shape != size:
            raise ValueError(f"action: expected shape {list(size)}, received {list(self.action.shape)}")
        if self.reward.shape != size[:1] or not np.isfinite(self.reward).all():
            raise ValueError(f"reward: expected {size[0]} finite values, received {self.reward!r}")
        if self.done.shape != size[:1] or self.done.dtype != np.bool_:
            raise ValueError(f"done: expected bool [{size[0]}], received {self.done.dtype} {self.done.shape}")
        if self.elite is not None and self.elite.shape != (*size[1:], choices):
            raise ValueError(
                f"elite: expected shape {[*size[1:], choices]}, received {list(self.elite.shape)}"
            )
        legal = self.action < np.maximum(task.num_choices, 1)
        if not legal.all() or self.action.min(initial=0) < -1:
            raise ValueError("action: expected -1 or a choice below num_choices, received another number")


@dataclass(frozen=True)
class SacConfig:
    """Settings of the learner (from EGRL's Table 2 unless stated)."""

    actor_lr: Annotated[float, Doc("step size of the actor's Adam")] = 1e-3
    critic_lr: Annotated[float, Doc("step size of the critics' Adam")] = 1e-3
    alpha: Annotated[
        float, Doc("weight of the entropy beside the value: the larger, the less certain the actor")
    ] = 0.05
    gamma: Annotated[
        float, Doc("discount per step of an episode; without effect in episodes of one step")
    ] = 0.99
    tau: Annotated[float, Doc("share of the new weights that a step moves the target networks by")] = 1e-3
    batch: Annotated[int, Doc("transitions per gradient step")] = 24
    reward_scale: Annotated[float, Doc("factor on every reward before the critics learn it")] = 5.0
    noise_sigma: Annotated[
        float,
        Doc(
            "standard deviation of the noise on the actions that the critics learn from (own choice,"
            " after published settings of 0.2)"
        ),
    ] = 0.2
    noise_clip: Annotated[
        float,
        Doc("largest size of that noise (Fujimoto et al. 2018)"),
    ] = 0.5
    actor_gradient: Annotated[
        Literal["probabilities", "straight-through"],
        Doc(
            '"probabilities": the critics judge the actor\'s probabilities; "straight-through": they'
            " judge a draw, whose gradient is passed on; see the module"
        ),
    ] = "probabilities"
    clip_norm: Annotated[float, Doc("norm that the gradient of each network is cut to (own choice)")] = 10.0
    imitation: Annotated[
        float,
        Doc(
            "weight of the cross-entropy to the best mappings so far in the actor's loss (own choice;"
            " 0 in the paper)"
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        positive = ("actor_lr", "critic_lr", "reward_scale", "clip_norm")
        ranges = {
            **dict.fromkeys(positive, "> 0"),
            "alpha": ">= 0",
            "noise_sigma": ">= 0",
            "noise_clip": ">= 0",
            "imitation": ">= 0",
        }
        for name, expected in ranges.items():
            value = getattr(self, name)
            if not (value >= 0 and np.isfinite(value)) or (expected == "> 0" and value == 0):
                raise ValueError(f"{name}: expected a finite number {expected}, received {value}")
        for name in ("gamma", "tau"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected 0..1, received {getattr(self, name)}")
        if not 1 <= self.batch <= 4096:
            raise ValueError(f"batch: expected 1..4096, received {self.batch}")


def _actor(
    config: NetworkConfig, features: int, task: Task, choices: int, rng: np.random.Generator | None
) -> nn.Module:
    """The actor of a task; without `rng` its weights are the caller's to assign."""
    if task.places is not None:
        return RankingActor(config, task.feature_names, task.places, choices, rng)
    return make_actor(config, features, task.num_choices.shape[1], choices, rng)


class Sac:
    """Actor, twin critic, their targets and optimizers."""

    def __init__(
        self,
        actor_config: NetworkConfig,
        critic_config: CriticConfig,
        config: SacConfig,
        task: Task,
        features: int,
        rng: np.random.Generator,
        choices: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Networks for F features and C choices (by default the most that the task has), drawn from `rng`.

        Networks and minibatches live on a torch device; random numbers are drawn on the CPU, equal for every device.
        """
        self.config, self.task, self.device = config, task, torch.device(device)
        heads = task.num_choices.shape[1]
        self.choices = int(task.num_choices.max()) if choices is None else choices
        self.actor = _actor(actor_config, features, task, self.choices, rng)
        self.critic = Critic(critic_config, features, heads, self.choices, rng)
        self.target_actor = _actor(actor_config, features, task, self.choices, None)
        self.target_critic = Critic(critic_config, features, heads, self.choices)
        for net in (self.actor, self.critic, self.target_actor, self.target_critic):
            net.to(self.device)
        self._copy_to_targets()
        self.actor_adam = Adam(self.actor.parameters(), config.actor_lr)
        self.critic_adam = Adam(self.critic.parameters(), config.critic_lr)
        self.updates = 0

    def update(self, batch: Transitions, rng: np.random.Generator) -> dict[str, float]:
        """One gradient step of critic and actor, then of the targets (EGRL, Algorithm 2, lines 23 to 31).

        All randomness comes from `rng`: target, critic and actor draw from it in this order.

        Returns the losses and what they are made of. Raises ValueError where shapes do not fit or a reward is not
        finite.
        """
        batch.check(self.task, self.choices)
        target = self._target(batch, rng)
        critic_loss, value = self._step_critic(batch, target, rng)
        actor_loss, entropy = self._step_actor(batch, rng)
        with torch.no_grad():
            for net, slow in ((self.actor, self.target_actor), (self.critic, self.target_critic)):
                torch._foreach_lerp_(list(slow.parameters()), list(net.parameters()), self.config.tau)
        self.updates += 1
        return {
            "critic_loss": critic_loss,
            "actor_loss": actor_loss,
            "entropy": entropy,
            "q": value,
            "target": float(target.mean()),
        }

    def probabilities(
        self, x: NDArray[np.float32], graph: Graph | None = None, num_choices: NDArray[np.int16] | None = None
    ) -> NDArray[np.float32]:
        """The actor's probabilities float32 [N, H, C] on x [N, F], by default for the task's graph."""
        counts = self._tensor(self.task.num_choices if num_choices is None else num_choices)
        graph = (graph or self.task.graph).on(self.device)
        with torch.inference_mode():
            logits = self.actor(self._tensor(x), graph)
            return masked_log_probs(logits, counts).exp().cpu().numpy()

    def actor_weights(self) -> Weights:
        """A copy of the actor's weights, float32 [P]: a genome of the population."""
        return flatten(self.actor)

    def load_actor_weights(self, weights: Weights) -> None:
        """Start the actor and its target from weights float32 [P]. Raises ValueError where P differs."""
        assign(self.actor, weights)
        assign(self.target_actor, weights)
        self.actor_adam.reset()

    def state_dict(self) -> dict[str, Any]:
        """Weights, targets and optimizer moments as flat arrays; counters."""
        return {
            "actor": flatten(self.actor),
            "critic": flatten(self.critic),
            "target_actor": flatten(self.target_actor),
            "target_critic": flatten(self.target_critic),
            "actor_adam": self.actor_adam.state_dict(),
            "critic_adam": self.critic_adam.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`: training goes on bit for bit. Raises ValueError where shapes differ."""
        for name in ("actor", "critic", "target_actor", "target_critic"):
            assign(getattr(self, name), np.asarray(state[name]))
        self.actor_adam.load_state_dict(state["actor_adam"])
        self.critic_adam.load_state_dict(state["critic_adam"])
        self.updates = int(state["updates"])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _graph(self) -> Graph:
        return self.task.graph.on(self.device)

    def _copy_to_targets(self) -> None:
        assign(self.target_actor, flatten(self.actor))
        assign(self.target_critic, flatten(self.critic))

    def _target(self, batch: Transitions, rng: np.random.Generator) -> Tensor:
        """y [B]."""
        config = self.config
        target = self._tensor(batch.reward).float() * config.reward_scale
        # Only rows that go on need the next state; where all are done, no network is evaluated.
        going = ~batch.done
        if not going.any():
            return target
        with torch.no_grad():
            next_x = self._tensor(batch.next_x)
            next_x = next_x if next_x.dim() == 2 else next_x[self._tensor(going)]
            log_probs = masked_log_probs(
                self.target_actor(next_x, self._graph()), self._tensor(self.task.num_choices)
            )
            drawn = _draw(log_probs, rng, int(going.sum())) * self._tensor(self.task.live).unsqueeze(-1)
            # The lower of two estimates, since one that errs upwards would be followed (Fujimoto et al. 2018).
            q = self.target_critic(next_x, self._graph(), drawn.flatten(2)).amin(dim=0)
            soft = q + config.alpha * mean_entropy(log_probs, self._tensor(self.task.live))
            target[self._tensor(going)] += config.gamma * soft
        return target

    def _step_critic(
        self, batch: Transitions, target: Tensor, rng: np.random.Generator
    ) -> tuple[float, float]:
        """One step on the Bellman error. Returns the loss and the mean value."""
        action = self.noisy_one_hot(batch.action, rng)
        # The critic sees noisy actions, so that it is smooth between one-hots, where the actor asks it for a gradient.
        value = self.critic(self._tensor(batch.x), self._graph(), action)
        loss = (value - target).square().mean(dim=1).sum()
        self._step(self.critic, self.critic_adam, loss)
        return float(loss.detach()), float(value.detach().mean())

    def noisy_one_hot(self, action: NDArray[np.int16], rng: np.random.Generator) -> Tensor:
        """Actions [B, N, H] as noisy one-hots float32 [B, N, H*C]; unused rows and illegal choices are 0."""
        used = (action >= 0)[..., None] & legal_choices(self.task.num_choices, self.choices)
        clip, sigma = self.config.noise_clip, np.float32(self.config.noise_sigma)
        noise = np.clip(rng.standard_normal(used.shape, dtype=np.float32) * sigma, -clip, clip)
        one_hot = action[..., None] == np.arange(self.choices)
        return self._tensor(((one_hot + noise) * used).astype(np.float32)).flatten(2)

    def _step_actor(self, batch: Transitions, rng: np.random.Generator) -> tuple[float, float]:
        """One step on the soft value. Returns the loss and the mean entropy."""
        x, live = self._tensor(batch.x), self._tensor(self.task.live)
        log_probs = masked_log_probs(self.actor(x, self._graph()), self._tensor(self.task.num_choices))
        action = log_probs.exp()
        if self.config.actor_gradient == "straight-through":
            # Forward a one-hot, backward the gradient of the probabilities: action - action.detach() is 0 in value.
            drawn = _draw(log_probs.detach(), rng, len(batch.action))
            action = drawn + action - action.detach()
        elif x.dim() == 2:
            action = action.unsqueeze(0)
        action = (action * live.unsqueeze(-1)).flatten(2)
        # Detached weights: the gradient goes through the critic to the action, and leaves the critic as it is.
        frozen = {name: p.detach() for name, p in self.critic.named_parameters()}
        value = torch.func.functional_call(self.critic, frozen, (x, self._graph(), action)).amin(dim=0)
        entropy = mean_entropy(log_probs, live).mean()
        loss = -value.mean() - self.config.alpha * entropy
        if batch.elite is not None and self.config.imitation > 0:
            loss = (
                loss
                + self.config.imitation * cross_entropy(self._tensor(batch.elite), log_probs, live).mean()
            )
        self._step(self.actor, self.actor_adam, loss)
        return float(loss.detach()), float(entropy.detach())

    def _step(self, net: nn.Module, optimizer: Adam, loss: Tensor) -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(net.parameters(), self.config.clip_norm)
        optimizer.step()


def _draw(log_probs: Tensor, rng: np.random.Generator, batch: int) -> Tensor:
    """One-hots [B, N, H, C] drawn from log_probs [N, H, C] or [B, N, H, C] by the Gumbel-max trick."""
    shape = log_probs.shape if log_probs.dim() == 4 else (batch, *log_probs.shape)
    gumbel = torch.from_numpy(rng.gumbel(size=tuple(shape))).to(log_probs.device)
    best = (log_probs + gumbel).argmax(dim=-1)
    return nn.functional.one_hot(best, log_probs.shape[-1]).to(log_probs.dtype)
