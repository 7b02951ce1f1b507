"""plan.json: where each tensor of an exported program lies, by names of tensors and banks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egrl.runs.export import allocate
from egrl.runs.past_run import PastRun
from egrl_edge.banks.problem import BanksProblem
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document

KIND, VERSION = "executorch-plan", 1


@dataclass(frozen=True)
class Lying:
    """Where a plan file puts a tensor of `size_bytes`."""

    bank: str
    offset_bytes: int
    size_bytes: int


SECONDS = 10.0
"""Time limit of the search for offsets, per bank."""


def export(run: PastRun) -> str:
    """The best mapping as a memory plan for ExecuTorch, with offsets. InputError if the run is not of `banks`."""
    return dumps(run.problem, run.best_mapping(), SECONDS, 0)


def dumps(problem: Problem, mapping: Mapping16, seconds: float, seed: int) -> str:
    """JSON of one placement int16 [N, 1] with offsets.

    Raises:
        InputError: the problem is not `banks`, or no offsets are found within `seconds` a bank.
    """
    if not isinstance(problem, BanksProblem):
        raise InputError(f"--to executorch: expected a run of the problem banks, found {problem.about.name}")
    if problem.program.source != "executorch":
        raise InputError(
            "--to executorch: expected a run of what `egrl executorch MODEL.pt2` made, found one of"
            f" {problem.about.workload}, whose tensors are not ExecuTorch's"
        )
    align_bytes = problem.config.align_bytes
    memories = allocate(problem, mapping, align_bytes, seconds, seed)
    for memory in memories:
        if memory.over_bytes:
            raise InputError(
                f"{memory.name}: offsets within {memory.capacity_bytes} bytes are not found, short by"
                f" {memory.over_bytes}: {', '.join(memory.sticking_out[:4])}"
            )
    document = {
        "kind": KIND,
        "version": VERSION,
        "workload": problem.about.workload,
        "chip": problem.about.chip,
        "align_bytes": align_bytes,
        "banks": [{"bank": m.name, "size_bytes": m.capacity_bytes} for m in reversed(memories)],
        "tensors": [
            {
                "tensor": tensor.node,
                "bank": memory.name,
                "offset_bytes": offset,
                "size_bytes": tensor.size_bytes,
            }
            for memory in memories
            for tensor, offset in zip(memory.tensors, memory.packing.offsets, strict=True)
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def read(path: str) -> dict[str, Lying]:
    """The tensors of a plan file. InputError in one line where it is none."""
    document = parse_document(read_text(path, "a plan (.json)"), path, KIND, VERSION)
    rows = document.get("tensors")
    if not isinstance(rows, list):
        raise InputError(f"{path}: tensors: expected a list, found {type(rows).__name__}")
    found: dict[str, Lying] = {}
    for number, row in enumerate(rows):
        name, lying = _row(row, f"{path}: tensors[{number}]")
        if name in found:
            raise InputError(f"{path}: tensors[{number}]: {name!r} is placed twice")
        found[name] = lying
    return found


def _row(row: Any, where: str) -> tuple[str, Lying]:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: expected an object, found {type(row).__name__}")
    texts: Sequence[Any] = [row.get("tensor"), row.get("bank")]
    numbers: Sequence[Any] = [row.get("offset_bytes"), row.get("size_bytes")]
    if not all(isinstance(each, str) for each in texts) or not all(
        type(each) is int and each >= 0 for each in numbers
    ):
        raise InputError(
            f"{where}: expected tensor, bank, offset_bytes and size_bytes, found {str(row)[:60]}"
        )
    return texts[0], Lying(texts[1], numbers[0], numbers[1])
