"""Where a cost comes from, in the words in which problems answer: op by op, or chip by chip."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpTime:
    """One op of one inference.

    Attributes:
        name: of the op.
        weight, activation: memories they lie in; None where there is no such tensor.
        start_s, duration_s: seconds since the inference began, and how long.
        bound_by: what set the duration: "mac", "dsp", "measured", a memory's name, or "overhead" (the
            launch takes longer than the work).
        traffic_bytes: by memory name, what the op moved over it, crossing traffic included.
        prefetched_bytes: bytes of the weight that had been fetched before the op began.
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


@dataclass(frozen=True)
class OpTimes:
    """One inference: its ops in execution order and their totals (seconds, and bytes by memory name).

    `seconds_bound_by` shares out the latency over what bound the ops.
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
        nodes: how many it has.
        busy_s: seconds a sample that it is busy, by the model of the problem.
        weight_bytes: of its nodes.
        peak_bytes: the most that it holds on the device model.
        link_s: seconds a sample that the link to the next chip is busy; 0 where the chips' times hold the transfers.
        link_bytes: what passes that link a sample.
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
        chips: each chip, used or not.
        cost_s: seconds a sample; `bottleneck` is what takes them ("chip 3", "link 3 -> 4").
        capacity_bytes: of a chip.
        stages: of the pipeline, as the device model has them.
    """

    chips: tuple[ChipUse, ...]
    cost_s: float
    bottleneck: str
    capacity_bytes: int
    stages: int


@dataclass(frozen=True)
class Payer:
    """A node that much of a cost is paid for.

    Attributes:
        node, choice: names.
        own_cost: of the choice by itself.
        edge_cost: of the edges at the node, each of which another node shares.
    """

    node: str
    choice: str
    own_cost: int
    edge_cost: float


@dataclass(frozen=True)
class Holder:
    """A node that is in memory at the fullest time: its choice, what it uses, and from when until when (half-open)."""

    node: str
    choice: str
    used: int
    start: int
    end: int


@dataclass(frozen=True)
class Breakdown:
    """Where the cost of a choice goes, and its memory at the fullest time; whole numbers, as the workload has them.

    Attributes:
        cost: exact.
        parts: of the cost, by name; they add up to it.
        payers: the nodes that most is paid for, an edge counting half to either end; dearest first.
        limit, peak: of memory, and the most that is used, at `peak_time`.
        holders: who uses the most then; largest first.
    """

    cost: int
    parts: dict[str, int]
    payers: tuple[Payer, ...]
    limit: int
    peak: int
    peak_time: int
    holders: tuple[Holder, ...]
