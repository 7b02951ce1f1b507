"""A grid of chip files: which values vary, in which order the points are solved, and the chip file of each point.

A value is named by its path in the chip file, tables of a list by their name: `memories.sram.capacity_bytes`.

One point of a grid: a chip file becomes a problem, which is solved from a neighbour's mapping.

The functions take and give what can be pickled: they run in this process, in others, or on other machines.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from egrl.problems import build_problem
from hwsim.capabilities import HasModel
from hwsim.chip_file import UNWRITTEN
from hwsim.problem import Mapping16, Problem, Status
from workloads.errors import InputError
from workloads.text import hint, read_quantity, unit_for

Value = int | float
POINTS = 8
"""Points of a range, where neither the range nor --points says how many."""
SECONDS = 40.0
"""Time limit of a solve: it ends earlier, unless the network is large or the problem's solver takes what it gets."""
MOST_PARAMETERS = 2
MOST_POINTS = 1000
SEGMENT = 10
"""Points that are solved one after the other, each from its neighbour's mapping; different segments need not wait."""
_RANGE = re.compile(
    r"(?P<low>[^.]+(?:\.[0-9][^.]*)?)\.\.(?P<high>[^:]+?)(?::(?P<points>[0-9]+))?(?P<log>\s+log)?"
)
FORM = "PATH=LOW..HIGH, LOW..HIGH:POINTS, 'LOW..HIGH log' or A,B,C"


@dataclass(frozen=True)
class Parameter:
    """One value of the chip file that varies.

    Attributes:
        path: of the value.
        values: ascending, all different.
        own: the value in the chip file itself.
    """

    path: str
    values: tuple[Value, ...]
    own: Value

    @property
    def label(self) -> str:
        """What people call it: "sram capacity"."""
        words = self.path.removeprefix("memories.")
        for ending in ("_bytes", "_Bps", "_Hz", "_s"):
            words = words.removesuffix(ending)
        return words.replace(".", " ").replace("_", " ")

    @property
    def unit(self) -> tuple[float, str]:
        """Size and name of the unit that people read the values in: (2**20, "MiB"); (1.0, "") if it has none."""
        most = float(max(*self.values, self.own))
        if self.path.endswith("_bytes"):
            return unit_for(most, "B")
        for ending, unit in (("_Bps", "B/s"), ("_Hz", "Hz")):
            if self.path.endswith(ending):
                return next(
                    (
                        (size, prefix + unit)
                        for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"))
                        if most >= size
                    ),
                    (1.0, unit),
                )
        return unit_for(most, "s") if self.path.endswith("_s") else (1.0, "")

    def text(self, value: Value) -> str:
        """A value for people: "4 MiB"."""
        size, name = self.unit
        return f"{value / size:.6g} {name}".rstrip()

    @property
    def nearest(self) -> int:
        """Position of the value nearest to the chip's own; of two equally near ones the lower."""
        return min(range(len(self.values)), key=lambda k: (abs(self.values[k] - self.own), k))


