"""Plans that can be called: any plan of the grammar, compiled to instructions with their factors and scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from egrl_fft import instructions, machine
from egrl_fft.codelets import address
from egrl_fft.grammar import MOST, Plan
from egrl_fft.instructions import Begin, Call, End
from egrl_fft.lowering import lower
from egrl_fft.notation import parse
from workloads.errors import InputError

LINE_BYTES = 64


class Fft:
    """A plan for DFTs of one size: call it with complex128 [..., N], it returns the DFTs over the last axis.

    X[k] = sum over j of x[j] exp(-2 pi i j k / N), not scaled. It holds scratch of its own: threads that run at
    the same time need an object each.

    Attributes:
        plan: as given.
        size: N.
    """

    def __init__(self, plan: Plan | str, most: int = MOST) -> None:
        """Compile; `most` points, of which a convolution inside another transform may have more.

        Raises:
            InputError: a text that is no plan, an open sub-problem, or a size above `most`.
        """
        self.plan = parse(plan) if isinstance(plan, str) else plan
        self.size = self.plan.size
        if "?" in str(self.plan):
            raise InputError(
                f"plan: expected a complete one, found an open sub-problem in {str(self.plan)[:80]}"
            )
        if not 1 <= self.size <= most:
            raise InputError(f"plan: expected a DFT of 1 to {most} points, found {self.size}")
        writer = lower(self.plan, lambda plan, x: Fft(plan, 4 * MOST)(x))
        deepest = _deepest(writer.code)
        if deepest > machine.DEPTH:
            raise InputError(
                f"plan: expected at most {machine.DEPTH} loops around one another, found {deepest}"
            )
        self._code = np.zeros((len(writer.code), machine.STRIDES + 3 * deepest), np.int64)
        for row, item in zip(self._code, writer.code, strict=True):
            _encode(row, item)
        self._memory = [_aligned_zeros(writer.arena.size), _aligned_zeros(writer.zeroed.size)]
        factors = np.concatenate([np.zeros(1, np.complex128), *writer.tables])[1:]
        self._factors = _aligned_zeros(len(factors))
        self._factors[:] = factors
        self._indices = np.concatenate([np.zeros(1, np.int64), *writer.indices])[1:]
        held: list[NDArray[Any]] = [*self._memory, self._factors, self._indices]
        self._state = np.array([self.size, *(array.ctypes.data for array in held)], np.int64)
        self._run = machine.run

    def __repr__(self) -> str:
        return f"<Fft of {self.size} points: {self.plan}>"

    def __call__(
        self, x: NDArray[np.complex128], out: NDArray[np.complex128] | None = None
    ) -> NDArray[np.complex128]:
        """The DFTs of complex128 [..., N] over the last axis, a new array, or `out`.

        Raises:
            InputError: another dtype or size; an `out` that is not a contiguous array like x apart from it.
        """
        if type(x) is not np.ndarray or x.dtype != _COMPLEX or x.ndim == 0 or x.shape[-1] != self.size:
            raise InputError(f"x: expected complex128 of shape (..., {self.size}), found {_describe(x)}")
        if not x.flags.c_contiguous:
            x = np.ascontiguousarray(x)
        if out is None:
            out = np.empty(x.shape, _COMPLEX)
        elif not _fits(out, x):
            raise InputError(
                f"out: expected contiguous complex128 of shape {x.shape} apart from x, found {_describe(out)}"
            )
        if x.ndim == 1:
            self._run(x, out, self._state, self._code)
        else:
            self._run(x.reshape(-1), out.reshape(-1), self._state, self._code)
        return out


_COMPLEX = np.dtype(np.complex128)


def _fits(out: object, x: NDArray[np.complex128]) -> bool:
    return (
        isinstance(out, np.ndarray)
        and out.dtype == _COMPLEX
        and out.shape == x.shape
        and bool(out.flags.c_contiguous and out.flags.writeable)
        and not np.may_share_memory(out, x)
    )


def _describe(x: object) -> str:
    return f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__


def _deepest(code: list[Call | Begin | End]) -> int:
    depth = deepest = 0
    for item in code:
        depth += isinstance(item, Begin) - isinstance(item, End)
        deepest = max(deepest, depth)
    return deepest


def _encode(row: NDArray[np.int64], item: Call | Begin | End) -> None:
    match item:
        case Begin(count):
            row[machine.OPERATION], row[machine.FUNCTION] = instructions.LOOP, count
        case End():
            row[machine.OPERATION] = instructions.END
        case Call(operation, kind, source, target, table, arguments):
            row[: machine.ARGUMENTS] = (
                operation,
                0 if kind is None else address(kind),
                source.memory,
                source.offset,
                target.memory,
                target.offset,
                table.offset,
            )
            row[machine.ARGUMENTS : machine.ARGUMENTS + len(arguments)] = arguments
            strides = np.array([source.around, target.around, table.around], np.int64).T.reshape(-1)
            row[machine.STRIDES : machine.STRIDES + len(strides)] = strides


def _aligned_zeros(count: int) -> NDArray[np.complex128]:
    """Zeros complex128 [count] that begin with a cache line."""
    raw = np.zeros(count * 16 + LINE_BYTES, np.uint8)
    at = -raw.ctypes.data % LINE_BYTES
    return raw[at : at + count * 16].view(np.complex128)
