"""A chip of the game: a fast memory that the compiler manages (CMEM), slow memory (HBM), and compute.

A chip file is TOML with the tables of `Chip`'s fields; `chips/tpuv4i.toml` is the example with all sources.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from hwsim.chip_file import ChipFiles, Count, Name, Rate, capacity

KIND, VERSION = "mmap-chip", 1
MAX_GRANULES = 2**24

_CONFIG = ConfigDict(extra="forbid")
Capacity = Annotated[int, Field(strict=True, ge=1, lt=2**48)]


@dataclass(frozen=True, config=_CONFIG)
class Cmem:
    """Fast memory: its capacity, the multiple at which buffers are placed, and bytes per second each way."""

    capacity_bytes: Capacity
    granule_bytes: Count
    read_Bps: Rate
    write_Bps: Rate


@dataclass(frozen=True, config=_CONFIG)
class Hbm:
    """Slow memory, large enough for everything: bytes per second of reads, writes and copies together."""

    bandwidth_Bps: Rate


@dataclass(frozen=True, config=_CONFIG)
class Compute:
    """Peak floating-point operations per second, and cycles per second where the compiler's estimates are used."""

    peak_flops: Rate
    clock_Hz: Rate | None = None


@dataclass(frozen=True, config=_CONFIG)
class Chip:
    """A chip of the memory mapping game."""

    name: Name
    cmem: Cmem
    hbm: Hbm
    compute: Compute

    @model_validator(mode="after")
    def _consistent(self) -> Chip:
        cmem = self.cmem
        if cmem.capacity_bytes % cmem.granule_bytes:
            raise ValueError(
                f"cmem.capacity_bytes: expected a multiple of granule_bytes ({cmem.granule_bytes}),"
                f" found {cmem.capacity_bytes}"
            )
        if cmem.capacity_bytes // cmem.granule_bytes > MAX_GRANULES:
            raise ValueError(
                f"cmem.granule_bytes: expected at least capacity_bytes / {MAX_GRANULES},"
                f" found {cmem.granule_bytes} for {cmem.capacity_bytes}"
            )
        for key, rate in (("read_Bps", cmem.read_Bps), ("write_Bps", cmem.write_Bps)):
            if rate < self.hbm.bandwidth_Bps:
                raise ValueError(
                    f"cmem.{key}: expected at least hbm.bandwidth_Bps ({self.hbm.bandwidth_Bps:g}),"
                    f" found {rate:g}: fast memory would slow the program down"
                )
        return self


def describe(chip: Chip) -> str:
    """A chip for people: capacity and bandwidths."""
    cmem = chip.cmem
    return (
        f"hbm at {chip.hbm.bandwidth_Bps / 1e9:g} GB/s, cmem {capacity(cmem.capacity_bytes)} at"
        f" {cmem.read_Bps / 1e9:g} (write {cmem.write_Bps / 1e9:g}) GB/s, {chip.compute.peak_flops / 1e12:g} TFLOP/s"
    )


FILES = ChipFiles(Chip, KIND, VERSION, "hwsim.mmap")
chip_names, load_chip, parse_chip, chip_file = FILES.names, FILES.load, FILES.parse, FILES.text_of
template = FILES.template
