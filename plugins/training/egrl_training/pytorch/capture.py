"""The training step of a function, captured without compiling or running it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed, ShortenTraceback
from torch.nn.parallel import DistributedDataParallel

from egrl_training.pytorch import step_file
from egrl_training.pytorch.backend import CUT_BY_PYTORCH, PlannedBackend
from egrl_training.pytorch.exchanged import check_known
from egrl_training.pytorch.fusion import fused
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.partition import Cut
from egrl_training.pytorch.times import TIMES, main_device
from egrl_training.pytorch.unread import Resident, with_unread
from egrl_training.pytorch.versions import check_version
from egrl_training.steps.step import TrainingStep
from workloads.errors import InputError


class _CapturedError(ShortenTraceback):
    """Ends a compilation when its joint graph is known, or the reason why there is none: nothing runs."""

    def __init__(self, joint: JointGraph | None = None, reason: str = "") -> None:
        super().__init__(first_useful_frame=None)
        self.joint, self.reason = joint, reason


def capture_joint(
    function: Callable[..., Any], *inputs: Any, backend: str = "aot_eager", name: str = ""
) -> JointGraph:
    """The joint graph of `function(*inputs)` and its backward pass, as a backend of `torch.compile` sees it.

    What the modules of the function hold and no op reads is in its step, too.

    Args:
        function: a module or a function; a single graph, without graph breaks.
        inputs: what it is called with; sizes are fixed to these.
        backend: "inductor" or "aot_eager".
        name: of the step [the function's].

    Raises:
        InputError: nothing of it needs a gradient, or its graph cannot be planned.
    """

    resident = Resident(function)
    named = name or getattr(function, "__qualname__", type(function).__name__)
    traced = _traced(function, named)

    def planner(joint: JointGraph) -> Cut:
        raise _CapturedError(with_unread(joint, resident.unread(main_device(joint.ops))))

    def refuse(reason: str) -> None:
        raise _CapturedError(reason=f": {reason.partition(CUT_BY_PYTORCH)[2] or reason}")

    def has_no_backward_pass(compiled: Any) -> Any:
        raise _CapturedError

    planned = PlannedBackend(
        backend,
        planner,
        named,
        False,
        refuse,
        lambda ends_early, given, is_whole: resident.reads(given),
        has_no_backward_pass,
    )
    torch._dynamo.reset()
    compiled = torch.compile(traced, backend=planned, dynamic=False, fullgraph=True)
    captured = _CapturedError()
    try:
        compiled(*inputs)
    except _CapturedError as error:
        captured = error
    except BackendCompilerFailed as error:
        if not isinstance(error.inner_exception, _CapturedError):
            raise
        captured = error.inner_exception
    finally:
        torch._dynamo.reset()
    if captured.joint is None:
        raise InputError(
            f"{named}: expected a step with a backward pass that can be planned, found none{captured.reason}"
        )
    return captured.joint


def _traced(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """What PyTorch compiles of a function: of DDP its module. InputError if what that takes cannot be known."""
    try:
        check_known([function])
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return function.module if isinstance(function, DistributedDataParallel) else function


def capture(
    function: Callable[..., Any], *inputs: Any, backend: str = "aot_eager", name: str = ""
) -> TrainingStep:
    """The training step of `function(*inputs)`, with the times of its ops on this machine; see `capture_joint`."""
    joint = TIMES.measure(capture_joint(function, *inputs, backend=backend, name=name))
    return fused(joint) if backend == "inductor" else joint.step


def import_step(file: str, backend: str = "aot_eager") -> TrainingStep:
    """The training step that a file of Python builds (`step_file.load`), with the times of its ops on this machine.

    Raises:
        InputError: the file builds no step, or its graph cannot be planned.
    """
    check_version()
    function, inputs = step_file.load(file)
    return capture(function, *inputs, backend=backend, name=Path(file).stem)
