"""Proximal policy optimisation on one-shot mappings that a GraphSAGE network refines pass by pass.

Sources: Schulman et al., "Proximal policy optimization algorithms" (2017), equations 7 and 9; the paper on multi-chip
modules, section 5.1 (4 minibatches, 10 epochs).

    ratio_d = pi(choice of decision d | state) / its value when it was drawn
    loss = -mean_d min(ratio_d A, clip(ratio_d) A) + value_weight (V(state) - R)^2 - entropy mean_d H_d

A rollout of T passes is T actions; the reward comes after the last, and is not discounted.

Deviations:
- The ratio is clipped decision by decision: that of a joint action of thousands of decisions leaves any clip range in
  one step.
- Where `imitation` is not 0, steps also go towards the best mapping that is known of a problem, from where a
  policy sets out (self-imitation; Oh et al., "Self-imitation learning", ICML 2018): one number a rollout says little
  about each of thousands of decisions, a good mapping says much about all.
- Rewards are normalised by a running mean and standard deviation a problem (what V predicts), advantages R - V by
  those of the rollouts of a round that set out from the same mapping, and cut off at `CUT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import Doc

from egrl.methods.ppo.task import Example, Rollouts, Task
from hwsim.problem import Mapping16
from policies.adam import Adam
from policies.graphsage import GraphSage, GraphSageConfig
from policies.masking import masked_log_probs, mean_entropy
from policies.weight_vector import assign, flatten

METRICS = ("policy_loss", "value_loss", "entropy", "clipped", "kl", "imitation_loss")
CUT = 3.0


@dataclass(frozen=True)
class PpoLearnerConfig:
    """Settings of the learner."""

    minibatches: Annotated[
        int, Ge(1), Le(10_000), Doc("minibatches per epoch that a round's rollouts are split into")
    ] = 2
    epochs: Annotated[
        int, Ge(0), Le(10_000), Doc("passes over the rollouts of a round; 0: weights stay as they are")
    ] = 5
    learning_rate: Annotated[float, Gt(0), Le(1), Doc("step size of Adam")] = 1e-3
    clip: Annotated[
        float,
        Gt(0),
        Le(10),
        Doc("how far the ratio of new to old probability may leave 1 before its gradient is cut"),
    ] = 0.2
    entropy: Annotated[
        float,
        Ge(0),
        Le(100),
        Doc("weight of the mean entropy per decision (nats): the larger, the less certain the policy"),
    ] = 0.003
    value_weight: Annotated[float, Ge(0), Le(100), Doc("weight of the squared error of the value")] = 0.5
    imitation: Annotated[
        float,
        Ge(0),
        Le(100),
        Doc("weight of the cross-entropy per decision to the best mappings so far; 0: none is imitated"),
    ] = 1.0
    greatest_gradient: Annotated[float, Gt(0), Le(1e6), Doc("norm that a gradient is cut to")] = 1.0


class Ppo:
    """Network and optimiser."""

    def __init__(
        self,
        config: PpoLearnerConfig,
        network: GraphSageConfig,
        tasks: Sequence[Task],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """For tasks with the same numbers of features and heads; weights are drawn from `rng`."""
        self._config, self._tasks, self._device = config, tasks, torch.device(device)
        features, heads = tasks[0].x.shape[1], tasks[0].counts.shape[1]
        self.net = GraphSage(network, features, heads, rng).to(self._device)
        self._adam = Adam(self.net.parameters(), config.learning_rate)

    def log_probs(self, problem: int, before: Mapping16) -> NDArray[np.float32]:
        """Log-probabilities float32 [B, N, H, C] of what comes after mappings [B, N, H]; -inf for illegal choices."""
        with torch.inference_mode():
            found = self._read(problem, before)[0]
            return np.asarray(found.cpu().numpy())

    def _read(self, problem: int, before: Mapping16) -> tuple[Tensor, Tensor]:
        """Log-probabilities [B, N, H, C] and values [B], each distinct mapping being read once."""
        distinct, index = _distinct(before)
        task = self._tasks[problem]
        earlier = torch.from_numpy(distinct.astype(np.int64)).to(self._device)
        logits, value = self.net(task.x, earlier, task.graph, task.counts, task.stages(distinct))
        log_probs = masked_log_probs(logits, task.counts)
        if len(distinct) == len(before):
            return log_probs, value
        at = torch.from_numpy(index).to(self._device)
        if len(distinct) == 1:
            return log_probs.expand(len(before), -1, -1, -1), value.expand(len(before))
        return log_probs.index_select(0, at), value.index_select(0, at)

    def update(
        self, rollouts: Sequence[Rollouts], rng: np.random.Generator, examples: Sequence[Example] = ()
    ) -> dict[str, float]:
        """Epochs of gradient steps on a round and on examples; returns means of `METRICS` over them."""
        # Advantages are taken once, by the values as they are before the first step: all epochs see the same ones.
        data = [(part, self._advantages(part)) for part in rollouts]
        totals, steps = dict.fromkeys(METRICS, 0.0), 0
        for _ in range(self._config.epochs):
            cuts = [np.array_split(rng.permutation(len(p.target)), self._config.minibatches) for p, _ in data]
            for k in range(self._config.minibatches):
                batch = [
                    (p.rows(cut[k]), advantage[:, cut[k]])
                    for (p, advantage), cut in zip(data, cuts, strict=True)
                    if len(cut[k])
                ]
                if batch:
                    for name, amount in self._step(batch, examples).items():
                        totals[name] += amount
                    steps += 1
        return {name: total / max(1, steps) for name, total in totals.items()}

    def _advantages(self, part: Rollouts) -> NDArray[np.float32]:
        """Float32 [T, R]: R - V, normalised within each group and pass."""
        out = np.zeros(part.before.shape[:2], np.float32)
        with torch.inference_mode():
            for t, before in enumerate(part.before):
                out[t] = part.target - self._read(part.problem, before)[1].cpu().numpy()
        # Rollouts that set out from different mappings are not comparable: each group has a mean and a deviation of its
        # own, per pass. A group of one is left with 0 and teaches the policy nothing.
        for group in np.unique(part.group):
            own = out[:, part.group == group]
            own = own - own.mean(axis=1, keepdims=True)
            out[:, part.group == group] = own / (own.std(axis=1, keepdims=True) + 1e-6)
        return np.clip(out, -CUT, CUT)

    def _step(
        self, batch: Sequence[tuple[Rollouts, NDArray[np.float32]]], examples: Sequence[Example]
    ) -> dict[str, float]:
        config, noted = self._config, dict.fromkeys(METRICS, 0.0)
        rows = sum(advantage.size for _, advantage in batch)
        self._adam.zero_grad()
        for part, advantages in batch:
            live = self._tasks[part.problem].live
            decisions = max(1, int(live.sum()))
            target = torch.from_numpy(part.target).to(self._device)
            for t, before in enumerate(part.before):
                log_probs, value = self._read(part.problem, before)
                action = torch.from_numpy(part.action[t].astype(np.int64)).clamp(min=0).to(self._device)
                # Each decision has a ratio of its own, not the mapping: a product over thousands of decisions would
                # leave the clipping range at once. Dead decisions have log-probability 0 on both sides, a ratio of 1.
                new = log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1).masked_fill(~live, 0.0)
                change = new - torch.from_numpy(part.log_prob[t]).to(self._device)
                ratio = change.clamp(-20, 20).exp()  # exp(20) is far outside the clip, and no overflow
                advantage = torch.from_numpy(advantages[t]).to(self._device)[:, None, None]
                clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
                gain = torch.minimum(ratio * advantage, clipped * advantage) * live
                policy_loss = -gain.sum() / decisions
                value_loss = (value - target).square().sum()
                entropy = mean_entropy(log_probs, live).sum()
                loss = policy_loss + config.value_weight * value_loss - config.entropy * entropy
                # Gradients add up over problems and passes, so that one step of Adam serves all of them.
                (loss / rows).backward()  # type: ignore[no-untyped-call]
                with torch.no_grad():
                    far = (((ratio - 1).abs() > config.clip) & live).sum() / decisions
                    values = (policy_loss, value_loss, entropy, far, -(change * live).sum() / decisions)
                    for name, amount in zip(METRICS[:-1], values, strict=True):
                        noted[name] += float(amount) / rows
        if self._config.imitation > 0:
            for example in examples:
                noted["imitation_loss"] += self._imitate(example, 1 / len(examples)) / len(examples)
        for parameter in self.net.parameters():  # all step together, those that a batch does not reach, too
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), config.greatest_gradient)
        self._adam.step()
        return noted

    def _imitate(self, example: Example, share: float) -> float:
        """Add the gradient of `share` of the cross-entropy towards an example; returns that, nats a decision."""
        live = self._tasks[example.problem].live
        log_probs, _ = self._read(example.problem, example.before[None])
        action = torch.from_numpy(example.action.astype(np.int64)).clamp(min=0).to(self._device)
        # Divided by what changes, not by all decisions: an example that repeats most of a mapping would teach little.
        taken = log_probs[0].gather(-1, action.unsqueeze(-1)).squeeze(-1)
        decided = int((example.action != example.before).sum())
        loss = -taken.masked_fill(~live, 0.0).sum() / max(1, decided)
        (self._config.imitation * share * loss).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def weights(self) -> NDArray[np.float32]:
        """A copy of the weights, float32 [P]."""
        return flatten(self.net)

    def load_weights(self, weights: NDArray[np.float32]) -> None:
        """Take weights float32 [P]."""
        assign(self.net, np.asarray(weights, np.float32))

    def state_dict(self) -> dict[str, Any]:
        """Weights and moments."""
        return {"weights": self.weights(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.load_weights(state["weights"])
        self._adam.load_state_dict(state["adam"])


def _distinct(mapping: Mapping16) -> tuple[Mapping16, NDArray[np.int64]]:
    """The distinct mappings of [B, N, H] in the order they come, and which of them each is, int64 [B]."""
    seen: dict[bytes, int] = {}
    index = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in mapping], np.int64)
    first = [int(np.flatnonzero(index == k)[0]) for k in range(len(seen))]
    return mapping[first], index


@dataclass(frozen=True)
class PpoConfig:
    """Settings of the method.

    Example:
        >>> import egrl
        >>> from egrl.methods.ppo.learner import PpoConfig
        >>> result = egrl.search("resnet18", method=PpoConfig(rollouts=4), evals=20, problem="mcm")
        >>> result.speedup >= 1.0
        True
    """

    rollouts: Annotated[
        int,
        Ge(2),
        Le(10_000),
        Doc("mappings drawn per round (the paper's 20; with the deployed one they make a generation)"),
    ] = 20
    passes: Annotated[
        int,
        Ge(1),
        Le(64),
        Doc("passes of the policy per rollout, each of which sees the mapping of the one before"),
    ] = 1
    begin: Annotated[
        Literal["best", "outset"],
        Doc('what the first pass of a rollout sees: the "best" mapping so far, or the "outset"'),
    ] = "best"
    drafts: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("share of the rollouts that see no mapping, as the deployed one does"),
    ] = 0.1
    outset: Annotated[
        Literal["even", "nothing"],
        Doc(
            'what rollouts see before any result: "nothing", or the "even" split of the nodes in'
            " order, if choices are stages"
        ),
    ] = "even"
    ordered: Annotated[
        bool, Doc("draw stages along the execution order, move by move, if choices are stages")
    ] = True
    coupling: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("how alike the draws of neighbouring nodes are, if choices are stages: 0 independent, 1 smooth"),
    ] = 0.0
    draw: Annotated[
        Literal["own", "problem"],
        Doc(
            '"own": decisions are drawn independently and the problem repairs them; "problem": the'
            " problem draws a valid mapping"
        ),
    ] = "own"
    credit: Annotated[
        Literal["drawn", "ran"],
        Doc('which mapping gets the reward: the one "drawn", or the repaired one that "ran"'),
    ] = "drawn"
    learner: Annotated[PpoLearnerConfig, Doc("see `egrl.methods.ppo.learner`")] = field(
        default_factory=PpoLearnerConfig
    )
    network: Annotated[GraphSageConfig, Doc("see `policies.graphsage`")] = field(
        default_factory=GraphSageConfig
    )


PAPER: dict[str, Any] = {
    "passes": 2,
    "begin": "outset",
    "outset": "nothing",
    "ordered": False,
    "coupling": 0.0,
    "learner.imitation": 0.0,
    "learner.minibatches": 4,
    "learner.epochs": 10,
    "network.layers": 8,
    "network.width": 128,
    "network.crowds": False,
    "network.slope": 0.0,
    "network.stay": 0.0,
    "network.leave": 0.0,
}
"""Sections 4.1 and 5.1. The paper does not state its number of passes; with two, one pass sees another's mapping."""
