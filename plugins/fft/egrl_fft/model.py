"""The cost of a plan by counting: instructions of its codelets, and the data they move through the caches.

It is there if nothing can be measured, or nothing may vary: for the default plans, and as the cost of the
problem with `cost = "model"`. It knows the lanes of this machine and typical sizes of caches, no more.

The prices are assumptions of the right order, from a least-squares fit over random plans of 2^6 .. 2^16 points on one
server core with AVX-512.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from egrl_fft.grammar import Plan
from egrl_fft.instructions import ARGUMENTS, Begin, Call, View
from egrl_fft.lowering import lower
from egrl_fft.symbols import Graph, dft
from hwsim.kernel_cache import lanes

BYTES = 16
NEAR_BYTES = 24 << 10
"""Half of a first-level cache: input and output share it."""
MIDDLE_BYTES = 512 << 10
"""Half of a second-level cache."""
SET_BYTES = 4096
"""Addresses that far apart meet in one set of a first-level cache."""

FEATURES = ("plan", "call", "arithmetic", "near", "far", "middle", "distant", "conflict")
PRICES_NS = (1000.0, 15.0, 0.18, 0.07, 0.21, 0.08, 0.35, 0.66)
"""Of a plan; a call; an instruction on registers; a register moved; a number moved by itself; a number moved to or from
what fits the second cache only, or neither; a number of a codelet whose numbers meet in one set."""


@dataclass(frozen=True)
class Counts:
    """The number of times that each of FEATURES occurs in one DFT."""

    values: tuple[float, ...]

    def seconds(self, prices_ns: tuple[float, ...] = PRICES_NS) -> float:
        """At these prices."""
        return math.fsum(a * b for a, b in zip(self.values, prices_ns, strict=True)) * 1e-9


@functools.cache
def operations(size: int) -> int:
    """Real additions and multiplications of a codelet, without twiddle factors."""
    graph = Graph()
    dft(graph, [graph.load(j) for j in range(size)])
    return sum(node.kind != "load" for node in graph.nodes)


def counts(plan: Plan) -> Counts:
    """What one DFT by a complete plan does."""
    totals = dict.fromkeys(FEATURES, 0.0)
    totals["plan"] = 1.0
    times: list[int] = []
    for item in lower(plan, None).code:
        match item:
            case Begin(count):
                times.append(count)
            case Call():
                _count(totals, item, times)
            case _:
                times.pop()
    return Counts(tuple(totals[name] for name in FEATURES))


def seconds(plan: Plan) -> float:
    """The modelled seconds of one DFT."""
    return counts(plan).seconds()


def _count(totals: dict[str, float], call: Call, times: list[int]) -> None:
    often = math.prod(times)
    totals["call"] += often
    if call.kind is None:
        numbers = float(call.arguments[0] * call.arguments[1])
        totals["far"] += often * 2 * numbers
        return
    argument = dict(zip(ARGUMENTS, call.arguments, strict=True))
    size, width = call.kind.size, lanes()
    whole, rest = divmod(argument["count"], width)
    wide = often * argument["outer"] * (whole + (1 if rest and whole and argument["overlap"] else 0))
    single = often * argument["outer"] * (0 if rest and whole and argument["overlap"] else rest)
    factors = 0 if call.kind.twiddle == "none" else max(1, size - 1)
    totals["arithmetic"] += (wide + single) * (operations(size) + 6 * factors)
    if call.kind.twiddle.endswith("each"):
        totals["near"] += 2 * factors * (wide + single)
    numbers = float(often * argument["outer"] * argument["count"] * size)
    sides = (
        (call.source, call.kind.near_in, argument["is"], argument["iv"]),
        (call.target, call.kind.near_out, argument["os"], argument["ov"]),
    )
    for view, near, element, vector in sides:
        totals["near"] += 2 * size * (single + (wide if near else 0))
        totals["far"] += 0 if near else size * width * wide
        region = _region_bytes(view, argument["count"] * argument["outer"] * size, times)
        if region > MIDDLE_BYTES:
            totals["distant"] += numbers
        elif region > NEAR_BYTES:
            totals["middle"] += numbers
        spread = size if element * BYTES % SET_BYTES == 0 else 0
        spread = max(spread, width if not near and vector * BYTES % SET_BYTES == 0 else 0)
        if spread > 8:
            totals["conflict"] += numbers


def _region_bytes(view: View, numbers: int, times: list[int]) -> int:
    """What a call goes through with all loops around it that move the view."""
    moved = [count for count, stride in zip(times, view.around, strict=True) if stride]
    return BYTES * numbers * math.prod(moved)
