"""What holds for every test, those of plug-ins too."""

import contextlib
import functools
import gc
import os
from typing import Any

# As many processes of tests run as there are cores, and each would wait for the others' threads; and PyTorch would
# start a process per core that compiles. Before libraries are loaded, which look at this once.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), "1")

import pytest
from hypothesis import HealthCheck, settings

from egrl.runs import progress

# A loaded machine must not fail a property: no deadlines, no complaints about slow draws.
settings.register_profile("egrl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make test` draws fewer examples than `make test-all` each time, and other ones every time.
settings.register_profile("egrl", settings.get_profile("egrl"), max_examples=10)
settings.register_profile("quick", settings.get_profile("egrl"), max_examples=6)
settings.register_profile("all", settings.get_profile("egrl"), max_examples=200)
settings.load_profile("egrl")

# Nor change what is said: nothing is announced as slow (test_progress.py sets its own limit).
progress.SLOW_SECONDS = 1e6


@functools.wraps(progress.compiling)
def _as_if_compiled(quiet: bool) -> contextlib.AbstractContextManager[None]:
    """Nor is anybody told that kernels are compiled, which hangs on what ran before (test_progress.py asks for it)."""
    return contextlib.nullcontext()


progress.compiling = _as_if_compiled

# A test cannot pull the plug, so that waiting for the disk, which is a sixth of their time, shows nothing. Processes
# that tests start do wait; who tests the calls replaces them (`runs/killing.py`, `test_checkpoint.py`).
os.fsync = lambda handle: None

gc.disable()  # what tests load stays (`pytest_collection_finish`)


def pytest_collection_finish() -> None:
    """What was loaded so far stays, and is not looked through again; for what tests make, garbage is looked for seldom.

    Looking takes a sixth of their time as Python has it (after 700 new things); with 50,000 they take 4 % more memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See `groups.py`; xdist is told to keep the order (`--no-loadscope-reorder` in the Makefile)."""
    from groups import longest_first

    longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadscope` groups go to one process each, as `groups.py` has them."""
    if config.getvalue("dist") != "loadscope":
        return None
    from groups import Groups

    return Groups(config, log)
