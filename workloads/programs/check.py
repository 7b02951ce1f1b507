"""What every program must satisfy, so that a game on it can be played.

Refused in one line: names twice, times outside the schedule, buffers out of order, a tensor written twice or at another
time than it says, a use before it is there or after its last use, an instruction with two buffers of one tensor as
inputs, negative sizes. The buffers of an alias group share one place. So they have one size, an instruction reads at
most one of them and writes at most one, and a value that another of the group replaces is not used from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workloads.errors import Fault, InputError, short, wrong
from workloads.json_columns import MAX_ROWS
from workloads.names import FILE_NAME, encodes, is_file_name, is_name
from workloads.programs.program import NO_ALIAS, Buffer, Program, Tensor

MAX_COUNT = 2**50
"""Exclusive bound of one size or traffic in bytes (a pebibyte) and of one instruction's operations."""
MAX_TOTAL = 2**60
"""Exclusive bound of sums, so that int64 arithmetic never overflows."""


def check(program: Program) -> Program:
    """Return the program if it is sound.

    `last_use` may be later than the last buffer that reads a tensor, because a use of a zero-sized tensor needs no
    buffer.

    Raises:
        InputError: naming the program, the field and what it is about, what was expected and what was found.
    """
    try:
        _check_header(program)
        _check_names("instructions", [each.name for each in program.instructions])
        _check_names("tensors", [each.name for each in program.tensors])
        _check_instructions(program)
        _check_tensors(program)
        _check_buffers(program)
        _check_groups(program)
        _check_totals(program)
    except Fault as fault:
        raise InputError(f"program {short(program.name)}: {fault}") from None
    return program


def _check_header(program: Program) -> None:
    if not is_file_name(program.name):
        raise wrong("name", FILE_NAME, program.name)
    if not encodes(program.source):
        raise wrong("source", "text", program.source)
    for i, remark in enumerate(program.remarks):
        if not is_name(remark):
            raise wrong(f"remarks[{i}]", "a non-empty printable line", remark)
    for field in ("instructions", "tensors", "buffers"):
        count = len(getattr(program, field))
        if not 1 <= count <= MAX_ROWS:
            raise Fault(f"{field}: expected 1 to {MAX_ROWS} of them, found {count}")


def _check_names(field: str, names: Sequence[str]) -> None:
    at: dict[str, int] = {}
    for i, name in enumerate(names):
        if not is_name(name):
            raise wrong(f"{field}[{i}].name", "a non-empty printable name", name)
        if name in at:
            raise Fault(f"{field}[{i}].name: expected a new name, found {short(name)} of {field}[{at[name]}]")
        at[name] = i


def _integer(value: object, low: int, high: int, field: str, name: object, attribute: str) -> None:
    """Half-open: low <= value < high."""
    if type(value) is not int or not low <= value < high:
        raise wrong(f"{field} ({short(name)}).{attribute}", f"an integer from {low} to {high - 1}", value)


def _check_instructions(program: Program) -> None:
    for i, each in enumerate(program.instructions):
        if not is_name(each.opcode):
            raise wrong(
                f"instructions[{i}] ({short(each.name)}).opcode", "a non-empty printable name", each.opcode
            )
        for attribute in ("flops", "slow_bytes"):
            _integer(getattr(each, attribute), 0, MAX_COUNT, f"instructions[{i}]", each.name, attribute)


def _check_tensors(program: Program) -> None:
    end = len(program.instructions)
    for i, each in enumerate(program.tensors):
        field = f"tensors[{i}]"
        _integer(each.size_bytes, 0, MAX_COUNT, field, each.name, "size_bytes")
        _integer(each.produced, -1, end, field, each.name, "produced")
        _integer(each.last_use, each.first, end, field, each.name, "last_use")
        if type(each.leaves) is not bool:
            raise wrong(f"{field} ({short(each.name)}).leaves", "true or false", each.leaves)


