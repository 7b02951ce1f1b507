"""A compiled program as a compiler's back end schedules it: instructions in order, and the buffers they use.

Source: MMapGame paper, section 4.1 and table 1. A *tensor* is a value that lies in memory for a while. A *buffer*
is one use of a tensor by one instruction, as an input or as an output: the thing that the game places. *Logical
time* is an instruction's position in the schedule, counted from 0.

What depends on a chip (copy demand, benefit, supply) is not here: a program states bytes and operations.

What every program must satisfy, so that a game on it can be played.

Refused in one line: names twice, times outside the schedule, buffers out of order, a tensor written twice or at another
time than it says, a use before it is there or after its last use, an instruction with two buffers of one tensor as
inputs, negative sizes. The buffers of an alias group share one place. So they have one size, an instruction reads at
most one of them and writes at most one, and a value that another of the group replaces is not used from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workloads.errors import Fault, InputError, short, wrong
from workloads.json_text import MAX_ROWS
from workloads.programs import compiled as compilers
from workloads.programs.compiled import Compiled
from workloads.text import FILE_NAME, encodes, is_file_name, is_name

NO_ALIAS = -1


@dataclass(frozen=True)
class Tensor:
    """A value in memory. Times are closed intervals of logical time.

    Attributes:
        name: unique in the program.
        size_bytes: room it takes; 0 for tokens and empty arrays, which nothing places.
        produced: logical time of the instruction that writes it; -1 for what is there at the start (entry
            parameters and constants), which lies in slow memory.
        last_use: logical time of its last reader; `produced` (0 for what is there at the start) where nothing reads it.
        leaves: it is a result of the program and must be in slow memory at the end.
    """

    name: str
    size_bytes: int
    produced: int
    last_use: int
    leaves: bool = False

    @property
    def first(self) -> int:
        """The logical time from which it is available."""
        return max(self.produced, 0)


@dataclass(frozen=True)
class Instruction:
    """One step of the schedule; a fusion, a loop or a call is a single one.

    Attributes:
        name: unique in the program.
        opcode: what it is ("dot", "fusion", "while" …), for people.
        flops: floating-point operations, the bodies of loops and calls included.
        slow_bytes: bytes moved to and from slow memory wherever its buffers lie (temporaries of a loop's body …).
    """

    name: str
    opcode: str
    flops: int
    slow_bytes: int = 0


@dataclass(frozen=True)
class Buffer:
    """One use of a tensor by an instruction; a tensor that an instruction reads twice is one buffer.

    Attributes:
        tensor: position in `Program.tensors` (table 1: tensor_id).
        instruction: position in `Program.instructions` (table 1: target_time).
        is_output: whether the instruction writes it.
        traffic_bytes: bytes that the instruction reads or writes of it: less than the size where only a slice is
            touched, more where a loop reads it again and again.
        alias_id: buffers with the same id share their place, all in fast memory at one offset or all in slow
            memory (an instruction that updates in place, the state of a loop); `NO_ALIAS` for all others.
    """

    tensor: int
    instruction: int
    is_output: bool
    traffic_bytes: int
    alias_id: int = NO_ALIAS


@dataclass(frozen=True)
class Program:
    """Instructions in schedule order, tensors, and the buffers in the order in which the game decides on them:
    by instruction, inputs before outputs. `remarks` says what was guessed or not counted, a line each; `compiled` what
    its compiler decided and estimated, where that is known.

    Construction checks nothing; `workloads.programs.json_file.check` does, and every loader calls it.
    """

    name: str
    instructions: tuple[Instruction, ...]
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    source: str = ""
    remarks: tuple[str, ...] = ()
    compiled: Compiled | None = None

    def __len__(self) -> int:
        return len(self.buffers)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self.buffers)

    @property
    def flops(self) -> int:
        """Floating-point operations of one run."""
        return sum(instruction.flops for instruction in self.instructions)

    def live_range(self, tensor: int) -> tuple[int, int]:
        """The closed interval of logical time for which a tensor is available (table 1); results stay to the end."""
        held = self.tensors[tensor]
        return held.first, len(self.instructions) - 1 if held.leaves else held.last_use

    def buffer_name(self, buffer: int) -> str:
        """A name for people, unique in the program: "fusion.3/in/param.1"."""
        use = self.buffers[buffer]
        way = "out" if use.is_output else "in"
        return f"{self.instructions[use.instruction].name}/{way}/{self.tensors[use.tensor].name}"


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
        if program.compiled is not None:
            compilers.check(program.compiled, len(program.instructions), len(program.buffers))
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


class ProgramBuilder:
    """Collects tensors and instructions in schedule order; `build` gives the checked program.

    A tensor of no bytes gets no buffers: nothing can place it.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._produced: list[int] = []
        self._last: list[int] = []
        self._results: set[int] = set()
        self._instructions: list[Instruction] = []
        self._buffers: list[Buffer] = []
        self._groups = 0

    @property
    def time(self) -> int:
        """Logical time of the next instruction."""
        return len(self._instructions)

    def tensor(self, name: str, size_bytes: int) -> int:
        """The position of a new tensor, there from the start until an instruction says that it writes it."""
        self._names.append(name)
        self._sizes.append(size_bytes)
        self._produced.append(-1)
        self._last.append(0)
        return len(self._names) - 1

    def instruction(
        self,
        name: str,
        opcode: str,
        flops: int,
        reads: Mapping[int, int],
        writes: Mapping[int, int],
        slow_bytes: int = 0,
        in_place: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Append an instruction that moves so many bytes of each tensor; each pair (read, written) of `in_place` is a
        value and the one that takes its place."""
        at = self.time
        self._instructions.append(Instruction(name, opcode, flops, slow_bytes))
        group: dict[tuple[int, bool], int] = {}
        for old, new in in_place:
            if self._sizes[old] and self._sizes[new]:
                group[old, False] = group[new, True] = self._groups
                self._groups += 1
        for tensor, traffic in reads.items():
            self.use(tensor, at)
            self._append(tensor, at, False, traffic, group)
        for tensor, traffic in writes.items():
            self._produced[tensor] = at
            self.use(tensor, at)
            self._append(tensor, at, True, traffic, group)

    def _append(
        self, tensor: int, at: int, is_output: bool, traffic: int, group: Mapping[tuple[int, bool], int]
    ) -> None:
        if self._sizes[tensor]:
            alias = group.get((tensor, is_output), NO_ALIAS)
            self._buffers.append(Buffer(tensor, at, is_output, traffic, alias))

    def use(self, tensor: int, at: int) -> None:
        """Keep a tensor at least until logical time `at`."""
        self._last[tensor] = max(self._last[tensor], at)

    def result(self, tensor: int) -> None:
        """Mark a tensor that must be in slow memory at the end; what is there from the start is so already."""
        if self._produced[tensor] >= 0:
            self._results.add(tensor)

    def share(self, tensors: Sequence[int]) -> None:
        """Let all buffers of these tensors share one place, with those that share one with any of them already."""
        members = set(tensors)
        groups = {b.alias_id for b in self._buffers if b.tensor in members} - {NO_ALIAS}
        self._buffers = [
            replace(b, alias_id=self._groups) if b.tensor in members or b.alias_id in groups else b
            for b in self._buffers
        ]
        self._groups += 1

    def build(self, name: str, source: str = "", remarks: tuple[str, ...] = ()) -> Program:
        """The program. Raises InputError where it is not sound (sizes out of range, say)."""
        tensors = tuple(
            Tensor(self._names[i], self._sizes[i], self._produced[i], self._last[i], i in self._results)
            for i in range(len(self._names))
        )
        return check(Program(name, tuple(self._instructions), tensors, tuple(self._buffers), source, remarks))
