"""The MMapGame as an environment of Gymnasium (the extra `gym` of this plug-in); importing this file registers it.

gymnasium.make("egrl_muzero.mmap.gym:egrl/MMapGame-v0", program="alexnet_train_batch_32", chip="tpuv4i")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, SupportsInt, get_args

import numpy as np
from numpy.typing import NDArray

from egrl_muzero.mmap.observer import SeenGame
from egrl_muzero.mmap.parts import ACTION, View, pixels
from hwsim.mmap.chip import Chip, load_chip
from hwsim.mmap.game import ACTIONS
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.mmap.rules.state import GameState
from workloads.errors import InputError
from workloads.load import load_program
from workloads.programs.program import Program

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise InputError(
        f"egrl_muzero.mmap.gym: expected the extra: pip install 'egrl-muzero[gym]' ({error})"
    ) from None

ID = "egrl/MMapGame-v0"
Illegal = Literal["lose", "truncate", "error"]
Seen = dict[str, NDArray[Any]]


class MmapEnv(gymnasium.Env[Seen, np.int64]):
    """One game: a step decides on a buffer. `docs/explanations/mmap.md` says what is seen, and what `info` has.

    The reward of a step is the change of the return, a share of the most seconds that fast memory could save; after a
    dead end, which goes back within the step, it is what was taken back. Rewards sum to the return of the mapping that
    was played. Nothing is random: a seed is for those who draw from `np_random`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (an instance variable of the base)

    def __init__(
        self,
        program: str | Path | Program = "alexnet_train_batch_32",
        chip: str | Path | Chip = "tpuv4i",
        config: MmapConfig | None = None,
        view: View | None = None,
        illegal: Illegal = "lose",
        render_mode: str | None = None,
    ) -> None:
        """A game of a program on a chip, each by its name, as a file or as an object.

        Args:
            config: settings of the problem.
            view: how much is seen.
            illegal: what an illegal action does: "lose" ends the episode with a return of 0 (MMapGame paper, section
                4.2), "truncate" ends it as it stands, "error" raises InputError.
            render_mode: "rgb_array", or None.

        Raises:
            InputError: a program, chip or setting that is not one of these.
        """
        if illegal not in get_args(Illegal):
            raise InputError(f"illegal: expected one of {', '.join(get_args(Illegal))}, found {illegal!r}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode: expected rgb_array or None, found {render_mode!r}")
        for name, given, kind in (("config", config, MmapConfig), ("view", view, View)):
            if not isinstance(given, kind | None):
                raise InputError(f"{name}: expected a {kind.__name__} or None, found {given!r}")
        if not isinstance(program, Program):
            program = load_program(str(program))
        self.problem = MmapProblem(program, chip if isinstance(chip, Chip) else load_chip(chip), config)
        self.game = SeenGame(self.problem.game, view or View())
        self.illegal, self.render_mode = illegal, render_mode
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space = spaces.Dict(  # type: ignore[assignment]
            {
                name: spaces.Box(part.low, part.high, part.shape, part.dtype)  # type: ignore[arg-type]
                for name, part in self.game.observer.parts.items()
            }
        )
        self._state: GameState | None = None
        self._seen: Seen = {}
        self._mask = np.zeros(len(ACTIONS), np.int8)
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """(observation, info) of a new game. InputError if `options` has any."""
        if options:
            raise InputError(f"reset: expected no options, found {', '.join(map(str, options))}")
        super().reset(seed=seed)
        self._state, self._ended = self.game.reset(1), False
        self._look(self._state)
        return self._seen, self._info(self._state, went_back=False)

    def step(self, action: SupportsInt) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info) after 0 Drop, 1 Copy or 2 NoCopy.

        Raises:
            InputError: not one of these, or an illegal one if that is an error.
            gymnasium.error.ResetNeeded: the game is over.
        """
        state = self._current()
        if self._ended:
            raise gymnasium.error.ResetNeeded("step: expected a game that goes on: call reset() first")
        if action not in self.action_space:
            raise InputError(f"action: expected 0 (drop), 1 (copy) or 2 (nocopy), found {action!r}")
        chosen = int(action)
        if not self._mask[chosen]:
            return self._answer_illegal(state, chosen)
        resets = int(state.game["resets"][0])
        _, reward, done = self.game.advance(state, np.array([chosen], np.int16))
        self._ended = bool(done[0])
        self._look(state)
        info = self._info(state, went_back=int(state.game["resets"][0]) > resets)
        return self._seen, float(reward[0]), self._ended, False, info

    def _answer_illegal(
        self, state: GameState, chosen: int
    ) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        if self.illegal == "error":
            legal = np.flatnonzero(self._mask)
            raise InputError(
                f"action on buffer {self.problem.space.nodes[int(state.game['cursor'][0])]}: expected a legal one"
                f" ({', '.join(ACTIONS[n] for n in legal)}), found {ACTIONS[chosen]}"
            )
        self._ended = True
        lose, total = self.illegal == "lose", float(self.game.total(state)[0])
        info = self._info(state, went_back=False) | {"illegal": True}
        if lose:
            info["return"] = 0.0
        return self._seen, -total if lose else 0.0, lose, not lose, info

    def render(self) -> NDArray[np.uint8] | None:
        """uint8 [360, 640, 3]: the layout so far, with a line at the present step; None without a render mode."""
        if self.render_mode is None:
            return None
        state, tables, program = self._current(), self.problem.tables, self.problem.program
        cursor, steps = int(state.game["cursor"][0]), len(program.instructions)
        now = int(tables.buffer["step"][cursor]) if cursor < len(tables.buffer) else steps
        sizes, capacity = tables.buffer["size_bytes"], tables.capacity * self.game.granule_bytes
        return pixels(self.game.layout(state, 0), tables.buffer["tensor"], sizes, capacity, now, steps)

    def _current(self) -> GameState:
        if self._state is None:
            raise gymnasium.error.ResetNeeded("expected a game: call reset() first")
        return self._state

    def _look(self, state: GameState) -> None:
        self._seen = {name: array[0] for name, array in self.game.observe(state).items()}
        self._mask = self._seen["actions"][:, ACTION.legal].astype(np.int8)

    def _info(self, state: GameState, went_back: bool) -> dict[str, Any]:
        info: dict[str, Any] = {
            "action_mask": self._mask.copy(),
            "buffer": int(state.game["cursor"][0]),
            "return": float(self.game.total(state)[0]),
            "resets": int(state.game["resets"][0]),
            "went_back": went_back,
            "illegal": False,
        }
        if info["buffer"] == len(self.problem.space.nodes):
            mapping = self.game.layout(state, 0).action.astype(np.int16)[:, None]
            found = self.problem.evaluate(mapping[None], np.zeros(1, np.uint64))
            info |= {"mapping": mapping, "cost_s": float(found.cost[0]), "speedup": float(found.speedup[0])}
        return info


gymnasium.register(id=ID, entry_point="egrl_muzero.mmap.gym:MmapEnv")
