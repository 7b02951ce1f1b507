"""Is the memory plan of an emitted program sound? Slow and obvious, and shares nothing with the planner.

It knows no lives. It plays the instructions of a method through, byte by byte. A tensor's bytes belong to whoever wrote
them last, and an instruction may read a tensor only where all of its bytes are still its own. Inputs, constants, and
what is read before anything has written it (a buffer that outlives a run) own their bytes from the beginning; outputs,
constants and such buffers must own theirs at the end. No tensor ends above its arena, no arena above its bank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwsim.problem import Violation


@dataclass(frozen=True)
class _Span:
    """The bytes of a planned tensor: an arena, and where in it they begin and end (half-open)."""

    mem_id: int
    begin: int
    end: int


def judge(method: Any, element_bytes: Mapping[Any, int], sizes: Mapping[int, int]) -> list[Violation]:
    """Everything that an execution plan (`executorch_program.execution_plan[k]`) breaks; empty: all is well.

    Args:
        method: the plan, of one chain of instructions.
        element_bytes: bytes an element of each scalar type of the schema.
        sizes: bytes of each bank, by mem_id.

    Raises:
        ValueError: a method with other instructions than calls of kernels, which this judge cannot play through.
    """
    spans, kept = _spans(method, element_bytes)
    found = [
        Violation(f"arena {mem_id} is larger than its bank", method.name, used, sizes[mem_id], "bytes")
        for mem_id, used in enumerate(method.non_const_buffer_sizes)
        if mem_id in sizes and used > sizes[mem_id]
    ]
    for value, span in spans.items():
        room = method.non_const_buffer_sizes[span.mem_id]
        if span.end > room:
            found.append(
                Violation("tensor sticks out of its arena", f"value {value}", span.end, room, "bytes")
            )
    owners: dict[int, list[tuple[int, int, int]]] = {}
    written = {value for value in method.inputs if value in spans}
    for value in sorted(written | kept):
        _write(owners, spans[value], value)
    for number, call in enumerate(_calls(method)):
        outputs = set(_values(method, call.args[-1]))
        in_place = method.operators[call.op_index].name.endswith("_")
        for value in sorted({each for arg in call.args[:-1] for each in _values(method, arg)}):
            # An out argument is no reading; what is changed in place is both.
            if value not in spans or (value in outputs and not in_place and value not in written | kept):
                continue
            if value not in written | kept and not _is_view(owners, spans, value):
                kept.add(value)  # nothing wrote it: it holds what the last run left
                found += _clash(owners, spans[value], value, f"before instruction {number}")
                _write(owners, spans[value], value)
            if value not in outputs or value in kept:
                found += _foreign(owners, spans, value, f"instruction {number}")
        for value in outputs & set(spans):
            written.add(value)
            _write(owners, spans[value], value)
    for value in sorted((set(method.outputs) & set(spans)) | kept):
        found += _foreign(owners, spans, value, "the end")
    return found


def _spans(method: Any, element_bytes: Mapping[Any, int]) -> tuple[dict[int, _Span], set[int]]:
    """The bytes of each planned value, and the constants among them."""
    spans, constants = {}, set()
    for value, held in enumerate(method.values):
        tensor = held.val
        allocation = getattr(tensor, "allocation_info", None)
        if allocation is None:
            continue
        size = element_bytes[tensor.scalar_type]
        for each in tensor.sizes:
            size *= each
        begin = allocation.memory_offset_low + (allocation.memory_offset_high << 32)
        spans[value] = _Span(allocation.memory_id, begin, begin + size)
        if tensor.data_buffer_idx > 0:
            constants.add(value)
    return spans, constants


def _calls(method: Any) -> list[Any]:
    calls = [instruction.instr_args for chain in method.chains for instruction in chain.instructions]
    if len(method.chains) != 1 or any(not hasattr(call, "op_index") for call in calls):
        raise ValueError(f"{method.name}: expected one chain of calls of kernels, received another method")
    return calls


def _values(method: Any, value: int) -> list[int]:
    """A value, or the tensors of a list of them."""
    held = method.values[value].val
    return (
        [each for each in held.items if each >= 0] if type(held).__name__.endswith("TensorList") else [value]
    )


def _write(owners: dict[int, list[tuple[int, int, int]]], span: _Span, value: int) -> None:
    """Give the bytes of a span to a value."""
    left = []
    for begin, end, owner in owners.get(span.mem_id, []):
        if begin < span.begin:
            left.append((begin, min(end, span.begin), owner))
        if end > span.end:
            left.append((max(begin, span.end), end, owner))
    if span.end > span.begin:
        left.append((span.begin, span.end, value))
    owners[span.mem_id] = left


def _clash(
    owners: dict[int, list[tuple[int, int, int]]], span: _Span, value: int, where: str
) -> list[Violation]:
    """Bytes of a span that somebody has written."""
    taken = sum(
        min(end, span.end) - max(begin, span.begin)
        for begin, end, _ in owners.get(span.mem_id, [])
        if min(end, span.end) > max(begin, span.begin)
    )
    return (
        [Violation(f"value {value} is read but others wrote its bytes", where, taken, 0, "bytes")]
        if taken
        else []
    )


def _is_view(owners: dict[int, list[tuple[int, int, int]]], spans: Mapping[int, _Span], value: int) -> bool:
    """Whether the bytes of a value are just those of another that was written: it is a view of that."""
    return any(
        spans[owner] == spans[value] and (begin, end) == (spans[value].begin, spans[value].end)
        for begin, end, owner in owners.get(spans[value].mem_id, [])
    )


def _foreign(
    owners: dict[int, list[tuple[int, int, int]]], spans: Mapping[int, _Span], value: int, where: str
) -> list[Violation]:
    """Bytes of a value that are not its own any more; a view owns what its base does."""
    span = spans[value]
    own = sum(
        min(end, span.end) - max(begin, span.begin)
        for begin, end, owner in owners.get(span.mem_id, [])
        if spans[owner] == span and min(end, span.end) > max(begin, span.begin)
    )
    lost = span.end - span.begin - own
    return [Violation(f"value {value} lost bytes to another", where, lost, 0, "bytes")] if lost else []
