"""The MMapGame as a problem: mappings are played in order, and what a layout costs is estimated."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from hwsim.capabilities import Parts
from hwsim.mappings import choice_columns
from hwsim.mmap.chip import Chip, chip_file
from hwsim.mmap.compiled import PACK_SECONDS, compiled_layout, priced_by_compiler
from hwsim.mmap.device import RUN_S, latency_parts_s, latency_s
from hwsim.mmap.game import ACTIONS, MmapGame
from hwsim.mmap.heuristic.assignment import heuristic_layout
from hwsim.mmap.judge import Rates, judge
from hwsim.mmap.layout import Layout
from hwsim.mmap.observation import SCHEMA_VERSION, edges, features
from hwsim.mmap.players import COPY_PRICES, ROOM_PRICES, best_greedy
from hwsim.mmap.shown import sections
from hwsim.mmap.tables import build_tables
from hwsim.mmap.terms import InstructionTerms
from hwsim.problem import About, Baseline, Bound, Evaluation, Keys, Mapping16, Observation, Violation
from hwsim.sections import Section
from hwsim.space import Space
from workloads.errors import InputError, Notice
from workloads.programs.compiled import Compiled
from workloads.programs.json_file import to_json
from workloads.programs.program import Program

SIMULATOR_VERSION = 3
"""Changes whenever a layout or a cost changes for the same program, chip and settings."""
LAST_COPIES = "the last copies"
"""The part of a latency that the end of the program waits."""


@dataclass(frozen=True)
class MmapConfig:
    """Settings of the problem."""

    literal_copies: Annotated[
        bool, Doc("if true, the window of a copy must touch its instruction, as in the paper's appendix")
    ] = False
    drop_backup: Annotated[
        bool,
        Doc(
            "at a dead end: if true, go back and drop the alias group that led to it; if false, lose the game"
        ),
    ] = True
    reward: Annotated[
        Literal["return", "latency"],
        Doc(
            '"return": the share of time that fast memory saves, by the game, without stalls;'
            ' "latency": (baseline cost / cost)^2'
        ),
    ] = "return"
    baseline: Annotated[
        Literal["own", "xla", "heuristic"],
        Doc(
            "what speedups are over: xla, the placement that the compiler chose, where the program has it; heuristic,"
            " the production heuristic; own: the first of these that there is"
        ),
    ] = "own"
    price: Annotated[
        Literal["roofline", "compiler"],
        Doc(
            "an instruction's arithmetic: flops / peak, or the compiler's cycles, where the program has them"
        ),
    ] = "roofline"


class MmapProblem:
    """The cost of a layout of a program's buffers (`Problem` of hwsim/problem.py), and the game that makes one.

    mapping   int16 [N, 1]: the action (drop, copy, nocopy) of each buffer, played in order; an illegal action is
              replaced by another in a fixed order, and at a dead end the game goes back (docs/explanations/mmap.md)
    cost      seconds of the program on a simulated device
    reward    the normalised return (0: everything in HBM, 1: everything in fast memory; a greater return may cost
              more), or (baseline cost / cost)^2 with `reward = "latency"`; 0 if the game is lost
    epsilon   the share of bytes of the buffers with a replaced action

    The baseline is the compiler's own layout, where the program has it, or else the production heuristic's. It is no
    mapping of the game, since copies overlap: `baseline.mapping` is its projection, which may cost more or less. The
    compiler's layout is not refused for what it breaks; `baseline_broken` says what that is.

    What the compiler keeps of fast memory for the inside of instructions is not there to place buffers in: of all
    instructions the most, a ruling, since the game knows no room that comes and goes.

    Attributes:
        own_layout: the layout of the baseline.
        parts: the instructions with what they wait for, and the last copies; their sum is the cost.
    """

    def __init__(self, program: Program, chip: Chip, config: MmapConfig | None = None) -> None:
        """Lay the program out as the baseline does.

        Raises:
            InputError: `reward` is unknown, `build_tables` refuses the program, or the program has not what `baseline`
                or `price` asks for.
        """
        self.config = config or MmapConfig()
        if self.config.reward not in ("return", "latency"):
            raise InputError(f"problem.reward: expected return or latency, found {self.config.reward!r}")
        self._given, self._given_chip = program, chip
        program, chip = _as_compiled(program, chip, self.config)
        self.program, self._chip = program, chip
        self.tables = build_tables(program, chip, self.config.literal_copies, self.config.drop_backup)
        self.game = MmapGame(self.tables, chip.cmem.granule_bytes)
        self.game.greedy = partial(_play_greedily, self.game)

        self.about = About(
            "mmap",
            program.name,
            chip.name,
            baseline_name=self._baseline_name,
            evaluated="programs",
            step="instruction",
            uncounted="; ".join(program.remarks),
        )
        size_bytes = self.tables.buffer["size_bytes"][:, None].copy()
        self.space = Space(
            [program.buffer_name(number) for number in range(len(program))],
            ("action",),
            np.full(size_bytes.shape, len(ACTIONS), np.int16),
            [ACTIONS],
            size_bytes,
        )
        seen = [features(program, self.tables), choice_columns(self.space.choice_rank, self.space.initial)]
        self.observation = Observation(
            np.concatenate(seen, axis=1).astype(np.float32), edges(program), SCHEMA_VERSION
        )
        steps = [instruction.name for instruction in program.instructions]
        self.parts = Parts(
            (*steps, LAST_COPIES),
            "sum",
            np.full(len(steps) + 1, -1, np.int32),
            terms=InstructionTerms(self.game),
        )
        self._proved: dict[float, Bound] = {}
        before = self._layout_before(0.0)
        cost = latency_s(self.tables, before)
        rule = "heuristic" if self._compiled is None else self._compiled.name
        self.baseline = Baseline(self._demonstration(before), cost, rule, nearest=True)
        if self.config.baseline == "xla" and (broken := self.baseline_broken()):
            more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
            warnings.warn(
                Notice(f"{self._baseline_name} breaks rules of the game: {broken[0]}{more}"), stacklevel=2
            )

    @property
    def _compiled(self) -> Compiled | None:
        """The compiler's placement, if it is the baseline."""
        return None if self.config.baseline == "heuristic" else self.program.compiled

    @property
    def _baseline_name(self) -> str:
        compiled = self._compiled
        return "the production heuristic" if compiled is None else f"{compiled.name}'s placement"

    def _layout_before(self, seconds: float) -> Layout:
        """The layout of the baseline; of a compiler's, within so many seconds, the addresses."""
        compiled, cmem = self._compiled, self._chip.cmem
        if compiled is None:
            return heuristic_layout(self.program, self.tables, cmem.granule_bytes)
        return compiled_layout(self.program, compiled, cmem.capacity_bytes, cmem.granule_bytes, seconds)

    @cached_property
    def own_layout(self) -> Layout:
        """See the class. What costs time, the addresses of a compiler's layout, is done when somebody asks."""
        return self._layout_before(PACK_SECONDS)

    def baseline_broken(self) -> list[Violation]:
        """What the baseline's layout breaks of the rules, but that its copies overlap."""
        return judge(self.program, self.rates, self.own_layout, pools=True)

    def _demonstration(self, layout: Layout) -> Mapping16:
        """int16 [N, 1], a layout's actions as the game can play them, without a dead end."""
        forgiving = MmapGame(self.tables._replace(drop_backup=True), self.game.granule_bytes)
        return forgiving.play(layout.action.astype(np.int16)[None]).action[0][:, None]

    def evaluate(self, mapping: Mapping16, key: Keys) -> Evaluation:
        """Play mappings int16 [B, N, 1] and estimate the cost of what runs. Nothing is random: keys are ignored.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping, key)
        proposed = self.space.canonical(mapping)
        played = self.game.play(proposed[:, :, 0])
        ran = ~np.isnan(played.cost_s)
        action = np.where(played.action < 0, proposed[:, :, 0], played.action)
        moved = np.where(action != proposed[:, :, 0], self.space.size_bytes[:, 0], 0).sum(axis=1)
        # The reward of the paper is the share of the time that fast memory saves, not a function of the latency.
        saved = None
        if self.config.reward != "latency":
            saved = np.where(ran, (self.tables.none_s - played.cost_s) / self.tables.most_s, 0.0)
        return Evaluation.of_costs(
            played.latency_s,
            self.baseline.cost,
            ran,
            action[:, :, None],
            moved / self.space.size_bytes.sum(),
            reward=saved,
            penalty=0.0,
            parts=played.took_s,
        )

    def layout(self, mapping: Mapping16) -> Layout:
        """The places of buffers that one mapping int16 [N, 1] is played to.

        Raises:
            ValueError: the shape, the dtype or a choice number is wrong.
        """
        self.space.check(mapping[None], np.zeros(1, np.uint64))
        return self.game.layout_of(self.space.canonical(mapping)[:, 0])

    def judge(self, mapping: Mapping16) -> list[Violation]:
        """Every rule that the layout of one mapping [N, 1] breaks, by code that shares nothing with the game."""
        return judge(self.program, self.rates, self.layout(mapping), self.config.literal_copies)

    @property
    def rates(self) -> Rates:
        """The chip as the judge needs it."""
        cmem, hbm = self._chip.cmem, self._chip.hbm.bandwidth_Bps
        return Rates(
            cmem.capacity_bytes,
            cmem.granule_bytes,
            hbm,
            cmem.read_Bps,
            cmem.write_Bps,
            self._chip.compute.peak_flops,
        )

    def placement(self, mapping: Mapping16) -> list[dict[str, Any] | None]:
        """Offset (bytes), interval and copy window (steps, closed) of each buffer in fast memory, under one mapping."""
        return _places(self.layout(mapping))

    def baseline_placement(self) -> list[dict[str, Any] | None] | None:
        """The same of the baseline's own layout, which no game leads to; None if the baseline is a mapping."""
        return _places(self.own_layout) if self.baseline.nearest else None

    def placed_in(self) -> tuple[str, int]:
        """The fast memory of the chip."""
        return "CMEM", self.tables.capacity * self.game.granule_bytes

    @property
    def baseline_layout(self) -> Layout:
        """The layout of the baseline: its own, or what another baseline's mapping leads to."""
        return self.own_layout if self.baseline.nearest else self.layout(self.baseline.mapping)

    def sections(self, mapping: Mapping16) -> list[Section]:
        """Fast memory, the buffers and what a latency consists of: of the baseline's layout and of one mapping's."""
        before, best = self.baseline_layout, self.layout(mapping)
        return sections(
            self.program, self.tables, before, best, self.game.granule_bytes, self.about.baseline_name
        )

    def bound(self, time_limit_s: float) -> Bound:
        """Bounds on the cost and the return of all plays, by linear programming (docs/explanations/mmap.md).

        It bounds mappings, not the heuristic's own layout. Nothing is proved of rewards that are latencies.
        """
        if time_limit_s not in self._proved:
            from hwsim.mmap.bound.upper import known_at_once, upper_bound

            self._proved[time_limit_s] = (
                upper_bound(self.tables, time_limit_s) if time_limit_s > 0 else known_at_once(self.tables)
            )
        found = self._proved[time_limit_s]
        return found if self.config.reward == "return" else replace(found, reward=math.inf)

    @property
    def heuristic_return(self) -> float:
        """The normalised return of the baseline's own layout, which may do what no play can."""
        run_s = latency_parts_s(self.tables, self.own_layout)[RUN_S]
        return float((self.tables.none_s - run_s) / self.tables.most_s)

    def fingerprint(self) -> str:
        """Hex digest of simulator version, chip, program and settings."""
        parts = {"version": SIMULATOR_VERSION, "config": _told(self.config), "files": dict(self.files())}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def files(self) -> dict[str, str]:
        """The program and the chip as text."""
        return {"program.json": to_json(self._given), "chip.toml": chip_file(self._given_chip)}


