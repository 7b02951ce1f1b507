"""Explanations of a cost, as data: op by op, chip by chip, or as a sum of parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpTime:
    """One op of one inference.

    Attributes:
        name: of the op.
        weight: the memory that holds its weight; None if it has none.
        activation: the memory that holds its activation; None if it has none.
        start_s: when it starts, in seconds since the inference began.
        duration_s: how long it takes, in seconds.
        bound_by: what set the duration: "mac", "dsp", "measured", a memory's name, or "overhead" if the launch takes
            longer than the work.
        traffic_bytes: the bytes that it moves over each memory, by name, crossing traffic included.
        prefetched_bytes: bytes of its weight that were fetched before it began.
        fetched_bytes: bytes of later weights that were fetched while it ran.
    """

    name: str
    weight: str | None
    activation: str | None
    start_s: float
    duration_s: float
    bound_by: str
    traffic_bytes: dict[str, int]
    prefetched_bytes: int
    fetched_bytes: int


CAUSES = {
    "mac": "matrix engines",
    "dsp": "vector units",
    "overhead": "starting ops",
    "measured": "ops whose times are given",
}
"""Names of the limits of ops (`OpTime.bound_by`); memories have their own names."""


def cause_text(name: str) -> str:
    """What texts and figures call the limit of an op."""
    return CAUSES.get(name, name)


@dataclass(frozen=True)
class OpTimes:
    """One inference.

    Attributes:
        latency_s: seconds of the whole.
        ops: in execution order.
        traffic_bytes: bytes that all ops move over each memory, by name.
        prefetched_bytes: bytes of weights that were fetched before their ops began.
        seconds_bound_by: the latency in seconds, divided by what bound the ops (`OpTime.bound_by`).
    """

    latency_s: float
    ops: tuple[OpTime, ...]
    traffic_bytes: dict[str, int]
    prefetched_bytes: int
    seconds_bound_by: dict[str, float]


@dataclass(frozen=True)
class ChipUse:
    """One chip and the link to the next.

    Attributes:
        name: the chip's number.
        nodes: number of nodes on it.
        busy_s: seconds per sample that it is busy, by the model of the problem.
        weight_bytes: bytes of its nodes' weights.
        peak_bytes: the most bytes that it holds at once on the device model.
        link_s: seconds per sample that the link to the next chip is busy; 0 if `busy_s` includes the transfers.
        link_bytes: bytes per sample that pass that link.
    """

    name: str
    nodes: int
    busy_s: float
    weight_bytes: int
    peak_bytes: int
    link_s: float
    link_bytes: int


@dataclass(frozen=True)
class Partition:
    """A partition on a package.

    Attributes:
        chips: all chips, used or not.
        cost_s: seconds per sample.
        bottleneck: the busiest chip or link, which sets the cost ("chip 3", "link 3 -> 4").
        capacity_bytes: bytes that each chip can hold.
        stages: number of stages of the pipeline on the device model.
    """

    chips: tuple[ChipUse, ...]
    cost_s: float
    bottleneck: str
    capacity_bytes: int
    stages: int


@dataclass(frozen=True)
class Payer:
    """A node that causes much of a cost.

    Attributes:
        node: its name.
        choice: the name of its choice.
        own_cost: cost of the choice by itself, in the problem's unit.
        edge_cost: cost of the edges at the node; each edge belongs to another node as well.
    """

    node: str
    choice: str
    own_cost: float
    edge_cost: float


@dataclass(frozen=True)
class Holder:
    """A node that is in memory at the fullest time.

    Attributes:
        node: its name.
        choice: the name of its choice.
        used: memory that the choice uses, in the workload's unit.
        start: the first time at which it is in memory.
        end: the first time at which it no longer is.
    """

    node: str
    choice: str
    used: int
    start: int
    end: int


@dataclass(frozen=True)
class Breakdown:
    """The parts of a cost in the problem's unit, and the use of memory at the fullest time in whole numbers.

    Attributes:
        cost: the sum of the parts; exact if the problem's costs are whole numbers.
        parts: of the cost, by name; they add up to it.
        payers: the nodes that cause the most cost, dearest first; an edge counts half to either end.
        limit: of memory.
        peak: the most memory that is used at any time.
        peak_time: when that is.
        holders: the nodes that use the most memory then, largest first.
    """

    cost: float
    parts: dict[str, float]
    payers: tuple[Payer, ...]
    limit: int
    peak: int
    peak_time: int
    holders: tuple[Holder, ...]
