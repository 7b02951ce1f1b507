"""Codelets: DFTs of small sizes over vectors of problems, as machine code generated when a plan first needs them.

A codelet is a function of addresses and strides. It does `count` DFTs of its size side by side (the inner loop, in
SIMD lanes), and that `outer` times, and may multiply its inputs or its outputs by twiddle factors:

    for o in range(outer): for v in range(count):
        y[k*os + v*ov + o*oo] = DFT over j of x[j*is + v*iv + o*oi]

Source: FFTW's codelets (Frigo and Johnson: The design and implementation of FFTW3, 2005, sections III and IV); their
operations are those of `egrl_fft/symbols.py`, their text is that of `egrl_fft/assembly.py`.

Deviations: they are LLVM's intermediate language with explicit vectors, compiled by llvmlite (numba's own back
end), and not Python for numba to compile: numba cannot be given that input and output do not overlap, without
which the loops are not vectorised, nor compile a DFT of 32 in less than seconds (here it is tens of milliseconds to
half a second). What was compiled is kept in the user's cache folder (`egrl_fft/cache.py`). Numbers are complex128 in
memory, and apart (real parts in one register, imaginary in another) in registers. Size 1 is a copy, or a
multiplication by a table.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from typing import Any

from egrl_fft import cache
from egrl_fft.assembly import assembly
from egrl_fft.instructions import Kind
from hwsim.kernel_cache import lanes

OPTIMISATION = 2
_ENGINES: list[Any] = []
_spent_s: list[float] = []


@functools.cache
def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=OPTIMISATION,
        codemodel="jitdefault",
    )


@functools.cache
def address(kind: Kind) -> int:
    """Where the machine code of a codelet lies, in this process; made or read at the first call."""
    import llvmlite.binding as llvm

    begun = time.perf_counter()
    machine, text = _machine(), assembly(kind, lanes())
    digest = _digest(text)
    data = cache.codelet(digest)
    if data is None:
        module = llvm.parse_assembly(text)
        module.verify()
        data = machine.emit_object(module)
        cache.keep_codelet(digest, data)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    _ENGINES.append(engine)
    _spent_s.append(time.perf_counter() - begun)
    return int(engine.get_function_address(kind.name))


def _digest(text: str) -> str:
    """Of all that machine code follows from."""
    import llvmlite
    import llvmlite.binding as llvm

    host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), OPTIMISATION
    made_by = llvmlite.__version__, *llvm.llvm_version_info
    return hashlib.sha256(repr((made_by, host, text)).encode()).hexdigest()


def made() -> int:
    """How many codelets this process has made or read."""
    return len(_spent_s)


def spent_s() -> float:
    """Seconds that this process has spent on making codelets."""
    return math.fsum(_spent_s)
