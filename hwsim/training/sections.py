"""What is shown of a plan: what it saves beside keeping every value, memory over the step, and which ops run again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hwsim.sections import Cell, Line, Lines, Section, Table
from hwsim.training.simulate import Trace
from hwsim.training.tables import Floats, Tables
from workloads.text import size_text
from workloads.training_step import TrainingStep

ALL, BEST = "every value kept", "the best"


def sections(step: TrainingStep, t: Tables, traces: Mapping[str, Trace], limit_bytes: int) -> list[Section]:
    """Of the traces by label: those of `ALL` and `BEST`, and of what else is compared."""
    seconds = {label: _run_seconds(t, trace) for label, trace in traces.items()}
    return [
        _summary(traces, seconds, limit_bytes),
        _memory(traces, seconds, limit_bytes),
        _again(step, t, traces[BEST], seconds[BEST]),
    ]


def _run_seconds(t: Tables, trace: Trace) -> Floats:
    """Seconds float64 [R] of each run."""
    at = np.searchsorted(t.op, trace.op)
    return np.where(trace.again, t.again_s[at], t.seconds[at])


def _summary(traces: Mapping[str, Trace], seconds: Mapping[str, Floats], limit_bytes: int) -> Table:
    peak = {label: int(trace.held_bytes.max()) for label, trace in traces.items()}
    longer = seconds[BEST].sum() / seconds[ALL].sum() - 1 if seconds[ALL].sum() else 0.0
    rows: list[list[Cell]] = [
        [
            label,
            float(seconds[label].sum()),
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
    turn = float(seconds[BEST][: traces[BEST].turn].sum())
    return Lines(
        "Memory over the step",
        f"Bytes in memory while each op runs. Under the best plan the backward pass begins at {turn:.3g} s.",
        "time",
        "in memory",
        [
            Line(label, (np.cumsum(seconds[label]) - seconds[label]).tolist(), trace.held_bytes.tolist())
            for label, trace in traces.items()
        ],
        {"limit": float(limit_bytes)},
        ("s", "B"),
    )


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
