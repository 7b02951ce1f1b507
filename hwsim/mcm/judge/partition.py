"""Is a partition one that the package allows? Slow and obvious, and shares no code with the solver.

What must hold (MCM paper, section 3, with the rulings of docs/explanations/mcm.md), each where it is switched on:

- every node is on a chip that exists;
- acyclic: a node is never on an earlier chip than a node that it reads (equation 2);
- no skipping: with a chip in use, all earlier ones are (equation 3);
- triangle: draw an arrow from chip to chip for every read between them; where an arrow leads from one chip to another,
  no longer path of arrows does (equation 4);
- memory: the weights on a chip fit in its SRAM.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwsim.problem import Violation


def judge(
    chips: int,
    sram_bytes: int,
    edges: Sequence[tuple[int, int]],
    weight_bytes: Sequence[int],
    assignment: Sequence[int],
    acyclic: bool = True,
    no_skip: bool = True,
    triangle: bool = True,
    memory: bool = True,
    names: Sequence[str] | None = None,
) -> list[Violation]:
    """Everything that a partition breaks; empty: all is well.

    Args:
        chips, sram_bytes: of the package.
        edges: (node that is read, node that reads it).
        weight_bytes: a node; its length is the number of nodes.
        assignment: the chip of each node.
        acyclic, no_skip, triangle, memory: which rules hold.
        names: of the nodes, for people; None: their numbers.

    Raises:
        ValueError: assignment and weight_bytes differ in length.
    """
    if len(assignment) != len(weight_bytes):
        raise ValueError(f"assignment: expected {len(weight_bytes)} nodes, received {len(assignment)}")
    place = [int(chip) for chip in assignment]
    called = [f"node {node}" for node in range(len(place))] if names is None else names
    wrong = [
        Violation("no such chip", called[node], chip, chips - 1, "chip")
        for node, chip in enumerate(place)
        if not 0 <= chip < chips
    ]
    if wrong:
        return wrong
    found = _backward(edges, place, called) if acyclic else []
    if no_skip:
        found += _skipped(place)
    if triangle and all(place[u] <= place[v] for u, v in edges):
        found += _triangles(edges, place)
    if memory:
        found += _overfull(chips, sram_bytes, weight_bytes, place)
    return found


def _backward(edges: Sequence[tuple[int, int]], place: list[int], called: Sequence[str]) -> list[Violation]:
    """The edges that lead to an earlier chip."""
    return [
        Violation("acyclic", f"{called[source]} -> {called[reader]}", place[source], place[reader], "chip")
        for source, reader in edges
        if place[source] > place[reader]
    ]


def _skipped(place: list[int]) -> list[Violation]:
    """The empty chips before one in use."""
    return [
        Violation("no skipping", f"chip {chip}", 1, 0, "nodes")
        for chip in range(max(place, default=0))
        if chip not in place
    ]


def _triangles(edges: Sequence[tuple[int, int]], place: list[int]) -> list[Violation]:
    """The arrows from chip to chip beside which there is a longer path."""
    arrows = {(place[u], place[v]) for u, v in edges if place[u] != place[v]}
    found = []
    for first, last in sorted(arrows):
        length = _longest(arrows, first, last)
        if length > 1:
            found.append(Violation("triangle", f"chip {first} -> chip {last}", length, 1, "arrows"))
    return found


def _overfull(chips: int, sram_bytes: int, weight_bytes: Sequence[int], place: list[int]) -> list[Violation]:
    """The chips whose weights do not fit."""
    found = []
    for chip in range(chips):
        held = sum(int(size) for size, on in zip(weight_bytes, place, strict=True) if on == chip)
        if held > sram_bytes:
            found.append(Violation("memory", f"chip {chip}", held, sram_bytes, "bytes"))
    return found


def _longest(arrows: set[tuple[int, int]], first: int, last: int) -> int:
    """Arrows on the longest path from one chip to another; every arrow leads to a later chip."""
    best = {first: 0}
    for chip in range(first + 1, last + 1):
        lengths = [best[u] + 1 for u, v in arrows if v == chip and u in best]
        if lengths:
            best[chip] = max(lengths)
    return best.get(last, 0)
