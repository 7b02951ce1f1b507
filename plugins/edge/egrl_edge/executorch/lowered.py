"""The program that ExecuTorch plans, of a file of an exported one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
from executorch.exir.passes import MemoryPlanningPass

from egrl_edge.executorch import specs as of_specs
from workloads.errors import InputError
from workloads.programs.program import Program, check


class _Reader(MemoryPlanningAlgorithmSuite):
    """ExecuTorch's own planner, which keeps what it was shown last."""

    def __init__(self, name: str) -> None:
        super().__init__([self._plan])
        self.__name__ = "reader"
        self._name = name
        self.program: Program | None = None

    def _plan(self, alignment: int, specs: Any, graph_module: Any, signature: Any = None, *rest: Any) -> Any:
        of_specs.check_flat(graph_module, signature)
        given = list(specs)
        roots = [spec for spec in given if spec.storage_base is None]
        self.program = of_specs.read(graph_module, roots, self._name).program
        return greedy(alignment, set(given), graph_module, signature, *rest)


def _load(file: str) -> torch.export.ExportedProgram:
    """What `torch.export.save` wrote; torch logs a traceback of its own of what is none, which nobody asked for."""
    log = logging.getLogger(torch.export.__name__)
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return torch.export.load(file)
    finally:
        log.setLevel(before)


def program_of(file: str) -> Program:
    """The program of a file (see `egrl_edge.executorch.import_program`)."""
    reader = _Reader(Path(file).stem)
    planning = MemoryPlanningPass(memory_planning_algo=reader)
    try:
        exported = _load(file)
        to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except Exception as error:  # whatever torch and ExecuTorch say of what they cannot take
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{file}: expected a program that ExecuTorch can lower, found: {first[0]}"
        ) from error
    assert reader.program is not None
    return check(reader.program)
