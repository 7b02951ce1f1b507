"""The layout of a finished game: where each buffer lies, when, and when it is copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Layout:
    """A memory layout of N buffers over T steps. Intervals are closed; (-1, -1) is none.

    Attributes:
        action: int8 [N], 0 Drop, 1 Copy, 2 NoCopy, -1 if there is no decision.
        offset_bytes: int64 [N], place in fast memory, -1 in HBM.
        first, last: int32 [N], steps in fast memory. A NoCopy without an interval lies in the one of an earlier use.
        copy_first, copy_last: int32 [N], window in which a Copy is transferred.
        copy_use_s: float64 [T], seconds of each step that copies take.
    """

    action: NDArray[np.int8]
    offset_bytes: NDArray[np.int64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    copy_first: NDArray[np.int32]
    copy_last: NDArray[np.int32]
    copy_use_s: NDArray[np.float64]
