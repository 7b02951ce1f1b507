"""The cost models and rules of multi-chip modules in plain Python, over the same tables."""

from __future__ import annotations

from typing import Any


def tensors_of(t: Any) -> list[tuple[int, int, float, list[int]]]:
    """(node that makes it, bytes, seconds on a link, nodes that read it) of each tensor."""
    return [
        (
            int(t.source[k]),
            int(t.tensor_bytes[k]),
            float(t.tensor_s[k]),
            t.reader[t.read_start[k] : t.read_start[k + 1]].tolist(),
        )
        for k in range(len(t.source))
    ]


def busy(t: Any, place: list[int]) -> tuple[list[float], list[float]]:
    """Seconds that chips and links are busy by the analytical model."""
    chip_s, link_s = [0.0] * t.chips, [0.0] * t.chips
    for node, chip in enumerate(place):
        chip_s[chip] += float(t.compute_s[node])
    for source, _, seconds, readers in tensors_of(t):
        home, others = place[source], []
        for reader in readers:
            if place[reader] != home and place[reader] not in others:
                others.append(place[reader])
        if t.transfers and others:
            chip_s[home] += seconds
        for chip in others:
            if t.transfers:
                chip_s[chip] += seconds
        for hop in range(max(((chip - home) % t.chips for chip in others), default=0)):
            link_s[(home + hop) % t.chips] += seconds
    return chip_s, link_s


def device_times(d: Any, place: list[int]) -> tuple[list[float], list[float]]:
    """Seconds that chips and links are busy on the device."""
    chip_s, link_s = [0.0] * d.chips, [0.0] * d.chips
    for node, chip in enumerate(place):
        chip_s[chip] += float(d.run_s[node])
    for source, size, seconds, readers in tensors_of(d):
        home = place[source]
        moving = seconds if d.transfers else size / d.sram_Bps
        for chip in dict.fromkeys(place[reader] for reader in readers):
            if chip != home:
                chip_s[home] += moving
                chip_s[chip] += moving
                at = home
                while at != chip:
                    link_s[at] += seconds + d.hop_s
                    at = (at + 1) % d.chips
    return chip_s, link_s
