"""What is shown of a plan: what it saves, memory over the step, which ops run again, and what is kept on the host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from egrl_training.simulator.simulate import Trace
from egrl_training.simulator.tables import Floats, Tables
from egrl_training.steps.step import TrainingStep
from hwsim.sections import Cell, Line, Lines, Section, Table
from workloads.text import size_text

ALL, BEST = "every value kept", "the best"


def sections(step: TrainingStep, t: Tables, traces: Mapping[str, Trace], limit_bytes: int) -> list[Section]:
    """Of the traces by label: those of `ALL` and `BEST`, and of what else is compared."""
    seconds = {label: _run_seconds(t, trace) for label, trace in traces.items()}
    found: list[Section] = [
        _summary(traces, seconds, limit_bytes),
        _memory(traces, seconds, limit_bytes),
        _again(step, t, traces[BEST], seconds[BEST]),
    ]
    return [*found, _host(step, t, traces[BEST], seconds[BEST])] if t.to_host_s.any() else found


def _run_seconds(t: Tables, trace: Trace) -> Floats:
    """Seconds float64 [R] of each run."""
    at = np.searchsorted(t.op, trace.op)
    return np.where(trace.again, t.again_s[at], t.seconds[at])


def _summary(traces: Mapping[str, Trace], seconds: Mapping[str, Floats], limit_bytes: int) -> Table:
    peak = {label: int(trace.held_bytes.max()) for label, trace in traces.items()}
    total = {label: float(seconds[label].sum() + trace.wait_s.sum()) for label, trace in traces.items()}
    longer = total[BEST] / total[ALL] - 1 if total[ALL] else 0.0
    rows: list[list[Cell]] = [
        [
            label,
            total[label],
            peak[label],
            int(trace.again.sum()),
            float(seconds[label][trace.again].sum()),
        ]
        for label, trace in traces.items()
    ]
    columns = [("plan", ""), ("step", "s"), ("peak", "B"), ("ops that run again", ""), ("their time", "s")]
    says = (
        f"Within a limit of {size_text(limit_bytes)} the peak is {size_text(peak[BEST])} instead of"
        f" {size_text(peak[ALL])}, and the step takes {longer:.1%} longer than if every value is kept."
    )
    return Table("The step", says, columns, rows)


def _memory(traces: Mapping[str, Trace], seconds: Mapping[str, Floats], limit_bytes: int) -> Lines:
    best = traces[BEST]
    turn = float(seconds[BEST][: best.turn].sum() + best.wait_s[: best.turn + 1].sum())
    return Lines(
        "Memory over the step",
        f"Bytes in memory while each op runs. Under the best plan the backward pass begins at {turn:.3g} s.",
        "time",
        "in memory",
        [
            Line(label, _begins(trace, seconds[label]).tolist(), trace.held_bytes.tolist())
            for label, trace in traces.items()
        ],
        {"limit": float(limit_bytes)},
        ("s", "B"),
    )


def _begins(trace: Trace, seconds: Floats) -> Floats:
    """Seconds float64 [R] from the start of the step to that of each run."""
    return np.cumsum(seconds + trace.wait_s) - seconds


def _host(step: TrainingStep, t: Tables, trace: Trace, seconds: Floats) -> Table:
    """Each value that is kept on the host, the largest first."""
    away = np.sort(trace.order)
    away = away[np.argsort(-t.size_bytes[away], kind="stable")]
    begins = np.append(_begins(trace, seconds), (seconds + trace.wait_s).sum())
    rows: list[list[Cell]] = [
        [
            step.label(int(t.storage[s])),
            int(t.size_bytes[s]),
            float(t.to_host_s[s] + t.from_host_s[s]),
            float(begins[trace.leaves[s]]),
            float(begins[trace.returns[s]]),
        ]
        for s in away
    ]
    waits = trace.wait_s.sum()
    says = (
        f"Each value that is kept on the host, the largest first; together {size_text(int(t.size_bytes[away].sum()))}."
        f" Copies go on while ops run; the step waits {waits:.3g} s for them."
    )
    columns = [
        ("value", ""),
        ("size", "B"),
        ("copies", "s"),
        ("leaves the device at", "s"),
        ("has room there from", "s"),
    ]
    return Table("On the host", says, columns, rows)


def _again(step: TrainingStep, t: Tables, trace: Trace, seconds: Floats) -> Table:
    """Each op that runs again, the dearest first."""
    runs: NDArray[np.int64] = np.flatnonzero(trace.again)
    runs = runs[np.argsort(-seconds[runs], kind="stable")]
    ops = [step.ops[trace.op[run]] for run in runs]
    rows: list[list[Cell]] = [
        [op.name, op.module, op.kind, float(seconds[run]), sum(step.values[n].size_bytes for n in op.outputs)]
        for op, run in zip(ops, runs, strict=True)
    ]
    total = f"{seconds[trace.again].sum() / seconds.sum():.1%}" if seconds.sum() else "0%"
    says = f"Each op that runs again in the backward pass, the longest first; together {total} of the step."
    columns = [("op", ""), ("module", ""), ("kind", ""), ("time", "s"), ("makes", "B")]
    return Table("Computed again", says, columns, rows)
