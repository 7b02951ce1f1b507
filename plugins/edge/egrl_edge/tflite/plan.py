"""Addresses in the arena of TensorFlow Lite Micro, packed here instead of by its greedy planner on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from egrl_edge.tflite.model_file import RUNTIME, TfliteModel, plan_of, with_plan
from hwsim.allocation.buffers import Buffer, Packing, arrays, live
from hwsim.allocation.judge import judge
from hwsim.allocation.pack import pack
from workloads.errors import InputError
from workloads.files import MAX_BYTES

ALIGN_BYTES = 16
"""Alignment of the arena's tensors (`MicroArenaBufferAlignment`)."""


@dataclass(frozen=True)
class ArenaPlan:
    """Where the tensors of a model lie in the arena.

    Attributes:
        model: the model.
        align_bytes: every offset is a multiple of it, and sizes are rounded up to it.
        packing: the offsets, in the order of `model.arena`.
        lowest_bytes: the rounded sizes that live at the fullest step: no plan is lower.
    """

    model: TfliteModel
    align_bytes: int
    packing: Packing
    lowest_bytes: int

    @property
    def height_bytes(self) -> int:
        """How much of the arena the planned tensors take, rounded up."""
        return -(-self.packing.height_bytes // self.align_bytes) * self.align_bytes

    @property
    def proved(self) -> bool:
        """Whether no plan is lower, since the fullest step needs as much."""
        return self.height_bytes == self.lowest_bytes

    def document(self) -> dict[str, Any]:
        """The plan as an object for JSON, a row per planned tensor."""
        rows = zip(self.model.arena, self.packing.offsets, strict=True)
        return {
            "kind": "arena-plan",
            "version": 1,
            "align_bytes": self.align_bytes,
            "height_bytes": self.height_bytes,
            "lowest_bytes": self.lowest_bytes,
            "left_to_the_runtime": self.model.left,
            "tensors": [
                {
                    "tensor": tensor.number,
                    "name": tensor.name,
                    "size_bytes": tensor.size_bytes,
                    "first_step": tensor.first,
                    "last_step": tensor.last,
                    "offset_bytes": offset,
                }
                for tensor, offset in rows
            ],
        }

    def written(self) -> bytes:
        """A copy of the model that has the plan, read back. InputError if it is too large for a .tflite file."""
        offsets = [RUNTIME] * self.model.tensors
        for tensor, offset in zip(self.model.arena, self.packing.offsets, strict=True):
            offsets[tensor.number] = offset
        data = with_plan(self.model, offsets)
        if plan_of(data) != offsets:
            raise RuntimeError("the plan that was written reads otherwise")
        return data


def plan(model: TfliteModel, align_bytes: int, time_limit_s: float, seed: int) -> ArenaPlan:
    """The lowest plan that is found within `time_limit_s`.

    Raises:
        InputError: the tensors need an arena that offsets of 32 bits do not reach.
        RuntimeError: the judge refuses the plan.
    """
    buffers = [Buffer(t.name, t.size_bytes, t.first, t.last + 1) for t in model.arena]
    first, end, size = arrays(buffers)
    rounded = -(-size // align_bytes) * align_bytes
    lowest = live(first, end, np.ascontiguousarray(rounded))
    packing = pack(buffers, lowest, align_bytes, time_limit_s, seed)
    if packing.height_bytes >= MAX_BYTES:
        found = packing.height_bytes
        raise InputError(f"expected a model with an arena of less than 2 GiB, found one of {found:,} bytes")
    lives = [(b.name, b.size_bytes, b.first, b.end) for b in buffers]
    broken = judge(lives, packing.offsets, packing.height_bytes, align_bytes)
    if broken:
        raise RuntimeError(f"the judge refuses the plan: {'; '.join(map(str, broken[:3]))}")
    return ArenaPlan(model, align_bytes, packing, lowest)
