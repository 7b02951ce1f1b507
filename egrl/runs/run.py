"""A run: its configuration, its method and its folder; a new run, or one that is resumed.

All errors in the input are found here, before a run folder exists.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core import atomic, loop
from egrl.core.archive import Archive
from egrl.core.from_rules import FromRules
from egrl.core.loop import SearchState
from egrl.core.method import Context, Costs, Method, ModelUse
from egrl.core.registry import MethodDefinition
from egrl.measure import local
from egrl.measure.apart import sheltered
from egrl.methods import find_method
from egrl.problems import KIND, build_problem
from egrl.runs import checkpoint, config, gap
from egrl.runs import folder as run_folder
from egrl.runs.config import RunConfig, RunOptions, fixed_settings
from hwsim.capabilities import HasModel, HasPlacement
from hwsim.problem import Mapping16, Problem
from workloads.errors import InputError
from workloads.files import read_bytes
from workloads.text import hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.store import StoredPolicy

STARTS = ("cold", "compiler", "rules", "policy", "exact")
"""Starts that have a name."""


@dataclass
class Run:
    """A run that is ready to search.

    Attributes:
        config: the resolved configuration.
        method: built from `context`.
        context: one problem, the archive, the start mapping.
        folder: the run folder, open; None if the run is in memory.
        state: the state of the search; None before the first evaluation.
    """

    config: RunConfig
    method: Method
    context: Context
    folder: run_folder.RunFolder | None = None
    state: SearchState | None = None

    @property
    def problem(self) -> Problem:
        """The problem that is searched."""
        return self.context.problems[0]

    def keep(self, out: Any, stack: contextlib.ExitStack) -> None:
        """Make the run folder, which is closed with the stack; `out` is its path, or True for one in `runs/`.

        InputError if it cannot be made.
        """
        run = self.config.run
        path = (
            default_folder(self.problem.about.workload, run.method, run.seed)
            if out is True
            else _path(out, "--out")
        )
        self.folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.create(path)))
        self._write_inputs(self.folder)
        self.folder.settings = fixed_settings(self.config)

    def restore(self) -> None:
        """Restore method and archive from the folder's last checkpoint; then `write_config` if all is as it should be.

        InputError if the folder is damaged, or of another simulator.
        """
        assert self.folder is not None
        if not self.folder.begun:
            self._write_inputs(self.folder)
        self.state = loop.resume(self.method, self.folder, self.context)

    def write_config(self) -> None:
        """Write config.toml if its content would change. RunFailure if the disk refuses."""
        if self.folder is not None:
            self.folder.write_config(config.to_toml(self.config))

    def _write_inputs(self, folder: run_folder.RunFolder) -> None:
        copies = _copies(self.config.run, self.problem, self.context.start[0])
        folder.write_inputs(config.to_toml(self.config), [self.problem], copies)


def prepare(resolved: RunConfig, problem: Problem, definition: MethodDefinition | None = None) -> Run:
    """A run of a method on a problem, in memory so far. InputError if the method cannot work on the problem.

    `definition` is the method, unless it is a registered one.
    """
    options = resolved.run
    definition = definition or find_method(options.method)
    reason = definition.serves(problem)
    if reason is not None:
        refused = f"--method {options.method} cannot serve problem {problem.about.name}: {reason}"
        raise InputError(f"{refused}; --method annealing serves every problem")
    gap.check(options, problem)
    if KIND.refers(options.problem):
        problem = sheltered(problem)  # the user's own code, of which a mapping may end the process
    init: StoredPolicy | None = None
    if options.init and not definition.takes_policy:
        raise InputError(f"--init: expected a method with a policy to begin with, found {options.method}")
    if options.init:
        from policies.shipped import policy_file
        from policies.store import load_policy

        init = load_policy(policy_file(options.init))
    local.check(options.executor, options.ray_address)
    use = ModelUse()
    with use.timed() if options.start == "exact" else contextlib.nullcontext():
        start = _start(options, problem)
    context = Context(
        [problem],
        Archive([problem]),
        options.seed,
        [start],
        init,
        options.threads,
        check_device(options.device),
        options.generation_evals,
        model_use=use,
        seconds=options.seconds,
        rules=_rules(problem) if options.start == "rules" else (),
        costs=Costs(bool(options.evaluator) or problem.about.measured),
    )
    build = partial(definition.build, config=resolved.method)
    method = FromRules(context, build) if len(context.rules) else build(context)
    return Run(resolved, method, context)


def reopen(
    resume: Any,
    given: Mapping[str, Any],
    stack: contextlib.ExitStack,
    settings: Sequence[str] = (),
    external: bool = False,
    new_board: bool = False,
) -> Run:
    """The run of a folder, closed with the stack, with the options that are `given` changed; then `restore` it.

    `settings` repeat the code that the settings of the run name. `external`: the caller measures. `new_board`: what was
    measured is put aside, and the run begins anew at its best mapping. InputError if there is no such run, or if it
    cannot go on so.
    """
    from egrl.core import mapping_file
    from egrl.runs.past_run import with_own_inputs
    from egrl.runs.resume import resolve_again
    from egrl.runs.summary import check_version

    path = _path(resume, "--resume")
    folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.reopen(path)))
    checkpoint.check_version(path / "checkpoint")
    check_version(path)
    resolved = resolve_again(path, given, external, settings, new_board)
    own = replace(resolved, run=with_own_inputs(resolved.run, path)) if folder.begun else resolved
    run = own.run
    problem = build_problem(run.problem, run.workload, run.chip, own.problem, run.baseline)
    if new_board and (best := folder.put_aside()) is not None:
        start = mapping_file.read(str(best), problem)
        resolved, own = (
            replace(each, run=replace(each.run, start=str(path / run_folder.START_FILE)))
            for each in (resolved, own)
        )
        atomic.write(path / run_folder.START_FILE, _mapping_file(problem, start))
    folder.settings = fixed_settings(resolved)
    return replace(prepare(own, problem), config=resolved, folder=folder)


def default_folder(workload: str, method: str, seed: int) -> Path:
    """Make runs/<workload>-<method>-s<seed>-<n> for the first n that is free. InputError if that fails."""
    stem = f"{workload}-{method}-s{seed}".replace(":", "-")
    n = 1
    while True:
        path = Path("runs") / f"{stem}-{n}"
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            if not path.is_dir():
                raise InputError(f"--out: expected that {path} can be made: {error.strerror}") from error
            n += 1
        except OSError as error:
            raise atomic.unwritable(f"--out {path}", path, error) from error
        else:
            return path


def _path(value: Any, flag: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{flag}: expected a path, found {value!r}")
    return Path(value)


def check_device(name: str) -> str:
    """The name of an available torch device. InputError if it is not available."""
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


def _rules(problem: Problem) -> list[Mapping16]:
    from egrl.methods.placed import first_mappings

    return first_mappings(problem)


def _start(options: RunOptions, problem: Problem) -> Mapping16 | None:
    if options.start in ("cold", "rules"):
        return None
    if options.start == "compiler":
        return problem.baseline.mapping
    if options.start == "policy":
        from egrl.methods.placed import shipped_mappings

        return shipped_mappings(problem, "--start policy")[0][0]
    if options.start == "exact":
        if not isinstance(problem, HasModel):
            raise InputError(
                f"--start exact: expected a problem with a model to solve, found {problem.about.name} without one"
            )
        from hwsim.nearest import nearest

        # The model may be wrong: on a board, a tensor that it left in a slow memory for nothing may cost a lot.
        return nearest(problem, problem.solve(options.exact_seconds, options.seed).mapping)
    if not Path(options.start).exists():
        raise InputError(
            f"--start: expected {', '.join(STARTS)} or a mapping file (best_mapping.json), found no such file as"
            f" {options.start!r}{hint(options.start, STARTS)}"
        )
    from egrl.core import mapping_file

    return mapping_file.read(options.start, problem)


def _copies(options: RunOptions, problem: Problem, start: Mapping16 | None) -> dict[str, bytes]:
    """Files of a new run folder besides workload and chip: name -> content."""
    copies = {}
    if start is not None and options.start != "compiler":
        copies[run_folder.START_FILE] = _mapping_file(problem, start)
    if options.baseline:
        copies[run_folder.BASELINE_FILE] = _mapping_file(
            problem, problem.baseline.mapping, problem.about.baseline_name
        )
    if isinstance(problem, HasPlacement) and (places := problem.baseline_placement()) is not None:
        copies[run_folder.BASELINE_LAYOUT] = _layout(problem, places).encode()
    if options.init:
        from policies.shipped import policy_file

        copies[run_folder.INIT_FILE] = read_bytes(policy_file(options.init), "a policy file")
    return copies


def _mapping_file(problem: Problem, mapping: Mapping16, name: str = "") -> bytes:
    from egrl.core import mapping_file

    return mapping_file.dumps(problem, mapping, name).encode()


def _layout(problem: Problem, places: Sequence[Mapping[str, Any] | None]) -> str:
    """JSON of the baseline's own layout, which no mapping of the problem expresses: a place per node, if it has one."""
    from egrl.core.mapping_file import PLACE

    document = {
        "kind": "layout",
        "version": 1,
        **problem.about.names,
        "rule": problem.baseline.name,
        "cost": problem.baseline.cost,
        "layout": [
            {"node": node} | ({} if place is None else {PLACE: place})
            for node, place in zip(problem.space.nodes, places, strict=True)
        ],
    }
    return json.dumps(document, indent=1) + "\n"