def _check_buffers(program: Program) -> None:
    count, end = len(program.tensors), len(program.instructions)
    written: dict[int, int] = {}
    before = (0, False)
    readers: set[int] = set()
    for i, each in enumerate(program.buffers):
        _check_buffer_fields(each, f"buffers[{i}]", count, end)
        here = (each.instruction, each.is_output)
        if here < before:
            raise Fault(
                f"buffers[{i}]: expected buffers by instruction, inputs before outputs, found {_words(here)} after "
                f"{_words(before)}"
            )
        if each.instruction != before[0]:
            readers.clear()
        before = here
        tensor = program.tensors[each.tensor]
        field = f"buffers[{i}] ({short(tensor.name)})"
        if each.is_output:
            _check_output(each, tensor, field, written)
            written[each.tensor] = i
        else:
            _check_input(each, tensor, field, each.tensor in readers)
            readers.add(each.tensor)


def _words(here: tuple[int, bool]) -> str:
    return f"an {'output' if here[1] else 'input'} of instruction {here[0]}"


def _check_buffer_fields(each: Buffer, field: str, tensors: int, instructions: int) -> None:
    for attribute, low, high in (
        ("tensor", 0, tensors),
        ("instruction", 0, instructions),
        ("traffic_bytes", 0, MAX_COUNT),
        ("alias_id", NO_ALIAS, MAX_ROWS),
    ):
        value = getattr(each, attribute)
        if type(value) is not int or not low <= value < high:
            raise wrong(f"{field}.{attribute}", f"an integer from {low} to {high - 1}", value)
    if type(each.is_output) is not bool:
        raise wrong(f"{field}.is_output", "true or false", each.is_output)


def _check_output(each: Buffer, tensor: Tensor, field: str, written: dict[int, int]) -> None:
    if each.tensor in written:
        raise Fault(
            f"{field}: expected a tensor to be written once, found it written by buffers[{written[each.tensor]}], too"
        )
    if tensor.produced != each.instruction:
        raise Fault(
            f"{field}.instruction: expected {tensor.produced}, when its tensor is produced, found {each.instruction}"
        )


def _check_input(each: Buffer, tensor: Tensor, field: str, again: bool) -> None:
    if again:
        raise Fault(f"{field}: expected one buffer per tensor that an instruction reads, found two")
    if not tensor.produced < each.instruction <= tensor.last_use:
        raise Fault(
            f"{field}.instruction: expected {tensor.produced + 1} to {tensor.last_use}, from after its tensor is "
            f"produced to its last use, found {each.instruction}"
        )


def _check_groups(program: Program) -> None:
    groups: dict[int, list[int]] = {}
    for i, each in enumerate(program.buffers):
        if each.alias_id != NO_ALIAS:
            groups.setdefault(each.alias_id, []).append(i)
    for group, members in groups.items():
        _check_group(program, f"alias group {group}", members)


def _check_group(program: Program, field: str, members: list[int]) -> None:
    """Members come in the order of time: what the place holds is the last one's tensor."""
    buffers, tensors = program.buffers, program.tensors
    held = buffers[members[0]]
    for i in members[1:]:
        each = buffers[i]
        first, tensor = tensors[held.tensor], tensors[each.tensor]
        if tensor.size_bytes != first.size_bytes:
            raise Fault(
                f"{field}: expected buffers of one size, found {short(first.name)} of {first.size_bytes} bytes and "
                f"{short(tensor.name)} of {tensor.size_bytes}"
            )
        if each.tensor != held.tensor:
            if each.instruction == held.instruction and each.is_output == held.is_output:
                way = "written" if each.is_output else "read"
                raise Fault(
                    f"{field}: expected one of its buffers {way} by an instruction, found {short(first.name)} and "
                    f"{short(tensor.name)} at {each.instruction}"
                )
            end = len(program.instructions) if first.leaves else first.last_use
            if end > each.instruction:
                until = "kept as a result" if first.leaves else f"read at {first.last_use}"
                raise Fault(
                    f"{field}: expected a value not to be used once another takes its place, found "
                    f"{short(first.name)} {until} though {short(tensor.name)} takes its place at {each.instruction}"
                )
        held = each


def _check_totals(program: Program) -> None:
    _bound("instructions: flops", (each.flops for each in program.instructions))
    _bound("instructions: slow_bytes", (each.slow_bytes for each in program.instructions))
    _bound("tensors: size_bytes", (each.size_bytes for each in program.tensors))
    _bound("buffers: traffic_bytes", (each.traffic_bytes for each in program.buffers))


def _bound(field: str, values: Iterable[int]) -> None:
    total = sum(values)
    if total >= MAX_TOTAL:
        raise wrong(field, f"less than {MAX_TOTAL} in total", total)
