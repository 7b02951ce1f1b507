"""The largest tensors in memory at the peak of a training step, by the modules that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from egrl_training.pytorch.joint import JointGraph
from egrl_training.simulator.explain import spans
from egrl_training.simulator.simulate import Runs, memory_of, runs_of
from egrl_training.simulator.tables import Tables
from workloads.text import size_text


@dataclass(frozen=True)
class Held:
    """A tensor in memory.

    Attributes:
        name: of its node in the graph.
        module: path of the module that makes it, or of the first one that reads a parameter or an input; "": unknown.
        what: parameter, input, tangent, gradient, result, kept, or "" for what the pass needs just then.
        shape, dtype: as PyTorch has them; () and "" if the graph does not say.
        size_bytes: of its storage.
    """

    name: str
    module: str
    what: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int

    def __str__(self) -> str:
        where = f" of {self.module}" if self.module else ""
        what = f", {self.what}" if self.what else ""
        return f"{size_text(self.size_bytes)}  {self.name}{where} {list(self.shape)} {self.dtype}{what}"


def largest_at_peak(joint: JointGraph, t: Tables, plan: NDArray[np.int16], count: int) -> list[Held]:
    """So many of the largest storages in memory during the fullest run of a plan int16 [N], the largest first."""
    runs = runs_of(t, plan)
    held = np.empty(len(runs.op), np.int64)
    memory_of(t, runs, held)
    at = int(held[: runs.length].argmax())
    begin, end = spans(t, runs, at)
    there = np.flatnonzero((begin <= at) & (at < end) & (t.size_bytes > 0))
    largest = there[np.argsort(-t.size_bytes[there], kind="stable")][:count]
    return [_held(joint, t, runs, int(storage)) for storage in largest]


def _held(joint: JointGraph, t: Tables, runs: Runs, storage: int) -> Held:
    number = int(t.storage[storage])
    value, tensor = joint.step.values[number], joint.values[number].meta.get("val")
    return Held(
        value.name,
        _module(joint, number),
        value.role or _what(t, runs, storage),
        tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else (),
        str(tensor.dtype).removeprefix("torch.") if isinstance(tensor, torch.Tensor) else "",
        int(t.size_bytes[storage]),
    )


def _what(t: Tables, runs: Runs, storage: int) -> str:
    if t.is_gradient[storage]:
        return "gradient"
    if t.is_output[storage]:
        return "result"
    return "kept" if runs.saved[storage] else ""


def _module(joint: JointGraph, number: int) -> str:
    """The module of the op that makes a value, or of the first one with a module that reads it."""
    step = joint.step
    if step.maker[number] >= 0:
        return step.ops[step.maker[number]].module
    shown = {other for other, owner in enumerate(step.owner) if owner == number}
    return next((op.module for op in step.ops if op.module and not shown.isdisjoint(op.inputs)), "")
