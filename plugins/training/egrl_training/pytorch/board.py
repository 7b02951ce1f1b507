"""A board that is this machine: compiles and runs a training step with each plan that it is asked for.

    egrl run --problem training --workload step.json --evaluator "python -m egrl_training.pytorch.board STEP.py"

Speaks the protocol of docs/guides/boards.md: the answer has the seconds of each run of a step. A plan with a measured
peak above `--limit` does not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from egrl_training.pytorch import step_file
from egrl_training.pytorch.asked import size_of
from egrl_training.pytorch.backend import BACKENDS, HOST_BACKEND, PlannedBackend
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.partition import Cut
from egrl_training.pytorch.peak import peak_of
from egrl_training.pytorch.plan import plan_of
from egrl_training.pytorch.reached import modules_of, tensors_in
from egrl_training.pytorch.times import TIMES, host_Bps, main_device
from egrl_training.pytorch.timing import now
from egrl_training.pytorch.unread import held_bytes
from egrl_training.simulator.device import Device
from egrl_training.simulator.explain import CHOICES
from egrl_training.simulator.problem import TrainingProblem
from workloads.errors import InputError

RECOMPUTE, KEEP, OFFLOAD = CHOICES


class Board:
    """Runs one training step.

    Attributes:
        held_bytes: of parameters, buffers and inputs, which are there all the time.
    """

    def __init__(
        self, function: Callable[..., torch.Tensor], inputs: Sequence[Any], backend: str, runs: int
    ) -> None:
        self._function, self._inputs, self._backend, self._runs = function, inputs, backend, runs
        self._compiled: tuple[tuple[frozenset[str], frozenset[str]], Callable[..., Any]] | None = None
        self._modules = modules_of(function)
        given = [each for each in tree_leaves(inputs) if isinstance(each, torch.Tensor)]
        tensors = [*given, *tensors_in(self._modules)]
        self._device = tensors[0].device if tensors else torch.device("cpu")
        self.held_bytes = held_bytes(function, inputs)

    def measure(self, keep: Collection[str], offload: Collection[str] = ()) -> tuple[list[float], int]:
        """Seconds of each run, and the peak in bytes, with the values of these names kept, or kept on the host."""
        compiled = self._compile(frozenset(keep), frozenset(offload))
        self._step(compiled)
        self._forget()
        peak = peak_of(lambda: self._step(compiled), self._device) + self.held_bytes
        seconds = []
        for _ in range(self._runs):
            self._forget()
            begin = now(self._device)
            self._step(compiled)
            seconds.append(now(self._device) - begin)
        return seconds, peak

    def _compile(self, keep: frozenset[str], offload: frozenset[str]) -> Callable[..., Any]:
        """The step with a plan; that of the last plan is kept, since contenders are measured again and again."""
        if self._compiled is None or self._compiled[0] != (keep, offload):
            if offload and self._backend != HOST_BACKEND:
                raise InputError(f"backend: expected {HOST_BACKEND} to offload, found {self._backend}")

            def planner(joint: JointGraph) -> Cut:
                return _timed_cut(joint, keep, offload) if offload else Cut(joint.positions(keep))

            torch._dynamo.reset()
            planned = PlannedBackend(self._backend, planner, "step", False)
            self._compiled = (keep, offload), torch.compile(self._function, backend=planned, dynamic=False)
        return self._compiled[1]

    def _step(self, compiled: Callable[..., Any]) -> None:
        compiled(*self._inputs).backward()

    def _forget(self) -> None:
        """Drop the gradients, so that each step begins with the same memory."""
        for module in self._modules:
            module.zero_grad(set_to_none=True)


def _timed_cut(joint: JointGraph, keep: Collection[str], offload: Collection[str]) -> Cut:
    """How a joint graph is cut, with copies where the times of ops on this machine say."""
    rates = host_Bps(main_device(joint.ops))  # any that the plan names may be copied
    device = Device(
        "all", memory_fraction=1.0, to_host_Bps=rates[0], from_host_Bps=rates[1], least_copy_s=0.0
    )
    problem = TrainingProblem(TIMES.measure(joint).step, device)
    chosen = (
        OFFLOAD if name in offload else KEEP if name in keep else RECOMPUTE for name in problem.space.nodes
    )
    choice = [CHOICES.index(one) for one in chosen]
    mapping = np.minimum(np.array(choice, np.int16)[:, None], problem.space.num_choices - 1).astype(np.int16)
    plan = plan_of(problem, mapping)
    return Cut(joint.positions(plan.keep), plan.offload)


def answer(board: Board, request: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """The answer to one request."""
    chosen = {
        choice: {row["node"] for row in request["mapping"] if row.get("storage") == choice}
        for choice in (KEEP, OFFLOAD)
    }
    try:
        seconds, peak = board.measure(chosen[KEEP], chosen[OFFLOAD])
    except Exception as error:  # a plan that cannot be compiled or run is a result, not the end
        return {"id": request["id"], "error": f"{type(error).__name__}: {error}"[:500]}
    if limit is not None and peak > limit:
        return {
            "id": request["id"],
            "invalid": True,
            "epsilon": min(1.0, peak / limit - 1),
            "peak_bytes": peak,
        }
    return {"id": request["id"], "latency_s": seconds, "peak_bytes": peak}


def main(argv: Sequence[str] | None = None) -> int:
    """Answer requests from stdin until it ends."""
    parser = argparse.ArgumentParser(prog="python -m egrl_training.pytorch.board", description=__doc__)
    parser.add_argument(
        "step", help="a file of Python with build(), which returns a loss function and its inputs"
    )
    parser.add_argument("--backend", choices=BACKENDS, default="inductor", help="of torch.compile")
    parser.add_argument("--runs", type=int, default=3, help="timed steps per plan, after one that warms up")
    parser.add_argument("--limit", help='bytes that the measured peak may take, such as "6 GiB" [no limit]')
    given = parser.parse_args(argv)
    try:
        function, inputs = step_file.load(given.step)
        limit = None if given.limit is None else size_of(given.limit)
    except InputError as error:
        print(f"board: error: {error}", file=sys.stderr)
        return 2
    board = Board(function, inputs, given.backend, max(1, given.runs))
    for line in sys.stdin:
        print(json.dumps(answer(board, json.loads(line), limit)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
