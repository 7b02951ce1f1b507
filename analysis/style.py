"""One look for all figures: colours that the colour-blind can distinguish, and line styles and markers for greyscale.

Palette: Okabe and Ito, "Color Universal Design" (2008), without its yellow, which is illegible on white, and with a
grey beside its black.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from workloads.files import write_to

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)), (0, (3, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

LIGHT, DARK = 0.93, 0.07
"""What black and white become on a dark page, 0..1."""
MARKER = ("markerfacecolor", "markeredgecolor")

FORMATS = (".png", ".svg", ".pdf")


def text_on(red: float, green: float, blue: float) -> str:
    """Black or white, whichever reads better on a colour (parts 0..1; luminance weighted as in ITU-R BT.601)."""
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "black"


def mark_of(number: int) -> dict[str, Any]:
    """Colour and marker of curve or group `number` of a figure, as matplotlib's keywords."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def line_of(number: int) -> dict[str, Any]:
    """`mark_of` with a line style; the ninth curve, which has the colour of the first, has another one."""
    return {**mark_of(number), "linestyle": LINES[(number + number // len(COLOURS)) % len(LINES)]}


def new_figure(width_in: float = 7.0, height_in: float = 4.2, title: str = "") -> Figure:
    """A figure with nothing but its title, sizes in inches; no window system is touched."""
    figure = Figure(figsize=(width_in, height_in), dpi=150, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def panel_grid(
    count: int, columns: int, height_in: float, x_label: str, y_label: str, title: str = ""
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` axes, row by row, `height_in` inches each; only its outer axes are labelled.

    Raises:
        ValueError: there is no panel.
    """
    if not count:
        raise ValueError("panels: expected at least one, received none")
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(3.9 * columns + 0.4, height_in * rows + 0.4, title)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for number, axes in enumerate(grid):
        axes.set_visible(number < count)
        if number % columns == 0:
            axes.set_ylabel(y_label)
        if number + columns >= count:
            axes.set_xlabel(x_label)
    return figure, grid[:count]


def legend_below(figure: Figure, handles: Sequence[Artist], handlelength: float = 2.0) -> None:
    """Below the axes, in as many columns as its labels leave room for; the figure grows by what rows it needs."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    width_in, height_in = figure.get_size_inches()
    columns = max(1, min(len(handles), int(width_in / (0.8 + 0.07 * longest))))
    rows = -(-len(handles) // columns)
    figure.set_size_inches(width_in, height_in + 0.18 * (rows - 1))
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
        handlelength=handlelength,
    )


def legend_above(axes: Axes, handles: Sequence[Artist], columns: int, fontsize: int) -> None:
    """Above the axes, from their left end."""
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=min(len(handles), columns),
        frameon=False,
        fontsize=fontsize,
        borderpad=0.1,
    )


def beside(axes: Axes, height: float, text: str, room_pt: int = 4, **look: Any) -> None:
    """Write to the right of the axes, at a height of their data; `look`: matplotlib's keywords for texts."""
    axes.annotate(
        text,
        (1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(room_pt, 0),
        textcoords="offset points",
        annotation_clip=False,
        **{"va": "center", "fontsize": 8, **look},
    )


@contextmanager
def boxes_allowed() -> Iterator[None]:
    """Letters that the font lacks become boxes without a warning for each: an op may have any name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from ", category=UserWarning)
        yield


def lay_out(figure: Figure) -> None:
    """Give everything in a figure its place, so that it can be measured."""
    with boxes_allowed():
        figure.draw_without_rendering()


def darken(figure: Figure) -> None:
    """Turn a figure's whites, greys and blacks over for a dark page; colours stay. What is an image is not changed."""
    for artist in figure.findobj(lambda artist: isinstance(artist, (Text, Line2D, Patch, Collection))):
        lines = isinstance(artist, Line2D)
        filled = not lines and not isinstance(artist, Text)
        for part in ("facecolor", "edgecolor") if filled else ("color", *MARKER * lines):
            try:
                rgba = to_rgba_array(getattr(artist, f"get_{part}")())
            except ValueError:  # "none", or one that follows another
                continue
            grey = np.ptp(rgba[:, :3], axis=1) == 0
            if grey.any():
                rgba[grey, :3] = LIGHT - (LIGHT - DARK) * rgba[grey, :3]
                getattr(artist, f"set_{part}")(rgba if len(rgba) > 1 else tuple(rgba[0].tolist()))


def save(figure: Figure, path: Path) -> None:
    """Write a figure without dates or random ids, so that equal figures are equal files. `path` ends as in FORMATS.

    What is there is replaced as a whole, a link as well. OSError where the disk refuses.
    """
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    import matplotlib

    with boxes_allowed(), matplotlib.rc_context({"svg.hashsalt": "egrl", "svg.fonttype": "none"}):
        drawn = io.BytesIO()
        figure.savefig(drawn, format=path.suffix[1:], metadata=metadata[path.suffix])
    write_to(path, drawn.getvalue())