@dataclass(frozen=True)
class Grid:
    """All points of one or two parameters; points are numbered with the last parameter running fastest.

    Attributes:
        chip: the table of the chip file itself.
        parameters: what varies.
    """

    chip: Mapping[str, Any]
    parameters: tuple[Parameter, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of values."""
        return tuple(len(parameter.values) for parameter in self.parameters)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def index(self, point: int) -> tuple[int, ...]:
        """The position of a point along each parameter."""
        after = math.prod(self.shape[1:])
        return (point,) if len(self.shape) == 1 else (point // after, point % after)

    def values(self, point: int) -> tuple[Value, ...]:
        """The values of a point, one per parameter."""
        return tuple(p.values[k] for p, k in zip(self.parameters, self.index(point), strict=True))

    def text(self, point: int) -> str:
        """A point for people: "sram capacity 4 MiB, dram bandwidth 60 GB/s"."""
        said = zip(self.parameters, self.values(point), strict=True)
        return ", ".join(f"{parameter.label} {parameter.text(value)}" for parameter, value in said)

    def chip_file(self, point: int) -> str:
        """The TOML text of a point's chip file."""
        table = copy.deepcopy(dict(self.chip))
        for parameter, value in zip(self.parameters, self.values(point), strict=True):
            inner, key = _table_of(table, parameter.path)
            inner[key] = value
        return tomli_w.dumps(table)

    def segments(self) -> list[list[int]]:
        """The points in rows along the first parameter, rows of more than `SEGMENT` points cut into equal parts."""
        found = []
        for others in itertools.product(*(range(n) for n in self.shape[1:])):
            row = [k * math.prod(self.shape[1:]) + (others[0] if others else 0) for k in range(self.shape[0])]
            parts = -(-len(row) // SEGMENT)
            cuts = [len(row) * part // parts for part in range(parts + 1)]
            found += [row[begin:end] for begin, end in itertools.pairwise(cuts)]
        return found

    def near(self, point: int, most: int) -> list[int]:
        """The point and those nearest to it in steps of the grid, at most so many; equally near ones by number."""
        here = self.index(point)

        def steps(other: int) -> int:
            return max(abs(a - b) for a, b in zip(here, self.index(other), strict=True))

        return sorted(range(len(self)), key=lambda other: (steps(other), other))[:most]


def read_grid(vary: Sequence[str], chip_text: str, points: int = POINTS) -> Grid:
    """The grid that texts such as "memories.sram.capacity_bytes=1MiB..8MiB" name.

    A range has `points` values where it does not say how many.

    Raises:
        InputError: a path or a value is wrong, or there are too many of them.
    """
    chip = _with_unwritten(tomllib.loads(chip_text), vary)
    if not 1 <= len(vary) <= MOST_PARAMETERS:
        raise InputError(f"--vary: expected it once or twice, found it {len(vary)} times")
    if points < 1:
        raise InputError(f"--points: expected at least 1, found {points}")
    parameters = tuple(_parameter(text, chip, points) for text in vary)
    if len({parameter.path for parameter in parameters}) < len(parameters):
        raise InputError(f"--vary: expected different paths, found {parameters[0].path} twice")
    grid = Grid(chip, parameters)
    if len(grid) > MOST_POINTS:
        raise InputError(f"--vary: expected at most {MOST_POINTS} points, found {len(grid)}")
    return grid


def _with_unwritten(chip: dict[str, Any], vary: Sequence[str]) -> dict[str, Any]:
    """The table of a chip file with those values of `UNWRITTEN` that are to vary."""
    for memory in chip.get("memories", ()):
        for key, value in UNWRITTEN.items():
            if any(text.partition("=")[0].strip() == f"memories.{memory['name']}.{key}" for text in vary):
                memory.setdefault(key, value)
    return chip


def _parameter(text: str, chip: Mapping[str, Any], points: int) -> Parameter:
    path, equals, spec = (part.strip() for part in text.partition("="))
    if not equals or not spec:
        raise InputError(f"--vary {text}: expected {FORM}")
    own = dict(_numbers(chip)).get(path)
    if own is None:
        known = [name for name, _ in _numbers(chip)]
        meant = hint(path, known) or f"; it has {', '.join(known)}"
        raise InputError(f"--vary {path}: expected the path of a number in the chip file, found none{meant}")
    found = [_fitted(value, own) for value in _values(text, spec, own, points)]
    least = UNWRITTEN.get(path.rpartition(".")[2], sys.float_info.min)
    if min(found) < least:
        raise InputError(
            f"--vary {text}: expected values {'above' if least else 'not below'} 0, found {min(found)}"
        )
    return Parameter(path, tuple(sorted(set(found))), own)


def _values(text: str, spec: str, own: Value, points: int) -> list[float]:
    if ".." not in spec:
        return [_value(text, part, own) for part in spec.split(",")]
    match = _RANGE.fullmatch(spec)
    if match is None:
        raise InputError(f"--vary {text}: expected {FORM}")
    low, high = (_value(text, match[end], own) for end in ("low", "high"))
    count = int(match["points"] or points)
    if not low < high or (match["log"] and low <= 0) or not 2 <= count <= MOST_POINTS:
        raise InputError(
            f"--vary {text}: expected 2 to {MOST_POINTS} points from a low value to a higher one"
        )
    shares = [k / (count - 1) for k in range(count)]
    if match["log"]:
        return [low * (high / low) ** share for share in shares]
    return [low + (high - low) * share for share in shares]


def _value(text: str, part: str, own: Value) -> float:
    """A number with or without a unit, or a percentage of the chip's own value."""
    percent = part.strip().endswith("%")
    value = read_quantity(part.strip().removesuffix("%"))
    if value is None:
        known = "numbers such as 8MiB, 67.2e9, 60GB/s or 150%"
        raise InputError(f"--vary {text}: expected {known}, found {part.strip()!r}")
    return value * own / 100 if percent else value


def _fitted(value: float, own: Value) -> Value:
    """The value as the chip file writes it: a whole number where its own is one."""
    return round(value) if isinstance(own, int) else float(value)


def _numbers(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Value]]:
    """The path and the value of every number of a chip file but its version."""
    for key, value in table.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{path}.")
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, Mapping) and "name" in entry:
                    yield from _numbers(entry, f"{path}.{entry['name']}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and path != "version":
            yield path, value


def _table_of(table: Any, path: str, before: str = "") -> tuple[dict[str, Any], str]:
    """The table that holds the value at a path, and its key there. Names may have dots."""
    for key, value in table.items():
        here = f"{before}{key}"
        if here == path:
            return table, key
        entries = value if isinstance(value, list) else []
        inner = [(f"{here}.{e['name']}.", e) for e in entries if isinstance(e, dict) and "name" in e]
        inner += [(f"{here}.", value)] if isinstance(value, dict) else []
        for start, part in inner:
            if path.startswith(start):
                try:
                    return _table_of(part, path, start)
                except KeyError:
                    continue
    raise KeyError(path)


TOLERANCE = 1e-6
"""A mapping that is cheaper than a bound by a larger share proves that the bound is wrong."""


@dataclass(frozen=True)
class Subject:
    """The subject of an exploration without the chip: a workload (a name or a file), a problem and its settings."""

    workload: str
    problem: str
    settings: tuple[str, ...]

    def build(self, chip_text: str) -> Problem:
        """The problem on a chip file with that text. InputError where it is no chip that can hold the workload."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "chip.toml"
            path.write_text(chip_text, encoding="utf-8")
            try:
                return self.on(str(path))
            except InputError as error:
                raise InputError(str(error).replace(f"{path}: ", "")) from error

    def on(self, chip: str) -> Problem:
        """The problem on a chip by name or file; "": the problem's default. InputError as `build`."""
        return build_problem(self.problem, self.workload, chip, self.settings)


@dataclass(frozen=True)
class Task:
    """A point to solve.

    Attributes:
        subject, chip_text: the problem.
        starts: mappings int16 [N, H]; the solve begins with the one that costs least there.
        seed: of the solve.
        time_limit_s: of the solve.
    """

    subject: Subject
    chip_text: str
    starts: tuple[Mapping16, ...]
    seed: int
    time_limit_s: float


@dataclass(frozen=True)
class Point:
    """The results of a point.

    Attributes:
        cost, bound: of the best mapping found, and of all mappings; NaN where the chip cannot be.
        mapping: int16 [N, H]; None where the chip cannot be.
        baseline: cost of the problem's baseline there.
        proof: what proves the bound.
        complete: False if the time limit ended the solve.
        failure: why the chip cannot be; "" where it can.
    """

    cost: float
    bound: float
    mapping: Mapping16 | None
    baseline: float
    proof: str
    complete: bool = True
    failure: str = ""

    @staticmethod
    def impossible(reason: str) -> Point:
        """A point without a mapping."""
        return Point(math.nan, math.nan, None, math.nan, "", True, reason)


def solve_point(task: Task) -> Point:
    """The best mapping and the bound that a solve of the point gives."""
    try:
        problem = task.subject.build(task.chip_text)
    except InputError as error:
        return Point.impossible(str(error))
    assert isinstance(problem, HasModel)
    starts = [problem.baseline.mapping, *task.starts]
    costs = [_cost(problem, mapping) for mapping in starts]
    start = starts[costs.index(min(costs))]
    found = problem.solve(task.time_limit_s, task.seed, start)
    if not math.isfinite(found.cost):
        return Point.impossible("no mapping was found that fits")
    return Point(
        found.cost, found.bound.cost, found.mapping, problem.baseline.cost, found.bound.proof, found.complete
    )


@dataclass(frozen=True)
class Trial:
    """Mappings int16 [N, H] of other points, to be tried on a point that was solved."""

    subject: Subject
    chip_text: str
    mappings: tuple[Mapping16, ...]
    point: Point


def try_mappings(trial: Trial) -> Point:
    """The point with the cheapest of its own and the other mappings.

    Raises:
        InputError: its mapping costs something else, or one breaks its bound: it was read from a file that lies, or the
            solver is wrong.
    """
    point = trial.point
    problem = trial.subject.build(trial.chip_text)
    assert isinstance(problem, HasModel)
    assert point.mapping is not None
    costs = [_cost(problem, point.mapping), problem.baseline.cost]
    for what, said, real in zip(("cost", "baseline"), (point.cost, point.baseline), costs, strict=True):
        if not math.isclose(said, real, rel_tol=TOLERANCE):
            raise InputError(f"points/: {what}: expected {real}, which the model says, found {said}")
    costs = [_cost(problem, mapping) for mapping in trial.mappings]
    least = min(costs, default=math.inf)
    if least < point.cost:
        judged = problem.evaluate(trial.mappings[costs.index(least)][None], np.zeros(1, np.uint64))
        if judged.status[0] == Status.OK:
            mapping = judged.repaired[0]
            point = Point(
                least, point.bound, mapping, point.baseline, point.proof, point.complete, point.failure
            )
    if point.cost < point.bound * (1 - TOLERANCE):
        raise InputError(
            f"points/: bound: expected one below every cost, found {point.bound} above {point.cost}"
        )
    return point


def _cost(problem: Problem, mapping: Mapping16) -> float:
    """The cost of a mapping there; infinite if it is no mapping of the problem."""
    assert isinstance(problem, HasModel)
    try:
        problem.space.check(mapping[None], np.zeros(1, np.uint64))
    except ValueError:
        return math.inf
    return problem.model_cost(mapping)
