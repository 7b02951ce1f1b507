"""A run's best mapping as a trace: steps on the time axis, memories as processes, for Perfetto and chrome://tracing.

Source: the Trace Event Format (Google, "Trace Event Format", JSON object format): complete events "X", counters "C",
flows "s" and "f", metadata "M"; times in microseconds. Complete events of a thread must nest, so that tensors that
overlap in time stand in lanes, a thread each. Where a problem does not say how long steps take, a step is one
microsecond.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from egrl.report.changes import BEST, memory
from egrl.runs.past_run import PastRun
from hwsim.capabilities import explainer
from hwsim.explanation import OpTime, OpTimes
from hwsim.sections import Box, HasSections, MemoryMap, MemoryMaps
from workloads.errors import InputError

Event = dict[str, Any]
STEPS = 1
"""The process of the steps; memories follow."""
SECOND = 1e6
"""Microseconds."""
COPIES = 0
"""The thread of copies in a memory's process; tensors follow."""


def trace(run: PastRun) -> dict[str, Any]:
    """The object of a trace file. InputError where the problem can say neither when steps run nor where tensors lie."""
    problem, best = run.problem, run.best_mapping()
    sections = [*memory(problem, best), *(problem.sections(best) if isinstance(problem, HasSections) else ())]
    found = [section for section in sections if isinstance(section, MemoryMaps)]
    if not found:
        raise InputError(f"trace: expected a problem with lifetimes of tensors, found {problem.about.name!r}")
    maps = [(each, section) for section in found for each in section.maps if each.label == BEST]
    begins = _microseconds(maps[0][0].edges, maps[0][1].unit)
    events = _named(STEPS, f"{maps[0][1].step}s", {1: "in order"})
    if explain := explainer(problem, OpTimes):
        events += [_op(op) for op in explain(best).ops]
    else:
        step = maps[0][1].step
        events += [
            _slice(STEPS, 1, f"{step} {n}", begin, begins[n + 1], {}) for n, begin in enumerate(begins[:-1])
        ]
    number = 0
    for process, (each, section) in enumerate(maps, STEPS + 1):
        events += _memory(process, each, _microseconds(each.edges, section.unit), number)
        number += len(each.boxes)
    about = problem.about
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "workload": about.workload,
            "chip": about.chip,
            "method": str(run.summary["method"]),
            "speedup": str(run.summary["best"]["speedup"]),
            "fingerprint": str(run.summary["fingerprint"]),
        },
    }


def _microseconds(edges: Sequence[float], unit: str) -> list[float]:
    scale = SECOND if unit == "s" else 1.0
    return [float(edge) * scale for edge in edges]


def _named(process: int, name: str, threads: dict[int, str]) -> list[Event]:
    """Names of a process and its threads, in the order of their numbers."""
    events: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    ]
    events.append(
        {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
    )
    for thread, word in threads.items():
        events.append(
            {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": word}}
        )
    return events


def _slice(process: int, thread: int, name: str, begin: float, end: float, args: dict[str, Any]) -> Event:
    kind = "step" if process == STEPS else "tensor"
    times = {"ts": begin, "dur": max(end - begin, 0.0)}
    return {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread, **times, "args": args}


def _op(op: OpTime) -> Event:
    args = {
        "weight": op.weight,
        "activation": op.activation,
        "bound by": op.bound_by,
        "bytes": op.traffic_bytes,
        "prefetched bytes": op.prefetched_bytes,
        "fetched bytes of later weights": op.fetched_bytes,
    }
    begin = op.start_s * SECOND
    return _slice(STEPS, 1, op.name, begin, begin + op.duration_s * SECOND, args)


def _memory(process: int, each: MemoryMap, begins: Sequence[float], first: int) -> list[Event]:
    """Tensors as slices, copies as flows, bytes held as a counter; copies are numbered from `first`."""
    lanes = _lanes(each.boxes)
    threads = {lane + 1: f"tensors {lane + 1}" for lane in range(max(lanes, default=-1) + 1)}
    if any(box.copied for box in each.boxes):
        threads = {COPIES: "copies", **threads}
    events = _named(process, f"{each.memory} ({each.capacity_bytes:,} bytes)", threads)
    change = [0] * len(begins)
    for number, (box, lane) in enumerate(zip(each.boxes, lanes, strict=True), first):
        args = {"bytes": box.size_bytes, "offset": box.offset_bytes, "kind": box.kind}
        begin, end = begins[box.first], begins[box.end]
        events.append(_slice(process, lane + 1, box.name, begin, end, args))
        change[box.first] += box.size_bytes
        change[box.end] -= box.size_bytes
        if box.copied is not None:
            events += _copy(process, lane + 1, box, begins, number)
    held = 0
    for begin, more in zip(begins, change, strict=True):
        held += more
        events.append(
            {"ph": "C", "name": "bytes held", "pid": process, "tid": 0, "ts": begin, "args": {"bytes": held}}
        )
    return events


def _copy(process: int, thread: int, box: Box, begins: Sequence[float], number: int) -> list[Event]:
    """The window of a copy as asynchronous events, since windows overlap; and a flow to or from the tensor."""
    assert box.copied is not None
    begin, end = (begins[step] for step in box.copied)
    both = {"cat": "copy", "name": f"copy {box.name}", "pid": process, "tid": COPIES, "id": number}
    args = {"bytes": box.size_bytes}
    comes = box.copied[0] <= box.first
    flow = {"cat": "copy", "name": "copy", "pid": process, "id": number}
    inside = {"tid": thread, "ts": begins[box.first] if comes else max(begins[box.first], begin)}
    step = {"pid": STEPS, "tid": 1, "ts": begin if comes else begins[min(box.copied[1], len(begins) - 1) - 1]}
    source, target = (step, inside) if comes else (inside, step)
    return [
        {"ph": "b", **both, "ts": begin, "args": args},
        {"ph": "e", **both, "ts": end, "args": {}},
        {"ph": "s", **flow, **source},
        {"ph": "f", "bp": "e", **flow, **target},
    ]


def _lanes(boxes: Sequence[Box]) -> list[int]:
    """For each box the lowest lane that is free from its first step to its end."""
    lane = [0] * len(boxes)
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    most = 0
    for number in sorted(range(len(boxes)), key=lambda n: (boxes[n].first, boxes[n].offset_bytes)):
        while busy and busy[0][0] <= boxes[number].first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane[number] = heapq.heappop(free)
        else:
            lane[number], most = most, most + 1
        heapq.heappush(busy, (boxes[number].end, lane[number]))
    return lane
