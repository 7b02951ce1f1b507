"""What profilers write, as seconds by name, and those names as the ops of a workload.

    onnx_runtime    the JSON of a session with `enable_profiling`
    tensorrt        the JSON of `trtexec --exportProfile`
    executorch      the table that `Inspector.save_data_to_tsv` writes
    openvino        the counters that `benchmark_app -report_type detailed_counters` (or average_counters) writes
    pytorch         the Chrome trace of `torch.profiler`

Source: ONNX Runtime 1.32 and PyTorch 2.13 were run (plugins/edge/tests/profiles/README.md); the others are read as
their documentation and public reports describe them.

    seconds = profiles.onnx_runtime("profile.json")
    found = profiles.match(seconds, ops, profiles.names_in_model("model.onnx"))
    answer = {"latency_s": …, "op_seconds": found.op_seconds}      found.unmatched says what belongs to no op
"""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.errors import InputError
from workloads.files import read_text

Seconds = dict[str, float]
"""Seconds by the profiler's own names, in the order in which they first ran."""

_UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_MICROSECOND, _MILLISECOND = 1e-6, 1e-3


# ---- readers


def onnx_runtime(file: str | Path) -> Seconds:
    """Seconds of each node in one run: the median of all runs but the first, if there are several.

    A run is a `model_run` event. Raises InputError if the file has none or is damaged.
    """
    events = _entries(file, "a profile of ONNX Runtime", None)
    runs = [_interval(e, file) for e in events if e.get("name") == "model_run"]
    if not runs:
        raise InputError(f"{file}: expected a profile of ONNX Runtime, found no model_run event")
    counted = sorted(runs)[1:] or runs
    times: list[list[tuple[str, float]]] = [[] for _ in counted]
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") != "Node" or not name.endswith("_kernel_time"):
            continue
        begin_us = _interval(event, file)[0]
        run = next((k for k, (first, last) in enumerate(counted) if first <= begin_us <= last), None)
        if run is not None:
            times[run].append((name.removesuffix("_kernel_time"), _took_us(event, file) * _MICROSECOND))
    return _medians(times, file)


def tensorrt(file: str | Path) -> Seconds:
    """Seconds of each layer, `averageMs`. Raises InputError if the file is damaged."""
    rows = _entries(file, "a profile of TensorRT", None)
    layers = [
        (row["name"], _number(row["averageMs"], file)) for row in rows if {"name", "averageMs"} <= row.keys()
    ]
    return _medians([[(str(name), time * _MILLISECOND) for name, time in layers]], file)


def executorch(file: str | Path) -> Seconds:
    """Seconds of each operator call, `avg`, in the unit that the column names (without one: ms).

    Calls of one operator are numbered in the order of the table: convolution, convolution_1 … Delegated calls keep
    their names. Raises InputError if the file is damaged.
    """
    columns, rows = _table(file, "\t", "a table of ExecuTorch's Inspector")
    named = {column.split(" (")[0]: column for column in columns}
    if not {"event_name", "avg"} <= named.keys():
        raise InputError(f"{file}: expected columns event_name and avg, found {', '.join(columns) or 'none'}")
    unit = re.search(r"\((\w+)\)", named["avg"])
    scale = _UNITS_S.get(unit[1] if unit else "ms")
    if scale is None:
        raise InputError(f"{file}: expected a unit of {', '.join(_UNITS_S)}, found {named['avg']}")
    seen: Counter[str] = Counter()
    times = []
    for row in rows:
        name, average = row[named["event_name"]], row[named["avg"]]
        if not average or name in _OF_EXECUTORCH_ITSELF or "::" in name:
            continue
        times.append((_numbered(_operator(name), seen), _number(average, file) * scale))
    return _medians([times], file)


_OF_EXECUTORCH_ITSELF = frozenset({"OPERATOR_CALL", "DELEGATE_CALL"})
"""Events that contain those of single operators."""


def _operator(name: str) -> str:
    """native_call_convolution.out -> convolution."""
    return name.removeprefix("native_call_").split(".")[0] if name.startswith("native_call_") else name


