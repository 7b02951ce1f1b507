"""What a placement costs: the judge of the suite's `nnpi` instances, in plain Python and numpy, to be read at once.

A network is a list of ops in the order in which they run. Each op may have a *weight*, held from the first op to the
last, and an *activation*, its output, held from the op itself to the last op that reads it. A placement names a memory
for each of these: int [N, 2] (weight, activation); memory 0 is the slowest, -1 stands where there is no such tensor.

What does not fit is moved, as a compiler would do it: op by op, weight first, a tensor goes to the fastest memory not
above the wanted one that has room for it at all of its steps. Then the ops run one after the other. Op i takes

    launch + max(c, S) + serial * min(c, S)         c: seconds of its engines; S: seconds of its transfers
    S = max over memories of s + shared * the sum of the other memories' s
    s = bytes / bandwidth + transfers * access       of one memory

and meanwhile a DMA fetches the weights of later ops, in their order, from the slowest memory into the free part of the
memory `prefetch.into`, with the bandwidth that op i leaves idle. `network` is a workload file of egrl, parsed; `chip` a
chip file, parsed. Nothing but numpy is imported. Lists are used where one number at a time is read: they are faster.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

REARRANGING = ("reshape", "concat", "split")
"""Kinds of op that only rearrange bytes: an input that lies in the memory of the output is not moved."""

ON = dict.fromkeys(("cross", "prefetch", "contention", "moves", "overhead"), True)
"""Effects that count unless the chip switches them off."""


class Wrong(ValueError):
    """A placement that cannot be judged at all."""


class Judge:
    """A network on a chip.

    Attributes:
        sizes: int64 [N, 2], bytes of weight and activation; 0: there is none.
        first, last: int64 [N, 2], steps at which each tensor is held, both included.
        capacity: int64 [L], bytes that tensors may take of each memory, slowest first.
    """

    def __init__(self, network: dict[str, Any], chip: dict[str, Any]) -> None:
        self.ops, self.chip, memories = network["ops"], chip, chip["memories"]
        self.names = [memory["name"] for memory in memories]
        self.capacity = np.array([m["capacity_bytes"] - m.get("reserved_bytes", 0) for m in memories])
        self.bandwidth = [float(m["bandwidth_Bps"]) for m in memories]
        self.access = [float(m.get("access_s", 0.0)) for m in memories]
        self.effects = ON | chip.get("effects", {})
        self.into, self.via = (self.names.index(chip["prefetch"][what]) for what in ("into", "via"))
        self.serial, self.shared = (chip.get("waiting", {}).get(what, 0.0) for what in ("serial", "shared"))
        self.launch = chip["overhead"]["launch_s"] if self.effects["overhead"] else 0.0
        own, widths = network.get("element_bytes", {}), chip["element_bytes"]
        weight = Fraction(widths["weight"]) / Fraction(own.get("weight", 1.0))
        activation = Fraction(widths["activation"]) / Fraction(own.get("activation", 1.0))
        traffic = chip.get("factors", {}).get("traffic", {})
        factor = [Fraction(traffic.get(op["kind"], 1.0)) for op in self.ops]
        at = {op["name"]: i for i, op in enumerate(self.ops)}

        count = len(self.ops)
        held = [ceil(op.get("weight_bytes", 0) * weight) for op in self.ops]
        made = [ceil(op["output_bytes"] * activation) for op in self.ops]
        self.sizes = np.array([held, made], np.int64).T.copy()
        self.first = np.stack([np.zeros(count, np.int64), np.arange(count)], axis=1)
        self.last = np.stack([np.full(count, count - 1), np.arange(count)], axis=1)
        # Per op: the ops that it reads, and bytes of each.
        self.inputs: list[list[tuple[int, int]]] = [[] for _ in self.ops]
        for i, op in enumerate(self.ops):
            for edge in op["inputs"]:
                source = at[edge if isinstance(edge, str) else edge["source"]]
                read = self.ops[source]["output_bytes"] if isinstance(edge, str) else edge["read_bytes"]
                self.inputs[i].append((source, ceil(read * activation * factor[source])))
                self.last[source, 1] = i

        read = [op.get("weight_read_bytes", 0) * (size > 0) for op, size in zip(self.ops, held, strict=True)]
        self.steps = [op.get("steps", 1) for op in self.ops]
        each = list(zip(read, self.steps, factor, held, strict=True))
        self.weight_read = [n * ceil(size * weight * f) for size, n, f, _ in each]
        # How often a weight is read whole in all steps; the DMA cannot fetch what is only gathered by rows.
        self.passes = [ceil(size * weight) // max(whole, 1) * n for size, n, _, whole in each]
        self.pass_bytes = [n * float(f) for n, f in zip(self.passes, factor, strict=True)]
        whole = [op["output_bytes"] for op in self.ops]
        self.written = [ceil(size * activation * f) for size, f in zip(whole, factor, strict=True)]
        self.outside = [ceil(op.get("external_bytes", 0) * activation) for op in self.ops]
        self.engine_s = [self._engine_s(op) for op in self.ops]

    def _engine_s(self, op: dict[str, Any]) -> float:
        """Seconds of the multiply-accumulate grids or of the vector units, whichever take longer; or as measured."""
        if op.get("latency_s") is not None:
            return float(op["latency_s"])
        c, grid_s = self.chip["compute"], 0.0
        if op.get("gemm"):
            g = op["gemm"]
            tiles = g["groups"] * -(-g["rows"] // c["mac_rows"]) * -(-g["cols"] // c["mac_cols"])
            grid_s = -(-tiles // c["ices"]) * -(-g["reduction"] // c["mac_depth"]) / c["clock_Hz"]
        vector_s = op.get("vector_ops", 0) / (c["ices"] * c["dsp_lanes"] * c["clock_Hz"])
        factor = self.chip.get("factors", {}).get("compute", {}).get(op["kind"], 1.0)
        return float(max(grid_s * factor, vector_s * factor))

    def checked(self, mapping: Any) -> NDArray[np.int16]:
        """The placement as int16 [N, 2], -1 where there is no tensor. Raises Wrong if it is none."""
        try:
            given = np.asarray(mapping)
        except ValueError as error:
            raise Wrong(str(error)) from None
        if given.shape != self.sizes.shape or given.dtype.kind not in "iuf":
            raise Wrong(f"expected numbers [{len(self.ops)}, 2], found {given.dtype} {list(given.shape)}")
        found = np.where(self.sizes > 0, given, -1)
        if not np.all((self.sizes == 0) | np.isin(found, range(len(self.names)))):
            raise Wrong(f"expected memories 0 to {len(self.names) - 1}, found others")
        return np.asarray(found, np.int16)

    def fitted(self, mapping: Any) -> NDArray[np.int16]:
        """What runs of a placement: tensors that do not fit moved to slower memories."""
        found = self.checked(mapping)
        used = np.zeros((len(self.names), len(self.ops)), np.int64)
        for i, head in np.argwhere(found > 0).tolist():
            size, span = self.sizes[i, head], slice(self.first[i, head], self.last[i, head] + 1)
            at = int(found[i, head])
            while at > 0 and used[at, span].max() + size > self.capacity[at]:
                at -= 1
            used[at, span] += size
            found[i, head] = at
        return found

    def cost(self, mapping: Any) -> float:
        """Seconds of one inference."""
        return float(sum(self.profile(mapping)))

    def profile(self, mapping: Any) -> list[float]:
        """Seconds of each op of what runs of a placement."""
        place, into = self.fitted(mapping).tolist(), self.into
        sizes, durations = self.sizes.tolist(), []
        streamed = [w == 0 and n > 0 for (w, _), n in zip(place, self.passes, strict=True)]
        stream_end = int(self.sizes[streamed, 0].sum())
        # Bytes of the memory `into` that are free; of the stream of weights, that are needed no more, and fetched.
        free = int(self.capacity[into] - self.sizes[np.array(place)[:, 0] == into, 0].sum())
        gone = fetched = 0
        ends: list[list[int]] = [[] for _ in place]  # the activations that give their room back after each op
        for i in np.flatnonzero(np.array(place)[:, 1] == into).tolist():
            ends[int(self.last[i, 1])].append(i)
        for i, (w, a) in enumerate(place):
            moved, started = [0.0] * len(self.names), [0] * len(self.names)
            if a == into:
                free -= sizes[i][1]
            fetched = max(gone, min(fetched, gone + free))  # what has no room is given up, the latest first
            ready = 0
            if w >= 0:
                from_home = float(self.weight_read[i])
                if streamed[i]:
                    ready = min(sizes[i][0], fetched - gone)
                    moved[into] += ready * self.pass_bytes[i]
                    from_home -= ready * self.pass_bytes[i]
                    gone += sizes[i][0]
                    fetched = max(gone, fetched)
                moved[w] += from_home
                started[w] += self.steps[i] if self.weight_read[i] else 0
            self._activations(i, place, moved, started)
            durations.append(self._seconds(i, moved, started))
            if self.effects["prefetch"] and fetched < stream_end:
                busy = (
                    {0, into, self.via if self.effects["cross"] else 0} if self.effects["contention"] else {0}
                )
                idle = min(durations[i] * self.bandwidth[m] - moved[m] for m in busy)
                room = min(free - ready - (fetched - gone), stream_end - fetched)
                fetched += int(max(0.0, min(idle, float(room))))
            free += sum(sizes[dead][1] for dead in ends[i])
        return durations

    def _activations(self, i: int, place: list[list[int]], moved: list[float], started: list[int]) -> None:
        """Add what op i reads of others' outputs and writes of its own, and what crosses the slowest memory."""
        home, stays, moves = place[i][1], 0, self.effects["moves"]
        for source, size in self.inputs[i]:
            at = place[source][1]
            if moves and self.ops[i]["kind"] in REARRANGING and at == home:
                stays += size
            elif at >= 0:
                moved[at] += size
                started[at] += size > 0
        if home >= 0:
            moved[home] += max(self.written[i] - stays, 0)
            started[home] += 1
        if moves:
            moved[0] += self.outside[i]
            moved[0] += self.written[i] if self.ops[i].get("is_output") and home > 0 else 0
        if self.effects["cross"]:
            moved[self.via] += moved[0]

    def _seconds(self, i: int, moved: list[float], started: list[int]) -> float:
        """The equation at the top."""
        each = [moved[m] * (1.0 / self.bandwidth[m]) + started[m] * self.access[m] for m in range(len(moved))]
        transfers = max(each) + self.shared * (sum(each) - max(each))
        engine = self.engine_s[i]
        return float(self.launch + (max(engine, transfers) + self.serial * min(engine, transfers)))
