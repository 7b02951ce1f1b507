"""Mappings in two dimensions by UMAP (McInnes, Healy, Melville 2018): two groups and the baseline's (EGRL, Figure 5).

The groups are a search's competitive mappings, about as fast as the baseline's, and its best; how far apart they lie is
measured (EGRL, Section 5).

Deviations:
- The paper collects mappings "when" a run reaches the compiler's speed, and says no more: here the first ones, in the
  order of evaluation, whose speedup is within 2% of 1.
- What it sees in two dimensions is measured in the space of mappings itself: a projection that keeps neighbourhoods
  keeps neither distances nor densities.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.style import COLOURS, MARKERS, legend_below, new_figure

NEIGHBOURS = 15
"""UMAP's own default; fewer where there are fewer mappings."""
FEWEST = 10
"""Mappings, the compiler's among them, below which neighbourhoods say nothing. Assumption."""
SEED = 0


def embed(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [M, 2], without unit, of distances [M, M]; the same for the same input. ValueError below FEWEST."""
    count = len(distance)
    if count < FEWEST:
        raise ValueError(f"distance: expected at least {FEWEST} mappings, received {count}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import umap

        _keep_kernels()
        reducer = umap.UMAP(
            n_neighbors=min(NEIGHBOURS, count - 1), metric="precomputed", random_state=SEED, n_jobs=1
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
    baseline_name: str = "the baseline",
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
    figure = new_figure(6.4, 5.2, title)
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


COMPETITIVE, BEST = "competitive", "best"
WITHIN = 0.02
"""A speedup this near to 1 is compiler-competitive. Assumption; the paper says about 1."""
MOST = 100
"""Mappings of each group that are taken of a run, at most. Assumption."""
BEST_SHARE = 0.1
"""The best are at most this share of a run's evaluations, so that those of a short run are no others than all."""


@dataclass(frozen=True)
class Groups:
    """M distinct mappings of some runs, none of them the compiler's.

    Attributes:
        run: int64 [M], number of the run.
        index: int64 [M], place among the evaluations of that run.
        best: bool [M]; the others are compiler-competitive.
    """

    run: NDArray[np.int64]
    index: NDArray[np.int64]
    best: NDArray[np.bool_]


@dataclass(frozen=True)
class Distances:
    """How two groups and the compiler's mapping lie, in shares of the decisions in which two mappings differ.

    Attributes:
        separation: mean silhouette of the mappings, -1 (mixed up) to 1 (two tight groups far apart).
        spread: group -> mean distance of two of its mappings.
        spread_in_a_run: the same of two mappings of one run; NaN where no run has two.
        spread_between_runs: the same of two mappings of different runs, which share no ancestor; NaN for one run.
        to_compiler: group -> mean distance of its mappings to the compiler's.
        nearest_to_compiler: group -> distance of its mapping that is nearest to the compiler's.
        compiler_is_nearer_to: the group to which the compiler's mapping has the smaller mean distance.
    """

    separation: float
    spread: dict[str, float]
    spread_in_a_run: dict[str, float]
    spread_between_runs: dict[str, float]
    to_compiler: dict[str, float]
    nearest_to_compiler: dict[str, float]
    compiler_is_nearer_to: str


def choose(
    runs: Sequence[tuple[NDArray[np.integer], NDArray[np.float64]]],
    compiler: NDArray[np.integer],
    within: float = WITHIN,
    most: int = MOST,
) -> Groups:
    """The two groups of some runs.

    Of each run the `most` fastest distinct mappings (and at most BEST_SHARE of it), then the first `most` others within
    1 ± `within`, both ends included. What another run has found, too, counts once, for the run that is named first.

    Args:
        runs: mappings [M, D] of the live decisions, in the order of evaluation, and speedups [M] (0: nothing ran).
        compiler: [D], the compiler's mapping, which is in neither group.
    """
    seen = {_bytes(compiler)}
    found: list[tuple[int, int, bool]] = []
    for number, (rows, speedup) in enumerate(runs):
        order = np.argsort(-speedup, kind="stable")
        fastest = order[speedup[order] > 0].tolist()
        room = min(most, int(np.ceil(BEST_SHARE * len(rows))))
        found += [(number, index, True) for index in _distinct(fastest, rows, seen, room)]
    for number, (rows, speedup) in enumerate(runs):
        near = np.flatnonzero(np.abs(speedup - 1.0) <= within + 1e-12).tolist()
        found += [(number, index, False) for index in _distinct(near, rows, seen, most)]
    run, index, best = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return Groups(run, index, best.astype(np.bool_))


def _bytes(row: NDArray[np.integer]) -> bytes:
    return row.astype(np.int16).tobytes()


def _distinct(order: Iterable[int], rows: NDArray[np.integer], seen: set[bytes], most: int) -> list[int]:
    """The first `most` indices of rows that were not seen before; they are seen then."""
    found: list[int] = []
    for index in order:
        if len(found) == most:
            break
        key = _bytes(rows[index])
        if key not in seen:
            seen.add(key)
            found.append(index)
    return found


def hamming(rows: NDArray[np.integer]) -> NDArray[np.float64]:
    """float64 [M, M], the share of decisions in which two of M mappings [M, D] differ."""
    return np.stack([(row != rows).mean(axis=1) for row in rows])


def silhouette(distance: NDArray[np.float64], group: NDArray[np.bool_]) -> float:
    """Mean silhouette (Rousseeuw 1987) of two groups: distances [M, M], membership [M].

    A mapping that is alone in its group, or as near to both, counts 0.
    """
    sizes = np.where(group, group.sum(), (~group).sum())
    sums = np.where(group[:, None] == group[None], distance, 0.0).sum(axis=1)
    others = np.where(group[:, None] != group[None], distance, 0.0).sum(axis=1) / (len(group) - sizes)
    own = sums / np.maximum(sizes - 1, 1)
    larger = np.maximum(own, others)
    values = np.divide(others - own, larger, out=np.zeros(len(group)), where=(larger > 0) & (sizes > 1))
    return float(values.mean())


def measure(distance: NDArray[np.float64], best: NDArray[np.bool_], run: NDArray[np.int64]) -> Distances:
    """How the groups lie: distances [M + 1, M + 1], the compiler's mapping last, membership [M], number of the run [M].

    ValueError where a group has fewer than two mappings.
    """
    members = {COMPETITIVE: np.flatnonzero(~best), BEST: np.flatnonzero(best)}
    if min(len(group) for group in members.values()) < 2:
        counts = {name: len(group) for name, group in members.items()}
        raise ValueError(f"best: expected two mappings in each group, received {counts}")
    between = distance[:-1, :-1]
    other = ~np.eye(len(best), dtype=np.bool_)
    alike = other & (run[:, None] == run)
    means = {name: float(distance[-1, group].mean()) for name, group in members.items()}
    return Distances(
        separation=silhouette(between, best),
        spread={name: _mean(between, other, group) for name, group in members.items()},
        spread_in_a_run={name: _mean(between, alike, group) for name, group in members.items()},
        spread_between_runs={name: _mean(between, other & ~alike, group) for name, group in members.items()},
        to_compiler=means,
        nearest_to_compiler={name: float(distance[-1, group].min()) for name, group in members.items()},
        compiler_is_nearer_to=min(means, key=means.__getitem__),
    )


def _mean(distance: NDArray[np.float64], pairs: NDArray[np.bool_], members: NDArray[np.int64]) -> float:
    """The mean of the distances [M, M] between some members, over the pairs [M, M] that count; NaN if none does."""
    counted = distance[np.ix_(members, members)][pairs[np.ix_(members, members)]]
    return float(counted.mean()) if len(counted) else float("nan")
