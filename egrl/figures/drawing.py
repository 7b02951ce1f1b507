"""What every figure gives: the drawing, and the numbers behind it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure and what it shows.

    Attributes:
        figure: to be saved by `analysis.style.save`.
        numbers: what is behind it, as JSON can hold it (see `plain`); they must not use the keys of the document that
            `--json` puts around them: kind, version, figure.
        remarks: lines for people about what is not shown, or shown otherwise than they may expect.
    """

    figure: Figure
    numbers: Mapping[str, Any]
    remarks: Sequence[str] = ()


def plain(value: Any) -> Any:
    """Numbers as JSON can hold them: arrays as lists, dataclasses as objects, NaN and infinity as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
