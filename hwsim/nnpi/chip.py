"""A chip: memories from slowest to fastest, compute engines, overheads, and the effects that are modelled.

A chip file is TOML with the tables of `Chip`'s fields; `chips/nnpi.toml` is the example with all sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from hwsim.chip_file import ChipFiles, Count, Name, Part, Prediction, Rate, capacity
from workloads.text import one_of
from workloads.workload import KINDS

KIND, VERSION = "chip", 1

Seconds = Annotated[float, Field(strict=True, gt=0, le=1e3, allow_inf_nan=False)]
Start = Annotated[float, Field(strict=True, ge=0, le=1e3, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Width = Annotated[float, Field(strict=True, ge=1 / 64, le=64, allow_inf_nan=False)]
Sigma = Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)]
Factor = Annotated[float, Field(strict=True, ge=1 / 64, le=64, allow_inf_nan=False)]
Switch = Annotated[bool, Field(strict=True)]

_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_CONFIG)
class Memory:
    """One memory: the bytes that it holds, and the bytes per second that it reads and writes together.

    Attributes:
        reserved_bytes: bytes at its end that the runtime keeps for itself: no tensor may lie there.
        access_s: seconds to start a transfer, of each tensor that an op reads from it or writes to it.
    """

    name: Name
    capacity_bytes: Count
    bandwidth_Bps: Rate
    reserved_bytes: Part = 0
    access_s: Start = 0.0

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
class Waiting:
    """What of an op does not run at the same time. At 0 everything does, at 1 nothing.

    Attributes:
        serial: share of the shorter of computing and transfers that waits for the longer.
        shared: share of the transfers of all other memories that waits for the longest: 1 is one DMA channel, or one
            port, for all.
    """

    serial: Share = 0.0
    shared: Share = 0.0


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
    """A chip. It has 2 to 8 `memories`, slowest first; choice number m of a mapping is memories[m].

    `pins` are of tensors of any network on it (`hwsim.pins`): WHAT -> WHERE.
    """

    name: Name
    memories: Annotated[tuple[Memory, ...], Field(min_length=2, max_length=8)]
    compute: Compute
    overhead: Overhead
    element_bytes: ElementWidths
    prefetch: Prefetch
    noise: Noise
    effects: Effects
    waiting: Waiting = field(default_factory=Waiting)
    factors: Factors = field(default_factory=Factors)
    pins: Mapping[str, str | int] = field(default_factory=dict)
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


BANDWIDTH, CAPACITY, CLOCK = 1.0, 1.5, 1.5
"""Largest logarithms to base 2 of the factors by which a chip's bandwidths, capacities and clock are changed."""


def spread(memories: int) -> np.ndarray:
    """Those of the factors of a chip with so many memories, float64 [2 L]: bandwidths, capacities but one, clock."""
    return np.array([BANDWIDTH] * memories + [CAPACITY] * (memories - 1) + [CLOCK])


def chip_with(chip: Chip, factors: Sequence[float], name: str = "") -> Chip:
    """A chip whose bandwidths, capacities but that of the slowest memory, and clock are times 2^factor.

    Bandwidths stay in order. Raises ValueError unless there are 2 L factors.
    """
    count = len(chip.memories)
    if len(factors) != 2 * count:
        raise ValueError(f"factors: expected {2 * count}, received {len(factors)}")
    times = [2.0**factor for factor in factors]
    bandwidths = sorted(m.bandwidth_Bps * by for m, by in zip(chip.memories, times[:count], strict=True))
    capacities = [
        int(m.capacity_bytes * by) for m, by in zip(chip.memories, [1.0, *times[count:-1]], strict=True)
    ]
    memories = tuple(
        replace(memory, bandwidth_Bps=Bps, capacity_bytes=max(capacity, memory.reserved_bytes + 1))
        for memory, Bps, capacity in zip(chip.memories, bandwidths, capacities, strict=True)
    )
    compute = replace(chip.compute, clock_Hz=chip.compute.clock_Hz * times[-1])
    return replace(chip, name=name or chip.name, memories=memories, compute=compute)


def chip_around(chip: Chip, rng: np.random.Generator, name: str = "") -> Chip:
    """A chip whose factors are drawn evenly."""
    largest = spread(len(chip.memories))
    return chip_with(chip, rng.uniform(-largest, largest).round(4).tolist(), name)


_COMPUTE = {
    "ices": "engines that work together on every op",
    "mac_rows": "output pixels an engine takes in a cycle",
    "mac_cols": "output channels an engine takes in a cycle",
    "mac_depth": "steps of the reduction an engine takes in a cycle",
    "clock_Hz": "of the engines",
    "dsp_lanes": "element operations an engine's vector unit does in a cycle",
}
_EFFECTS = {
    "cross": "the slowest memory's traffic also crosses prefetch.via",
    "prefetch": "weights in the slowest memory are fetched ahead of time",
    "contention": "what is fetched ahead uses no more than the op that runs leaves idle",
    "moves": "what is read or written outside crosses the slowest memory; views move nothing",
    "overhead": "launch_s an op",
    "noise": "measurements vary by noise.sigma",
}

