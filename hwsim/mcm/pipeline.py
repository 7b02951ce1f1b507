"""The chips of a package as stages of a pipeline, in which no edge may lead back to an earlier chip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.cost import Tables
from hwsim.mcm.device import DeviceTables, run
from hwsim.mcm.package import Package
from hwsim.stages import Pipeline, fullness


def pipeline_of(tables: Tables, package: Package, device: DeviceTables | None) -> Pipeline:
    """Seconds of computing of the nodes, and their edges; `device` where the device model judges, else None.

    With the triangle rule an edge may skip chips only if no other path leads over them.
    """
    sram_bytes = package.chip.sram_bytes if package.constraints.memory else 0
    return Pipeline(
        tables.compute_s,
        np.ascontiguousarray(tables.edges.T),
        tables.weight_bytes / sram_bytes if sram_bytes else None,
        1 if package.constraints.triangle else None,
        ChipGauge(tables, device, sram_bytes),
    )


@dataclass(frozen=True)
class ChipGauge:
    """The times and the bytes of chips (`Gauge` of hwsim/stages.py).

    With the analytical model by computing alone, whatever else its cost counts.

    Attributes:
        tables: of the analytical model.
        device: the device model's; None: the analytical model judges.
        sram_bytes: of a chip; 0 if memory is not limited.
    """

    tables: Tables
    device: DeviceTables | None
    sram_bytes: int

    def __call__(
        self, stage: NDArray[np.int16], stages: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Seconds [B, C] that each chip is busy, and the share [B, C] of its memory that it needs."""
        if self.device is None:
            busy = fullness(stage, self.tables.compute_s, stages)
            held = fullness(stage, self.tables.weight_bytes.astype(np.float64), stages)
        else:
            ran = run(self.device, stage)
            busy, held = ran.chip_s, ran.peak_bytes.astype(np.float64)
        return busy, held / self.sram_bytes if self.sram_bytes else None
