"""The fastest plans of a run, measured again in turn; the winner is remembered as wisdom."""

from __future__ import annotations

import numpy as np

from egrl_fft.default import default_plan
from egrl_fft.derivation import PlanGraph
from hwsim.capabilities import Race
from hwsim.problem import Floats, Mapping16
from workloads.errors import InputError


class PlanRace(Race):
    """Plans for DFTs of one size (`Race` of hwsim/capabilities.py)."""

    def __init__(self, size: int, derivation: PlanGraph) -> None:
        self._size, self._derivation = size, derivation

    def costs(self, mapping: Mapping16) -> Floats:
        """Seconds [B] of a DFT by the plans of mappings [B, N, 1], measured in turn."""
        from egrl_fft import measured

        return np.array(measured.race([self._derivation.decode(row) for row in mapping]))

    def known(self) -> Mapping16 | None:
        """The plan int16 [N, 1] that wisdom has; None if there is none, or one that the grammar does not propose."""
        from egrl_fft import wisdom

        found = wisdom.known().get(self._size)
        try:
            return None if found is None else self._derivation.encode(found.plan)
        except InputError:
            return None

    def remember(self, mapping: Mapping16, cost: float) -> str:
        """Keep the plan of one mapping [N, 1], which won a race, as wisdom for `egrl_fft.plan`."""
        from egrl_fft import wisdom

        plan = self._derivation.decode(mapping)
        try:
            found = wisdom.remember(plan, cost, raced=True)
        except InputError as error:
            return f"the fastest plan is not kept as wisdom: {error}"
        moved = "" if found.aside is None else f"; what could not be used is kept as {found.aside}"
        same = plan == (found.before or default_plan(plan.size))
        takes = f"keeps {plan}" if same else f"takes {plan} from now on"
        return f"egrl_fft.plan({plan.size}) {takes} (wisdom: {wisdom.path()}{moved})"
