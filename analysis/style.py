"""One look for all figures: colours that the colour-blind can tell apart, and line styles and markers for greyscale.

Palette: Okabe and Ito, "Color Universal Design" (2008), without its yellow, which is illegible on white, and with a
grey beside its black.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)), (0, (3, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

FORMATS = (".png", ".svg", ".pdf")


def new_figure(width_in: float = 7.0, height_in: float = 4.2) -> Figure:
    """An empty figure, sizes in inches; no window system is touched."""
    return Figure(figsize=(width_in, height_in), dpi=150, layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a figure without dates or random ids, so that equal figures are equal files. `path` ends as in FORMATS."""
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "egrl", "svg.fonttype": "none"}):
        figure.savefig(path, metadata=metadata[path.suffix])
