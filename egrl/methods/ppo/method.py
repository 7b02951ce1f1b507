"""PPO: a GraphSAGE policy that proposes whole mappings, refined pass by pass, and is credited what it drew itself.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", sections 4.1 to 4.3
and 5.1: a policy whose passes each see the mapping of the pass before (equation 7); its last draw goes to the problem,
which mends it (a constraint solver's FIX, rectification …) before it is measured; the reward counts for what was drawn,
not for what it became.

    round: a mapping of the policy's most probable choices, to be deployed, and `rollouts` draws, all measured
    then:  gradient steps of `egrl.methods.ppo.learner` on the draws

On several problems (pre-training), a round's rollouts are dealt over as many as get `LEAST` each, in turn.

Deviations (`--preset paper` is without all but the last two):
- A rollout sets out from the best mapping so far (of those that do not run where none does), but for a share `drafts`
  of them, which like the deployed one see nothing: a round then is a learned local search, where the paper's policy
  draws everything anew. Of equally good mappings the coolest is the best, of those the last: where several stages set
  the pace, relieving one of them changes no reward.
- Before anything is known a rollout sets out from the `outset`, which where choices are stages of a pipeline is the
  even split of the nodes in order.
- Of a rollout from the best mapping counts what it gains over that, and nothing where it lost, since the search goes on
  from the best all the same. Else a policy learns to move nothing, above all on networks where nothing is left to gain.
- A rollout that was drawn as what it saw gets one decision changed, drawn by the same probabilities: as the policy
  becomes sure of what to keep, no measurement goes to what is known.
- Steps also go towards examples (`learner.imitation`): the best mapping after nothing, and of rollouts that bettered
  what they set out from, what ran after that. The latter teach which moves pay, on all problems alike.
- Where choices are stages, what was drawn is brought about move by move (`ordered`): a node takes along what has to go
  with it for order, span of edges and memory, or stays where that is much; drafts are brought in order. So what runs
  is what was proposed, and FIX has nothing to do (compared in papers/mcm/log/mcm.md). One draft a round explores:
  SAMPLE draws it, more evenly than the policy would, since what keeps to the policy's order is not all that is valid
  (networks with two directions); it counts as an example alone. Half of the rollouts see an empty stage behind one of
  the hottest, where not all stages are in use.
- Where choices are stages of a pipeline, the uniform numbers that a draw is made with are alike for nodes near each
  other in order (`coupling`): each decision has the policy's own distribution still, but a border moves as a whole
  where independent draws would scatter the nodes beside it, and the solver would throw them away.
- Far fewer weights.
- The paper does not say how many passes there are; what a pass draws is not measured but for the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core import typed_tables
from egrl.core.archive import START, Proposals, proposals
from egrl.core.method import Context, Method
from egrl.core.registry import MethodDefinition, needs_graph
from egrl.methods import policy_fit
from egrl.methods.ppo.learner import METRICS, PAPER, Ppo, PpoConfig
from egrl.methods.ppo.task import (
    DRAFTING,
    EXPLORING,
    IMPROVING,
    NOTHING,
    OPENING,
    Example,
    Known,
    Part,
    Rollouts,
    Task,
    carry_out,
    change_one_decision,
    coupled_uniforms,
    in_stages,
    open_stage,
    outset,
    soften,
    total_heat,
)
from hwsim.keys import SAMPLE
from hwsim.mappings import sample
from hwsim.problem import Evaluation, Mapping16, Problem, Status
from policies.graph import prepare
from policies.graphsage import GraphSage, GraphSageConfig
from policies.masking import masked_log_probs
from policies.store import StoredPolicy, graphsage_policy, graphsage_weights
from policies.weight_vector import assign
from workloads.errors import InputError, RunFailure

LEAST = 5
"""Rollouts that a problem gets in a round, where there are several."""
STEPS = 512
"""Rollouts that bettered what they set out from are kept that long, as examples."""


class PpoMethod(Method):
    """See the module."""

    def __init__(self, context: Context, config: PpoConfig) -> None:
        """Raises InputError where no policy fits all problems, or `context.init` does not."""
        torch.set_num_threads(context.threads)
        self._context, self._config = context, config
        self._problems = list(context.problems)
        policy_fit.common_demands(self._problems, "choices")
        seen = [policy_fit.observation(problem) for problem in self._problems]
        tasks = [
            Task(problem, s.x, prepare(s.edge_index, len(s.x)), torch.device(context.device))
            for problem, s in zip(self._problems, seen, strict=True)
        ]
        self._ppo = Ppo(
            config.learner, config.network, tasks, context.generator("ppo weights"), context.device
        )
        if context.init is not None:
            weights = graphsage_weights(context.init, config.network, "--init")
            for problem in self._problems:
                policy_fit.check(context.init, problem, "--init")
            self._ppo.load_weights(weights)
        self._drawer = RolloutDrawer(context, config, self._ppo)
        self._known = [Known(before) for before in self._drawer.outset]
        self._rounds = 0
        self._round: list[Part] = []
        self._metrics: dict[str, float] = {}
        self._steps: list[Example] = []

    # ---- a round

    def ask(self) -> Proposals:
        """The next part of the round, of one problem; a new round once all of it has been told."""
        if all(part.told for part in self._round):
            self._learn()
            self._round = self._next_round()
        part = next(part for part in self._round if not part.told)
        return proposals(part.mapping, ["deployed"] * part.deployed + ["ppo"] * len(part.group), part.problem)

    def _next_round(self) -> list[Part]:
        rng = self._context.generator(f"ppo round {self._rounds}")
        count = min(len(self._problems), max(1, self._config.rollouts // LEAST))
        first = self._rounds * count
        sizes = np.diff(np.linspace(0, self._config.rollouts, count + 1).astype(np.int64))
        self._rounds += 1
        numbers = [(first + k) % len(self._problems) for k in range(count)]
        return [
            self._drawer.part(number, int(size), self._known[number], rng)
            for number, size in zip(numbers, sizes, strict=True)
        ]

    # ---- results

    def tell(self, proposals: Proposals, evaluation: Evaluation) -> None:
        """Keep what was measured; a failed measurement has no reward."""
        whole = np.flatnonzero(evaluation.usable & ~evaluation.partial)
        if proposals.source[0] == START:
            for row in whole:
                self._know(proposals.problem, evaluation, int(row))
            return
        part = next(part for part in self._round if not part.told)
        part.reward = np.where(evaluation.usable, evaluation.reward, np.nan)
        part.speedup, part.told = evaluation.speedup, True
        if len(part.ran):
            part.ran = evaluation.repaired[part.deployed :]
        for row in whole:
            number = int(row) - part.deployed
            mapping = evaluation.repaired[row].copy()
            improves = evaluation.reward[row] > part.base > -np.inf
            if number >= 0 and part.group[number] != DRAFTING and improves:
                self._steps = [*self._steps, Example(part.problem, part.before[0, number], mapping)][-STEPS:]
            self._know(part.problem, evaluation, int(row))

    def _know(self, problem: int, evaluation: Evaluation, row: int) -> None:
        """Remember the best mapping of a problem; the one with the least heat, if several are equal."""
        known, mapping, reward = self._known[problem], evaluation.repaired[row], float(evaluation.reward[row])
        if reward >= known.reward:
            warmth = total_heat(mapping, self._problems[problem])
            if reward > known.reward or warmth <= known.warmth:
                known.best, known.reward, known.warmth = mapping.copy(), reward, warmth
                known.ran = bool(evaluation.status[row] == Status.OK)

    def _learn(self) -> None:
        """Gradient steps on the round that has been told."""
        if not self._round:
            return
        rng = self._context.generator(f"ppo learning {self._rounds}")
        batches = [batch for part in self._round if (batch := self._rollouts(part)) is not None]
        if batches:
            self._metrics.update(self._ppo.update(batches, rng, self._examples(rng)))
        own = [part.speedup[0] for part in self._round if part.deployed]
        if own:
            self._metrics["deployable_speedup"] = float(np.exp(np.log(own).mean())) if min(own) > 0 else 0.0
        self._metrics["drawn_speedup"] = float(
            np.mean([part.speedup[part.deployed :].mean() for part in self._round])
        )

    def _examples(self, rng: np.random.Generator) -> list[Example]:
        """The best mappings of the round's problems and of as many others, after nothing; and steps that paid."""
        own = [part.problem for part in self._round]
        others = [k for k in range(len(self._problems)) if k not in own]
        drawn = rng.permutation(others)[: len(own)].tolist()
        count = min(len(self._steps), 2 * len(own))
        steps = [self._steps[k] for k in rng.permutation(len(self._steps))[:count]]
        return steps + [
            Example(k, np.full_like(self._drawer.outset[k], NOTHING), self._known[k].best)
            for k in [*own, *drawn]
            if self._known[k].ran
        ]

    def _rollouts(self, part: Part) -> Rollouts | None:
        """What there is to learn from a part of the round; None where no reward is usable."""
        reward = part.gains() if self._config.begin == "best" else part.reward[part.deployed :]
        index = np.flatnonzero(np.isfinite(reward))
        if not len(index):
            return None
        target = self._known[part.problem].normalise(reward, index)
        action, log_prob = part.action, part.log_prob
        if len(part.ran):
            action, log_prob = action.copy(), log_prob.copy()
            action[-1] = part.ran
            found = self._ppo.log_probs(part.problem, part.before[-1])
            taken = np.take_along_axis(found, np.maximum(part.ran, 0)[..., None].astype(np.int64), -1)
            log_prob[-1] = np.where(part.ran >= 0, np.maximum(taken[..., 0], -20.0), 0.0)
        return Rollouts(part.problem, part.before, action, log_prob, target, part.group).rows(index)

    def metrics(self) -> Mapping[str, float]:
        """Speedups of the last round's deployed and drawn mappings; means over its gradient steps."""
        names = ("deployable_speedup", "drawn_speedup", *METRICS)
        return {name: self._metrics.get(name, np.nan) for name in names}

    def policy(self) -> StoredPolicy | None:
        """The network."""
        return graphsage_policy(
            self._ppo.weights(),
            self._config.network,
            passes=self._config.passes,
            ordered=self._config.ordered,
            seed=self._context.seed,
            **policy_fit.demands(self._problems[0]),
        )

    def state_dict(self) -> dict[str, Any]:
        """Network, moments, what is known of each problem, the round under way; draws follow from the seed."""
        return {
            "ppo": self._ppo.state_dict(),
            "known": [asdict(known) for known in self._known],
            "round": [asdict(part) for part in self._round],
            "rounds": self._rounds,
            "proposed": self._drawer.drawn,
            "steps": [asdict(step) for step in self._steps],
            "metrics": self._metrics,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._ppo.load_state_dict(state["ppo"])
        self._known = [Known(**known) for known in state["known"]]
        self._round = [Part(**part) for part in state["round"]]
        self._rounds, self._drawer.drawn = int(state["rounds"]), int(state["proposed"])
        self._steps = [Example(**step) for step in state["steps"]]
        self._metrics = dict(state["metrics"])


DEFINITION = MethodDefinition(PpoConfig, PpoMethod, needs_graph, PAPER, takes_policy=True, several=True)


def player(paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> GraphSagePlayer:
    """InputError where a policy is not that of its network, or does not say how it is deployed."""
    return GraphSagePlayer(paths, stored)


class GraphSagePlayer:
    """S policies that are deployed one after the other."""

    def __init__(self, paths: Sequence[Path], stored: Sequence[StoredPolicy]) -> None:
        self._nets: list[GraphSage] = []
        self._ways: list[tuple[int, bool]] = []
        for path, policy in zip(paths, stored, strict=True):
            meta = policy.metadata
            network = typed_tables.build(GraphSageConfig, dict(meta["config"]), str(path))
            net = GraphSage(network, meta["features"], len(meta["heads"]))
            assign(net, graphsage_weights(policy, network, str(path)))
            self._nets.append(net.requires_grad_(False))
            passes, ordered = meta.get("passes"), meta.get("ordered")
            if type(passes) is not int or passes < 1 or type(ordered) is not bool:
                raise InputError(
                    f"{path}: expected passes of at least 1 and ordered true or false, found {passes!r} and {ordered!r}"
                )
            self._ways.append((passes, ordered))

    def greedy(self, problem: Problem) -> Mapping16:
        """int16 [S, N, H], as drawn: the problem mends what it cannot run."""
        torch.set_num_threads(1)
        seen = policy_fit.observation(problem)
        task = Task(problem, seen.x, prepare(seen.edge_index, len(seen.x)), torch.device("cpu"))
        found = []
        for net, (passes, ordered) in zip(self._nets, self._ways, strict=True):
            before = np.full((1, *problem.space.shape), NOTHING, np.int16)
            for _ in range(passes):
                earlier = torch.from_numpy(before.astype(np.int64))
                logits, _ = net(task.x, earlier, task.graph, task.counts, task.stages(before))
                choice = masked_log_probs(logits, task.counts).argmax(dim=-1).numpy()
                before = np.where(problem.space.live, choice, NOTHING).astype(np.int16)
            found.append(in_stages(before, task.pipeline if ordered else None)[0])
        return np.stack(found)


class RolloutDrawer:
    """Draws rollouts with the learner's network as it is.

    Attributes:
        outset: for each problem int16 [N, H], what its rollouts set out from before anything is known.
        drawn: how many mappings the problems' own `sample` has drawn: the number of the next key.
    """

    def __init__(self, context: Context, config: PpoConfig, ppo: Ppo) -> None:
        self._context, self._config, self._ppo = context, config, ppo
        self._problems: Sequence[Problem] = context.problems
        self.outset = [outset(problem, config.outset) for problem in self._problems]
        self.drawn = 0

    def part(self, number: int, rollouts: int, known: Known, rng: np.random.Generator) -> Part:
        """The deployed mapping of a problem and R rollouts, as they are proposed; first the rollouts alone where the
        start mapping was measured."""
        problem, config = self._problems[number], self._config
        pipeline = problem.space.pipeline if config.ordered else None
        start = self._context.start[number] if known.rounds == 0 else None
        known.rounds += 1
        state, group = self._begin(number, rollouts, known, start, rng)
        deployed = np.full_like(self.outset[number], NOTHING)[None]
        befores, actions, log_probs = [], [], []
        for last in [False] * (config.passes - 1) + [True]:
            found = self._log_probs(number, np.concatenate([deployed, state]))
            befores.append(state)
            deployed = _canonical(found[:1].argmax(axis=-1), problem)
            state = self._draw(problem, state, found[1:], last, rng)
            if last and len(explorer := np.flatnonzero(group == EXPLORING)):
                state[explorer] = self._sample(problem, soften(found[1:][explorer], rng))
            actions.append(state)
            taken = np.take_along_axis(found[1:], np.maximum(state, 0)[..., None].astype(np.int64), -1)
            log_probs.append(np.where(state >= 0, np.maximum(taken[..., 0], -20.0), 0.0))
        deployed = in_stages(deployed, pipeline)
        proposed, own = state.copy(), group != EXPLORING
        proposed[own] = carry_out(befores[-1][own], state[own], pipeline, rng)
        mapping = np.concatenate([deployed, proposed]) if start is None else proposed
        unknown = np.full(len(mapping), np.nan)
        return Part(
            number,
            int(start is None),
            mapping,
            np.stack(befores),
            np.stack(actions),
            np.stack(log_probs).astype(np.float32),
            group,
            unknown,
            unknown.copy(),
            np.zeros_like(state) if config.credit == "ran" else state[:0],
            known.reward,
        )

    def _begin(
        self, number: int, rollouts: int, known: Known, start: Mapping16 | None, rng: np.random.Generator
    ) -> tuple[Mapping16, NDArray[np.int64]]:
        """The mappings that the first pass of R rollouts sees, int16 [R, N, H], and their groups, int64 [R]."""
        problem, config, outset = self._problems[number], self._config, self.outset[number]
        best = outset
        if config.begin == "best":
            best = known.best if start is None else start
        nothing = np.full_like(outset, NOTHING)
        draft = np.arange(rollouts) < round(config.drafts * rollouts)
        group = np.where(draft | np.array_equal(best, nothing), DRAFTING, IMPROVING).astype(np.int64)
        state = np.where(group[:, None, None] == DRAFTING, nothing, best).astype(np.int16)
        if config.ordered and config.begin == "best":
            group[1::2] = np.where(group[1::2] == IMPROVING, OPENING, group[1::2])
            state[group == OPENING] = open_stage(best, problem, rng)
            if draft.sum() > 1 and problem.space.pipeline is not None:
                group[0] = EXPLORING
        return state, group

    def _log_probs(self, number: int, before: Mapping16) -> NDArray[np.float32]:
        found = self._ppo.log_probs(number, before)
        if np.isnan(found).any():
            raise RunFailure(
                "the policy's weights have diverged to values that are not finite; try a smaller"
                " method.learner.learning_rate"
            )
        return found

    def _draw(
        self,
        problem: Problem,
        before: Mapping16,
        log_probs: NDArray[np.float32],
        last: bool,
        rng: np.random.Generator,
    ) -> Mapping16:
        """Mappings int16 [R, N, H] drawn from log-probabilities [R, N, H, C] of what comes after `before`."""
        probabilities = np.exp(log_probs)
        if last and self._config.draw == "problem":
            return self._sample(problem, probabilities)
        coupling = 0.0 if problem.space.pipeline is None else self._config.coupling
        uniform = coupled_uniforms(rng, log_probs.shape[:3], coupling)
        reached = np.cumsum(probabilities, axis=-1)
        choice = (reached <= (uniform * reached[..., -1])[..., None]).sum(axis=-1)
        drawn = _canonical(choice, problem)
        if self._config.begin != "best":
            return drawn
        return change_one_decision(drawn, before, probabilities, problem.space.live, rng)

    def _sample(self, problem: Problem, probabilities: NDArray[np.float32]) -> Mapping16:
        """Mappings int16 [R, N, H] that the problem draws (SAMPLE of the solver), by keys of their own."""
        keys = self._context.keys(SAMPLE, self.drawn, len(probabilities))
        self.drawn += len(probabilities)
        return sample(problem, probabilities, keys)


def _canonical(choice: NDArray[np.int64], problem: Problem) -> Mapping16:
    """Choices [B, N, H] with -1 where a decision is dead."""
    legal = np.minimum(choice, np.maximum(problem.space.num_choices, 1) - 1)
    return np.where(problem.space.live, legal, NOTHING).astype(np.int16)
