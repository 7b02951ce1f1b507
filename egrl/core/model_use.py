"""What a method computes with the problem's own simulator beside its evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class ModelUse:
    """A counter that goes with a run's context; whoever asks the simulator beside the loop counts it here.

    Attributes:
        calls: complete plans scored; of a plan that is replayed from some decision on, the share that is. A solver's
            own steps are no calls: of a solve there are the seconds.
        seconds: wall time that this took, without compiling kernels.
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
