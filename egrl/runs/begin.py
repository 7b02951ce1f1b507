"""A run folder at the beginning of a search: made for a new run, or brought back to where a run left it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from egrl.core import atomic, loop
from egrl.core.state import SearchState
from egrl.runs import checkpoint, config
from egrl.runs import folder as run_folder
from egrl.runs.config import RunConfig, RunOptions
from egrl.runs.new_folder import default_folder
from egrl.runs.past import with_own_inputs
from egrl.runs.prepare import Prepared, build_problem, copies_of, prepare
from egrl.runs.resolve import resolve_again
from egrl.runs.resume import fixed_settings
from workloads.errors import InputError


def create(
    out: Any, resolved: RunConfig, prepared: Prepared, stack: contextlib.ExitStack
) -> run_folder.RunFolder:
    """The folder of a new run, closed with the stack; `out` is its path, or True for one in `runs/`.

    InputError where it cannot be made.
    """
    problem = prepared.context.problems[0]
    run = resolved.run
    path = (
        default_folder(problem.about.workload, run.method, run.seed) if out is True else _path(out, "--out")
    )
    folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.create(path)))
    _write_inputs(folder, resolved, prepared)
    folder.settings = fixed_settings(resolved)
    return folder


@dataclass(frozen=True)
class Reopened:
    """A run folder that is to be gone on with.

    Attributes:
        folder: open.
        before: the options that it was left with.
        resolved: what it goes on with.
        prepared: the problem from the folder's own inputs, and a new method.
    """

    folder: run_folder.RunFolder
    before: RunOptions
    resolved: RunConfig
    prepared: Prepared

    def restore(self) -> SearchState:
        """Bring method and archive to the last checkpoint, and the config to what it goes on with.

        InputError where the folder is damaged or of another simulator.
        """
        if not self.folder.begun:
            _write_inputs(self.folder, self.resolved, self.prepared)
        state = loop.resume(self.prepared.method, self.folder, self.prepared.context)
        if self.resolved.run != self.before:
            write_config(self.folder, self.resolved)
        return state


def reopen(
    resume: Any,
    given: Mapping[str, Any],
    stack: contextlib.ExitStack,
    told: bool = False,
    settings: Sequence[str] = (),
) -> Reopened:
    """The folder of an earlier run, closed with the stack, with the options that are `given` changed.

    `told`: the caller measures. InputError where there is none, or it cannot be gone on with so.
    """
    path = _path(resume, "--resume")
    folder = stack.enter_context(contextlib.closing(run_folder.RunFolder.reopen(path)))
    checkpoint.check_version(path / "checkpoint")
    before, resolved = resolve_again(path, given, told, settings)
    folder.settings = fixed_settings(resolved)
    own = replace(resolved, run=with_own_inputs(resolved.run, path)) if folder.begun else resolved
    return Reopened(folder, before, resolved, prepare(own, build_problem(own)))


def write_config(folder: run_folder.RunFolder, resolved: RunConfig) -> None:
    """Write config.toml anew. RunFailure where the disk refuses."""
    atomic.write(folder.path / run_folder.CONFIG, config.to_toml(resolved))


def _write_inputs(folder: run_folder.RunFolder, resolved: RunConfig, prepared: Prepared) -> None:
    problem, start = prepared.context.problems[0], prepared.context.start[0]
    folder.write_inputs(config.to_toml(resolved), [problem], copies_of(resolved.run, problem, start))


def _path(value: Any, flag: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{flag}: expected a path, found {value!r}")
    return Path(value)
