"""A layout as pixels, for those who watch a game: steps to the right, offsets upwards, one colour per tensor."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.typing import NDArray

from hwsim.mmap.layout import Layout

HEIGHT, WIDTH = 360, 640
_GOLDEN = 0.618033988749895
_LIGHTNESS = (0.45, 0.72, 0.3, 0.6, 0.84)
_EMPTY, _EDGE, _NOW = 255, 40, (200, 0, 0)
_LEAST_WITH_EDGE = 4


def tensor_colours(count: int) -> NDArray[np.float64]:
    """float64 [count, 3], red, green and blue in 0..1: neighbours differ in hue, and in lightness for greyscale."""
    rows = [
        colorsys.hls_to_rgb(n * _GOLDEN % 1.0, _LIGHTNESS[n % len(_LIGHTNESS)], 0.65) for n in range(count)
    ]
    return np.array(rows).reshape(-1, 3)


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
