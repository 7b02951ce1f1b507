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
