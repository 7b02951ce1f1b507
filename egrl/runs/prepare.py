"""Everything that a run is made of, found or refused before its folder exists."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core.archive import Archive
from egrl.core.method import Context, Costs, Method
from egrl.core.model_use import ModelUse
from egrl.core.registry import MethodDefinition
from egrl.measure import executors
from egrl.methods import find_method
from egrl.problems import find_problem
from egrl.runs import baseline_layout, mapping_file
from egrl.runs import folder as run_folder
from egrl.runs.config import RunConfig, RunOptions
from hwsim.capabilities import HasModel
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_bytes
from workloads.nearest import hint

if TYPE_CHECKING:
    from policies.store import StoredPolicy

STARTS = ("cold", "compiler", "exact")
"""What a run can begin with by name."""


def build_problem(resolved: RunConfig, workload: Any = None, chip: Any = None) -> Problem:
    """The problem that a run names; of objects, where they are given. InputError where one of them is wrong."""
    definition = find_problem(resolved.run.problem).load()
    given = (
        resolved.run.workload if workload is None else workload,
        resolved.run.chip if chip is None else chip,
    )
    return definition.build(*given, resolved.problem)


@dataclass(frozen=True)
class Prepared:
    """A method, and the context that it was built from: one problem, an empty archive, the start mapping."""

    method: Method
    context: Context


def prepare(resolved: RunConfig, problem: Problem, definition: MethodDefinition | None = None) -> Prepared:
    """Everything that can be wrong with the input is found here, before a run folder exists.

    `definition` is the method, where it is no registered one.
    """
    definition = definition or find_method(resolved.run.method)
    reason = definition.serves(problem)
    if reason is not None:
        raise InputError(
            f"--method {resolved.run.method} cannot serve problem {problem.about.name}: {reason}"
        )
    init: StoredPolicy | None = None
    if resolved.run.init and not definition.takes_policy:
        raise InputError(
            f"--init: expected a method with a policy to begin with, found {resolved.run.method}"
        )
    if resolved.run.init:
        from policies.store import load_policy

        init = load_policy(Path(resolved.run.init))
    executors.check(resolved.run.executor, resolved.run.ray_address)
    use = ModelUse()
    with use.timed() if resolved.run.start == "exact" else nullcontext():
        start = _start(resolved.run, problem)
    context = Context(
        [problem],
        Archive([problem]),
        resolved.run.seed,
        [start],
        init,
        resolved.run.threads,
        check_device(resolved.run.device),
        resolved.run.generation_evals,
        model_use=use,
        seconds=resolved.run.seconds,
        costs=Costs(bool(resolved.run.evaluator) or problem.about.measured),
    )
    return Prepared(definition.build(context, resolved.method), context)


def check_device(name: str) -> str:
    """The name of a torch device that is there; InputError where it is not."""
    if name == "cpu":
        return name
    import torch

    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        reason = str(error).splitlines()[0]
        raise InputError(
            f"--device {name}: expected cpu, or a device that PyTorch {torch.__version__} can use: {reason}"
        ) from error
    return name


def _start(options: RunOptions, problem: Problem) -> Mapping16 | None:
    if options.start == "cold":
        return None
    if options.start == "compiler":
        return problem.baseline.mapping
    if options.start == "exact":
        if not isinstance(problem, HasModel):
            raise InputError(
                f"--start exact: expected a problem with a model to solve, found {problem.about.name} without one"
            )
        return problem.solve(options.exact_seconds, options.seed).mapping
    if not Path(options.start).exists():
        raise InputError(
            f"--start: expected {', '.join(STARTS)} or a mapping file (best_mapping.json), found no such file as"
            f" {options.start!r}{hint(options.start, STARTS)}"
        )
    return mapping_file.read(options.start, problem)


def copies_of(options: RunOptions, problem: Problem, start: Mapping16 | None) -> dict[str, bytes]:
    """What a run has besides workload and chip, from its first moment on: name in the run folder -> content."""
    copies = {}
    if start is not None and options.start != "compiler":
        copies[run_folder.START_FILE] = mapping_file.dumps(problem, start).encode()
    if (places := baseline_layout.own_layout(problem)) is not None:
        copies[run_folder.BASELINE_LAYOUT] = baseline_layout.dumps(problem, places).encode()
    if options.init:
        copies[run_folder.INIT_FILE] = read_bytes(options.init, "a policy file")
    return copies
