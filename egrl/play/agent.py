"""An agent that plays many games, plans its moves, remembers them and learns from them: the engine of method `muzero`.

Sources: MuZero (Schrittwieser et al., Nature 588, 2020); Gumbel MuZero (Danihelka et al., ICLR 2022); Reanalyse
(Schrittwieser et al., "Online and offline reinforcement learning by planning with a learned model", 2021); the MMapGame
paper, section 4.3 and Table 6.

    slice: `chunk` moves in every slot, a search each
           beside it: remembered moves are searched anew, gradient steps
    then what plays is given what was learned

Both halves of a slice begin with the same networks and know nothing of each other, so that they can run at once
(`--threads 2`) or one after the other, for the same result.

Deviations: those of `egrl.play.potential`, `egrl.play.config` and `egrl.learners.muzero`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from egrl.keys import run_keys
from egrl.learners.muzero import MuZeroLearner
from egrl.mcts import Gumbel, Policy, Puct, Result, search
from egrl.play.config import PlayConfig
from egrl.play.model import LearnedModel, TrueModel, priors
from egrl.play.potential import Potential
from egrl.play.ring import Ring, Window
from egrl.play.table import Finished, Seen, Table
from egrl.play.targets import targets
from egrl.types import Setting
from hwsim.problem import Floats, Game, Keys, Mapping16
from policies.layout import Weights
from policies.muzero import MuZeroNet, Shapes
from policies.weights import assign

PLAY, REANALYSE, ACT = 11, 12, 13
"""Streams of keys."""
PRIMING = 8
"""Random games of each problem from which the potential begins."""

Chosen = tuple[NDArray[np.int64], Floats, Floats]
"""Actions int64 [B], policies float64 [B, A] and values float64 [B]."""


class Agent:
    """See the module.

    Attributes:
        net: the networks.
        table, ring, potential, learner: what it plays, remembers, expects and learns with.
        finished: games that are over and have not been taken yet; demonstrations are none of them.
    """

    def __init__(
        self,
        games: Sequence[Game],
        config: PlayConfig,
        setting: Setting,
        demonstrations: Sequence[Mapping16] = (),
    ) -> None:
        """`demonstrations`: for each problem a mapping int16 [N, H] that the last slots play out."""
        torch.set_num_threads(1)
        self._games, self._config, self._setting = list(games), config, setting
        self._demonstrated = list(demonstrations)
        self._teaching = config.ablation != "no-learning"
        rng = setting.generator("muzero table")
        self.table = Table(self._games, config.slots)
        first = 0 if self._teaching else config.discount.steps
        self.potential = Potential(self._games, config.discount.at(first), config.potential_rate)
        self._prime(rng)
        self.table.scatter(rng.random((config.slots, max(len(game.following) for game in games))), self._led)
        seen, actions = self.table.observe(), games[0].num_actions
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(setting.generator("muzero weights").integers(2**62)))
            self.net = MuZeroNet(config.network, shapes(seen, actions)).to(setting.device)
        self._acting = copy.deepcopy(self.net).requires_grad_(False)
        self._model = LearnedModel(self._acting, self.potential)
        self._rules = [
            TrueModel(game, g, self.table, self._acting if self._teaching else None, self.potential)
            for g, game in enumerate(self._games)
        ]
        self.learner = MuZeroLearner(config.learner, self.net, advantage=config.ablation == "no-search")
        self.ring = Ring(seen, -(-config.replay * config.learner.unroll // config.slots), actions)
        self._rng = setting.generator("muzero replay")
        self._numbers = {PLAY: 0, REANALYSE: 0, ACT: 0}
        self._steps = 0  # gradient steps when the slice began: both of its halves go by them
        self._blas = ThreadpoolController()
        self._openings = setting.generator("muzero openings")
        self._best: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in games]
        self.table.opening = self._opening
        quiet = round(config.greedy * config.slots)
        self._greedy = np.arange(config.slots) < quiet
        self._noise = np.clip((np.arange(config.slots) + 1 - quiet) / max(1, config.slots - quiet), 0, 1)
        self.finished: list[Finished] = []
        self._sums = dict.fromkeys(("moves", "back", "concentration"), 0.0)
        self._metrics: dict[str, float] = {}

    def begin_with(self, weights: Weights) -> None:
        """Begin with given weights float32 [P] of the networks."""
        assign(self.net, weights)
        self._hand_over()

    def _hand_over(self) -> None:
        """Give what plays what was learned."""
        self._acting.load_state_dict(self.net.state_dict())
        self._model.refresh()

    @property
    def _led(self) -> NDArray[np.bool_]:
        """bool [B], the slots that play demonstrations."""
        number = self._config.demonstrations * len(self._games) if self._demonstrated else 0
        return np.arange(len(self.table)) >= len(self.table) - number

    def source(self, slot: int) -> str:
        """How the games of a slot are played."""
        return "greedy" if self._greedy[slot] else "self-play"

    # ---- one slice

    def work(self) -> None:
        """One slice."""
        window, self._steps = self.ring.window(self._config.chunk), self.learner.steps
        with self._blas.limit(limits=1, user_api="blas"):
            if self._setting.threads > 1:
                with ThreadPoolExecutor(1) as beside:
                    learning = beside.submit(self._learn, window, self._setting.threads - 1)
                    self._play_on()
                    learning.result()
            else:
                self._learn(window, 1)
                self._play_on()
        if self._teaching:
            self.potential.discount = self._config.discount.at(self.learner.steps)
            self.potential.refresh()
            self._hand_over()

    def _play_on(self) -> None:
        for _ in range(self._config.chunk):
            self.play()
        self._metrics = {name: total / self._sums["moves"] for name, total in self._sums.items()}
        self._sums = dict.fromkeys(self._sums, 0.0)

    def _learn(self, window: Window, threads: int) -> None:
        if self._teaching and not window.empty:
            torch.set_num_threads(threads)
            fresh = self.reanalyse(window)
            for _ in range(self._config.updates):
                self.train(window, fresh)

    def play(self) -> None:
        """One move in every slot."""
        seen, legal, place = self.table.observe(), self.table.legal(), self.table.place()
        action, policy, value = self._choose(seen, legal, place)
        action = self._demonstrate(action, legal, place)
        moved = self.table.move(action)
        scalars = {"action": action, "value": value, "done": moved.done}
        scalars |= {"reward": moved.reward, "place": moved.place, "after": moved.after}
        self.ring.write(scalars, policy, legal, seen)
        self.table.forget(self.ring.first)
        self.potential.learn(moved.place, moved.reward, moved.after)
        led = self._led
        for game in moved.finished:
            if not led[game.slot]:
                self._keep(game)
        self.finished += [game for game in moved.finished if not led[game.slot]]
        self._sums["moves"] += len(action)
        self._sums["back"] += float((moved.after < moved.place).sum())
        self._sums["concentration"] += float(policy.max(axis=1).sum())

    def _keep(self, game: Finished) -> None:
        """Keep a game where it is among the best of its problem; of equal ones the earlier."""
        best = self._best[game.problem]
        if all(actions != game.actions for _, actions in best):
            best.append((game.returned, game.actions))
            best.sort(key=lambda kept: -kept[0])
            del best[self._config.elites :]

    def _opening(self, slot: int) -> tuple[int, ...]:
        """The first moves of one of the best games, so many of them as chance has it, or none."""
        best = self._best[int(self.table.problem[slot])]
        if not best or self._greedy[slot] or self._led[slot]:
            return ()
        if self._openings.random() >= self._config.restarts:
            return ()
        actions = best[int(self._openings.integers(len(best)))][1]
        return actions[: int(self._openings.integers(len(actions)))]

    def _choose(self, seen: Seen, legal: NDArray[np.bool_], place: NDArray[np.int64]) -> Chosen:
        if self._config.ablation == "no-search":
            return self._act(seen, legal)
        policy, keys = self.policy(), self._keys(len(place), PLAY)
        noise = policy.noise(keys, legal.shape[1])
        if isinstance(policy, Gumbel):
            noise *= self._noise[:, None]
        if self._config.dynamics == "learned" and self._teaching:
            return chosen(self._search(self._model.root(seen, legal, place), policy, keys, noise))
        action, weights, value = np.zeros(len(place), np.int64), np.zeros(legal.shape), np.zeros(len(place))
        for model in self._rules:
            rows = model.rows
            found = search(
                model.root(), model.recurrent, self._config.simulations, policy, keys[rows], noise[rows]
            )
            action[rows], weights[rows], value[rows] = chosen(found)
        return action, weights, value

    def _search(self, root: Any, policy: Policy, keys: Keys, noise: Floats | None = None) -> Result:
        return search(root, self._model.recurrent, self._config.simulations, policy, keys, noise)

    def policy(self) -> Policy:
        """How searches go, at the present temperature."""
        config = self._config
        if config.search == "gumbel":
            return Gumbel(
                gumbel_scale=config.gumbel_scale,
                value_scale=config.value_scale,
                maxvisit_init=config.maxvisit_init,
                least_span=config.least_span,
            )
        return Puct(
            dirichlet_fraction=config.noise_fraction,
            dirichlet_alpha=config.noise_alpha,
            temperature=config.temperature.at(self._steps),
        )

    def _act(self, seen: Seen, legal: NDArray[np.bool_]) -> Chosen:
        """Without search: actions drawn from the policy network; greedy slots take the likeliest."""
        root = self._model.root(seen, legal, self.table.place())
        prior = priors(root.prior_logits, legal)
        draw = (self._keys(len(legal), ACT) >> np.uint64(11)) * 2.0**-53
        drawn = (np.cumsum(prior, axis=1) < draw[:, None]).sum(axis=1)
        last = legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1)
        return np.where(self._greedy, prior.argmax(axis=1), np.minimum(drawn, last)), prior, root.value

    def _demonstrate(
        self, action: NDArray[np.int64], legal: NDArray[np.bool_], place: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The actions, those of demonstrating slots replaced by what is demonstrated where that is legal."""
        action = action.copy()
        for b in np.flatnonzero(self._led).tolist():
            g = int(self.table.problem[b])
            shown = int(self._demonstrated[g].reshape(-1)[place[b] - self.potential.base[g]])
            if shown >= 0 and legal[b, shown]:
                action[b] = shown
        return action

    def _keys(self, rows: int, stream: int) -> Keys:
        first = self._numbers[stream]
        self._numbers[stream] = first + rows
        return run_keys(self._setting.seed, np.arange(first, first + rows), stream)

    # ---- learning

    def _draw(self, window: Window, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Times and slots [count] of remembered moves."""
        last = max(window.first + 1, window.end - self._config.learner.unroll)
        return self._rng.integers(window.first, last, count), self._rng.integers(0, self.ring.slots, count)

    def reanalyse(self, window: Window) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Search segments of remembered moves anew, so many that they have their share; where they begin."""
        config, unroll = self._config, self._config.learner.unroll + 1
        if not config.reanalyse or config.ablation != "none" or config.dynamics != "learned":
            return None
        played = config.chunk * config.slots
        count = max(1, round(played * config.reanalyse / (1 - config.reanalyse) / unroll))
        time, slot = self._draw(window, count)
        times = time[:, None] + np.arange(unroll)
        known = times < window.end
        when, where = times[known], np.broadcast_to(slot[:, None], times.shape)[known]
        row = when % self.ring.rows
        legal, place = self.ring.legal[row, where], self.ring.scalars["place"][row, where]
        root = self._model.root(self.ring.seen(when, where), legal, place)
        found = self._search(root, self.policy(), self._keys(len(when), REANALYSE))
        self.ring.policy[row, where] = found.weights
        self.ring.scalars["value"][row, where] = found.value
        return time, slot

    def train(self, window: Window, fresh: tuple[NDArray[np.int64], NDArray[np.int64]] | None) -> None:
        """One gradient step; a share of the segments is of those that were searched anew."""
        config = self._config.learner
        time, slot = self._draw(window, config.batch)
        if fresh is not None:
            share = round(self._config.reanalyse * config.batch)
            pick = self._rng.integers(0, len(fresh[0]), share)
            time[:share], slot[:share] = fresh[0][pick], fresh[1][pick]
        wanted = targets(self.ring, window.end, time, slot, config.unroll, config.steps, self.potential)
        self.learner.step(self.ring.seen(time, slot), wanted)

    def _prime(self, rng: np.random.Generator) -> None:
        """Let the potential begin with what random play earns."""
        for g, game in enumerate(self._games):
            table, over = Table([game], PRIMING), 0
            while over < PRIMING:
                legal = table.legal()
                moved = table.move((rng.random(legal.shape) * legal).argmax(axis=1))
                base = self.potential.base[g]
                self.potential.learn(moved.place + base, moved.reward, moved.after + base)
                over += len(moved.finished)
        self.potential.refresh()

    # ---- what the method needs

    def metrics(self) -> Mapping[str, float]:
        """Of the last slice and the last gradient step."""
        return {**self.learner.metrics, **self._metrics, "gradient_steps": float(self.learner.steps)}

    def state(self) -> dict[str, Any]:
        """Everything that does not follow from it; what was seen and the games' states follow from the moves."""
        return {
            "table": self.table.state(),
            "ring": self.ring.state(),
            "potential": self.potential.state(),
            "learner": self.learner.state(),
            "rng": self._rng.bit_generator.state,
            "openings": self._openings.bit_generator.state,
            "best": [[[returned, np.array(a, np.int16)] for returned, a in best] for best in self._best],
            "numbers": {str(stream): number for stream, number in self._numbers.items()},
            "metrics": self._metrics,
            "finished": [
                {**vars(game), "actions": np.array(game.actions, np.int16)} for game in self.finished
            ],
        }

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.ring.load(state["ring"])
        self.table.load(
            state["table"],
            self.ring.first,
            lambda time, slot, seen: self.ring.write_seen(time, seen, slice(slot, slot + 1)),
        )
        self.potential.load(state["potential"])
        self.learner.load(state["learner"])
        self._hand_over()
        self._rng.bit_generator.state = state["rng"]
        self._openings.bit_generator.state = state["openings"]
        self._best = [
            [(float(returned), tuple(actions.tolist())) for returned, actions in best]
            for best in state["best"]
        ]
        self._numbers = {int(stream): int(number) for stream, number in state["numbers"].items()}
        self._metrics = dict(state["metrics"])
        self.finished = [
            Finished(**{**game, "actions": tuple(game["actions"].tolist())}) for game in state["finished"]
        ]


def chosen(found: Result) -> Chosen:
    """What a search proposes."""
    return found.action, found.weights, found.value


IMAGE, ROWS, NAMES, PROGRESS = "memory_map", "buffers", "buffer_ids", "progress"


def shapes(seen: Seen, actions: int) -> Shapes:
    """How the networks read what is seen, arrays [B, …]: an image, rows, names of rows; all else as numbers."""
    flat = {
        name: int(np.prod(array.shape[1:], dtype=np.int64))
        for name, array in seen.items()
        if name not in (IMAGE, ROWS, NAMES, PROGRESS)
    }
    height, width = seen[IMAGE].shape[1:] if IMAGE in seen else (0, 0)
    rows, columns = seen[ROWS].shape[1:] if ROWS in seen else (0, 0)
    names = seen[NAMES].shape[2] if NAMES in seen else 0
    return Shapes((height, width), (rows, columns), names, flat, actions)
