"""A chip: memories from slowest to fastest, compute engines, overheads, and the effects that are modelled.

A chip file is TOML with the tables of `Chip`'s fields; `chips/nnpi.toml` is the example with all sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from hwsim.chip_file import ChipFiles, Count, Name, Part, Prediction, Rate, capacity
from workloads.nearest import one_of
from workloads.workload import KINDS

KIND, VERSION = "chip", 1

Seconds = Annotated[float, Field(strict=True, gt=0, le=1e3, allow_inf_nan=False)]
Width = Annotated[float, Field(strict=True, ge=1 / 64, le=64, allow_inf_nan=False)]
Sigma = Annotated[float, Field(strict=True, gt=0, le=2, allow_inf_nan=False)]
Factor = Annotated[float, Field(strict=True, ge=1 / 64, le=64, allow_inf_nan=False)]
Switch = Annotated[bool, Field(strict=True)]

_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_CONFIG)
class Memory:
    """One memory: the bytes that it holds, and the bytes per second that it reads and writes together.

    Attributes:
        reserved_bytes: bytes at its end that the runtime keeps for itself: no tensor may lie there.
    """

    name: Name
    capacity_bytes: Count
    bandwidth_Bps: Rate
    reserved_bytes: Part = 0

    @model_validator(mode="after")
    def _has_room(self) -> Memory:
        if self.reserved_bytes >= self.capacity_bytes:
            raise ValueError(
                f"memories ({self.name}).reserved_bytes: expected less than capacity_bytes, {self.capacity_bytes},"
                f" found {self.reserved_bytes}"
            )
        return self

    @property
    def available_bytes(self) -> int:
        """Bytes that tensors may take."""
        return self.capacity_bytes - self.reserved_bytes


@dataclass(frozen=True, config=_CONFIG)
class Compute:
    """The engines: `ices` of them, each with a multiply-accumulate grid and a vector unit.

    In one cycle a grid takes mac_rows output pixels x mac_cols output channels x mac_depth steps of the
    reduction, and a vector unit does dsp_lanes element operations.
    """

    ices: Count
    mac_rows: Count
    mac_cols: Count
    mac_depth: Count
    clock_Hz: Rate
    dsp_lanes: Count


@dataclass(frozen=True, config=_CONFIG)
class Overhead:
    """Seconds that every op costs, whatever it does."""

    launch_s: Seconds


@dataclass(frozen=True, config=_CONFIG)
class ElementWidths:
    """Bytes per element of the numbers in which the chip computes."""

    weight: Width
    activation: Width


@dataclass(frozen=True, config=_CONFIG)
class Prefetch:
    """Weights in the slowest memory are prefetched into memory `into`; its traffic crosses memory `via`."""

    into: Name
    via: Name


@dataclass(frozen=True, config=_CONFIG)
class Noise:
    """Standard deviation of the logarithm of a measured latency."""

    sigma: Sigma


@dataclass(frozen=True, config=_CONFIG)
class Effects:
    """The effects that the simulation counts, each with a switch (equations: docs/explanations/nnpi.md)."""

    cross: Switch = True
    prefetch: Switch = True
    contention: Switch = True
    moves: Switch = True
    overhead: Switch = True
    noise: Switch = False


@dataclass(frozen=True, config=_CONFIG)
class Factors:
    """Factors on whole kinds of op, from measurements: kind -> factor; a kind that is missing has factor 1.

    Attributes:
        compute: on the compute time of an op, if the workload has no measured latency for it.
        traffic: on the bytes that an op moves when it reads its weight, and when its activation is written and read.
            The room that a tensor takes in a memory stays the same.
    """

    compute: Mapping[str, Factor] = field(default_factory=dict)
    traffic: Mapping[str, Factor] = field(default_factory=dict)

    @model_validator(mode="after")
    def _of_kinds(self) -> Factors:
        for table, factors in (("compute", self.compute), ("traffic", self.traffic)):
            for kind in factors:
                if kind not in KINDS:
                    raise ValueError(f"factors.{table}: {one_of(kind, KINDS)}")
        return self


@dataclass(frozen=True, config=_CONFIG)
class Chip:
    """A chip. It has 2 to 8 `memories`, slowest first; choice number m of a mapping is memories[m]."""

    name: Name
    memories: Annotated[tuple[Memory, ...], Field(min_length=2, max_length=8)]
    compute: Compute
    overhead: Overhead
    element_bytes: ElementWidths
    prefetch: Prefetch
    noise: Noise
    effects: Effects
    factors: Factors = field(default_factory=Factors)
    prediction: Prediction = field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Chip:
        names = self.memory_names
        for slower, faster in zip(self.memories, self.memories[1:], strict=False):
            if faster.bandwidth_Bps < slower.bandwidth_Bps:
                raise ValueError(
                    "memories: expected bandwidth_Bps that does not fall from first (slowest) to last, found "
                    f"{slower.name} {slower.bandwidth_Bps:g} before {faster.name} {faster.bandwidth_Bps:g}"
                )
        if len(set(names)) < len(names):
            raise ValueError(f"memories: expected different names, found {', '.join(names)}")
        slowest, faster_ones = names[0], ", ".join(names[1:])
        for key, name, purpose in (
            ("into", self.prefetch.into, f"the memory that weights lying in {slowest} are prefetched into"),
            ("via", self.prefetch.via, f"the memory that all traffic of {slowest} crosses"),
        ):
            if name not in names[1:]:
                what = "which is the slowest" if name == slowest else "which this chip does not have"
                raise ValueError(
                    f"prefetch.{key}: expected {purpose}, one of this chip's memories other than its slowest "
                    f"({faster_ones}), found {name!r}, {what}"
                )
        return self

    @property
    def memory_names(self) -> tuple[str, ...]:
        """Names of the memories, slowest first."""
        return tuple(memory.name for memory in self.memories)


def describe(chip: Chip) -> str:
    """A chip's memories from slowest to fastest, for people: name, bytes that tensors may take, bandwidth."""
    return ", ".join(
        f"{memory.name} {capacity(memory.available_bytes)} at {memory.bandwidth_Bps / 1e9:g} GB/s"
        for memory in chip.memories
    )


FILES = ChipFiles(Chip, KIND, VERSION, "hwsim.nnpi")
chip_names, load_chip, parse_chip, chip_file = FILES.names, FILES.load, FILES.parse, FILES.text_of
