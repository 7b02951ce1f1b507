"""What every training step must satisfy, so that it can be simulated.

Refused in one line: names twice, positions that do not exist, a value with both a role and a maker or with neither, a
view that no op makes from its storage, an op that reads what is not there yet, an op of the forward pass that stands
after one of the backward pass or reads what belongs to that, negative or endless numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from egrl_training.steps.step import OWNER, PHASES, ROLES, Op, TrainingStep
from workloads.errors import Fault, InputError, short, wrong
from workloads.json_text import MAX_ROWS
from workloads.text import FILE_NAME, encodes, is_file_name, is_name

MAX_BYTES = 2**50
"""Exclusive bound of one size in bytes (a pebibyte)."""
MAX_TOTAL = 2**60
"""Exclusive bound of their sum, so that int64 arithmetic never overflows."""
MAX_SECONDS = 1e6
"""Exclusive bound of one op's seconds."""


def check(step: TrainingStep) -> TrainingStep:
    """Return the step if it is sound.

    Raises:
        InputError: naming the step, the field and what it is about, what was expected and what was found.
    """
    try:
        if not is_file_name(step.name):
            raise wrong("name", FILE_NAME, step.name)
        if not encodes(step.source):
            raise wrong("source", "text", step.source)
        _check_names("values", [value.name for value in step.values])
        _check_names("ops", [op.name for op in step.ops])
        _check_values(step)
        for op in step.ops:
            _check_op(step, op)
        _check_makers(step)
        _check_order(step)
        _check_returned(step)
        if not sum(op.seconds for op in step.ops) > 0:
            raise wrong("ops.seconds", "a sum above 0", 0)
    except Fault as fault:
        raise InputError(f"training step {short(step.name)}: {fault}") from None
    return step


def _check_names(table: str, names: Sequence[str]) -> None:
    if not 1 <= len(names) <= MAX_ROWS:
        raise wrong(table, f"1 to {MAX_ROWS} of them", len(names))
    seen: set[str] = set()
    for name in names:
        if not is_name(name) or not encodes(name):
            raise wrong(f"{table}.name", "printable text", name)
        if name in seen:
            raise wrong(f"{table}.name", "different names", name)
        seen.add(name)


def _check_values(step: TrainingStep) -> None:
    total = 0
    for number, value in enumerate(step.values):
        where = f"value {value.name}"
        if not 0 <= value.size_bytes < MAX_BYTES:
            raise wrong(f"{where}: size_bytes", f"0 to below {MAX_BYTES}", value.size_bytes)
        if value.role not in ("", *ROLES):
            raise wrong(f"{where}: role", f"one of {', '.join(ROLES)} or nothing", value.role)
        if value.view_of != OWNER:
            if not 0 <= value.view_of < number or step.values[value.view_of].view_of != OWNER:
                raise wrong(f"{where}: view_of", "-1 or an earlier value that is no view", value.view_of)
            if value.size_bytes:
                raise wrong(f"{where}: size_bytes", "0, since it is a view", value.size_bytes)
        total += value.size_bytes
    if total >= MAX_TOTAL:
        raise wrong("values.size_bytes", f"a sum below {MAX_TOTAL}", total)


def _check_positions(step: TrainingStep, numbers: Sequence[int], where: str) -> None:
    for number in numbers:
        if not 0 <= number < len(step.values):
            raise wrong(where, f"positions of values in 0..{len(step.values) - 1}", number)
    if len(set(numbers)) < len(numbers):
        raise wrong(where, "each value once", list(numbers))


def _check_op(step: TrainingStep, op: Op) -> None:
    where = f"op {op.name}"
    if op.phase not in PHASES:
        raise wrong(f"{where}: phase", f"one of {', '.join(PHASES)}", op.phase)
    if not encodes(op.kind):
        raise wrong(f"{where}: kind", "text", op.kind)
    if not encodes(op.module):
        raise wrong(f"{where}: module", "text", op.module)
    if not 0 <= op.seconds < MAX_SECONDS or not math.isfinite(op.seconds):
        raise wrong(f"{where}: seconds", f"0 to below {MAX_SECONDS:g}", op.seconds)
    if not 0 <= op.scratch_bytes < MAX_BYTES:
        raise wrong(f"{where}: scratch_bytes", f"0 to below {MAX_BYTES}", op.scratch_bytes)
    _check_positions(step, op.inputs, f"{where}: inputs")
    _check_positions(step, op.outputs, f"{where}: outputs")
    views = [step.values[number].view_of != OWNER for number in op.outputs]
    if any(views) and not all(views):
        raise wrong(f"{where}: outputs", "views only, or none", _named(step, op.outputs))
    if any(views):
        if op.seconds > 0 or op.scratch_bytes > 0:
            raise wrong(f"{where}: seconds and scratch_bytes", "0, since it makes views", op.seconds)
        read = {int(step.owner[number]) for number in op.inputs}
        for number in op.outputs:
            if step.values[number].view_of not in read:
                owner = step.values[step.values[number].view_of].name
                raise wrong(f"{where}: inputs", f"{owner} or a view of it", _named(step, op.inputs))


def _named(step: TrainingStep, numbers: Iterable[int]) -> list[str]:
    return [step.values[number].name for number in numbers]


def _check_makers(step: TrainingStep) -> None:
    made: set[int] = set()
    for op in step.ops:
        for number in op.outputs:
            value = step.values[number]
            if number in made:
                raise wrong(f"op {op.name}: outputs", "values that no other op makes", value.name)
            if value.role:
                raise wrong(f"op {op.name}: outputs", f"no {value.role}", value.name)
            made.add(number)
    for number, value in enumerate(step.values):
        if not value.role and number not in made:
            raise wrong(f"value {value.name}", "a role or an op that makes it", "neither")


def _check_order(step: TrainingStep) -> None:
    """Each op reads what is there, and no op of the forward pass depends on the backward pass."""
    backward = {number for number, value in enumerate(step.values) if value.role == "tangent"}
    backward |= {number for number in range(len(step.values)) if int(step.owner[number]) in backward}
    turned = ""
    for at, op in enumerate(step.ops):
        for number in op.inputs:
            if step.maker[number] >= at:
                raise wrong(f"op {op.name}: inputs", "values that are made before", step.values[number].name)
        if op.phase == "backward":
            turned = turned or op.name
            backward |= set(op.outputs)
            continue
        if turned:
            raise wrong(f"op {op.name}: phase", f"backward, since it stands after {turned}", op.phase)
        late = sorted(backward & set(op.inputs))
        if late:
            raise wrong(f"op {op.name}: inputs", "no value of the backward pass", step.values[late[0]].name)
    if not turned:
        raise wrong("ops.phase", "an op of the backward pass", "none")


def _check_returned(step: TrainingStep) -> None:
    for field in ("outputs", "gradients"):
        numbers = getattr(step, field)
        for number in numbers:
            if not 0 <= number < len(step.values):
                raise wrong(field, f"positions of values in 0..{len(step.values) - 1}", number)
    for number in step.outputs:
        owner = int(step.owner[number])
        makers = {int(step.maker[number]), int(step.maker[owner])} - {-1}
        late = any(step.ops[maker].phase == "backward" for maker in makers)
        if late or step.values[owner].role == "tangent":
            raise wrong("outputs", "values of the forward pass", step.values[number].name)
