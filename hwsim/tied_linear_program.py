"""Large linear programs whose parts repeat, solved as small ones: rows and variables that are alike are tied together.

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
from scipy.sparse import csc_array, csr_array

from hwsim.linear_program import Floats, LinearProgram, Numbers, proven_bound, relax
from workloads.colour_refinement import first_colours, hashes, refine

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
