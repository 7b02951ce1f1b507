"""Which machine this is: the name of its processor, and how wide its registers are."""

from __future__ import annotations

import functools
import hashlib


@functools.cache
def lanes() -> int:
    """Numbers of float64 in a SIMD register of this machine: 8, 4 or 2."""
    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    return 8 if features.get("avx512f") else 4 if features.get("avx") else 2


@functools.cache
def machine_name() -> str:
    """Processor, lanes and a digest of its features: "znver5, 8 lanes, 1a2b3c4d"."""
    import llvmlite.binding as llvm

    features = hashlib.sha256(str(llvm.get_host_cpu_features().flatten()).encode()).hexdigest()[:8]
    return f"{llvm.get_host_cpu_name()}, {lanes()} lanes, {features}"
