"""The native compiler: capacity-and-size rules that place each tensor in the fastest memory that takes it.

Source: the EGRL paper (section 4) says only that the compiler is "a collection of heuristic rules specific
to the compute and memory capacity of the hardware". Which rules is an *assumption*, so there are several, by
name; the default has the best geometric-mean latency over the zoo (`benchmarks/baseline_rules.py`).

A rule sees no latency. It ranks the tensors and puts each in the fastest memory where it still fits, by the placer
that policies use, too (`hwsim.nnpi.placer`): a rule is a fixed table of scores. Every result is a valid map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsim.nnpi.placer import place
from hwsim.nnpi.tables import Tables, Tensors, tensors
from hwsim.placing import Scores
from hwsim.problem import Mapping16
from workloads.errors import InputError
from workloads.text import one_of

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


def rule_scores(tables: Tables, found: Tensors, rule: Rule) -> Scores:
    """The scores float32 [1, T, L] that place as the rule does: by its order, into the fastest memory with room."""
    tensors, levels = len(found.op), len(tables.capacity_bytes)
    place_in_order = np.empty(tensors, np.int64)
    place_in_order[np.lexsort(rule.order(found)[::-1])] = np.arange(tensors)
    # Whole numbers, so that float32 is exact: the tensor's turn from the end times L, and the memory's number.
    scores = ((tensors - place_in_order)[:, None] * levels + np.arange(levels)).astype(np.float32)
    largest = rule.largest_share * tables.capacity_bytes.astype(np.float64)
    scores[found.size_bytes[:, None] > largest] = -np.inf
    scores[:, 0] = 0
    return scores[None]


def compile_map(tables: Tables, rule: Rule) -> Mapping16:
    """The valid canonical map int16 [N, 2] that a rule makes."""
    found = tensors(tables)
    made: Mapping16 = place(tables, found, rule_scores(tables, found, rule), np.array([rule.free_share]))[0]
    return made
