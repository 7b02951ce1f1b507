"""The interpreter of a plan: one numba kernel that runs its calls and loops.

The kernel is compiled once for all plans and kept on disk by numba; codelets are called by address.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from egrl_fft.instructions import CODELET, END, GATHER, LOOP, RADER_SUM
from hwsim.jit import kernel

DEPTH = 40
"""Loops around one another, at most."""
OPERATION, FUNCTION, SOURCE, SOURCE_AT, TARGET, TARGET_AT, TABLE_AT = range(7)
ARGUMENTS = 7
STRIDES = ARGUMENTS + 11
"""Columns of the code: from ARGUMENTS on those of the operation, from STRIDES on three (source, target, table) for each
loop around, outermost first. A loop has its count in FUNCTION."""
BYTES = 16
"""Of a complex number."""


_pointer: Any = types.CPointer


def _call_intrinsic(typingctx: Any, function: Any, x: Any, y: Any, t: Any, arguments: Any) -> Any:
    """Call a function of four pointers by its address; all are integers here."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        pointer = ir.FunctionType(ir.VoidType(), [byte] * 4).as_pointer()
        called = builder.inttoptr(values[0], pointer)
        builder.call(called, [builder.inttoptr(value, byte) for value in values[1:]])
        return context.get_dummy_value()

    return signature, generate


def _complex_at_intrinsic(typingctx: Any, address: Any) -> Any:
    """An address as a pointer to complex128."""
    result: Any = _pointer(types.complex128)
    signature = result(types.int64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(result))

    return signature, generate


def _index_at_intrinsic(typingctx: Any, address: Any) -> Any:
    """An address as a pointer to int64."""
    result: Any = _pointer(types.int64)
    signature = result(types.int64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(result))

    return signature, generate


_call: Any = intrinsic(_call_intrinsic)
_complex_at: Any = intrinsic(_complex_at_intrinsic)
_index_at: Any = intrinsic(_index_at_intrinsic)


@kernel
def _permute(source: int, target: int, index: int, argument: NDArray[np.int64], scatter: bool) -> None:
    """y[i, q] = x[index[i], q] (gather), or y[index[i], q] = conj(x[i, q]) (scatter), by addresses."""
    x, y, at = _complex_at(source), _complex_at(target), _index_at(index)
    # The pointers carry no type of their own, so strides are counted by hand: argument[2:4] for x, [4:6] for y.
    for i in range(argument[0]):
        j, k = (i, at[i]) if scatter else (at[i], i)
        for q in range(argument[1]):
            value = x[j * argument[2] + q * argument[3]]
            y[k * argument[4] + q * argument[5]] = value.conjugate() if scatter else value


@kernel
def _rader_sum(source: int, target: int, held: int, argument: NDArray[np.int64]) -> None:
    """Output 0 is input 0 and the sum of all others, which is held[0]; held[0] then carries input 0 to all outputs.

    What follows multiplies held[0] by -1 / (p - 1).
    """
    x, y, z = _complex_at(source), _complex_at(target), _complex_at(held)
    for q in range(argument[1]):
        # y before z changes: it needs the sum that z still holds.
        first = x[q * argument[2]]
        y[q * argument[3]] = first + z[q]
        z[q] -= argument[0] * first


@kernel
def run(
    x: NDArray[np.complex128], y: NDArray[np.complex128], state: NDArray[np.int64], code: NDArray[np.int64]
) -> None:
    """Run the instructions for each of the DFTs in x complex128 [B * N], to y of the same shape.

    Args:
        state: int64 [5], N and the addresses of scratch, of scratch that keeps its zeros, of factors and of indices.
        code: int64 [I, columns], see the columns above.

    Invariant: counter[:depth] are the turns of the loops around the current line, outermost first; begun[:depth] are
    the lines on which they begin.
    """
    size = state[0]
    base = np.empty(4, np.int64)  # addresses of the four memories, by number
    base[2], base[3] = state[1], state[2]
    counter = np.zeros(DEPTH, np.int64)
    begun = np.zeros(DEPTH, np.int64)
    lines, words = code.ctypes.data, code.shape[1]
    for number in range(len(x) // size):
        base[0] = x.ctypes.data + BYTES * size * number
        base[1] = y.ctypes.data + BYTES * size * number
        depth, line = 0, 0
        while line < len(code):
            operation = code[line, OPERATION]
            if operation == LOOP:
                counter[depth], begun[depth] = 0, line
                depth += 1
            elif operation == END:
                counter[depth - 1] += 1
                if counter[depth - 1] < code[begun[depth - 1], FUNCTION]:
                    # Back to the loop's first line; the increment below steps over the LOOP, which would begin anew.
                    line = begun[depth - 1]
                else:
                    depth -= 1
            else:
                # Every loop around moves input, output and factors by strides of its own.
                source, target, table = code[line, SOURCE_AT], code[line, TARGET_AT], code[line, TABLE_AT]
                for d in range(depth):
                    source += counter[d] * code[line, STRIDES + 3 * d]
                    target += counter[d] * code[line, STRIDES + 3 * d + 1]
                    table += counter[d] * code[line, STRIDES + 3 * d + 2]
                source = base[code[line, SOURCE]] + BYTES * source
                target = base[code[line, TARGET]] + BYTES * target
                # `table` counts in what the operation's table holds: factors, scratch or indices.
                argument = lines + 8 * (line * words + ARGUMENTS)
                if operation == CODELET:
                    _call(code[line, FUNCTION], source, target, state[3] + BYTES * table, argument)
                elif operation == RADER_SUM:
                    _rader_sum(source, target, base[2] + BYTES * table, code[line, ARGUMENTS:])
                else:
                    scatter = operation != GATHER
                    _permute(source, target, state[4] + 8 * table, code[line, ARGUMENTS:], scatter)
            line += 1
