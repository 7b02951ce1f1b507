"""The parts of an observation of a game: its settings, and the shape and range of each part.

Source: MMapGame paper, section 4.3.1 and table 1.

Deviations: sizes and seconds are log1p times a constant and clipped at `LIMIT`, times are distances from the present
step, so that numbers are of order 1 and mean the same in another program. Identifiers, which mean nothing elsewhere,
stand apart; relations say what they are for (same tensor, same group). Whether a group is placed or dropped is added: a
group that a dead end dropped cannot be seen from offsets. A step outside the program is a free cell in the map, but -1
in the supply profile. With `held`, which is not in the paper, an agent sees which tensors still lie in fast memory for
a NoCopy at their next use, and what of that each action would write over.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Doc

from hwsim.mmap.layout import Layout
from hwsim.stepwise import Arrays
from workloads.errors import InputError

SCHEMA_VERSION = 1
"""Of what is seen: another one wherever a column, a scale or an order means something else than before."""
LIMIT = 4.0
"""Scaled sizes, seconds and distances are clipped here: bytes beyond 10^27, times beyond 10^12 s or 10^13 steps."""


@dataclass(frozen=True)
class View:
    """How much of a game an agent sees."""

    next_buffers: Annotated[
        int, Doc("decisions after the present one that are shown (k in the MMapGame paper)")
    ] = 5
    same_tensor: Annotated[
        int, Doc("later decisions on the same tensor that are shown (l in the MMapGame paper)")
    ] = 5
    map_cells: Annotated[int, Doc("rows, and columns, of the memory map")] = 128
    map_steps: Annotated[int, Doc("steps that the map covers, a multiple of `map_cells`")] = 256
    profile_cells: Annotated[int | None, Doc("cells of the memory profile; None: one per granule")] = 512
    supply_steps: Annotated[int, Doc("steps that the supply profile covers")] = 128
    offsets: Annotated[
        int | None,
        Doc("buffers before the present one whose offsets are shown; None: all, by their index"),
    ] = 128
    held: Annotated[
        int,
        Doc("steps back within which tensors that still lie in fast memory are shown; 0: they are not shown"),
    ] = 0

    def __post_init__(self) -> None:
        """Raises InputError where a number is out of range."""
        for each in fields(self):
            value = getattr(self, each.name)
            least = 0 if each.name in ("next_buffers", "same_tensor", "held") else 1
            most = 2**24 if each.name == "profile_cells" else 2**16
            unlimited = value is None and each.name in ("profile_cells", "offsets")
            if not unlimited and (type(value) is not int or not least <= value <= most):
                raise InputError(
                    f"{each.name}: expected a whole number from {least} to {most}, found {value!r}"
                )
        if self.map_steps % self.map_cells:
            raise InputError(
                f"map_steps: expected a multiple of map_cells ({self.map_cells}), found {self.map_steps}"
            )


class BufferColumns(NamedTuple):
    """Columns of a buffer: table 1, after a flag that it exists. Times are distances from the step of b_t, signed."""

    present: int
    size: int
    is_output: int
    target_time: int
    live_first: int
    live_last: int
    demand: int
    benefit: int
    same_tensor: int
    in_group: int
    same_group: int
    group_placed: int
    group_dropped: int


class ActionColumns(NamedTuple):
    """Columns of an action: whether it is legal, whether it takes an interval and which, its offset over the capacity.

    An offset of -1 is none. A NoCopy of what lies in fast memory already has an offset and no interval.
    """

    legal: int
    has_interval: int
    first: int
    last: int
    offset: int


class LossColumns(NamedTuple):
    """Columns of what an action writes over: the tensors that are held there.

    The benefits of their next uses, in all, and the distance to the first of these uses.
    """

    benefit: int
    target_time: int


class GlobalColumns(NamedTuple):
    """Moves so far, those that were taken back included; index of b_t; members of its group before and after it."""

    move: int
    buffer: int
    group_index: int
    group_left: int


BUFFER_FEATURES, ACTION_FEATURES = BufferColumns._fields, ActionColumns._fields
LOSS_FEATURES, GLOBAL_FEATURES = LossColumns._fields, GlobalColumns._fields
"""Names of the columns, in their order."""
BUFFER, ACTION = BufferColumns(*range(len(BUFFER_FEATURES))), ActionColumns(*range(len(ACTION_FEATURES)))
LOSS, GLOBAL = LossColumns(*range(len(LOSS_FEATURES))), GlobalColumns(*range(len(GLOBAL_FEATURES)))
"""Numbers of the columns, by name."""


ARRAYS = Arrays(image="memory_map", rows="buffers", names="buffer_ids")


@dataclass(frozen=True)
class Part:
    """One array of an observation, without the axis of the batch: what its numbers are between, both ends included."""

    shape: tuple[int, ...]
    dtype: DTypeLike
    low: float
    high: float

    def empty(self, batch: int, fill: float) -> np.ndarray[Any, Any]:
        """[batch, *shape], filled."""
        return np.full((batch, *self.shape), fill, self.dtype)


def parts(view: View, buffers: int, tensors: int, groups: int, granules: int) -> dict[str, Part]:
    """The arrays of an observation of a program with that many of each on a chip with that many granules."""
    rows = 1 + view.next_buffers + view.same_tensor
    float32, int32, uint8 = np.float32, np.int32, np.uint8
    shown = {
        "buffers": Part((rows, len(BUFFER_FEATURES)), float32, -LIMIT, LIMIT),
        "buffer_ids": Part((rows, 2), int32, -1, max(tensors, groups) - 1),
        "memory_map": Part((view.map_cells, view.map_cells), uint8, 0, 1),
        "memory_profile": Part((view.profile_cells or granules,), uint8, 0, 1),
        "supply": Part((view.supply_steps,), float32, -1, LIMIT),
        "actions": Part((3, len(ACTION_FEATURES)), float32, -LIMIT, LIMIT),
        "global": Part((len(GLOBAL_FEATURES),), float32, 0, LIMIT),
        "offsets": Part((view.offsets or buffers,), float32, -1, 1),
    }
    if view.held:
        shown["held"] = Part((view.profile_cells or granules,), float32, 0, LIMIT)
        shown["losses"] = Part((3, len(LOSS_FEATURES)), float32, 0, LIMIT)
    return shown


HEIGHT, WIDTH = 360, 640
_EMPTY, _EDGE, _NOW = 255, 40, (200, 0, 0)
_LEAST_WITH_EDGE = 4


def pixels(
    layout: Layout,
    tensor: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    capacity_bytes: int,
    now: int,
    steps: int,
) -> NDArray[np.uint8]:
    """uint8 [360, 640, 3]: what lies in fast memory over all steps; a red line at step `now`.

    Args:
        layout: of N buffers.
        tensor, size_bytes: [N], of each buffer.
        capacity_bytes: the height of the picture.
        now, steps: the step to mark (none if it is `steps`), and how many there are.
    """
    picture = np.full((HEIGHT, WIDTH, 3), _EMPTY, np.uint8)
    colours = (255 * tensor_colours(int(tensor.max(initial=-1)) + 1)).astype(np.uint8)
    for n in np.flatnonzero(layout.first >= 0).tolist():
        offset = int(layout.offset_bytes[n])
        left = int(layout.first[n]) * WIDTH // steps
        right = max((int(layout.last[n]) + 1) * WIDTH // steps, left + 1)
        top = HEIGHT - max(-(-(offset + int(size_bytes[n])) * HEIGHT // capacity_bytes), 1)
        bottom = max(HEIGHT - offset * HEIGHT // capacity_bytes, top + 1)
        box = picture[max(top, 0) : bottom, left:right]
        box[:] = colours[tensor[n]]
        if min(box.shape[:2]) >= _LEAST_WITH_EDGE:
            box[[0, -1]] = _EDGE
            box[:, [0, -1]] = _EDGE
    if now < steps:
        picture[:, now * WIDTH // steps] = _NOW
    return picture


_GOLDEN = 0.618033988749895
_LIGHTNESS = (0.45, 0.72, 0.3, 0.6, 0.84)


def tensor_colours(count: int) -> NDArray[np.float64]:
    """float64 [count, 3], red, green and blue in 0..1: neighbours differ in hue, and in lightness for greyscale."""
    rows = [
        colorsys.hls_to_rgb(n * _GOLDEN % 1.0, _LIGHTNESS[n % len(_LIGHTNESS)], 0.65) for n in range(count)
    ]
    return np.array(rows).reshape(-1, 3)
