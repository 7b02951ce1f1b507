"""From a plan to instructions: where intermediate results lie, and in which order codelets are called.

Every function here does DFTs of one size from a view `source` to a view `target`, for each combination of `loops`.

Sources: Cooley and Tukey (1965); Stockham (1966) for the sorted layout; Rader (1968); Bluestein (1970).

Deviations: a decimation in time whose radix is a codelet and whose results lie in blocks works in place in the output,
as FFTW's does; nothing else is in place. Scratch that has been read to the end is used again, and so is the output as
long as nothing has been written there. Rader and Bluestein keep the loop whose elements are nearest inside, and run
all others one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl_fft import grammar
from egrl_fft.grammar import Bluestein, Codelet, Plan, Rader, Split, prime_factors
from egrl_fft.instructions import (
    GATHER,
    INPUT,
    OUTPUT,
    RADER_SUM,
    SCATTER,
    SCRATCH,
    ZEROED,
    Loop,
    Twiddle,
    View,
    pointwise,
    roots,
    stage,
    unit,
)
from egrl_fft.writer import Transform, Writer

Block = tuple[int, int]


def lower(plan: Plan, transform: Transform | None) -> Writer:
    """The instructions of a complete plan, from the input to the output, both contiguous.

    `transform` does a DFT by a plan, for the factors of convolutions; None: no factors are needed.

    Raises:
        ValueError: a sub-problem is open.
    """
    writer = Writer(transform)
    _lower(writer, plan, View(INPUT, 0, 1), View(OUTPUT, 0, 1), (), None, None, True)
    return writer


def _lower(
    writer: Writer,
    plan: Plan,
    source: View,
    target: View,
    loops: Sequence[Loop],
    twiddle: Twiddle | None,
    dead: Block | None,
    whole: bool,
) -> None:
    """`dead`: the block of `source`, given back when it has been read; `whole`: the output is free until the end."""
    match plan:
        case Codelet(size):
            writer.codelet(size, source, target, loops, twiddle)
            writer.arena.give(dead)
        case Split():
            _split(writer, plan, source, target, loops, dead, whole)
        case grammar.Loop(block, copy, inner):
            _loop(writer, block, copy, inner, source, target, loops)
            writer.arena.give(dead)
        case Rader() | Bluestein():
            near = min(range(len(loops)), key=lambda p: abs(loops[p].source)) if loops else -1
            others = [loop for p, loop in enumerate(loops) if p != near]
            views = writer.outside(others, (source, "source"), (target, "target"))
            kept = loops[near] if loops else Loop(1, 1, 1)
            if isinstance(plan, Rader):
                _rader(writer, plan, views[0], views[1], kept)
            else:
                _bluestein(writer, plan, views[0], views[1], kept)
            writer.close(others)
            writer.arena.give(dead)
        case _:
            raise ValueError(f"plan: expected a complete one, received {plan}")


def _split(
    writer: Writer,
    plan: Split,
    source: View,
    target: View,
    loops: Sequence[Loop],
    dead: Block | None,
    whole: bool,
) -> None:
    """n = a b points: b DFTs of a points (`first`) into `middle`, then a DFTs of b points (`second`) from there.

    The factors between go with whichever of the two is a codelet: after the first or before the second; where neither
    is, they take a pass of their own.
    """
    first, second = (plan.radix, plan.rest) if plan.direction == "f" else (plan.rest, plan.radix)
    n, a, b = plan.size, first.size, second.size
    in_place = _works_in_place(plan)
    middle, element, column, held, block = _between(writer, plan, source, target, loops, whole)
    one = [Loop(loop.count, loop.source, step) for loop, step in zip(loops, held, strict=True)]
    one.append(Loop(b, source.stride, column))
    two = [Loop(loop.count, step, loop.target) for loop, step in zip(loops, held, strict=True)]
    two.append(Loop(a, element, target.stride))
    after = before = None
    if isinstance(first, Codelet) and (plan.direction == "f" or not isinstance(second, Codelet)):
        after = stage("post", len(loops), n, b, a)
    elif isinstance(second, Codelet):
        before = stage("pre", len(loops), n, a, b)
    _lower(
        writer,
        first,
        source.at(0, b * source.stride),
        middle.at(0, element),
        one,
        after,
        None,
        in_place and whole,
    )
    writer.arena.give(dead)
    if after is None and before is None:
        at = len(loops)
        pass_loops = [Loop(loop.count, step, step) for loop, step in zip(loops, held, strict=True)]
        pass_loops += [Loop(a, element, element), Loop(b, column, column)]
        factors = Twiddle("pre", (at, at + 1), (a, b, 1), lambda: roots(n, a, b)[:, :, None])
        writer.codelet(1, middle, middle, pass_loops, factors)
    _lower(writer, second, middle.at(0, column), target.at(0, a * target.stride), two, before, block, whole)


class _Between(NamedTuple):
    """Where the results of a split's first step lie.

    Attributes:
        middle: the view of them.
        element: stride of the first step's results.
        column: stride of the b DFTs that it does, which is that of the second step's elements.
        held: stride of each loop.
        block: the scratch that they take, None if they lie in the output.
    """

    middle: View
    element: int
    column: int
    held: list[int]
    block: Block | None


def _between(
    writer: Writer, plan: Split, source: View, target: View, loops: Sequence[Loop], whole: bool
) -> _Between:
    """Choose where the results of the first step lie, and take scratch for them if that is needed."""
    first, second = (plan.radix, plan.rest) if plan.direction == "f" else (plan.rest, plan.radix)
    n, many = plan.size, math.prod(loop.count for loop in loops)
    a, b = first.size, second.size
    if _works_in_place(plan):
        # Results of the first step at a' + second's index * a, in the output.
        return _Between(target, target.stride, a * target.stride, [loop.target for loop in loops], None)
    block: Block | None = None
    # The output itself holds them, unless the input lies there or the second step works in place in it.
    if whole and source.memory != OUTPUT and isinstance(second, Split) and not _works_in_place(second):
        middle = View(OUTPUT, 0, 1)
    else:
        block = writer.arena.take(n * many)
        middle = View(SCRATCH, block[0], 1, (0,) * len(source.around))
    inside = [math.prod(loop.count for loop in loops[p + 1 :]) for p in range(len(loops))]
    # Sorted: all loops' values of an element lie side by side. Else each loop's turn has a block of n.
    if plan.sort:
        element, column = (many, a * many) if plan.direction == "f" else (b * many, many)
        return _Between(middle, element, column, inside, block)
    element, column = (b, 1) if plan.direction == "f" else (1, a)
    return _Between(middle, element, column, [step * n for step in inside], block)


def _works_in_place(plan: Split) -> bool:
    return plan.direction == "t" and not plan.sort and isinstance(plan.radix, Codelet)


def _loop(
    writer: Writer, block: int, copy: bool, inner: Plan, source: View, target: View, loops: Sequence[Loop]
) -> None:
    """Blocks of the nearest loop, at most `block` turns each; with `copy` their inputs are first brought together."""
    near = min(range(len(loops)), key=lambda p: abs(loops[p].source)) if loops else -1
    others = [loop for p, loop in enumerate(loops) if p != near]
    kept = []
    if loops:
        loop = loops[near]
        size = max(d for d in range(1, min(block, loop.count) + 1) if loop.count % d == 0)
        others.append(Loop(loop.count // size, loop.source * size, loop.target * size))
        kept = [Loop(size, loop.source, loop.target)]
    source, target = writer.outside(others, (source, "source"), (target, "target"))
    held: Block | None = None
    if copy:
        many = math.prod(loop.count for loop in kept)
        held = writer.arena.take(inner.size * many)
        buffer = View(SCRATCH, held[0], many, (0,) * len(source.around))
        moved = [Loop(loop.count, loop.source, 1) for loop in kept]
        writer.codelet(1, source.at(0, 1), buffer.at(0, 1), [*moved, Loop(inner.size, source.stride, many)])
        source, kept = buffer, [Loop(loop.count, 1, loop.target) for loop in kept]
    _lower(writer, inner, source, target, kept, None, held, False)
    writer.close(others)


def _rader(writer: Writer, plan: Rader, source: View, target: View, loop: Loop) -> None:
    """A DFT of p points, p prime, as a cyclic convolution of p - 1 points.

    Gather the inputs in the order of the generator's powers, transform, multiply, transform, scatter. Conjugates make
    the second transform an inverse one. RADER_SUM looks after element 0, which is no power.
    """
    p, many = plan.size, loop.count
    generator = next(
        g for g in range(2, p) if all(pow(g, (p - 1) // q, p) != 1 for q in set(prime_factors(p - 1)))
    )
    powers = np.ones(p - 1, np.int64)
    for k in range(1, p - 1):
        powers[k] = powers[k - 1] * generator % p
    inverse = np.roll(powers[::-1], 1)
    factors = pointwise(p - 1, lambda: _spectrum(writer, plan.inner, unit(inverse, p)))
    blocks = [writer.arena.take((p - 1) * many) for _ in range(2)]
    a, b = (View(SCRATCH, block[0], many, (0,) * len(source.around)) for block in blocks)
    inside = [Loop(many, 1, 1)]
    still = (0,) * len(source.around)
    index = View(0, writer.index(powers), 1, still)
    writer.call(GATHER, source, a, index, (p - 1, many, source.stride, loop.source, many, 1))
    _lower(writer, plan.inner, a, b, inside, None, None, False)
    writer.call(RADER_SUM, source, target, b, (p - 1, many, loop.source, loop.target))
    writer.codelet(1, b, b, [Loop(p - 1, many, many), *inside], factors, True)
    _lower(writer, plan.inner, b, a, inside, None, None, False)
    index = View(0, writer.index(inverse), 1, still)
    writer.call(SCATTER, a, target, index, (p - 1, many, many, 1, target.stride, loop.target))
    for block in blocks:
        writer.arena.give(block)


def _bluestein(writer: Writer, plan: Bluestein, source: View, target: View, loop: Loop) -> None:
    """A DFT of n points as a convolution with a chirp, done by DFTs of m >= 2 n - 1 points.

    The inputs lie in scratch that keeps its zeros from n on: only the first n are ever written.
    """
    n, m, many = plan.size, plan.inner.size, loop.count

    def chirp() -> NDArray[np.complex128]:
        return unit(np.arange(n, dtype=np.int64) ** 2, 2 * n)

    def wave() -> NDArray[np.complex128]:
        values = np.zeros(m, np.complex128)
        values[:n] = chirp().conj()
        values[m - n + 1 :] = values[n - 1 : 0 : -1]
        return _spectrum(writer, plan.inner, values)

    blocks = [writer.arena.take(m * many) for _ in range(2)]
    still = (0,) * len(source.around)
    a = View(ZEROED, writer.zeroed.take(m * many)[0], many, still)
    b, c = (View(SCRATCH, block[0], many, still) for block in blocks)
    inside = [Loop(many, 1, 1)]
    load = [Loop(n, source.stride, many), Loop(many, loop.source, 1)]
    writer.codelet(1, source, a, load, pointwise(n, chirp))
    _lower(writer, plan.inner, a, b, inside, None, None, False)
    writer.codelet(1, b, b, [Loop(m, many, many), *inside], pointwise(m, wave), True)
    _lower(writer, plan.inner, b, c, inside, None, None, False)
    store = [Loop(n, many, target.stride), Loop(many, 1, loop.target)]
    writer.codelet(1, c, target, store, pointwise(n, lambda: chirp().conj()), True)
    for block in blocks:
        writer.arena.give(block)


def _spectrum(writer: Writer, inner: Plan, values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """What a cyclic convolution with `values` multiplies by, the scaling of the inverse DFT in it."""
    if writer.transform is None:
        raise ValueError("writer: expected one that makes factors, received one without a transform")
    return writer.transform(inner, values) / inner.size
