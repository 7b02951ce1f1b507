"""Memory plans for ExecuTorch's `MemoryPlanningPass`, made by search or proof (README.md of the plug-in)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.errors import InputError

if TYPE_CHECKING:
    from egrl_edge.executorch.planning import Algorithm
    from workloads.programs.program import Program

NEEDED = 'expected the package executorch, found none: pip install "executorch>=1.5,<1.6"'


def check_installed() -> None:
    """InputError in one line where ExecuTorch is not installed."""
    if importlib.util.find_spec("executorch") is None:
        raise InputError(f"executorch: {NEEDED}")


def planner(
    target: Any,
    chip: Any = None,
    *,
    method: str = "exact",
    seconds: float = 10.0,
    seed: int = 0,
    constants: bool = False,
) -> Algorithm:
    """A `memory_planning_algo` for `MemoryPlanningPass` that searches for the placement, and packs it.

    Args:
        target: a TargetMemoryMap (its banks are of the chip's memories by name); or a chip: then each of its memories
            is a bank, the fastest with mem_id 1, and the capacities are the chip's.
        chip: name of `egrl list chips`, a chip file (.toml) or a Chip; bandwidths and engines are its own. Needed with
            a TargetMemoryMap.
        method: of `egrl list methods`; "exact" proves.
        seconds: of the search, and again of the packing of each bank.
        seed: of both.
        constants: fill what room is left in the faster banks with the parameters that are read the most a byte.
            Only for programs of one method: others would write over them.

    Returns:
        An algorithm; after planning, `.plans` says what each graph was given.

    Raises:
        InputError: no executorch, no such chip, or banks that the chip does not have; and when planning, a capacity
            that cannot be met, in one line: "impossible" where that is proved, else "not found".
    """
    check_installed()
    from egrl_edge.executorch.placing import Effort
    from egrl_edge.executorch.planning import Algorithm, Search
    from egrl_edge.executorch.target import target_of

    return Algorithm(Search(target_of(target, chip), Effort(method, seconds, seed), constants))


def apply_plan(plan: str, target: Any) -> Algorithm:
    """A `memory_planning_algo` that places tensors as a plan file says (`egrl export RUN --to executorch`).

    Args:
        plan: path of the file.
        target: a TargetMemoryMap with the banks of the plan, by name; or a chip, as in `planner`.

    Raises:
        InputError: no executorch, or no such file; and when planning, a program with other tensors, or a plan that the
            judge refuses.
    """
    check_installed()
    from egrl_edge.executorch.plan_file import read
    from egrl_edge.executorch.planning import Algorithm, Given
    from egrl_edge.executorch.target import banks_of

    return Algorithm(Given(read(plan), banks_of(target), plan))


def import_program(file: str, *, trust: bool = False) -> Program:
    """The program that ExecuTorch plans, of an exported one: `planner` and `apply_plan` see the same names and sizes.

    Args:
        file: path of what `torch.export.save` wrote (.pt2). It is lowered with portable kernels, without a delegate.
        trust: whether code in the file may run. `torch.export.load` unpickles constants and inputs, evaluates
            expressions and loads compiled libraries, and has no setting that refuses them.

    Raises:
        InputError: no such file, not `trust`, no executorch, a file that is no exported program or cannot be
            lowered.
    """
    if not Path(file).is_file():
        raise InputError(f"{file}: expected an exported program (.pt2), found no file")
    if not trust:
        raise InputError(
            f"{file}: expected --trust, found none: PyTorch's loader runs code that it finds in the file,"
            " so give it only for files that you trust"
        )
    check_installed()
    from egrl_edge.executorch.lowered import program_of

    return program_of(file)