_WAITING = {
    "serial": "of the shorter of computing and transfers",
    "shared": "of the transfers of other memories; 1: one DMA channel for all",
}

_FACTORS = {
    "compute": "On the compute time of every op of a kind; 1 where a kind is not named.",
    "traffic": "On the bytes that reads and writes of its tensors move; what they hold of a memory stays.",
}


def template(chip: Chip, name: str, notes: Mapping[str, str] | None = None) -> str:
    """TOML text with the chip's values under another name, a comment on each; `parse_chip` reads it back.

    `notes` are other comments, by where the value stands: "memories.dram.bandwidth_Bps", "factors.compute.conv".
    """
    given = notes or {}

    def line(where: str, value: str, why: str) -> str:
        return _line(where.rsplit(".", 1)[-1], value, given.get(where, why))

    lines = [
        given.get(
            "", f"# A chip like {chip.name}: change what differs (docs/explanations/nnpi.md: equations)."
        ),
        'kind = "chip"',
        "version = 1",
        line("name", f'"{name}"', f"how summaries, tables and figures name the chip{_generic(name)}"),
        "",
        "# 2 to 8 memories, the slowest (and largest) first. Choice 0 of a mapping is the first one.",
    ]
    for memory in chip.memories:
        of = f"memories.{memory.name}"
        rate = _rate(memory.bandwidth_Bps)
        lines += [
            "[[memories]]",
            f'name = "{memory.name}"',
            line(f"{of}.capacity_bytes", f"{memory.capacity_bytes:_}", "bytes it holds"),
            line(
                f"{of}.reserved_bytes",
                f"{memory.reserved_bytes:_}",
                "of these, what the runtime keeps for itself",
            ),
            line(f"{of}.bandwidth_Bps", rate, "bytes a second, reads and writes together"),
            line(f"{of}.access_s", repr(memory.access_s), "seconds to start each transfer of an op"),
            "",
        ]
    lines += ["[compute]"]
    for key, why in _COMPUTE.items():
        value = getattr(chip.compute, key)
        lines.append(line(f"compute.{key}", _rate(value) if key == "clock_Hz" else str(value), why))
    widths, prefetch = chip.element_bytes, chip.prefetch
    lines += [
        "",
        "[overhead]",
        line("overhead.launch_s", repr(chip.overhead.launch_s), "seconds every op costs whatever it does"),
        "",
        "[element_bytes]",
        line("weight", repr(widths.weight), "bytes an element: 1 is int8, 2 bfloat16, 0.5 int4"),
        line("activation", repr(widths.activation), "likewise"),
        "",
        "# Both name memories above, any but the first; with two memories both are the second.",
        "[prefetch]",
        line("into", f'"{prefetch.into}"', "where weights of the slowest memory are fetched to"),
        line(
            "via", f'"{prefetch.via}"', "with effects.cross: what all traffic of the slowest memory crosses"
        ),
        "",
        "[noise]",
        line("noise.sigma", repr(chip.noise.sigma), "of the logarithm of a measured latency"),
        "",
        "# What the simulation counts.",
        "[effects]",
    ]
    lines += [
        line(f"effects.{key}", str(getattr(chip.effects, key)).lower(), why) for key, why in _EFFECTS.items()
    ]
    lines += ["", "# What of an op does not run at the same time: 0 all does, 1 nothing.", "[waiting]"]
    lines += [line(f"waiting.{key}", repr(getattr(chip.waiting, key)), why) for key, why in _WAITING.items()]
    lines += _factors(chip, given)
    if chip.pins:
        lines += ["", "# Tensors that stay where they are, and bytes that stay free.", "[pins]"]
        lines += [_line(json.dumps(what), json.dumps(where), "") for what, where in chip.pins.items()]
    return "\n".join(lines) + "\n"


def _generic(name: str) -> str:
    return "; CHANGE IT: every chip is called so" if name == "chip" else ""


def _factors(chip: Chip, notes: Mapping[str, str]) -> list[str]:
    """The tables of factors that the chip has."""
    lines = []
    for table, why in _FACTORS.items():
        factors = getattr(chip.factors, table)
        if factors:
            lines += ["", f"# {why}", f"[factors.{table}]"]
            lines += [
                _line(kind, repr(factor), notes.get(f"factors.{table}.{kind}", ""))
                for kind, factor in factors.items()
            ]
    return lines


def _rate(value: float) -> str:
    """A number of the order of 1e9, exactly."""
    billions = f"{value / 1e9:g}e9"
    return billions if float(billions) == value else repr(float(value))


def _line(key: str, value: str, why: str) -> str:
    return f"{key} = {value}".ljust(36) + f" # {why}" if why else f"{key} = {value}"