def openvino(file: str | Path) -> Seconds:
    """Seconds of each layer that was executed, `realTime (ms)`. Raises InputError if the file is damaged."""
    columns, rows = _table(file, ";", "counters of OpenVINO")
    if not {"layerName", "execStatus", "realTime (ms)"} <= set(columns):
        raise InputError(f"{file}: expected layerName;execStatus;…;realTime (ms), found {';'.join(columns)}")
    ran = [row for row in rows if row["execStatus"].removeprefix("Status.") == "EXECUTED"]
    times = [(row["layerName"], _number(row["realTime (ms)"], file) * _MILLISECOND) for row in ran]
    return _medians([times], file)


def pytorch(file: str | Path, runs: int = 1) -> Seconds:
    """Seconds of each op in one of `runs` runs (their median), by the trace of `torch.profiler`.

    If the trace has user annotations (`torch.profiler.record_function`), these are the ops. Otherwise they are the
    outermost ops of PyTorch, numbered within a run as `torch.export` numbers them: conv2d, conv2d_1 … If the trace has
    kernels of a GPU, the time of an op is that of the kernels which it started.

    Raises InputError if the file is damaged, or the ops cannot be `runs` equal runs.
    """
    trace = _entries(file, "a Chrome trace", "traceEvents")
    events = [event for event in trace if event.get("ph") == "X"]
    events = [event for event in events if not str(event.get("name")).startswith("ProfilerStep")]
    kinds = [[e for e in events if e.get("cat") == kind] for kind in ("user_annotation", "cpu_op")]
    ops = _outermost(kinds[0] or kinds[1], file)
    if not ops or runs < 1 or len(ops) % runs:
        raise InputError(f"{file}: expected ops of {runs} equal runs, found {len(ops)} outermost ops")
    kernels = [event for event in events if event.get("cat") == "kernel"]
    took_us = (
        _kernel_us(ops, kinds[1], kernels, file)
        if kernels
        else [_took_us(event, file) for _, _, event in ops]
    )
    names = [str(event.get("name")).removeprefix("aten::") for _, _, event in ops]
    times, each = [], len(ops) // runs
    for first in range(0, len(ops), each):
        run, seen = slice(first, first + each), Counter[str]()
        numbered = names[run] if kinds[0] else [_numbered(name, seen) for name in names[run]]
        times.append([(name, us * _MICROSECOND) for name, us in zip(numbered, took_us[run], strict=True)])
    return _medians(times, file)


_Timed = tuple[float, float, Mapping[str, Any]]


def _outermost(events: Iterable[Mapping[str, Any]], file: str | Path) -> list[_Timed]:
    """The events of each thread that lie in no other one of it, by their beginnings (us)."""
    timed = sorted(((*_interval(e, file), e) for e in events), key=lambda t: (t[0], -t[1]))
    found: list[_Timed] = []
    until: dict[Any, float] = defaultdict(lambda: -math.inf)
    for first, last, event in timed:
        thread = repr((event.get("pid"), event.get("tid")))
        if first >= until[thread]:
            until[thread] = last
            found.append((first, last, event))
    return found


def _kernel_us(
    ops: Sequence[_Timed],
    inner: Sequence[Mapping[str, Any]],
    kernels: Sequence[Mapping[str, Any]],
    file: str | Path,
) -> list[float]:
    """Microseconds of the kernels that each op, or an op within it, has started."""
    by_id: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        by_id[_external_id(kernel)] += _took_us(kernel, file)
    starts = sorted((_interval(event, file)[0], _external_id(event)) for event in inner)
    at_us = [at for at, _ in starts]
    inside = [starts[bisect_left(at_us, first) : bisect_right(at_us, last)] for first, last, _ in ops]
    return [sum(by_id[name] for _, name in each) for each in inside]


def _external_id(event: Mapping[str, Any]) -> str:
    args = event.get("args")
    return repr(args.get("External id")) if isinstance(args, Mapping) else ""


def _numbered(name: str, seen: Counter[str]) -> str:
    """The name, with its number if it was there before: relu, relu_1, relu_2 …"""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}_{seen[name] - 1}"


# ---- from names to ops


