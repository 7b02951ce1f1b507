"""The native compiler: capacity-and-size rules that place each tensor in the fastest memory that takes it.

Source: the EGRL paper (section 4) says only that the compiler is "a collection of heuristic rules specific
to the compute and memory capacity of the hardware". Which rules is an *assumption*, so there are several, by
name; the default has the best geometric-mean latency over the zoo (`benchmarks/baseline_rules.py`).

A rule sees no latency. It takes the tensors in some order and puts each where it still fits: a weight needs
its bytes at every step, an activation from its op to its last consumer (closed). Every result is a valid map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.tables import Tables
from hwsim.problem import Mapping16
from workloads.errors import InputError
from workloads.nearest import one_of

WEIGHT, ACTIVATION = 0, 1


@dataclass(frozen=True)
class Tensor:
    """A tensor to place: WEIGHT or ACTIVATION (head) of an op, held in steps first..last (closed)."""

    op: int
    head: int
    size_bytes: int
    first: int
    last: int
    moved_bytes: int

    @property
    def density(self) -> float:
        """Bytes moved per inference, for each byte held during one step."""
        return self.moved_bytes / (self.size_bytes * (self.last - self.first + 1))


Order = Callable[[Tensor], tuple[float, ...]]


@dataclass(frozen=True)
class Rule:
    """A rule of the compiler.

    Attributes:
        name: as in `problem.baseline`.
        summary: one sentence, for people.
        order: sort key; tensors are placed in rising order.
        free_share: the share of the prefetch memory that stays empty, 0..1.
        largest_share: a tensor larger than this share of a memory is not put there, except in the slowest one.
    """

    name: str
    summary: str
    order: Order
    free_share: float = 0.0
    largest_share: float = 1.0


def _execution(t: Tensor) -> tuple[float, ...]:
    return (t.op, t.head)


def _activations_first(t: Tensor) -> tuple[float, ...]:
    return (-t.head, t.op)


def _weights_first(t: Tensor) -> tuple[float, ...]:
    return (t.head, t.op)


def _smallest_first(t: Tensor) -> tuple[float, ...]:
    return (t.size_bytes, t.op, t.head)


def _largest_first(t: Tensor) -> tuple[float, ...]:
    return (-t.size_bytes, t.op, t.head)


def _by_density(t: Tensor) -> tuple[float, ...]:
    return (-t.density, t.op, t.head)


def _largest_activations_first(t: Tensor) -> tuple[float, ...]:
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


def tensors(tables: Tables) -> list[Tensor]:
    """Every tensor that has a size, weights before activations of the same op."""
    ops = len(tables.weight_bytes)
    reads = np.zeros(ops, np.int64)
    np.add.at(reads, tables.edge_source, tables.edge_bytes)
    found = []
    for i in range(ops):
        weight, activation = int(tables.weight_bytes[i]), int(tables.activation_bytes[i])
        if weight:
            found.append(Tensor(i, WEIGHT, weight, 0, ops - 1, int(tables.weight_read_bytes[i])))
        if activation:
            moved = int(tables.written_bytes[i] + reads[i])
            found.append(Tensor(i, ACTIVATION, activation, i, int(tables.last_use[i]), moved))
    return found


def compile_map(tables: Tables, rule: Rule) -> Mapping16:
    """The valid canonical map int16 [N, 2] that a rule makes."""
    ops, levels = len(tables.weight_bytes), len(tables.capacity_bytes)
    # A weight is held at every step: one number of bytes per memory, which meets the fullest step of the activations.
    live: NDArray[np.int64] = np.zeros((levels, ops), np.int64)
    pinned, fullest = [0] * levels, [0] * levels
    budget = tables.capacity_bytes.astype(np.float64)
    budget[tables.into] *= 1.0 - rule.free_share
    mapping = np.full((ops, 2), -1, np.int16)
    for tensor in sorted(tensors(tables), key=rule.order):
        steps, is_weight = slice(tensor.first, tensor.last + 1), tensor.head == WEIGHT
        level = levels - 1
        while level > 0 and (
            tensor.size_bytes > rule.largest_share * tables.capacity_bytes[level]
            or pinned[level]
            + (fullest[level] if is_weight else int(live[level, steps].max()))
            + tensor.size_bytes
            > budget[level]
        ):
            level -= 1
        if is_weight:
            pinned[level] += tensor.size_bytes
        else:
            live[level, steps] += tensor.size_bytes
            fullest[level] = max(fullest[level], int(live[level, steps].max()))
        mapping[tensor.op, tensor.head] = level
    return mapping
