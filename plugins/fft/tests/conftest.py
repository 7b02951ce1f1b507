"""No test learns plans into the user's own wisdom; and codelets that are compiled without optimisation, ten times as
quickly.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from egrl_fft import codelets

# Nor does any search with what is there.
_wisdom = tempfile.TemporaryDirectory(prefix="egrl-wisdom-")  # removed when the tests end
os.environ["EGRL_FFT_WISDOM"] = str(Path(_wisdom.name) / "wisdom.json")


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
