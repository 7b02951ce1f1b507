"""An agent that plays many games, plans its moves, remembers them and learns from them: the engine of method `muzero`.

Sources: MuZero (Schrittwieser et al., Nature 588, 2020); Gumbel MuZero (Danihelka et al., ICLR 2022); Reanalyse
(Schrittwieser et al., "Online and offline reinforcement learning by planning with a learned model", 2021); the MMapGame
paper, section 4.3 and Table 6.

    slice: `chunk` moves in every slot, a search each; then the best games so far are revised
           beside it: remembered moves are searched anew, gradient steps

    then what plays is given what was learned

Both halves of a slice begin with the same networks and know nothing of each other, so that they can run at once
(`--threads 2`) or one after the other, for the same result.

Deviations:
- The best games are revised by the rules (`egrl.methods.revise`); some slots imitate the best one
  (`Shown`).
- Rewards and values are relative to a potential (`egrl_muzero.potential`), which makes the penalty of a
  backup local.
- The discount grows, noise has many strengths, searches are Gumbel MuZero's (`egrl_muzero.config`; `PAPER`
  undoes that).
- Remembered moves are drawn evenly, not by priority; nothing is learned beyond the end of a game.
- No-learning uses the schedules of discount and temperature as they end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egrl.core.method import Context, ModelUse
from egrl.methods.revise import NO_SLOT, Elites, Finished, Reviser
from egrl_muzero.config import PlayConfig
from egrl_muzero.fitting import shapes
from egrl_muzero.learner import MuZeroLearner
from egrl_muzero.move_chooser import MoveChooser
from egrl_muzero.networks import MuZeroNet
from egrl_muzero.potential import Potential
from egrl_muzero.ring import Ring, Window
from egrl_muzero.table import Table
from egrl_muzero.trainer import Trainer
from hwsim.problem import Mapping16
from hwsim.stepwise import Game
from policies.weight_vector import Weights, assign


class Shown:
    """Slots whose games are shown: the agent sees, searches and learns from them, but plays what it is shown.

    Of B slots of P problems the last ones *demonstrate*: they play the baseline's mapping. Those before *imitate*: they
    play the agent's own best games again, so that it learns what a revision found, too. Neither is proposed: the agent
    has not found a demonstration itself, and has proposed its best games already.

    Attributes:
        demonstrating, imitating: bool [B].
        led: bool [B], slots whose present game is shown.
    """

    def __init__(
        self,
        problem: NDArray[np.int64],
        base: NDArray[np.int64],
        demonstrated: Sequence[Mapping16],
        demonstrations: int,
        imitations: int,
    ) -> None:
        """`problem` int64 [B] of each slot, `base` the first place of each problem's game; numbers are a problem."""
        slots, problems = len(problem), len(base) - 1
        first = slots - (demonstrations * problems if demonstrated else 0)
        self._problem, self._base = problem, base
        self.demonstrating = np.arange(slots) >= first
        # Of the slots that show no demonstration half play themselves, and one of each problem's.
        start = max(first - imitations * problems, (first + 1) // 2, problems)
        self.imitating = ~self.demonstrating & (np.arange(slots) >= start)
        self.led = self.demonstrating.copy()
        self._mapping: list[Mapping16 | None] = [
            demonstrated[int(problem[b])] if self.led[b] else None for b in range(slots)
        ]

    def begin(self, slot: int, elites: Elites) -> None:
        """A new game begins in a slot."""
        if self.imitating[slot]:
            best = elites.games[int(self._problem[slot])]
            self._mapping[slot] = best[0].mapping if best else None
            self.led[slot] = bool(best)

    def actions(
        self, action: NDArray[np.int64], legal: NDArray[np.bool_], place: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The actions [B], those of led slots replaced by what is shown at their places [B] where that is legal."""
        action = action.copy()
        for b in np.flatnonzero(self.led).tolist():
            mapping = self._mapping[b]
            assert mapping is not None
            shown = int(mapping.reshape(-1)[place[b] - self._base[self._problem[b]]])
            if shown >= 0 and legal[b, shown]:
                action[b] = shown
        return action

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint: the mappings of slots that imitate."""
        return {str(b): self._mapping[b] for b in np.flatnonzero(self.imitating & self.led).tolist()}

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        for slot, mapping in state.items():
            self._mapping[int(slot)], self.led[int(slot)] = np.array(mapping, np.int16), True


PRIMING = 8
"""Random games of each problem from which the potential begins."""


class Agent:
    """See the module.

    Attributes:
        net: the networks.
        table, ring, potential, chooser, learner: what it plays, remembers, expects, moves and learns with.
        trainer: what it draws segments of remembered moves with, and learns from them.
        elites, reviser: the best games so far, and what revises them.
        shown: the slots that play what is shown to the agent.
        finished: games that are over and have not been taken yet; what was shown is none of them.
        played: how many games were played to their end, revised and shown ones aside.
    """

    def __init__(
        self,
        games: Sequence[Game],
        config: PlayConfig,
        context: Context,
        demonstrations: Sequence[Mapping16] = (),
    ) -> None:
        """`demonstrations`: for each problem a mapping int16 [N, H] that the last slots play out."""
        torch.set_num_threads(1)
        if config.ablation in ("no-search", "no-revision"):
            config = replace(config, imitations=0, revise=replace(config.revise, moves=0.0))
        self._games, self._config, self._context = list(games), config, context
        self.use = ModelUse()
        self._teaching = config.ablation != "no-learning"
        rng = context.generator("muzero table")
        self.table = Table(self._games, config.slots, self.use)
        first = 0 if self._teaching else config.discount.steps
        self.potential = Potential(self._games, config.discount.at(first), config.potential_rate)
        self._prime(rng)
        base, problem = self.potential.base, self.table.problem
        self.shown = Shown(problem, base, demonstrations, config.demonstrations, config.imitations)
        draws = rng.random((config.slots, max(len(game.following) for game in games)))
        self.table.scatter(draws, self.shown.demonstrating)
        seen, actions = self.table.observe(), games[0].num_actions
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(context.generator("muzero weights").integers(2**62)))
            self.net = MuZeroNet(config.network, shapes(seen, self.game)).to(context.device)
        self._acting = copy.deepcopy(self.net).requires_grad_(False)
        self.chooser = MoveChooser(config, self._games, self.table, self._acting, self.potential, context)
        self.learner = MuZeroLearner(config.learner, self.net, advantage=config.ablation == "no-search")
        rows = -(-config.replay * config.learner.unroll // config.slots)
        if not self._teaching:  # nothing of what is remembered is asked for
            seen, rows = {}, 1
        self.ring = Ring(seen, rows, config.slots, actions)
        draws_of_segments = context.generator("muzero replay")
        self.trainer = Trainer(
            config, self.ring, self.chooser, self.learner, self.potential, draws_of_segments
        )
        self.elites = Elites(len(games), config.elites, context.generator("muzero openings"))
        self.reviser = Reviser(self._games, config.revise, replace(context, model_use=self.use))
        self.table.opening = self._opening
        self.finished: list[Finished] = []
        self.played = 0
        self._step, self._window = 0, self.ring.window(config.chunk)
        self._sums = dict.fromkeys(("moves", "back", "concentration"), 0.0)
        self._metrics: dict[str, float] = {}

    @property
    def game(self) -> Game:
        """The first problem's game; all are seen alike."""
        return self._games[0]

    @property
    def paused(self) -> bool:
        """Whether a slice is under way."""
        return self._step > 0

    def begin_with(self, weights: Weights) -> None:
        """Begin with given weights float32 [P] of the networks."""
        assign(self.net, weights)
        self._hand_over()

    def _hand_over(self) -> None:
        """Give what plays what was learned."""
        self._acting.load_state_dict(self.net.state_dict())
        self.chooser.refresh()

    def source(self, slot: int) -> str:
        """How the games of a slot are played."""
        if slot == NO_SLOT:
            return "revised"
        return "greedy" if self.chooser.greedy[slot] else "self-play"

    # ---- one slice

    def work(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Go on with a slice: its moves, revisions, then learning. It pauses between two steps once `enough()`.

        With several threads a slice is not interrupted, since it learns beside playing.
        """
        if self._step == 0:
            self._window = self.ring.window(self._config.chunk)
            # of the beginning, for both halves
            self.chooser.steps = self.learner.steps if self._teaching else self._config.temperature.steps
        if self._context.threads > 1:
            with ThreadPoolExecutor(1) as beside:
                learning = beside.submit(self._learn, self._window, self._context.threads - 1)
                while self._step <= self._config.chunk:
                    self._play_on()
                learning.result()
        else:
            while self._step <= self._config.chunk:
                self._play_on()
                if enough():
                    return
            self._learn(self._window, 1)
        self._step = 0
        if self._teaching:
            self.potential.discount = self._config.discount.at(self.learner.steps)
            self.potential.refresh()
            self._hand_over()

    def _play_on(self) -> None:
        """The next step of a slice: a move in every slot; after the last one, revisions."""
        self._step += 1
        if self._step <= self._config.chunk:
            self.play()
            return
        self.finished += self.reviser.work(self._config.chunk * self._config.slots, self.elites)
        self._metrics = {name: total / self._sums["moves"] for name, total in self._sums.items()}
        self._sums = dict.fromkeys(self._sums, 0.0)

    def _learn(self, window: Window, threads: int) -> None:
        if self._teaching and not window.empty:
            torch.set_num_threads(threads)
            fresh = self.trainer.reanalyse(window)
            for _ in range(self._config.updates):
                self.trainer.train(window, fresh)

    def play(self) -> None:
        """One move in every slot."""
        seen = self.table.observe() if self._teaching else {}
        legal, place = self.table.legal(), self.table.place()
        action, policy, value = self.chooser.choose(seen, legal, place)
        drawn, strayed = self.chooser.stray(action, legal)
        action = self.shown.actions(drawn, legal, place)
        led = self.shown.led.copy()
        moved = self.table.move(action)
        own = [game for game in moved.finished if not led[game.slot]]
        scalars = {"action": action, "value": value, "done": moved.done, "stray": strayed & (action == drawn)}
        scalars |= {"reward": moved.reward, "place": moved.place, "after": moved.after}
        self.ring.write(scalars, policy, legal, seen)
        self.table.forget(self.ring.first)
        self.potential.learn(moved.place, moved.reward, moved.after)
        for game in own:
            self.elites.keep(game)
            self.reviser.note(game)
        self.finished += own
        self.played += len(own)
        self._sums["moves"] += len(action)
        self._sums["back"] += float((moved.after < moved.place).sum())
        self._sums["concentration"] += float(policy.max(axis=1).sum())

    def _opening(self, slot: int) -> tuple[int, ...]:
        """The first moves of a new game in a slot."""
        self.chooser.begin(slot)
        self.shown.begin(slot, self.elites)
        if self.chooser.greedy[slot] or self.shown.led[slot]:
            return ()
        return self.elites.opening(int(self.table.problem[slot]), self._config.restarts)

    def _prime(self, rng: np.random.Generator) -> None:
        """Let the potential begin with what random play earns."""
        for g, game in enumerate(self._games):
            table, over = Table([game], PRIMING, self.use), 0
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
        return {
            **self.learner.metrics,
            **self._metrics,
            "gradient_steps": float(self.learner.steps),
            "games": float(self.played),
            "revisions": float(self.reviser.tried),
        }

    def state(self) -> dict[str, Any]:
        """Everything that does not follow from it; what was seen and the games' states follow from the moves."""
        return {
            "table": self.table.state(),
            "ring": self.ring.state(),
            "potential": self.potential.state(),
            "learner": self.learner.state(),
            "rng": self.trainer.rng.bit_generator.state,
            "elites": self.elites.state(),
            "chooser": self.chooser.state(),
            "reviser": self.reviser.state(),
            "use": [self.use.calls, self.use.seconds],
            "shown": self.shown.state(),
            "metrics": self._metrics,
            "sums": self._sums,
            "slice": [self._step, *self._window],
            "played": self.played,
            "finished": [game.state() for game in self.finished],
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
        self.trainer.rng.bit_generator.state = state["rng"]
        self.elites.load(state["elites"])
        self.chooser.load(state["chooser"])
        self.reviser.load(state["reviser"])
        self.use.calls, self.use.seconds = state["use"]
        self.shown.load(state["shown"])
        self._metrics, self.played = dict(state["metrics"]), int(state["played"])
        self._sums, (self._step, *window) = dict(state["sums"]), state["slice"]
        self._window = Window(*window)
        self.finished = [Finished.of(game) for game in state["finished"]]