def _as_compiled(program: Program, chip: Chip, config: MmapConfig) -> tuple[Program, Chip]:
    """The program with the prices that were asked for, and the chip without what its compiler keeps of fast memory."""
    compiled, clock_Hz = program.compiled, chip.compute.clock_Hz
    if compiled is None:
        wanted = {"baseline": config.baseline == "xla", "price": config.price == "compiler"}
        for name, asked in wanted.items():
            if asked:
                raise InputError(
                    f"problem.{name}={getattr(config, name)}: expected a program with what its compiler decided, such"
                    f" as a text of XLA's for a TPU, found {program.name!r} without"
                )
        return program, chip
    if config.price == "compiler":
        if clock_Hz is None:
            raise InputError(
                f"problem.price=compiler: expected a chip with compute.clock_Hz, found {chip.name!r} without"
            )
        program = priced_by_compiler(program, clock_Hz, chip.compute.peak_flops)
    cmem, granule = chip.cmem, chip.cmem.granule_bytes
    left = cmem.capacity_bytes - -(-compiled.scratch_bytes // granule) * granule
    if left < granule:
        raise InputError(
            f"program {program.name!r} on chip {chip.name!r}: expected less than {cmem.capacity_bytes} bytes of fast"
            f" memory for the inside of an instruction, found {compiled.scratch_bytes}"
        )
    return program, replace(chip, cmem=replace(cmem, capacity_bytes=left))


def _told(config: MmapConfig) -> dict[str, Any]:
    """Settings for a fingerprint: those that came later only where they change something."""
    later = {"baseline": "own", "price": "roofline"}
    return {name: value for name, value in asdict(config).items() if later.get(name) != value}


def _play_greedily(game: MmapGame) -> tuple[Mapping16, int]:
    """See `RevisableGame.greedy`: the player plays once at each price of its grid; -1 if all games were lost."""
    return best_greedy(game)[:, None], len(ROOM_PRICES) * len(COPY_PRICES)


def _places(layout: Layout) -> list[dict[str, Any] | None]:
    columns: dict[str, NDArray[Any]] = {
        "offset_bytes": layout.offset_bytes,
        "first": layout.first,
        "last": layout.last,
        "copy_first": layout.copy_first,
        "copy_last": layout.copy_last,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    places = [{name: value for name, value in zip(columns, row, strict=True) if value >= 0} for row in rows]
    return [place or None for place in places]
