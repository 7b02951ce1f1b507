"""The cost of a partition under a model of the family (the analytical model with more terms), and its slope.

A chip is busy with its nodes, and with a share of each message that it sends or receives; a link with messages, their
bytes at its rate and a latency each. The busiest of all sets the pace, so a slope is that one's alone.

What a chip has to hold is learned from partitions that did not run. Packages say what fits, and that weights must:
what else a chip holds is for its compiler. A limit is two factors: on the bytes of tensors that a chip sends and
receives (buffers), and on those that the node with the most reads and makes (working set). The prior is log-normal
around 1; what ran and what did not is weighed on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from hwsim.family import Limits
from hwsim.jit import kernel
from hwsim.mcm.cost import Tables
from hwsim.problem import Floats

Places16 = NDArray[np.int16]


class Terms(NamedTuple):
    """A model of N nodes and T tensors on C chips, as the kernels read it.

    Attributes:
        node_s: float64 [N], seconds of each node.
        by_compute, by_moving, by_serial: float64 [N], d node_s / d log of its compute and moving times and of `serial`.
        launch_s: of each node; part of `node_s`.
        tensor_s: float64 [T], seconds on a link.
        latency_s: of a message on a link, beside its bytes.
        busy_share: share of `tensor_s` that sender and receiver are busy with a message.
        copies: 1 if each chip that reads a tensor gets a message of its own, else 0: one passes on along the ring.
        chip: float64 [C], factor on all that a chip does.
        residual: float64 [K, C], what a chip needs more for nodes of a kind, as a share of them.
        kind: int64 [N], in 0..K - 1.
    """

    node_s: Floats
    by_compute: Floats
    by_moving: Floats
    by_serial: Floats
    launch_s: float
    tensor_s: Floats
    latency_s: float
    busy_share: float
    copies: int
    chip: Floats
    residual: Floats
    kind: NDArray[np.int64]


@kernel
def fill(tables: Tables, terms: Terms, place: Places16, chip_s: Floats, link_s: Floats) -> None:
    """Write busy seconds of chips [C] and links [C] under one partition [N]; links have none with `transfers`."""
    chip_s[:] = 0.0
    link_s[:] = 0.0
    for n in range(len(place)):
        chip_s[place[n]] += terms.node_s[n] * (1.0 + terms.residual[terms.kind[n], place[n]])
    # The tensor that a chip received last: however many of its nodes read a tensor, it receives that once.
    seen = np.full(tables.chips, -1, np.int64)
    for k in range(len(tables.source)):
        home, far, sent = int(place[tables.source[k]]), 0, False
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = int(place[tables.reader[at]])
            hops = (chip - home) % tables.chips
            if hops == 0 or seen[chip] == k:
                continue
            seen[chip] = k
            chip_s[chip] += terms.busy_share * terms.tensor_s[k]
            if terms.copies or not sent:
                chip_s[home] += terms.busy_share * terms.tensor_s[k]
            sent = True
            if terms.copies:
                for hop in range(hops):
                    link_s[(home + hop) % tables.chips] += terms.tensor_s[k] + terms.latency_s
            far = max(far, hops)
        if not terms.copies:
            for hop in range(far):
                link_s[(home + hop) % tables.chips] += terms.tensor_s[k] + terms.latency_s
    chip_s *= terms.chip
    if tables.transfers:
        link_s[:] = 0.0


@kernel
def predictions(tables: Tables, terms: Terms, places: Places16) -> Floats:
    """Seconds per sample, float64 [B], of partitions int16 [B, N]: the busiest chip or link."""
    out = np.empty(len(places))
    chip_s, link_s = np.empty(tables.chips), np.empty(tables.chips)
    for b in range(len(places)):
        fill(tables, terms, places[b], chip_s, link_s)
        out[b] = max(chip_s.max(), link_s.max())
    return out


@kernel
def _slope(
    tables: Tables, terms: Terms, place: Places16, at_chip: int, at_link: int, total_s: float, slope: Floats
) -> None:
    """Write the slope of the busy time of one chip (or, if that is -1, of one link), in the order of `gradients`."""
    nodes = len(place)
    launch, serial, rate = 2 * nodes, 2 * nodes + 1, 2 * nodes + 2
    latency, share, chips = 2 * nodes + 3, 2 * nodes + 4, 2 * nodes + 5
    slope[:] = 0.0
    factor = 1.0
    if at_chip >= 0:
        factor = terms.chip[at_chip]
        slope[chips + at_chip] = total_s
        for n in range(nodes):
            if place[n] == at_chip:
                own = factor * (1.0 + terms.residual[terms.kind[n], at_chip])
                slope[n] = own * terms.by_compute[n]
                slope[nodes + n] = own * terms.by_moving[n]
                slope[launch] += own * terms.launch_s
                slope[serial] += own * terms.by_serial[n]
    # Messages: a chip receives a tensor once, however many nodes read it.
    seen = np.full(tables.chips, -1, np.int64)
    for k in range(len(tables.source)):
        home, far, messages = int(place[tables.source[k]]), 0, 0
        for at in range(tables.read_start[k], tables.read_start[k + 1]):
            chip = int(place[tables.reader[at]])
            hops = (chip - home) % tables.chips
            if hops == 0 or seen[chip] == k:
                continue
            seen[chip] = k
            messages += 1
            busy = 0
            if chip == at_chip:
                busy += 1
            if home == at_chip and (terms.copies or messages == 1):
                busy += 1
            moved_s = factor * busy * terms.busy_share * terms.tensor_s[k]
            slope[rate] -= moved_s
            if not tables.transfers:
                slope[share] += moved_s
            if terms.copies and at_link >= 0 and (at_link - home) % tables.chips < hops:
                slope[rate] -= terms.tensor_s[k]
                slope[latency] += terms.latency_s
            far = max(far, hops)
        if not terms.copies and at_link >= 0 and (at_link - home) % tables.chips < far:
            slope[rate] -= terms.tensor_s[k]
            slope[latency] += terms.latency_s


@kernel
def gradients(tables: Tables, terms: Terms, places: Places16) -> tuple[Floats, Floats]:
    """Seconds float64 [B] of partitions int16 [B, N], and their slopes float64 [B, 2 N + 5 + C].

    A slope is d seconds / d log of: compute seconds [N], moving seconds [N], launch, `serial`, the rate of links, the
    latency of messages, the share of messages that chips are busy with, factors of chips [C].
    """
    out = np.empty(len(places))
    slopes = np.empty((len(places), 2 * places.shape[1] + 5 + tables.chips))
    chip_s, link_s = np.empty(tables.chips), np.empty(tables.chips)
    for b in range(len(places)):
        fill(tables, terms, places[b], chip_s, link_s)
        chip, link = int(chip_s.argmax()), int(link_s.argmax())
        if chip_s[chip] >= link_s[link]:
            link, out[b] = -1, chip_s[chip]
        else:
            chip, out[b] = -1, link_s[link]
        _slope(tables, terms, places[b], chip, link, out[b], slopes[b])
    return out, slopes


@kernel
def loads(tables: Tables, terms: Terms, places: Places16) -> Floats:
    """float64 [B, K, C]: seconds of the nodes of each kind on the busiest chip; 0 elsewhere and where a link sets the
    pace."""
    out = np.zeros((len(places), len(terms.residual), tables.chips))
    chip_s, link_s = np.empty(tables.chips), np.empty(tables.chips)
    for b in range(len(places)):
        fill(tables, terms, places[b], chip_s, link_s)
        chip = int(chip_s.argmax())
        if chip_s[chip] >= link_s.max():
            for n in range(places.shape[1]):
                if places[b, n] == chip:
                    out[b, terms.kind[n], chip] += terms.node_s[n] * terms.chip[chip]
    return out


SPREAD, REACH, POINTS = 1.0, 2.5, 25
"""Prior standard deviation of the logarithm of each factor; how far the grid reaches; its points along an axis."""
WIDTH = 0.01
"""How sharp the limit is, as a share of a chip's memory: the grid is coarse, and so are its two terms."""
OTHER = 0.03
"""Share of failures that memory has no part in, and of partitions that run against what is thought."""


