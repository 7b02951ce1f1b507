"""What a method computes with the problem's own simulator in addition to its evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class ModelUse:
    """A counter in a run's context: code that calls the simulator outside the loop adds its calls here.

    Attributes:
        calls: complete plans scored. A plan that is replayed from some decision on counts as the share that is
            replayed. A solver's own steps do not count: for a solve only `seconds` are counted.
        seconds: wall time of all this, without the compiling of kernels.
    """

    calls: float = 0.0
    seconds: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of a block."""
        from hwsim.jit import clock  # numba is slow to import, and a method without a model needs none of it

        begun = clock()
        try:
            yield
        finally:
            self.seconds += clock() - begun
