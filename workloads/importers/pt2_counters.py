"""How often a loop of an exported PyTorch program runs, where a counter with a known beginning and step ends it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from workloads.importers.aten import Call, Ref

COMPARED = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "ne")}
STEPS = {"add": 1, "sub": -1}
SAME = frozenset({"lift_fresh_copy", "clone", "detach", "alias", "_to_copy"})
"""Ops whose result has the value of their first argument."""
MADE = {"zeros": 0, "ones": 1, "full": None, "scalar_tensor": None}
"""Ops that make a number: which, or None where an argument says it."""
VALUE = {"full": "fill_value", "scalar_tensor": "s"}
MOST = 2**31
"""Trips of a loop that ends in a sensible time."""


def made_value(call: Call, known: Mapping[str, int]) -> int | None:
    """The whole number that a call returns, if that is known from its arguments and other known numbers."""
    op, arguments = call.op.removesuffix("_"), call.arguments
    if op in SAME:
        return _value(next(iter(arguments.values()), None), known)
    if op not in MADE or arguments.get("size", []) != []:
        return None
    found = MADE[op] if MADE[op] is not None else arguments.get(VALUE.get(op, ""))
    return found if type(found) is int else None


def trips_of(
    condition: tuple[Sequence[Call], str],
    body: tuple[Sequence[Call], Sequence[str]],
    inputs: tuple[Sequence[str], Sequence[str]],
    begins: Sequence[int | None],
    carried: int,
) -> int | None:
    """How often a body runs; None where that is not known.

    Args:
        condition: the calls of its graph, and the name of its result.
        body: likewise, and its results, of which the first are the carried values.
        inputs: the names of the inputs of both graphs.
        begins: what the inputs are at first, None where that is not known.
        carried: how many of them a trip changes; the others stay.
    """
    test = next((call for call in condition[0] if condition[1] in call.outputs), None)
    if test is None or test.op not in COMPARED:
        return None
    ours, theirs = inputs
    left, right = test.arguments.get("self"), test.arguments.get("other")
    at = ours.index(left.name) if isinstance(left, Ref) and left.name in ours[:carried] else -1
    stays = {
        name: value for name, value in zip(ours[carried:], begins[carried:], strict=True) if value is not None
    }
    end = _value(right, stays)
    if at < 0 or end is None or begins[at] is None:
        return None
    step = next((call for call in body[0] if body[1][at] in call.outputs), None)
    if step is None or step.op not in STEPS or step.arguments.get("alpha", 1) != 1:
        return None
    counter, by = step.arguments.get("self"), _value(step.arguments.get("other"), {})
    if not isinstance(counter, Ref) or counter.name != theirs[at] or not by:
        return None
    return _trips(test.op, int(begins[at] or 0), end, STEPS[step.op] * by)


def _trips(op: str, begin: int, end: int, step: int) -> int | None:
    """How often `step` is added to `begin` while it compares so with `end`; None if that does not end."""
    if not COMPARED[op](begin, end):
        return 0
    if op == "ne":
        trips, left = divmod(end - begin, step)
        return trips if not left and 0 < trips < MOST else None
    if (op in ("lt", "le")) != (step > 0):
        return None
    gap = abs(end - begin) + (op in ("le", "ge"))
    trips = -(-gap // abs(step))
    return trips if trips < MOST else None


def _value(given: Any, known: Mapping[str, int]) -> int | None:
    if isinstance(given, Ref):
        return known.get(given.name)
    return given if type(given) is int else None
