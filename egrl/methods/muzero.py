"""MuZero: an agent that plays games, plans each move in a learned model, and learns from what it played.

Sources: MuZero (Schrittwieser et al., Nature 588, 2020); Gumbel MuZero (Danihelka et al., ICLR 2022), the default at few
simulations; the MMapGame paper, sections 4.3 and 5.3 and Table 6; Reanalyse (Schrittwieser et al., 2021).

    slice: `chunk` moves in every slot (a search each), as many remembered moves searched anew, gradient steps
    a game that is over is a proposal: what it decided

Deviations (docs/muzero.md has the reasons and what they are worth):
- Rewards are shaped by a potential of places (`egrl.play.potential`), which leaves the best policies as they are.
- Slots begin scattered over the program, so that all of it is seen from the start.
- A part of the slots plays without noise.
- Proposals follow from play alone: measured rewards do not teach the agent (of the MMapGame they are the returns).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from egrl.keys import run_keys
from egrl.learners.muzero import METRICS, MuZeroLearner, MuZeroLearnerConfig
from egrl.mcts import Gumbel, Policy, Puct, search
from egrl.methods import Definition
from egrl.play.model import Model
from egrl.play.potential import Potential
from egrl.play.ring import Ring
from egrl.play.table import Finished, Moved, Table
from egrl.play.targets import targets
from egrl.types import Proposals, Setting, proposals
from hwsim.mmap.view import View
from hwsim.problem import Evaluation, Floats, Mapping16, Problem
from policies.muzero import MuZeroConfig, MuZeroNet, Seen
from policies.store import StoredPolicy

PLAY, REANALYSE = 11, 12


@dataclass(frozen=True)
class MuZeroMethodConfig:
    slots: Annotated[int, Ge(1), Le(65536)] = 32
    simulations: Annotated[int, Ge(1), Le(100_000)] = 32
    search: Literal["gumbel", "puct"] = "gumbel"
    dynamics: Literal["learned", "true"] = "learned"
    ablation: Literal["none", "no-learning", "no-search"] = "none"
    discount: Annotated[float, Gt(0), Le(1)] = 0.9999
    chunk: Annotated[int, Ge(1), Le(100_000)] = 16
    updates: Annotated[int, Ge(0), Le(100_000)] = 4
    reanalyse: Annotated[float, Ge(0), Le(1)] = 0.5
    replay: Annotated[int, Ge(1), Le(10_000_000)] = 20_000
    greedy: Annotated[float, Ge(0), Le(1)] = 0.125
    potential_rate: Annotated[float, Gt(0), Le(1)] = 0.05
    value_scale: float = 0.1
    maxvisit_init: float = 50.0
    learner: MuZeroLearnerConfig = field(default_factory=MuZeroLearnerConfig)
    network: MuZeroConfig = field(default_factory=MuZeroConfig)
    view: View = field(default_factory=lambda: View(5, 5, 32, 256, 64, 64, 64))


class MuZero:
    def __init__(self, setting: Setting, config: MuZeroMethodConfig) -> None:
        torch.set_num_threads(setting.threads)
        self._setting, self._config = setting, config
        games = [_seen_by(p, config.view) for p in setting.problems]
        self._table = Table(games, config.slots)
        self._potential = Potential(games, config.discount, config.potential_rate)
        rng = setting.generator("muzero table")
        most = max(len(g.following) for g in games)
        self._prime(games, rng)
        self._table.scatter(rng.random((config.slots, most)))
        seen = self._table.observe()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(setting.generator("muzero weights").integers(2**62)))
            self._net = MuZeroNet(config.network, seen_of(seen, games[0].num_actions)).to(setting.device)
        self._model = Model(self._net, self._potential, config.discount)
        self._learner = MuZeroLearner(config.learner, self._net, config.ablation == "no-search")
        rows = max(1, config.replay * config.learner.unroll // config.slots)
        self._ring = Ring(seen, rows, games[0].num_actions)
        self._rng = setting.generator("muzero replay")
        self._queue: list[Finished] = []
        self._searched = 0
        self._metrics = {}
        self.metric_names = METRICS
        self.seconds = {"encode": 0.0, "search": 0.0, "game": 0.0, "learn": 0.0, "reanalyse": 0.0}

    def _prime(self, games, rng):
        for g, game in enumerate(games):
            table = Table([game], 8)
            done = 0
            while done < 8:
                legal = table.legal()
                draws = rng.random(legal.shape) * legal
                moved = table.move(draws.argmax(axis=1))
                self._potential.learn(moved.place + self._potential.base[g], moved.reward, moved.after + self._potential.base[g])
                done += len(moved.finished)
        self._potential.refresh()

    @property
    def _policy(self) -> Policy:
        c = self._config
        return Gumbel(value_scale=c.value_scale, maxvisit_init=c.maxvisit_init) if c.search == "gumbel" else Puct()

    def _slice(self) -> None:
        import time
        c = self._config
        for _ in range(c.chunk):
            t0 = time.perf_counter()
            seen, legal, place = self._table.observe(), self._table.legal(), self._table.place()
            t1 = time.perf_counter()
            root = self._model.root(seen, legal, place)
            t2 = time.perf_counter()
            keys = self._keys(len(place), PLAY)
            policy = self._policy
            noise = policy.noise(keys, legal.shape[1])
            noise[: int(c.greedy * c.slots)] = 0.0
            found = search(root, self._model.recurrent, c.simulations, policy, keys, noise)
            t3 = time.perf_counter()
            moved = self._table.move(found.action)
            self._remember(seen, legal, found, moved)
            t4 = time.perf_counter()
            self.seconds["game"] += t1 - t0 + t4 - t3
            self.seconds["encode"] += t2 - t1
            self.seconds["search"] += t3 - t2
        self._potential.refresh()
        t0 = time.perf_counter()
        fresh = self._reanalyse()
        t1 = time.perf_counter()
        self._train(fresh)
        t2 = time.perf_counter()
        self.seconds["reanalyse"] += t1 - t0
        self.seconds["learn"] += t2 - t1

    def _keys(self, rows: int, stream: int):
        numbers = np.arange(self._searched, self._searched + rows)
        self._searched += rows
        return run_keys(self._setting.seed, numbers, stream)

    def _remember(self, seen, legal, found, moved: Moved) -> None:
        self._ring.write(
            {"action": found.action, "reward": moved.reward, "place": moved.place, "after": moved.after,
             "done": moved.done, "value": found.value}, found.weights, legal, seen)
        self._potential.learn(moved.place, moved.reward, moved.after)
        self._queue += moved.finished

    def _draw(self, count):
        time = self._rng.integers(self._ring.first, max(self._ring.first + 1, self._ring.end - 1), count)
        slot = self._rng.integers(0, self._ring.slots, count)
        return time, slot

    def _reanalyse(self):
        c = self._config
        if not c.reanalyse or c.ablation != "none":
            return None
        K = c.learner.unroll + 1
        count = int(c.chunk * c.slots * c.reanalyse / (1 - c.reanalyse)) // K
        time, slot = self._draw(count)
        times = (time[:, None] + np.arange(K))
        known = times < self._ring.end
        slots = np.broadcast_to(slot[:, None], times.shape)
        t, s = times[known], slots[known]
        seen = self._ring.seen(t, s)
        row = t % self._ring.rows
        legal, place = self._ring.legal[row, s], self._ring.scalars["place"][row, s]
        root = self._model.root(seen, legal, place)
        found = search(root, self._model.recurrent, c.simulations, self._policy, self._keys(len(t), REANALYSE))
        self._ring.policy[row, s] = found.weights
        self._ring.scalars["value"][row, s] = found.value
        return time, slot

    def _train(self, fresh):
        c = self._config
        if c.ablation == "no-learning":
            return
        for _ in range(c.updates):
            time, slot = self._draw(c.learner.batch)
            if fresh is not None:
                n = int(c.reanalyse * c.learner.batch)
                pick = self._rng.integers(0, len(fresh[0]), n)
                time[:n], slot[:n] = fresh[0][pick], fresh[1][pick]
            wanted = targets(self._ring, time, slot, c.learner.unroll, c.learner.steps, self._potential, c.discount)
            self._learner.step(self._ring.seen(time, slot), wanted)


def _seen_by(problem, view):
    game = problem.game
    return game.seen_by(view) if hasattr(game, "seen_by") else game


def seen_of(seen, actions: int) -> Seen:
    flat = {n: int(np.prod(a.shape[1:])) for n, a in seen.items() if n not in ("buffers", "buffer_ids", "memory_map", "progress")}
    return Seen(seen["memory_map"].shape[1:], seen["buffers"].shape[1:], seen["buffer_ids"].shape[2], flat, actions)
