"""What a training device is: how much memory a step may take, and how fast values could go to the host and back.

A device file is TOML with the fields of `Device`; `devices/half.toml` is an example.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from hwsim.chip_file import ChipFiles, Name, Prediction, capacity

KIND, VERSION = "training-device", 1
MAX_BYTES = 2**60
_CONFIG = ConfigDict(extra="forbid")
Bytes = Annotated[int, Field(strict=True, ge=0, lt=MAX_BYTES)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
HostRate = Annotated[float, Field(strict=True, ge=0, le=1e18, allow_inf_nan=False)]
CopySeconds = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
LEAST_COPY_S = 1e-5
"""A GPU takes about as long to begin a copy (assumption)."""
Factor = Annotated[float, Field(strict=True, ge=1e-6, le=1e6, allow_inf_nan=False)]


@dataclass(frozen=True, config=_CONFIG)
class Device:
    """The memory that a training step may take: bytes, or a share of the peak of keeping everything.

    `seconds` and `again` have factors by kind of op, 1 for kinds that they do not name: on its seconds, and further
    on those of a second run. The latter is below 1 where a compiler fuses what is computed again into what reads it.
    `to_host_Bps` and `from_host_Bps` are bytes per second between device and host, each way at the same time as the
    other and as ops. With both above 0 a value may also be kept in the memory of the host; with both 0 it may not. What
    is copied in less than `least_copy_s` stays on the device, since launching a copy takes time, too.
    """

    name: Name
    memory_bytes: Bytes = 0
    memory_fraction: Share = 0.0
    to_host_Bps: HostRate = 0.0
    from_host_Bps: HostRate = 0.0
    least_copy_s: CopySeconds = LEAST_COPY_S
    seconds: dict[str, Factor] = field(default_factory=dict)
    again: dict[str, Factor] = field(default_factory=dict)
    prediction: Prediction = field(default_factory=dict)

    @model_validator(mode="after")
    def _one_limit(self) -> Device:
        if (self.memory_bytes > 0) == (self.memory_fraction > 0):
            raise ValueError(
                "memory_bytes, memory_fraction: expected one of them above 0, found"
                f" {self.memory_bytes} and {self.memory_fraction:g}"
            )
        return self

    @model_validator(mode="after")
    def _both_ways(self) -> Device:
        rates = self.to_host_Bps, self.from_host_Bps
        if min(rates) < 1 and max(rates) > 0:
            raise ValueError(
                "to_host_Bps, from_host_Bps: expected both 0 or both at least 1, found"
                f" {rates[0]:g} and {rates[1]:g}"
            )
        return self


def describe(device: Device) -> str:
    """A device for people."""
    if device.memory_bytes:
        return f"{capacity(device.memory_bytes)} for a training step"
    return f"{device.memory_fraction:.0%} of the memory that keeping every value takes"


FILES = ChipFiles(Device, KIND, VERSION, "egrl_training.simulator", "devices")
device_names, load_device, parse_device, device_file = FILES.names, FILES.load, FILES.parse, FILES.text_of
template = FILES.template
