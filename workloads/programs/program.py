"""A compiled program as a compiler's back end schedules it: instructions in order, and the buffers they use.

Source: MMapGame paper, section 4.1 and table 1. A *tensor* is a value that lies in memory for a while. A *buffer*
is one use of a tensor by one instruction, as an input or as an output: the thing that the game places. *Logical
time* is an instruction's position in the schedule, counted from 0.

What depends on a chip (copy demand, benefit, supply) is not here: a program states bytes and operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    by instruction, inputs before outputs. `remarks` says what was guessed or not counted, a line each.

    Construction checks nothing; `workloads.programs.json_file.check` does, and every loader calls it.
    """

    name: str
    instructions: tuple[Instruction, ...]
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    source: str = ""
    remarks: tuple[str, ...] = ()

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
