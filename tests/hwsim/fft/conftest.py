"""Codelets compiled without optimisation: the same text, ten times as quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hwsim.fft import codelets


@pytest.fixture(scope="module")
def quick_codelets() -> Iterator[None]:
    import llvmlite.binding as llvm

    codelets._machine()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=0,
        codemodel="jitdefault",
    )
    codelets.address.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codelets, "_machine", lambda: machine)
        patch.setattr(codelets, "OPTIMISATION", 0)
        yield
    codelets.address.cache_clear()
