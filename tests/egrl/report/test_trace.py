"""egrl trace: held to the Trace Event Format; what it shows is the mapping's."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from commands import refuse

from egrl.cli.main import main
from egrl.report.changes import memory
from egrl.runs.past_run import PastRun

NEEDED = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "dur": float},
    "C": {"name": str, "pid": int, "ts": float, "args": dict},
    "M": {"name": str, "pid": int, "args": dict},
    "s": {"name": str, "cat": str, "id": int, "pid": int, "tid": int, "ts": float},
    "f": {"name": str, "cat": str, "id": int, "pid": int, "tid": int, "ts": float, "bp": str},
    "b": {"name": str, "cat": str, "id": int, "pid": int, "ts": float},
    "e": {"name": str, "cat": str, "id": int, "pid": int, "ts": float},
}
"""What the format asks of each kind of event that is used."""


def check(document: dict[str, Any]) -> None:
    """The rules of the format: fields and types, nesting within a thread, pairs of flows and of asynchronous events."""
    assert isinstance(document["traceEvents"], list)
    assert document["displayTimeUnit"] in ("ms", "ns")
    slices = defaultdict(list)
    pairs: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in document["traceEvents"]:
        for name, kind in NEEDED[event["ph"]].items():
            assert isinstance(event[name], (float, int) if kind is float else kind), (event, name)
        assert event.get("ts", 0) >= 0
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
        if event["ph"] in "sfbe":
            pairs["flow" if event["ph"] in "sf" else "async", event["id"]].append(event)
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) and value >= 0 for value in event["args"].values())
    for found in slices.values():
        end = 0.0
        for begin, length in sorted(found):
            assert begin >= end - 1e-6
            end = begin + length
    for begin, end in pairs.values():
        assert begin["ph"] + end["ph"] in ("sf", "be")
        assert begin["ts"] <= end["ts"]
    for (kind, _), ends in pairs.items():
        for event in ends if kind == "flow" else ():
            near = slices[event["pid"], event["tid"]]
            assert any(t - 1e-6 <= event["ts"] <= t + length + 1e-6 for t, length in near)


def traced(argv: list[str], out: Path) -> dict[str, Any]:
    assert main(["run", *argv, "--method", "random", "--evals", "3", "--quiet", "--out", str(out)]) == 0
    assert main(["trace", str(out)]) == 0
    return json.loads((out / "trace.json").read_text(encoding="utf-8"))


def test_a_trace_of_a_chip_has_its_ops_and_tensors(tmp_path, capsys):
    document = traced(["--workload", "alexnet"], tmp_path / "r")
    check(document)
    past = PastRun.read(tmp_path / "r")
    ops = [event for event in document["traceEvents"] if event["ph"] == "X" and event["cat"] == "step"]
    assert [op["name"] for op in ops] == list(past.problem.space.nodes)
    assert sum(op["dur"] for op in ops) == pytest.approx(past.summary["best"]["cost"] * 1e6, rel=1e-6)
    (maps,) = memory(past.problem, past.best_mapping())
    boxes = {
        (b.name, b.offset_bytes, b.size_bytes) for m in maps.maps if m.label == "the best" for b in m.boxes
    }
    tensors = [event for event in document["traceEvents"] if event.get("cat") == "tensor"]
    assert {(t["name"], t["args"]["offset"], t["args"]["bytes"]) for t in tensors} == boxes
    held = past.problem.occupancy(past.best_mapping()).occupied_bytes
    names = {e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
    for number, (name, _) in enumerate(past.problem.memories()):
        process = next((p for p, word in names.items() if word.startswith(f"{name} ")), None)
        counted = [
            e["args"]["bytes"] for e in document["traceEvents"] if e["ph"] == "C" and e["pid"] == process
        ]
        assert counted == ([*held[:, number].tolist(), 0] if process else [])
    refuse(capsys, ["trace", str(tmp_path)], "summary.json")


@pytest.mark.slow
def test_a_trace_of_a_program_has_its_copies_as_flows(tmp_path):
    document = traced(["--problem", "mmap", "--workload", "alexnet_train_batch_32"], tmp_path / "r")
    check(document)
    kinds = [event["ph"] for event in document["traceEvents"]]
    assert kinds.count("s") == kinds.count("f") == kinds.count("b") > 0
