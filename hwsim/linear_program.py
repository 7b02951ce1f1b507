"""A mixed-integer linear program: written down row by row, and a bound on it that needs no trust in the solver.

HiGHS only suggests multipliers of the rows; any multipliers prove a bound, optimal or not.

Source of the bound: Neumaier and Shcherbina, *Safe bounds in linear and mixed-integer linear programming*, Math.
Programming 99, 2004: where every variable lies between finite bounds, any vector of multipliers proves one.

Large linear programs whose parts repeat, solved as small ones: rows and variables that are alike are tied together.

Rows and variables are coloured: first by their own numbers, then again and again by the colours of what they meet and
the coefficients there. After a while those of one colour cannot be distinguished by what lies within so many steps of
them, as the rows of equal layers of a network. All rows of a colour get one multiplier. The best such multipliers are
those of a program with one row and one variable per colour: the rows of one colour are added up, and so are the
variables of one colour, whose coefficients in those sums are equal. So the program is small: a layer is priced once,
however often it stands in the network.

Any multipliers prove a bound on the whole program (`hwsim.linear_program.proven_bound`), so what is found here needs no
trust in the colours. The deeper the colours look, the better the bound, and the larger the program that is solved.
Where parts are equal but for the ends of a network, a few steps give nearly all of what the whole relaxation does.

Source: Grohe, Kersting, Mladenov and Selman, "Dimension reduction via colour refinement" (ESA 2014).

Deviations: they refine until colours are stable, and the small program is equal to the whole one. Here refinement stops
early, rows one step before variables, and the small program is a relaxation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array, csr_array, vstack

from workloads.colour_refinement import first_colours, hashes, refine

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Terms = dict[int, float]
"""Variable number -> coefficient."""


@dataclass(frozen=True)
class LinearProgram:
    """Minimise cost @ x + offset, row_lower <= matrix @ x <= row_upper, lower <= x <= upper, some x integer.

    Attributes:
        cost, lower, upper: float64 [V].
        integer: uint8 [V], 1 if the variable is integer.
        matrix: [R, V]; row_lower, row_upper: float64 [R].
    """

    cost: Floats
    lower: Floats
    upper: Floats
    integer: NDArray[np.uint8]
    matrix: csr_array
    row_lower: Floats
    row_upper: Floats


class Draft:
    """A program under construction; variables and rows are numbered in the order in which they are added."""

    def __init__(self) -> None:
        self._cost: list[Floats] = []
        self._upper: list[Floats] = []
        self._integer: list[NDArray[np.uint8]] = []
        self._values: list[Floats] = []
        self._columns: list[NDArray[np.int64]] = []
        self._lengths: list[int] = []
        self._bounds: list[tuple[float, float]] = []
        self.variables = 0

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return len(self._bounds)

    def add(self, upper: ArrayLike, cost: ArrayLike = 0.0, *, integer: bool = False) -> int:
        """Add variables between 0 and `upper` [n] (closed); the number of the first."""
        above = np.atleast_1d(np.asarray(upper, np.float64))
        first = self.variables
        self._upper.append(above)
        self._cost.append(np.broadcast_to(np.asarray(cost, np.float64), above.shape))
        self._integer.append(np.full(above.shape, integer, np.uint8))
        self.variables += len(above)
        return first

    def row(self, terms: Terms, lower: float, upper: float) -> None:
        """Add lower <= terms <= upper."""
        self.row_of(
            np.fromiter(terms, np.int64, len(terms)), np.fromiter(terms.values(), np.float64), lower, upper
        )

    def row_of(self, columns: NDArray[np.int64], values: Floats, lower: float, upper: float) -> None:
        """Add lower <= sum of values [n] at variables `columns` [n], each named once, <= upper."""
        self._columns.append(columns)
        self._values.append(values)
        self._lengths.append(len(columns))
        self._bounds.append((lower, upper))

    def finish(self) -> LinearProgram:
        """The program."""
        starts = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
        matrix = csr_array(
            (np.concatenate(self._values), np.concatenate(self._columns), starts),
            shape=(self.rows, self.variables),
        )
        bounds = np.array(self._bounds, np.float64)
        return LinearProgram(
            cost=np.concatenate(self._cost),
            lower=np.zeros(self.variables),
            upper=np.concatenate(self._upper),
            integer=np.concatenate(self._integer),
            matrix=matrix,
            row_lower=bounds[:, 0],
            row_upper=bounds[:, 1],
        )


class Sheet:
    """A linear program under construction, many variables and rows at a time."""

    def __init__(self) -> None:
        self._variables: list[tuple[Floats, Floats, Floats]] = []
        self._integer: list[NDArray[np.uint8]] = []
        self._bounds: list[tuple[Floats, Floats]] = []
        self._entries: list[tuple[Numbers, Numbers, Floats]] = []
        self.variables = 0
        self.rows = 0

    def add(
        self, count: int, lower: ArrayLike, upper: ArrayLike, cost: ArrayLike = 0.0, *, integer: bool = False
    ) -> Numbers:
        """int64 [count], the numbers of new variables between `lower` and `upper` (closed; numbers or [count])."""
        self._integer.append(np.full(count, integer, np.uint8))
        self._variables.append(tuple(_spread(part, count) for part in (lower, upper, cost)))  # type: ignore[arg-type]
        self.variables += count
        return np.arange(self.variables - count, self.variables)

    def row(self, count: int, lower: ArrayLike, upper: ArrayLike) -> Numbers:
        """int64 [count], the numbers of new, empty rows: lower <= their sum <= upper (numbers or [count])."""
        self._bounds.append((_spread(lower, count), _spread(upper, count)))
        self.rows += count
        return np.arange(self.rows - count, self.rows)

    def put(self, rows: Numbers, variables: Numbers, values: ArrayLike) -> None:
        """Add values (a number or [n]) x variables [n] to rows [n]; what meets at one place is summed."""
        self._entries.append((rows, variables, _spread(values, len(rows))))

    def finish(self) -> LinearProgram:
        """The program."""
        lower, upper, cost = (np.concatenate(part) for part in zip(*self._variables, strict=True))
        row_lower, row_upper = (np.concatenate(part) for part in zip(*self._bounds, strict=True))
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        matrix = csr_array((values, (rows, columns)), shape=(self.rows, self.variables))
        matrix.eliminate_zeros()
        return LinearProgram(cost, lower, upper, np.concatenate(self._integer), matrix, row_lower, row_upper)


def _spread(values: ArrayLike, count: int) -> Floats:
    return np.broadcast_to(np.asarray(values, np.float64), (count,))


def linear_bound(program: LinearProgram, time_limit_s: float, method: str = "highs") -> float:
    """A lower bound on the program's objective from its linear relaxation; -infinity where none came in time.

    `method` is that of `scipy.optimize.linprog`: "highs", "highs-ds" (dual simplex) or "highs-ipm" (interior point).
    """
    found = relax(program, time_limit_s, method)
    return -float("inf") if found is None else proven_bound(program, found.multipliers)


@dataclass(frozen=True)
class Relaxed:
    """The result of HiGHS for a linear relaxation: multipliers of rows, float64 [R], and the solution, float64 [V]."""

    multipliers: Floats
    solution: Floats


def relax(program: LinearProgram, time_limit_s: float, method: str = "highs") -> Relaxed | None:
    """The linear relaxation solved by `scipy.optimize.linprog`; None if it was not solved in time."""
    equal = program.row_lower == program.row_upper
    above = np.isfinite(program.row_upper) & ~equal
    below = np.isfinite(program.row_lower) & ~equal
    found = linprog(
        program.cost,
        A_ub=vstack([program.matrix[above], -program.matrix[below]]).tocsr(),
        b_ub=np.concatenate([program.row_upper[above], -program.row_lower[below]]),
        A_eq=program.matrix[equal],
        b_eq=program.row_upper[equal],
        bounds=np.stack([program.lower, program.upper], axis=1),
        method=method,
        options={"time_limit": time_limit_s},
    )
    if found.status != 0:
        return None
    at_most, at_least = np.split(found.ineqlin.marginals, [int(above.sum())])
    multipliers = np.zeros(len(equal))
    multipliers[equal] = found.eqlin.marginals
    multipliers[above] += at_most
    multipliers[below] -= at_least
    return Relaxed(multipliers, np.asarray(found.x, np.float64))


def proven_bound(program: LinearProgram, multipliers: Floats) -> float:
    """A lower bound on the program's objective by multipliers float64 [R], whatever they are.

    It is the sum over the rows of multiplier * side plus the least value of (cost - multipliers @ matrix) @ x between
    the variables' bounds. A row's side is its lower one where its multiplier is positive, else its upper one; where
    that side is infinite, the multiplier counts as 0.
    """
    side = np.where(multipliers > 0, program.row_lower, program.row_upper)
    finite = np.isfinite(side)
    multipliers, side = np.where(finite, multipliers, 0.0), np.where(finite, side, 0.0)
    reduced = program.cost - multipliers @ program.matrix
    least = np.minimum(reduced * program.lower, reduced * program.upper).sum()
    return float(multipliers @ side + least)


MOST_ROWS = 20_000
"""A small program of more rows is not solved: it would take HiGHS minutes."""
DEEPEST = 12
SETTLED = 1e-5
"""Two steps deeper in turn that raise the bound by less than this share are the last ones."""


@dataclass(frozen=True)
class Colours:
    """The colour of each row, int64 [R], and of each variable, int64 [V]; of each kind they are numbered from 0."""

    rows: Numbers
    variables: Numbers


@dataclass(frozen=True)
class Tied:
    """The result of the small programs.

    Attributes:
        bound: on the whole program's objective.
        shares: float64 [V], for each variable the mean over those of its colour in the last small program's solution.
        colours: of that program.
        converged: whether looking deeper hardly changes the bound.
    """

    bound: float
    shares: Floats
    colours: Colours
    converged: bool


def tied_bound(program: LinearProgram, until: float) -> Tied | None:
    """Bounds from small programs of deeper and deeper colours; None if not even the first was solved.

    It ends at the time `until` (of `time.monotonic`), or when the bound has converged, or when the small program is no
    longer small or is the whole one.
    """
    best: Tied | None = None
    idle = 0
    for colours in _refinements(program):
        small = tie(program, colours)
        rows = small.matrix.shape[0]
        left_s = until - time.monotonic()
        if rows > min(MOST_ROWS, program.matrix.shape[0] // 2) or left_s <= 0:
            break
        found = relax(small, left_s)
        if found is None:
            break
        bound = proven_bound(program, found.multipliers[colours.rows])
        before = -math.inf if best is None else best.bound
        idle = idle + 1 if bound - before <= SETTLED * abs(bound) else 0
        count = np.bincount(colours.variables)
        shares = (found.solution / count)[colours.variables]
        best = Tied(max(bound, before), shares, colours, idle >= 2)
        if best.converged:
            break
    return best


def tie(program: LinearProgram, colours: Colours) -> LinearProgram:
    """The program with a row and a variable a colour: rows are sums, variables are the sums of those of a colour.

    Its multipliers, given to all rows of a colour, prove its optimum for the whole program if all variables of a colour
    have equal costs, bounds and sums of coefficients in each colour of rows, as those of `_refinements` have.
    """
    rows, variables = int(colours.rows.max(initial=-1)) + 1, int(colours.variables.max(initial=-1)) + 1
    first = np.unique(colours.variables, return_index=True)[1]
    count = np.bincount(colours.variables, minlength=variables)
    places = (colours.rows, np.arange(len(colours.rows)))
    adding = csr_array((np.ones(len(colours.rows)), places), shape=(rows, len(colours.rows)))
    matrix = (adding @ csc_array(program.matrix)[:, first]).tocsr()
    lower, upper = np.zeros(rows), np.zeros(rows)
    np.add.at(lower, colours.rows, program.row_lower)
    np.add.at(upper, colours.rows, program.row_upper)
    return LinearProgram(
        program.cost[first],
        program.lower[first] * count,
        program.upper[first] * count,
        program.integer[first],
        matrix,
        lower,
        upper,
    )


def _refinements(program: LinearProgram) -> Iterator[Colours]:
    """Deeper and deeper colours; those of variables look one step farther than those of rows."""
    by_row, by_variable = csr_array(program.matrix), csc_array(program.matrix)
    row_values, variable_values = hashes(by_row.data), hashes(by_variable.data)
    rows = first_colours(program.row_lower, program.row_upper)
    variables = first_colours(program.cost, program.lower, program.upper, program.integer)
    for _ in range(DEEPEST):
        next_rows = refine(rows, variables[by_row.indices], by_row.indptr, row_values)
        variables = refine(variables, rows[by_variable.indices], by_variable.indptr, variable_values)
        yield Colours(rows, variables)
        rows = next_rows
