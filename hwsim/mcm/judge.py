"""Is a partition one that the package allows? Slow and obvious; it shares no code with the solver.

What must hold (MCM paper, section 3, with the rulings of docs/explanations/mcm.md), each if it is switched on:

- every node is on a chip that exists;
- acyclic: a node is never on an earlier chip than a node that it reads (equation 2);
- no skipping: with a chip in use, all earlier ones are (equation 3);
- triangle: draw an arrow from chip to chip for every read between them; where an arrow leads from one chip to another,
  no longer path of arrows does (equation 4);
- memory: the weights on a chip fit in its SRAM.

`judge_device` judges what each chip holds at most on the device model by rules 1 to 3 of `hwsim/mcm/device.py`:
stages, order, memory.
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


def judge_device(
    chips: int,
    sram_bytes: int,
    weight_bytes: Sequence[int],
    made_bytes: Sequence[int],
    tensors: Sequence[tuple[int, int, Sequence[int]]],
    place: Sequence[int],
) -> list[Violation]:
    """The chips that do not hold what they need; the arguments are those of `peaks`."""
    return [
        Violation("peak memory", f"chip {chip}", held, sram_bytes, "bytes")
        for chip, held in enumerate(peaks(chips, weight_bytes, made_bytes, tensors, place))
        if held > sram_bytes
    ]


def peaks(
    chips: int,
    weight_bytes: Sequence[int],
    made_bytes: Sequence[int],
    tensors: Sequence[tuple[int, int, Sequence[int]]],
    place: Sequence[int],
) -> list[int]:
    """The most bytes that each chip holds at a time.

    Args:
        chips: how many there are.
        weight_bytes, made_bytes: a node, in an order in which nodes read earlier ones.
        tensors: (node that makes it, bytes, nodes that read it).
        place: the chip of each node.
    """
    stage = stages(tensors, place)
    return [_peak(chip, weight_bytes, made_bytes, tensors, place, stage) for chip in range(chips)]


def stages(tensors: Sequence[tuple[int, int, Sequence[int]]], place: Sequence[int]) -> list[int]:
    """The stage of each node."""
    inputs: list[list[int]] = [[] for _ in place]
    outputs: list[list[int]] = [[] for _ in place]
    for source, _, readers in tensors:
        outputs[source] += readers
        for reader in readers:
            inputs[reader].append(source)
    stage: list[int] = []
    for node, chip in enumerate(place):
        stage.append(max((stage[u] + (place[u] != chip) for u in inputs[node]), default=0))
    alone: set[int] = set()
    for node, chip in enumerate(place):
        if all(u in alone and place[u] == chip for u in inputs[node]):
            alone.add(node)
    for node in sorted(alone, reverse=True):
        allowed = [stage[reader] - (place[reader] != place[node]) for reader in outputs[node]]
        stage[node] = min(allowed, default=stage[node])
    return stage


def _peak(
    chip: int,
    weight_bytes: Sequence[int],
    made_bytes: Sequence[int],
    tensors: Sequence[tuple[int, int, Sequence[int]]],
    place: Sequence[int],
    stage: Sequence[int],
) -> int:
    """The most bytes that a chip holds, its nodes run one by one so that as little is held as can be seen."""
    nodes = [node for node, on in enumerate(place) if on == chip]
    held, until_the_end, within = _held(chip, tensors, place, stage)
    always = sum(weight_bytes[node] for node in nodes) + held
    makes: dict[int, list[int]] = {node: [] for node in nodes}
    reads: dict[int, list[int]] = {node: [] for node in nodes}
    inputs: dict[int, set[int]] = {node: set() for node in nodes}
    for number, readers in within.items():
        makes[tensors[number][0]].append(number)
        for reader in readers:
            reads[reader].append(number)
            inputs[reader].add(tensors[number][0])
    ready = {node for node in nodes if not inputs[node]}
    live, peak = 0, always
    while ready:
        # The node after which the least is held; of equal ones the first.
        after, node = min(
            (live + _change(node, makes, reads, within, until_the_end, tensors), node) for node in ready
        )
        peak = max(peak, always + live + made_bytes[node])
        live = after
        ready.remove(node)
        for number in reads[node]:
            within[number].discard(node)
        for number in makes[node]:
            for reader in within[number]:
                inputs[reader].discard(node)
                if not inputs[reader]:
                    ready.add(reader)
    return peak


def _held(
    chip: int, tensors: Sequence[tuple[int, int, Sequence[int]]], place: Sequence[int], stage: Sequence[int]
) -> tuple[int, set[int], dict[int, set[int]]]:
    """Bytes of tensors that a chip holds all the time, tensors held to the end, and who reads which at once."""
    always = 0
    until_the_end: set[int] = set()
    within: dict[int, set[int]] = {}
    for number, (source, size, readers) in enumerate(tensors):
        here = [reader for reader in readers if place[reader] == chip]
        if place[source] != chip:
            if here:
                always += size * (max(stage[reader] for reader in here) - stage[source] + 1)
            continue
        within[number] = {reader for reader in here if stage[reader] == stage[source]}
        later = max((stage[reader] for reader in here), default=stage[source]) - stage[source]
        if later:
            always += size * later
            until_the_end.add(number)
        if len(here) < len(readers):
            always += size
            until_the_end.add(number)
    return always, until_the_end, within


def _change(
    node: int,
    makes: dict[int, list[int]],
    reads: dict[int, list[int]],
    within: dict[int, set[int]],
    until_the_end: set[int],
    tensors: Sequence[tuple[int, int, Sequence[int]]],
) -> int:
    """Bytes held more once a node has run: what it makes for later, less what it is the last to read."""
    kept = [number for number in makes[node] if number in until_the_end or within[number]]
    freed = [number for number in reads[node] if number not in until_the_end and within[number] == {node}]
    return sum(tensors[number][1] for number in kept) - sum(tensors[number][1] for number in freed)
