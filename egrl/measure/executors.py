"""Chooses the executor of a run: this process, a pool, or Ray; the results are the same."""

from __future__ import annotations

from collections.abc import Sequence

from egrl.core.executor import Executor
from egrl.measure.local import InProcess, ProcessPool
from hwsim.problem import Problem


def check(kind: str, address: str) -> None:
    """That the executor can be had; InputError where not. What is slow to say no is asked before a run begins."""
    if kind == "ray":
        from egrl.measure.ray import connection as ray_connection

        ray_connection.check(address)


def build(problems: Sequence[Problem], workers: int, kind: str = "local", ray_address: str = "") -> Executor:
    """The executor of a kind (local, ray) for a number of workers; local: 1 measures here."""
    if kind == "ray":
        from egrl.measure.ray import executor as ray_executor

        return ray_executor.RayCluster(problems, workers, ray_address)
    return InProcess(problems) if workers == 1 else ProcessPool(problems, workers)
