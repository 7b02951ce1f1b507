"""Mappings in two dimensions by UMAP (McInnes, Healy, Melville 2018): two groups, the compiler's (EGRL, Figure 5)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.mapping_groups import BEST, COMPETITIVE, Distances
from analysis.style import COLOURS, MARKERS, legend_below, new_figure

NEIGHBOURS = 15
"""UMAP's own default; fewer where there are fewer mappings."""
FEWEST = 10
"""Mappings, the compiler's among them, below which neighbourhoods say nothing. Assumption."""
SEED = 0


def embed(
    distance: NDArray[np.float64], neighbours: int = NEIGHBOURS, seed: int = SEED
) -> NDArray[np.float64]:
    """float64 [M, 2], without unit, of distances [M, M]; the same for the same input. ValueError below FEWEST."""
    count = len(distance)
    if count < FEWEST:
        raise ValueError(f"distance: expected at least {FEWEST} mappings, received {count}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import umap

        _keep_kernels()
        reducer = umap.UMAP(
            n_neighbors=min(neighbours, count - 1), metric="precomputed", random_state=seed, n_jobs=1
        )
        return np.asarray(reducer.fit_transform(distance), dtype=np.float64)


def _keep_kernels() -> None:
    """Keep the machine code of umap-learn's kernels on disk: it compiles them in each process, for 8 s or more."""
    from numba.core.registry import CPUDispatcher
    from umap import layouts, spectral, umap_, utils

    for module in (layouts, spectral, umap_, utils):
        for kernel in vars(module).values():
            if isinstance(kernel, CPUDispatcher) and kernel.py_func.__module__.startswith("umap."):
                with contextlib.suppress(RuntimeError):  # no place on disk that can be written
                    kernel.enable_caching()


def embedding_figure(
    points: NDArray[np.float64],
    best: NDArray[np.bool_],
    run: NDArray[np.int64],
    names: Sequence[str],
    distances: Distances,
    title: str,
    baseline_name: str = "the compiler",
) -> Figure:
    """Competitive mappings as open markers, best ones as filled, a shape and colour a run, an arrow to the compiler's.

    Args:
        points: [M + 1, 2], the compiler's mapping last.
        best: [M], whether a mapping is of the best.
        run: [M], number of its run.
        names: of the runs.
        distances: what the line below the title says.
        baseline_name: what texts call the baseline.
    """
    figure = new_figure(6.4, 5.2)
    axes = figure.add_subplot()
    for number in range(len(names)):
        for group in (False, True):
            x, y = points[:-1][(best == group) & (run == number)].T
            axes.scatter(x, y, **_look(number, group), s=26, linewidths=0.8, zorder=3 if group else 2)
    x, y = points[-1]
    axes.scatter(x, y, marker="*", s=170, facecolors="black", edgecolors="white", zorder=5)
    axes.margins(0.1)
    _point_at(axes, points, baseline_name.removeprefix("the "))
    axes.set(xticks=[], yticks=[], xlabel="UMAP 1", ylabel="UMAP 2")
    figure.suptitle(title, fontsize=11, parse_math=False)
    axes.set_title(_quality_text(distances, len(names)), fontsize=8)
    legend_below(figure, _handles(axes, best, names))
    return figure


def _quality_text(distances: Distances, runs: int) -> str:
    """The line below the title."""
    parts = []
    for name, value in distances.spread.items():
        alone = distances.spread_in_a_run[name]
        own = f" ({alone:.1%} in a run)" if runs > 1 and np.isfinite(alone) else ""
        parts.append(f"{name} {value:.1%}{own}")
    return f"silhouette {distances.separation:.2f}; mean distance within {', '.join(parts)}"


def _look(number: int, best: bool) -> dict[str, Any]:
    """How `scatter` marks mappings of run `number`: shape and colour show the run, filling the group."""
    colour = COLOURS[number % len(COLOURS)]
    shapes = MARKERS[:-1]  # the star is the compiler's
    face, edge = (colour, "black") if best else ("white", colour)
    return {"marker": shapes[number % len(shapes)], "facecolors": face, "edgecolors": edge}


def _handles(axes: Axes, best: NDArray[np.bool_], names: Sequence[str]) -> list[Artist]:
    """What the legend has: the groups and how many they are; the runs where there are several."""
    counted = ((False, f"{COMPETITIVE} ({(~best).sum()})"), (True, f"{BEST} ({best.sum()})"))
    look: dict[str, Any] = {"marker": "o", "edgecolors": "black", "s": 30, "linewidths": 0.8}
    handles: list[Artist] = [
        axes.scatter([], [], facecolors="0.4" if group else "white", label=label, **look)
        for group, label in counted
    ]
    if len(names) > 1:
        handles += [
            axes.scatter([], [], **_look(number, True), s=30, linewidths=0, label=name)
            for number, name in enumerate(names)
        ]
    return handles


CLEAR, NEAR = 0.13, 0.2
"""How far the arrow's word stays from all mappings, and how far from the compiler's at least, in shares of the axes."""


def _point_at(axes: Axes, points: NDArray[np.float64], word: str) -> None:
    """An arrow to the compiler's mapping, the word at the nearest place that is clear, or else the clearest."""
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    shares = (points - low) / (high - low)
    places = np.array([(x, y) for x in np.linspace(0.1, 0.9, 17) for y in np.linspace(0.06, 0.94, 17)])
    room = np.array([np.hypot(*(shares - place).T).min() for place in places])
    away = np.hypot(*(places - shares[-1]).T)
    clear = (room >= CLEAR) & (away >= NEAR)
    chosen = int(np.argmin(np.where(clear, away, np.inf))) if clear.any() else int(np.argmax(room))
    axes.annotate(
        word,
        (float(points[-1, 0]), float(points[-1, 1])),
        xytext=(float(places[chosen, 0]), float(places[chosen, 1])),
        textcoords="axes fraction",
        ha="center",
        va="center",
        fontsize=9,
        arrowprops={"arrowstyle": "-|>", "color": "#B00000", "linewidth": 1.3, "shrinkB": 6},
        zorder=6,
    )
