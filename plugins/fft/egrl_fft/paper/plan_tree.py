"""Plans drawn as trees: one node per rule, its parts below it, from the text that writes a plan ("fs(8,t(2,4))")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.style import COLOURS

TOKEN = re.compile(r"([A-Za-z]*\d*)(\()?")

COLUMNS = 3
"""Trees side by side."""


@dataclass
class Node:
    """A part of a plan.

    Attributes:
        label: its rule, or the number of points of a codelet.
        children: its sub-plans.
        x, depth: where it is drawn; leaves are one apart.
    """

    label: str
    children: list[Node] = field(default_factory=list)
    x: float = 0.0
    depth: int = 0


def tree(text: str) -> Node:
    """The tree of a plan as it is written, with places. ValueError where parentheses do not match."""
    root, at = _read(text, 0)
    if at != len(text):
        raise ValueError(f"plan: expected one plan, received {text!r}")
    _place(root, 0, 0.0)
    return root


def _read(text: str, at: int) -> tuple[Node, int]:
    found = TOKEN.match(text, at)
    if found is None or found.end() == at:
        raise ValueError(f"plan: expected a rule or a number at {at} of {text!r}")
    node, at = Node(found[1]), found.end()
    if not found[2]:
        return node, at
    while True:
        child, at = _read(text, at)
        node.children.append(child)
        if text[at : at + 1] == ")":
            return node, at + 1
        if text[at : at + 1] != ",":
            raise ValueError(f"plan: expected , or ) at {at} of {text!r}")
        at += 1


def _place(node: Node, depth: int, left: float) -> float:
    """Places below and here; returns where the next leaf to the right goes."""
    node.depth = depth
    if not node.children:
        node.x = left
        return left + 1
    for child in node.children:
        left = _place(child, depth + 1, left)
    node.x = (node.children[0].x + node.children[-1].x) / 2
    return left


def plan_figure(plans: Mapping[str, str]) -> Figure:
    """A tree for each named plan, a few side by side; codelets are filled."""
    if not plans:
        raise ValueError("plans: expected at least one, received none")
    trees = {name: tree(text) for name, text in plans.items()}
    columns = min(COLUMNS, len(trees))
    rows = -(-len(trees) // columns)
    width = max(2.0, *(_most(root, "x") + 1 for root in trees.values()))
    deepest = max(_most(root, "depth") for root in trees.values())
    size = (0.5 * width * columns + 1, (0.5 * deepest + 0.9) * rows)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, (name, root) in zip(grid.flat, trees.items(), strict=False):
        _draw(axes, root)
        middle = _most(root, "x") / 2
        axes.set_title(name, fontsize=9)
        axes.set_xlim(middle - width / 2, middle + width / 2)
        axes.set_ylim(-deepest - 0.6, 0.6)
    return figure


def _most(node: Node, name: str) -> float:
    return max(float(getattr(node, name)), *(_most(child, name) for child in node.children), 0.0)


def _draw(axes: Axes, node: Node) -> None:
    for child in node.children:
        axes.plot([node.x, child.x], [-node.depth, -child.depth], color="0.6", linewidth=1, zorder=1)
        _draw(axes, child)
    colour = "white" if node.children else COLOURS[4]
    axes.annotate(
        node.label,
        (node.x, -node.depth),
        ha="center",
        va="center",
        fontsize=8,
        bbox={"boxstyle": "round,pad=0.3", "facecolor": colour, "edgecolor": "0.3", "linewidth": 0.8},
        zorder=2,
    )
