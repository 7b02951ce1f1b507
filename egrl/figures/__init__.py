"""The figures of `egrl plot`: run folders in, arrays to `analysis`, a drawing and the numbers behind it out.

Each figure is a function of the run folders, a sequence of `PastRun`, that gives a `Drawing`; its docstring says how to
read it. Its file is imported only when it is drawn. A figure of something else has a function `read(path, problem)` of
its own, and takes what this gives of each folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads import plugins

if TYPE_CHECKING:
    from egrl.figures.repetitions import Drawing

FIGURES: dict[str, tuple[str, str]] = {
    "curves": ("best speedup against evaluations; repetitions as a band", "egrl.figures.curves:draw"),
    "shift": (
        "where the tensors of each of the baseline's memories went",
        "egrl.figures.mappings:draw_shift",
    ),
    "bands": (
        "each tensor's memory, baseline and best; of several runs the fastest",
        "egrl.figures.mappings:draw_bands",
    ),
    "transfer": (
        "policies along training, on other workloads without training",
        "egrl.figures.curves:draw_transfer:read",
    ),
    "zeroshot": (
        "trained policies on workloads that none was trained on",
        "egrl.figures.curves:draw_zeroshot:read",
    ),
    "umap": (
        "mappings as fast as the baseline's and the best, in two dimensions",
        "egrl.figures.mappings:draw_umap",
    ),
    "utilisation": (
        "what memories hold over time and what limits ops, or what chips of a module do, baseline and best",
        "egrl.figures.mappings:draw_utilisation",
    ),
    "layout": (
        "each tensor's address and lifetime in each memory, best",
        "egrl.figures.mappings:draw_layout",
    ),
    "peak": (
        "what fills each memory at its fullest step, by name, best",
        "egrl.figures.mappings:draw_peak",
    ),
    "partition": (
        "what chips of a module do and hold, heuristic and best",
        "egrl.figures.mappings:draw_partition",
    ),
    "explore": (
        "cost and proven bound over a grid of chip files (`egrl explore`)",
        "egrl.figures.explore:draw:read",
    ),
    "breakdown": (
        "what limits each op, baseline and best; which ops gained and lost",
        "egrl.figures.mappings:draw_breakdown",
    ),
}
"""Name -> what it shows, in one line, the function that draws it and, if it has one, its `read`."""

KIND = plugins.Kind(
    "figure", "plot", tuple(FIGURES), "a function of run folders (PastRun) that returns a Drawing"
)
"""What plug-ins of the group `egrl.figures` are."""


@dataclass(frozen=True)
class Figure:
    """A figure, imported.

    Attributes:
        draw: what `read` gives of each folder in, a drawing out.
        read: a folder, and the problem that the user named ("": none), in; None: as a `PastRun`.
    """

    draw: Callable[[Sequence[Any]], Drawing]
    read: Callable[[Path, str], Any] | None = None


def find_figure(name: str) -> Figure:
    """The figure called `name`: one of the package's, a plug-in's, or MODULE:NAME.

    InputError in one line where there is none, or its code cannot be imported.
    """
    if name in FIGURES:
        plugins.installed(KIND)  # says which plug-ins cannot have their names
        module, *functions = FIGURES[name][1].split(":")
        found = importlib.import_module(module)
        return Figure(*(getattr(found, function) for function in functions))
    return _figure_of(plugins.find(KIND, name))


def list_figures() -> list[dict[str, object]]:
    """Name and summary of every figure, those of plug-ins included."""
    own = {name: summary for name, (summary, _) in FIGURES.items()}
    return plugins.listing(KIND, own, lambda found: plugins.summary_of(_figure_of(found).draw))


def _figure_of(found: plugins.Outside) -> Figure:
    if not callable(found.thing):
        raise found.refuse(plugins.described(found))
    return Figure(found.thing)