@kernel
def held(tables: Tables, made_bytes: NDArray[np.int64], places: NDArray[np.int16]) -> Floats:
    """float64 [B, C, 3]: bytes of weights, of tensors sent and received, and of the largest working set of a node."""
    out = np.zeros((len(places), tables.chips, 3))
    seen = np.empty(tables.chips, np.int64)
    read = np.empty(places.shape[1])
    for b in range(len(places)):
        place = places[b]
        seen[:] = -1
        for n in range(len(place)):
            out[b, place[n], 0] += tables.weight_bytes[n]
            read[n] = made_bytes[n]
        for k in range(len(tables.source)):
            home = place[tables.source[k]]
            for at in range(tables.read_start[k], tables.read_start[k + 1]):
                read[tables.reader[at]] += tables.tensor_bytes[k]
                chip = place[tables.reader[at]]
                if chip != home and seen[chip] != k:
                    seen[chip] = k
                    out[b, chip, 1] += tables.tensor_bytes[k]
                    if seen[home] != k:
                        seen[home] = k
                        out[b, home, 1] += tables.tensor_bytes[k]
        for n in range(len(place)):
            out[b, place[n], 2] = max(out[b, place[n], 2], read[n])
    return out


def needed(held_bytes: Floats, limit: Floats) -> Floats:
    """float64 [..., C]: bytes that chips need, of `held` [..., C, 3] and a limit float64 [2]."""
    return np.asarray(held_bytes[..., 0] + held_bytes[..., 1:] @ np.exp(limit))


