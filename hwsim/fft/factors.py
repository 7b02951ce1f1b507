"""The factors that codelets multiply by: roots of unity, by the loops that they depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hwsim.fft.instructions import Twiddle


def roots(n: int, rows: int, columns: int) -> NDArray[np.complex128]:
    """exp(-2 pi i a b / n) for a < rows, b < columns: complex128 [rows, columns]."""
    return unit(np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)), n)


def stage(when: Literal["pre", "post"], loop: int, n: int, count: int, size: int) -> Twiddle:
    """Of a codelet of that size, between the steps of a decimation; it depends on one loop."""
    return Twiddle(when, (loop,), (count, size - 1), lambda: roots(n, count, size)[:, 1:])


def pointwise(count: int, make: Callable[[], NDArray[np.complex128]]) -> Twiddle:
    """A factor for each turn of the first loop, from complex128 [count]."""
    return Twiddle("pre", (0,), (count, 1), lambda: make()[:, None])


def unit(exponent: NDArray[np.int64], n: int) -> NDArray[np.complex128]:
    """exp(-2 pi i exponent / n), by angles of an eighth of a turn at most, so that rounding stays small."""
    eighth, rest = np.divmod(exponent % n * 8, n)
    odd = eighth % 2 == 1
    angle = (2 * np.pi / 8) * np.where(odd, n - rest, rest) / n
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(odd, s, c), np.where(odd, c, s)
    quarter = eighth // 2
    c, s = np.where(quarter % 2 == 1, -s, c), np.where(quarter % 2 == 1, c, s)
    return np.where(quarter >= 2, -1, 1) * (c - 1j * s)
