"""ExecuTorch programs in two memories: plans of `egrl_edge.executorch` beside those of BankedGreedy.

Five models in plain PyTorch, random weights, portable kernels without a delegate. The fast bank holds `--share` of what
BankedGreedy needs in one bank, the slow one all of it; bandwidths are the chip's. Both plans run through
`executorch.runtime`, and ours on poisoned arenas. Printed: seconds of a run by the model of `egrl_edge/banks` (ours,
BankedGreedy's, the bound), bytes moved through the slow memory, constants included, and what the checks say.

    pip install "./plugins/edge[executorch]"
    python plugins/edge/benchmarks/executorch_banks.py [--share 0.25] [--seconds 10] [--chip edge] [MODEL …]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.banked_memory_planning import Bank, BankedGreedy, TargetMemoryMap
from executorch.exir.memory_planning import MemoryAlgoResult, MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import get_scalar_type, scalar_type_table
from executorch.runtime import Runtime
from executorch_models import MODELS

from egrl_edge.executorch import planner
from egrl_edge.executorch.judge import judge
from egrl_edge.executorch.poisoned import Poisoned
from hwsim.nnpi.chip import Chip, load_chip

ELEMENT_BYTES = {scalar: get_scalar_type(scalar).itemsize for scalar in scalar_type_table.values()}


class Sized(MemoryPlanningAlgorithmSuite):
    """BankedGreedy on two banks: the slow one holds what it needs in one bank, the fast one a share of that."""

    def __init__(self, chip: Chip, share: float) -> None:
        super().__init__([self._plan])
        self.__name__ = "sized"
        self._chip, self._share = chip, share

    def _plan(self, alignment: int, specs: Any, *rest: Any) -> MemoryAlgoResult:
        given = list(specs)
        whole = BankedGreedy(TargetMemoryMap([Bank("all", 2**40, 1)]))(alignment, given, *rest).bufsizes[1]
        fast, slow = self._chip.memories[-1], self._chip.memories[0]
        size = max(int(whole * self._share) // alignment, 1) * alignment
        self.map = TargetMemoryMap([Bank(fast.name, size, 1), Bank(slow.name, whole, 2)])
        return BankedGreedy(self.map)(alignment, given, *rest)


def lowered(build: Callable[[], tuple[torch.nn.Module, list[tuple[Any, ...]]]], algorithm: Any) -> Any:
    """The executable program of a model, planned by an algorithm."""
    torch.manual_seed(0)
    module, inputs = build()
    exported = torch.export.export(module.eval().requires_grad_(False), inputs[0])
    return to_edge(exported).to_executorch(
        ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=algorithm))
    )


def ran(program: Any, inputs: Sequence[tuple[Any, ...]]) -> list[list[torch.Tensor]]:
    """What the runtime gives for each input, in order."""
    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    return [list(method.execute(each)) for each in inputs]


def equal(one: list[list[torch.Tensor]], other: list[list[torch.Tensor]]) -> float:
    """The largest difference between outputs; NaN counts as infinitely far."""
    gaps = [
        float((a - b).abs().max()) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    ]
    return max(gap if gap == gap else float("inf") for gap in gaps)


def compare(name: str, chip: Chip, share: float, seconds: float) -> None:
    """Plan, run and judge one model; print a line."""
    build = MODELS[name]
    sized = Sized(chip, share)
    theirs = lowered(build, sized)
    ours_by = planner(sized.map, chip, seconds=seconds)
    begun = time.monotonic()
    ours = lowered(build, ours_by)
    spent = time.monotonic() - begun
    plan = ours_by.plans[-1]
    assert plan.cost is not None
    assert plan.greedy is not None
    torch.manual_seed(0)
    module, _ = build()
    torch.manual_seed(1)
    _, inputs = build()
    module.eval()
    with torch.no_grad():
        eager = [list(out) if isinstance(out := module(*each), tuple) else [out] for each in inputs]
    mine, greedy = ran(ours, inputs), ran(theirs, inputs)
    poisoned = Poisoned(ours.exported_program())
    method = ours.executorch_program.execution_plan[0]
    broken = judge(method, ELEMENT_BYTES, {bank.mem_id: bank.size for bank in sized.map.banks})
    slow = chip.memories[0].name
    print(
        f"{name:<13} {len(plan.rows):>5} {sized.map.banks[0].size:>9} {sized.map.banks[1].size:>9}"
        f" {plan.cost.seconds * 1e3:>9.4f} {plan.greedy.seconds * 1e3:>9.4f} {plan.bound_s * 1e3:>9.4f}"
        f" {plan.cost.moved_bytes[slow]:>10} {plan.greedy.moved_bytes[slow]:>10}"
        f" {plan.seconds:>6.1f} {spent:>6.1f} {len(broken) + len(plan.violations()):>4}"
        f" {equal(mine, greedy):>8.1e} {equal(mine, eager):>8.1e}"
        f" {equal([poisoned.outputs(each) for each in inputs], eager):>8.1e}",
        flush=True,
    )


def main() -> None:
    """Compare the models that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--chip", default="edge")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(
        "model        tensors fast/B  slow/B   ours/ms  greedy/ms bound/ms  ours/B  greedy/B  plan/s  all/s  bad …"
    )
    for name in given.models:
        compare(name, load_chip(given.chip), given.share, given.seconds)


if __name__ == "__main__":
    main()