@dataclass(frozen=True)
class MemoryLimits(Limits):
    """The belief about the limit of chips of some bytes: log weights float64 [G] of limits float64 [G, 2].

    A limit is the logarithms of the two factors.
    """

    tables: Tables
    made_bytes: NDArray[np.int64]
    grid: Floats
    log_weight: Floats

    @staticmethod
    def prior(tables: Tables, made_bytes: NDArray[np.int64]) -> MemoryLimits:
        """Before anything is known."""
        axis = np.linspace(-REACH, REACH, POINTS)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        log_weight = -0.5 * np.square(grid / SPREAD).sum(axis=1)
        return MemoryLimits(tables, made_bytes, grid, log_weight - logsumexp(log_weight))

    def _chance(self, places: NDArray[np.int16]) -> Floats:
        """float64 [G, B]: with each limit the probability that a partition [B, N] runs."""
        if self.tables.capacity < 0:
            return np.full((len(self.grid), len(places)), 1 - OTHER)
        bytes_held = held(self.tables, self.made_bytes, places)
        most = np.stack([needed(bytes_held, limit).max(axis=1) for limit in self.grid])
        left = (self.tables.capacity - most) / (WIDTH * max(self.tables.capacity, 1))
        return np.asarray(OTHER + (1 - 2 * OTHER) * expit(np.clip(left, -50, 50)))

    def given(self, ran: NDArray[np.int16], failed: NDArray[np.int16]) -> MemoryLimits:
        """With what is known of partitions [B, N, 1] that ran, and of others that did not."""
        log_weight = self.log_weight + np.log(self._chance(_flat(ran))).sum(axis=1)
        log_weight = log_weight + np.log(1 - self._chance(_flat(failed))).sum(axis=1)
        return MemoryLimits(self.tables, self.made_bytes, self.grid, log_weight - logsumexp(log_weight))

    def mode(self) -> Floats:
        """The most likely limit, float64 [2]."""
        return self.grid[int(np.argmax(self.log_weight))]

    def sample(self, rng: np.random.Generator) -> Floats:
        """A limit drawn by its weight, float64 [2]."""
        weight = np.exp(self.log_weight)
        return self.grid[rng.choice(len(weight), p=weight / weight.sum())]

    def probability(self, mapping: NDArray[np.int16]) -> Floats:
        """float64 [B]: how likely mappings [B, N, 1] are to run."""
        return np.asarray(np.exp(self.log_weight) @ self._chance(_flat(mapping)))


def _flat(mapping: NDArray[np.int16]) -> NDArray[np.int16]:
    return np.ascontiguousarray(mapping[:, :, 0])
