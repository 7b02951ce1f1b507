"""A multi-chip module: equal chips on a uni-directional ring, and the rules that a partition must keep.

Source: "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules", section 3. A package
file is TOML with the tables of `Package`'s fields; `packages/mcm36.toml` is the example with all sources.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from hwsim.chip_file import ChipFiles, Name, Prediction, Rate, capacity

KIND, VERSION = "mcm-package", 1
MAX_CHIPS = 62
"""Domains are sets of chips in the bits of an int64."""

_CONFIG = ConfigDict(extra="forbid")
Chips = Annotated[int, Field(strict=True, ge=1, le=MAX_CHIPS)]
Switch = Annotated[bool, Field(strict=True)]
HopSeconds = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
MAX_SRAM = 2**48
"""Bytes of a chip."""
SolverBytes = Annotated[int, Field(strict=True, ge=1, le=MAX_SRAM)]


@dataclass(frozen=True, config=_CONFIG)
class Chip:
    """One of the equal chips: bytes of SRAM, and peak operations per second (two per multiply-accumulate)."""

    sram_bytes: SolverBytes
    peak_ops: Rate


@dataclass(frozen=True, config=_CONFIG)
class Link:
    """The link of a chip to the next: bytes per second, and seconds per hop."""

    bandwidth_Bps: Rate
    hop_s: HopSeconds


@dataclass(frozen=True, config=_CONFIG)
class Device:
    """Numbers that only the device model needs (`hwsim/mcm/device.py`).

    `launch_s` is the seconds before each node starts, `sram_Bps` the bytes per second that a chip's SRAM reads and
    writes. The defaults are assumptions: no public source gives them.
    """

    launch_s: HopSeconds = 1e-6
    sram_Bps: Rate = 200e9


@dataclass(frozen=True, config=_CONFIG)
class Constraints:
    """The rules that hold (`docs/explanations/mcm.md` has their exact meaning)."""

    acyclic: Switch = True
    no_skip: Switch = True
    triangle: Switch = True
    memory: Switch = True


@dataclass(frozen=True, config=_CONFIG)
class Package:
    """A multi-chip module.

    `load` says what the busy time of a chip counts. "compute": its nodes; links work beside it and have busy times of
    their own. "compute+transfers": also what it sends and receives, each tensor once per chip.
    """

    name: Name
    chips: Chips
    chip: Chip
    link: Link
    constraints: Constraints
    load: Literal["compute", "compute+transfers"]
    device: Device = field(default_factory=Device)
    prediction: Prediction = field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Package:
        if self.constraints.triangle and not self.constraints.acyclic:
            raise ValueError(
                "constraints.triangle: expected acyclic = true with it (longest paths need a graph without cycles),"
                " found acyclic = false"
            )
        return self


def describe(package: Package) -> str:
    """A package for people: chips, SRAM, links and rules."""
    rules = [
        name for name in ("acyclic", "no_skip", "triangle", "memory") if getattr(package.constraints, name)
    ]
    return (
        f"{package.chips} chips of {capacity(package.chip.sram_bytes)}, links of"
        f" {package.link.bandwidth_Bps / 1e9:g} GB/s, {', '.join(rules) or 'no rules'}"
    )


FILES = ChipFiles(Package, KIND, VERSION, "hwsim.mcm", "packages")
package_names, load_package, parse_package, package_file = FILES.names, FILES.load, FILES.parse, FILES.text_of
template = FILES.template
