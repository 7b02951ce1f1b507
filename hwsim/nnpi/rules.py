"""The native compiler: capacity-and-size rules that place each tensor in the fastest memory that takes it.

Source: the EGRL paper (section 4) says only that the compiler is "a collection of heuristic rules specific
to the compute and memory capacity of the hardware". Which rules is an *assumption*, so there are several, by
name; the default has the best geometric-mean latency over the zoo (`benchmarks/baseline_rules.py`).

A rule sees no latency. It takes the tensors in some order and puts each where it still fits: a weight needs
its bytes at every step, an activation from its op to its last consumer (closed). Every result is a valid map.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.nnpi.tables import Ints, Tables
from hwsim.problem import Mapping16
from hwsim.usage_tree import add, most, nothing_used
from workloads.errors import InputError
from workloads.nearest import one_of

WEIGHT, ACTIVATION = 0, 1


@dataclass(frozen=True)
class Tensors:
    """The T tensors to place, int64 [T] each: WEIGHT or ACTIVATION (head) of an op, held in first..last (closed)."""

    op: Ints
    head: Ints
    size_bytes: Ints
    first: Ints
    last: Ints
    moved_bytes: Ints

    @property
    def density(self) -> NDArray[np.float64]:
        """Bytes moved per inference, for each byte held during one step, float64 [T]."""
        held = self.size_bytes.astype(np.float64) * (self.last - self.first + 1)
        return np.asarray(self.moved_bytes / held)


Key = NDArray[np.int64] | NDArray[np.float64]
Order = Callable[[Tensors], tuple[Key, ...]]


@dataclass(frozen=True)
class Rule:
    """A rule of the compiler.

    Attributes:
        name: as in `problem.baseline`.
        summary: one sentence, for people.
        order: sort keys [T], of which the first decides; tensors are placed in rising order.
        free_share: the share of the prefetch memory that stays empty, 0..1.
        largest_share: a tensor larger than this share of a memory is not put there, except in the slowest one.
    """

    name: str
    summary: str
    order: Order
    free_share: float = 0.0
    largest_share: float = 1.0


def _execution(t: Tensors) -> tuple[Key, ...]:
    return (t.op, t.head)


def _activations_first(t: Tensors) -> tuple[Key, ...]:
    return (-t.head, t.op)


def _weights_first(t: Tensors) -> tuple[Key, ...]:
    return (t.head, t.op)


def _smallest_first(t: Tensors) -> tuple[Key, ...]:
    return (t.size_bytes, t.op, t.head)


def _largest_first(t: Tensors) -> tuple[Key, ...]:
    return (-t.size_bytes, t.op, t.head)


def _by_density(t: Tensors) -> tuple[Key, ...]:
    return (-t.density, t.op, t.head)


def _largest_activations_first(t: Tensors) -> tuple[Key, ...]:
    return (-t.head, -t.size_bytes, t.op)


RESERVE = 1 / 8
SMALL = 1 / 4

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("execution-order", "op by op, weight before activation", _execution),
        Rule("activations-first", "all activations in execution order, then all weights", _activations_first),
        Rule("weights-first", "all weights in execution order, then all activations", _weights_first),
        Rule("smallest-first", "by rising size", _smallest_first),
        Rule("largest-first", "by falling size", _largest_first),
        Rule("traffic-density", "by falling bytes moved for one byte held one step", _by_density),
        Rule(
            "largest-activations-first",
            "activations by size, then weights by size",
            _largest_activations_first,
        ),
        Rule("execution-order-small", "op by op, no tensor over 1/4 of a memory", _execution, 0.0, SMALL),
        Rule("smallest-first-reserve", "by rising size, 1/8 left for prefetch", _smallest_first, RESERVE),
        Rule("execution-order-reserve", "op by op, 1/8 left for prefetch", _execution, RESERVE),
        Rule("traffic-density-reserve", "by density, 1/8 left for prefetch", _by_density, RESERVE),
        Rule(
            "largest-activations-first-reserve",
            "activations by size, then weights by size, 1/8 left for prefetch",
            _largest_activations_first,
            RESERVE,
        ),
    )
}
"""All rules by name."""

DEFAULT_RULE = "largest-activations-first-reserve"


def rule_named(name: str) -> Rule:
    """The rule called `name`.

    Raises:
        InputError: no such rule.
    """
    if name not in RULES:
        raise InputError(f"baseline: {one_of(name, RULES)}")
    return RULES[name]


def tensors(tables: Tables) -> Tensors:
    """Every tensor that has a size, weights before activations of the same op."""
    ops = len(tables.weight_bytes)
    reads = np.zeros(ops, np.int64)
    np.add.at(reads, tables.edge_source, tables.edge_bytes)
    op, head = np.nonzero(np.stack([tables.weight_bytes, tables.activation_bytes], axis=1))
    is_weight = head == WEIGHT
    return Tensors(
        op,
        head,
        np.where(is_weight, tables.weight_bytes[op], tables.activation_bytes[op]),
        np.where(is_weight, 0, op),
        np.where(is_weight, ops - 1, tables.last_use[op]),
        np.where(is_weight, tables.weight_read_bytes[op], tables.written_bytes[op] + reads[op]),
    )


def compile_map(tables: Tables, rule: Rule) -> Mapping16:
    """The valid canonical map int16 [N, 2] that a rule makes."""
    ops, found = len(tables.weight_bytes), tensors(tables)
    budget = tables.capacity_bytes.astype(np.float64)
    budget[tables.into] *= 1.0 - rule.free_share
    largest: NDArray[np.float64] = rule.largest_share * tables.capacity_bytes.astype(np.float64)
    order = np.lexsort(rule.order(found)[::-1])
    head, size, first, last = (c[order] for c in (found.head, found.size_bytes, found.first, found.last))
    level = _first_fit(ops, head, size, first, last, _whole(largest), _whole(budget))
    mapping = np.full((ops, 2), -1, np.int16)
    mapping[found.op[order], found.head[order]] = level
    return mapping


def _whole(limits: NDArray[np.float64]) -> Ints:
    """The whole bytes within limits: an integer exceeds one if it exceeds the other. Int64 [L]."""
    return np.array([min(math.floor(limit), 2**63 - 1) for limit in limits.tolist()], np.int64)


@kernel
def _first_fit(
    ops: int, head: Ints, size_bytes: Ints, first: Ints, last: Ints, largest: Ints, budget: Ints
) -> NDArray[np.int16]:
    """The fastest memory that takes each of T tensors, in turn, int16 [T]; memory 0 takes what no other does.

    A weight is held at every step: one number of bytes per memory, which meets the fullest step of the activations.
    """
    levels = len(budget)
    live = [nothing_used(ops) for _ in range(levels)]
    pinned = np.zeros(levels, np.int64)
    chosen = np.zeros(len(head), np.int16)
    for k in range(len(head)):
        size, level = size_bytes[k], levels - 1
        from_step, to_step = (0, ops) if head[k] == WEIGHT else (first[k], last[k] + 1)
        while level > 0 and (
            size > largest[level]
            or pinned[level] + most(live[level], from_step, to_step) + size > budget[level]
        ):
            level -= 1
        if head[k] == WEIGHT:
            pinned[level] += size
        else:
            add(live[level], from_step, to_step, size)
        chosen[k] = level
    return chosen
