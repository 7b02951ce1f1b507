"""An incumbent and its challengers: a challenger must be better in as many measurements as the incumbent has.

Source: incumbent and challengers in SMAC (Hutter, Hoos and Leyton-Brown, Sequential model-based
optimization for general algorithm configuration, 2011, procedure Intensify), here one measurement per generation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hwsim.measure import Measurement, Statistic

FAILED = (math.inf,)
"""The latency of what did not run."""


@dataclass
class Fresh:
    """A mapping that is measured again.

    Attributes:
        generation: the one at the end of which it was chosen.
        ticket: the evaluation that it is of.
        key: the mapping's digest.
        latency_s: the answer, one or more samples; none where it failed; None: it is not there yet.
    """

    generation: int
    ticket: int
    key: str
    latency_s: tuple[float, ...] | None = None


class Challenge:
    """The incumbent and its challengers, answer by answer.

    Attributes:
        samples: latencies by digest, `FAILED` where one measurement failed.
        incumbent, challenger: their last measurements; None where there is none.
        due: whether the incumbent is measured next, a challenge being over.
    """

    def __init__(self, statistic: Statistic, noise: float) -> None:
        """As latencies are taken of samples, and the relative noise of one."""
        self._statistic, self._noise = statistic, noise
        self.samples: dict[str, tuple[float, ...]] = {}
        self.incumbent: Fresh | None = None
        self.challenger: Fresh | None = None
        self.due = False

    @property
    def confirmed(self) -> Measurement | None:
        """The incumbent's fresh measurements."""
        return None if self.incumbent is None else self._of(self.incumbent)

    def _of(self, fresh: Fresh) -> Measurement:
        return Measurement(self.samples[fresh.key], self._statistic, self._noise)

    def run(self, fresh: Fresh) -> None:
        """Take an answer in."""
        failed = not fresh.latency_s or self.samples.get(fresh.key) == FAILED
        taken = FAILED if failed else self.samples.get(fresh.key, ()) + (fresh.latency_s or ())
        self.samples[fresh.key] = taken
        self.due = False
        if self.incumbent is None or fresh.key == self.incumbent.key:
            self.incumbent = None if failed else fresh
            return
        out = failed or self._of(fresh).value > self._of(self.incumbent).value
        if not out and len(taken) >= len(self.samples[self.incumbent.key]):
            self.incumbent = fresh
        self.due = out or self.incumbent is fresh
        self.challenger = None if self.due else fresh
