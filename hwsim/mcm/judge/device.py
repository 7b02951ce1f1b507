"""What each chip holds at most on the device model, by code that shares nothing with it. Slow and obvious.

The rules are 1 to 3 of `hwsim/mcm/device.py`: stages, order, memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwsim.problem import Violation


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
    for source, _, readers in tensors:
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
        allowed = [
            stage[reader] - (place[reader] != place[node])
            for source, _, readers in tensors
            for reader in readers
            if source == node
        ]
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
    nodes = [node for node, on in enumerate(place) if on == chip]
    always = sum(weight_bytes[node] for node in nodes)
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
    waiting = {
        node: {tensors[number][0] for number, readers in within.items() if node in readers} for node in nodes
    }
    live: set[int] = set()
    peak = always
    while waiting:
        choices = []
        for node, inputs in waiting.items():
            if not inputs:
                after = _after(node, live, within, until_the_end, tensors)
                choices.append((sum(tensors[number][1] for number in after), node, after))
        _, node, after = min(choices, key=lambda choice: choice[:2])
        peak = max(peak, always + sum(tensors[number][1] for number in live) + made_bytes[node])
        live = after
        for left in within.values():
            left.discard(node)
        del waiting[node]
        for inputs in waiting.values():
            inputs.discard(node)
    return peak


def _after(
    node: int,
    live: set[int],
    within: dict[int, set[int]],
    until_the_end: set[int],
    tensors: Sequence[tuple[int, int, Sequence[int]]],
) -> set[int]:
    """The tensors that are held once a node has run."""
    held = live | {number for number in within if tensors[number][0] == node}
    return {number for number in held if number in until_the_end or within[number] - {node}}