@dataclass(frozen=True)
class Matched:
    """A profile by ops.

    Attributes:
        op_seconds: seconds by the name of an op, or of several that ran as one ("conv1+relu1").
        unmatched: seconds of what belongs to no op, by the profiler's names.
    """

    op_seconds: Seconds
    unmatched: Seconds


def match(
    seconds: Mapping[str, float], ops: Iterable[str], names: Mapping[str, str] | None = None
) -> Matched:
    """The ops of a profile, by the names of `ops`.

    A profiler's name is that of an op, or in `names` (such as those of `names_in_model`), or several of those joined by
    "+"; what runtimes put around names is taken off (`PWN(…)`, `…_nchwc`, `…_token_12`).
    """
    known = {**(names or {}), **{op: op for op in ops}}
    found: Seconds = {}
    unmatched: Seconds = {}
    for name, took_s in seconds.items():
        inside = list(dict.fromkeys(_ops_in(name, known)))
        if inside:
            key = "+".join(inside)
            found[key] = found.get(key, 0.0) + took_s
        else:
            unmatched[name] = took_s
    return Matched(found, unmatched)


def names_in_model(file: str | Path) -> dict[str, str]:
    """The op of each node and tensor in a model file (.onnx, .onnx.gz or .pt2), as `egrl import` names ops.

    Raises InputError as `egrl import` does.
    """
    from workloads.importers.read import read

    return read(str(file), allow_unknown=True).op_by_name()


_AROUND = re.compile(r"(?:_nchwc|_token_\d+|_kernel_time)$")


def _ops_in(name: str, known: Mapping[str, str]) -> list[str]:
    if name in known:
        return [known[name]]
    if name.startswith("Reformatting"):  # between layers: "Reformatting CopyNode for Input Tensor 0 to a + b"
        return []
    if name.startswith("PWN(") and name.endswith(")"):
        return _ops_in(name[4:-1], known)
    if (plain := _AROUND.sub("", name)) != name:
        return _ops_in(plain, known)
    pieces = [piece.strip(" ()") for piece in name.split("+")]
    return [known[piece] for piece in pieces if piece in known] if len(pieces) > 1 else []


# ---- files


def _entries(file: str | Path, what: str, key: str | None) -> list[dict[str, Any]]:
    """The objects of the list that is the document, or that lies under `key` in it."""
    try:
        document = json.loads(read_text(file, what))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected {what}, found no JSON: {error}") from error
    if key is not None and isinstance(document, dict):
        document = document.get(key)
    if not isinstance(document, list):
        raise InputError(f"{file}: expected {what}, found no list of events")
    return [entry for entry in document if isinstance(entry, dict)]


def _table(file: str | Path, delimiter: str, what: str) -> tuple[list[str], list[dict[str, str]]]:
    """The columns of a table, and its rows; a cell that is missing is ""."""
    try:
        rows = list(csv.reader(read_text(file, what).splitlines(), delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"{file}: expected {what}, found {error}") from error
    columns = [column.strip() for column in rows[0]] if rows else []
    blank = [""] * len(columns)
    return columns, [dict(zip(columns, [*row, *blank], strict=False)) for row in rows[1:] if row]


def _interval(event: Mapping[str, Any], file: str | Path) -> tuple[float, float]:
    """Beginning and end of an event, in microseconds."""
    first = _number(event.get("ts"), file)
    return first, first + _took_us(event, file)


def _took_us(event: Mapping[str, Any], file: str | Path) -> float:
    return _number(event.get("dur", 0), file)


def _number(value: Any, file: str | Path) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, bool) or not 0 <= found < math.inf:
        raise InputError(f"{file}: expected a time of 0 or more, found {str(value)[:40]!r}")
    return found


def _medians(runs: Sequence[Iterable[tuple[str, float]]], file: str | Path) -> Seconds:
    """Seconds in one run by name, added up within each run. Raises InputError if there are none."""
    found: dict[str, list[float]] = {}
    for run in runs:
        took: Seconds = {}
        for name, seconds in run:
            took[name] = took.get(name, 0.0) + seconds
        for name, seconds in took.items():
            found.setdefault(name, []).append(seconds)
    if not found:
        raise InputError(f"{file}: expected the time of an op, found none")
    return {name: statistics.median(seconds) for name, seconds in found.items()}
