"""The simulated device in plain Python, straight from the program, the chip and the layout."""

from __future__ import annotations

from collections import deque

from hwsim.mmap.chip import Chip
from hwsim.mmap.layout import Layout
from workloads.programs.program import Program

DROP, COPY, NOCOPY = 0, 1, 2


class Copy:
    """A copy in flight: `rest` is what remains, in seconds of all of HBM."""

    def __init__(self, begins: int, due: int, seconds: float) -> None:
        self.begins, self.due, self.rest = begins, due, seconds
        self.queued_s = self.done_s = 0.0


def copies(program: Program, chip: Chip, layout: Layout) -> dict[int, Copy]:
    """By buffer; those that only write back what is read from HBM later included."""
    found: dict[int, Copy] = {}
    for n, use in enumerate(program.buffers):
        seconds = program.tensors[use.tensor].size_bytes / chip.hbm.bandwidth_Bps
        if layout.action[n] == COPY:
            due = int(layout.copy_last[n]) + 1 if use.is_output else use.instruction
            found[n] = Copy(int(layout.copy_first[n]), due, seconds)
        if not use.is_output or layout.action[n] not in (COPY, NOCOPY):
            continue
        readers = [
            int(layout.copy_first[m]) if layout.action[m] == COPY else other.instruction
            for m, other in enumerate(program.buffers)
            if other.tensor == use.tensor and not other.is_output and layout.action[m] in (DROP, COPY)
        ]
        if readers:
            own = found.get(n, Copy(use.instruction + 1, min(readers), seconds))
            found[n] = Copy(min([own.begins, *readers]), min([own.due, *readers]), seconds)
    return found


def alone(program: Program, chip: Chip, layout: Layout, step: int) -> tuple[float, float]:
    """Seconds of an instruction alone, and those of its traffic with HBM."""
    mine = [n for n, use in enumerate(program.buffers) if use.instruction == step]
    sized = [n for n in mine if program.tensors[program.buffers[n].tensor].size_bytes]
    counted = sorted(sized, key=lambda n: -program.buffers[n].traffic_bytes)[:8]
    slow, read, write = program.instructions[step].slow_bytes, 0, 0
    for n in mine:
        use = program.buffers[n]
        if n not in counted or layout.action[n] not in (COPY, NOCOPY):
            slow += use.traffic_bytes
        elif use.is_output:
            write += use.traffic_bytes
        else:
            read += use.traffic_bytes
    memory = slow / chip.hbm.bandwidth_Bps + read / chip.cmem.read_Bps + write / chip.cmem.write_Bps
    return max(program.instructions[step].flops / chip.compute.peak_flops, memory), (
        slow / chip.hbm.bandwidth_Bps
    )


def latency(program: Program, chip: Chip, layout: Layout) -> float:
    """Seconds of the program."""
    return played(program, chip, layout)[0]


def played(
    program: Program, chip: Chip, layout: Layout
) -> tuple[float, dict[int, Copy], list[tuple[float, float]]]:
    """Seconds of the program, its copies by buffer, and when each instruction begins and ends."""
    found = copies(program, chip, layout)
    ran: list[tuple[float, float]] = []
    into: deque[Copy] = deque()
    out: deque[Copy] = deque()

    def transfer(amount: float, until: float) -> None:
        for queue in (into, out):
            if queue:
                queue[0].rest = queue[0].rest - amount if queue[0].rest > amount else 0.0
                if queue[0].rest == 0.0:
                    queue.popleft().done_s = until

    def heads() -> list[Copy]:
        return [queue[0] for queue in (into, out) if queue]

    total = 0.0
    for step in range(len(program.instructions) + 1):
        starting = [n for n, copy in sorted(found.items()) if copy.begins == step]
        out.extend(found[n] for n in starting if program.buffers[n].is_output)
        for n in starting:
            found[n].queued_s = total
        for n in sorted(found):
            while found[n].due == step and found[n].rest > 0:
                share = heads()
                least = min(copy.rest for copy in share)
                total += least * len(share)
                transfer(least, total)
        if step == len(program.instructions):
            break
        for n in starting:
            if not program.buffers[n].is_output:
                found[n].queued_s = total
                into.append(found[n])
        seconds, slow = alone(program, chip, layout, step)
        left, late, gone = seconds, 0.0, total
        while left > 0 and heads():
            share = 1.0 / (len(heads()) + 1)
            wish = slow / seconds
            speed = share / wish if wish > share else 1.0
            rate = share if wish > share else (1.0 - wish) / len(heads())
            least = min(copy.rest for copy in heads())
            first = least / rate
            if left / speed <= first:
                took = left / speed
                transfer(rate * took, gone + took)
                left = 0.0
            else:
                took = first
                transfer(least, gone + took)
                left -= speed * took
            gone += took
            late += (1.0 - speed) * took
        ran.append((total, total + seconds + late))
        total += seconds + late
    return total, found, ran
