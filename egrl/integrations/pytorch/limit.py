"""Train within a limit of memory: what `memory_limit` does to `torch.compile`, and how a plan is made."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch._dynamo.exc import ShortenTraceback
from torch.utils._python_dispatch import _disable_current_modes

from egrl.api import search
from egrl.core import atomic
from egrl.integrations.pytorch import plan as plans
from egrl.integrations.pytorch.backend import HOST_BACKEND, PlannedBackend
from egrl.integrations.pytorch.compiled import Memory, UnreadableCodeError, memory_of
from egrl.integrations.pytorch.fitting import Compiled, fastest_within
from egrl.integrations.pytorch.fusion import fused
from egrl.integrations.pytorch.joint import JointGraph, UnsupportedGraphError
from egrl.integrations.pytorch.partition import Cut
from egrl.integrations.pytorch.plan import Plan
from egrl.integrations.pytorch.times import TIMES, host_Bps, main_device
from egrl.integrations.pytorch.versions import check_version
from egrl.methods import find_method
from egrl.runs.progress import compiling, note_if_slow
from egrl.runs.result import Result
from hwsim.problem import Mapping16
from hwsim.training.device import Device
from hwsim.training.problem import TrainingConfig, TrainingProblem
from workloads.errors import InputError
from workloads.text import read_quantity, size_text
from workloads.training_step import TrainingStep

NEAR_ENOUGH = 1e-3
"""A plan within this share of the bound is not improved further: times of ops are known less well."""
CLEAR = "\r\033[K"
"""Goes to the start of a terminal's line, and clears it."""
LARGE_RESULT = 0.01
"""Results that take this share of the peak suggest that a loss is computed elsewhere."""
MOST_BPS = 1e18
"""No copy is as fast."""
SCALAR_BYTES = 64
"""Left free of every limit that is simulated, for scalars that no graph has: the gradient of a loss, which the caller
of `backward` holds during the whole pass, and numbers that ops wrap."""
INDUCTOR_MARGIN = 0.05
"""Share of the limit that is left free where only the simulation knows the peak under inductor."""


class MemoryLimitError(ShortenTraceback):
    """No plan within the limit was found. The message names the least peak, where it is, and the largest tensors."""

    def __init__(self, message: str) -> None:
        # PyTorch shows the traceback from this frame on, without some thirty frames of its compiler
        super().__init__(message, first_useful_frame=sys._getframe(1))


@dataclass(frozen=True)
class Limit:
    """What a plan must keep to, and how it is searched for.

    Attributes:
        bytes: memory that the step may take; None if `fraction` says it.
        fraction: of the peak of keeping every value; None if `bytes` says it.
        reserved: bytes that the step cannot have: the optimizer's state, other models, the driver.
        method: what searches for the plan, of `egrl list methods`.
        seconds: of the search.
        seed: of the search.
        host_Bps: bytes per second of copies to the host and back; both 0: nothing is kept there; None: as measured.
    """

    bytes: int | None
    fraction: float | None
    reserved: int
    method: str
    seconds: float
    seed: int
    host_Bps: tuple[float, float] | None = (0.0, 0.0)

    def plan(self, step: TrainingStep, margin: float = 0.0) -> tuple[Plan, int]:
        """The best plan that is found for a step, and the bytes that it holds after the forward pass.

        `margin` is the share of the limit that is left free. InputError if no plan within the limit is found.
        """
        made, problem, mapping = self._found(step, self._device(1 - margin), margin)
        away = {value.name for value in made.offload}
        saved = [number for number in problem.saved(mapping) if step.values[number].name not in away]
        stays = {*saved, *(int(step.owner[number]) for number in step.outputs)}
        stays |= {number for number, value in enumerate(step.values) if value.role in ("parameter", "input")}
        return made, sum(step.values[number].size_bytes for number in stays)

    def plan_compiled(
        self, step: TrainingStep, memory: Callable[[Sequence[str]], Memory]
    ) -> tuple[Plan, int]:
        """The same within the limit as it is compiled: `memory` of what is kept, by names, without what is reserved.

        InputError if no plan within the limit is found.
        """
        everything = [step.values[number].name for number in step.candidates]
        whole = memory(everything)
        all_bytes = whole.peak_bytes + self.reserved
        limit = self.bytes if self.fraction is None else int(self.fraction * all_bytes)
        assert limit is not None
        all_made, _, _ = self._found(step, Device("all", memory_fraction=1.0))

        def compiled(plan: Plan) -> Compiled:
            taken = whole if list(plan.keep) == list(all_made.keep) else memory(plan.keep)
            peak = taken.peak_bytes + self.reserved
            # the bound was proved within a simulated limit, and says nothing of this one
            plan = replace(
                plan, limit_bytes=limit, peak_bytes=peak, all_peak_bytes=all_bytes, bound_seconds=0.0
            )
            return Compiled(plan, peak, taken.held_bytes)

        def search(limit_bytes: int) -> Plan:
            return self._found(step, Device("limit", memory_bytes=limit_bytes))[0]

        if all_bytes <= limit:
            found = compiled(all_made)
        else:
            found = fastest_within(limit, int(limit * all_made.peak_bytes / all_bytes), search, compiled)
        return found.plan, found.held_bytes

    def _found(
        self, step: TrainingStep, device: Device, margin: float = 0.0
    ) -> tuple[Plan, TrainingProblem, Mapping16]:
        """The best plan within the memory of a device, with its problem and mapping."""
        taken = self.reserved + SCALAR_BYTES
        problem = TrainingProblem(step, device, TrainingConfig(reserved_bytes=taken, gap=NEAR_ENOUGH))
        mapping, bound = np.ones((len(problem.space.nodes), 1), np.int16), 0.0
        if problem.keep_all[1] > problem.limit_bytes:
            result = self._search(problem)
            mapping = problem.baseline.mapping if result.mapping is None else result.mapping
            bound = result.bound or 0.0
        return plans.plan_of(problem, mapping, bound, margin), problem, mapping

    def _search(self, problem: TrainingProblem) -> Result:
        exact, threads = self.method == "exact", torch.get_num_threads()
        try:
            # compilation runs under modes in which tensors have no data
            with _disable_current_modes():
                return self._searched(problem, exact)
        finally:
            torch.set_num_threads(threads)  # PyTorch refuses to go on compiling with another number

    def _searched(self, problem: TrainingProblem, exact: bool) -> Result:
        return search(
            problem,
            method=self.method,
            seed=self.seed,
            settings=[f"method.seconds={self.seconds}"] if exact else [],
            seconds=None if exact else self.seconds,
        )

    def _device(self, share: float) -> Device:
        """What has this share of the limit."""
        to, back = self.host_Bps or (0.0, 0.0)
        if self.fraction is not None:
            return Device("limit", 0, self.fraction * share, to, back)
        assert self.bytes is not None
        return Device("limit", int(self.bytes * share), 0.0, to, back)


class Plans(list[Plan]):
    """The plans that were made, one per graph, in the order of compilation."""


def size_of(limit: str | int, name: str = "limit") -> int:
    """Bytes of "6 GiB", "512MB" or a number of bytes. InputError if it is none above 0."""
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        return limit
    # A text without a unit is more likely a slip than a number of bytes; neither is a bandwidth ("/s") one.
    named = isinstance(limit, str) and limit.strip().upper().endswith("B")
    size = int(read_quantity(str(limit)) or 0) if named else 0
    if size <= 0:
        raise InputError(f'{name}: expected bytes above 0 such as "6 GiB" or 6442450944, found {limit!r}')
    return size


@contextlib.contextmanager
def memory_limit(
    limit: str | int | None = None,
    *,
    fraction: float | None = None,
    reserved: str | int = 0,
    plan: str | Path | None = None,
    save: str | Path | None = None,
    offload: bool | str = False,
    method: str = "exact",
    seconds: float = 20.0,
    seed: int = 0,
    quiet: bool = False,
) -> Iterator[Plans]:
    """What is compiled by `torch.compile` within this context trains within a limit of memory.

    The plan is made when the compiled function first runs, within the context or after it: the ops of its joint graph
    are timed on the machine at hand, and the values to keep are searched for. Backends: "inductor" and "aot_eager".

    Args:
        limit: bytes that a training step may take at its peak, such as "6 GiB": parameters, inputs, gradients and
            outputs are included, the optimizer's state is not.
        fraction: instead of `limit`, a share in 0..1 of the peak of keeping every value.
        reserved: bytes of `limit` that the step cannot have, such as the optimizer's state.
        plan: instead of both, a plan file: nothing is timed or searched for.
        save: a file that the plans are written to.
        offload: True to keep values in the host's memory, too; or the rate of copies, such as "25 GB/s", else measured.
        method: what searches for the plan, of `egrl list methods`; "exact" proves how far it is from the best.
        seconds: time limit of each search: one per graph, under inductor up to `fitting.TURNS`.
        seed: of the search.
        quiet: True to write no line about each plan to stderr.

    Returns:
        A context that gives the list of plans, which grows with each graph that is compiled.

    Raises:
        InputError: at once, if an argument is wrong or this version of PyTorch is not supported.
        MemoryLimitError: when the function first runs, if no plan within the limit is found.
    """
    check_version()
    asked = _limit(limit, fraction, reserved, plan, method, seconds, seed, offload)
    given = None if plan is None else plans.read(str(plan))
    if save is not None and (Path(save).is_dir() or not Path(save).parent.is_dir()):
        raise InputError(f"save: expected a file in a folder that exists, found {str(save)!r}")
    made = Plans()

    def compile_within(
        model: Any = None, *, backend: Any = "inductor", dynamic: bool | None = None, **kwargs: Any
    ) -> Any:
        if model is None:
            return lambda model: compile_within(model, backend=backend, dynamic=dynamic, **kwargs)
        name = _name_of(model)
        _check_compiled(model, name)
        report = _Report(made, save, quiet)
        planner = _Planner(asked, given, backend, report)
        planned = PlannedBackend(backend, planner, name, bool(dynamic), report.say)
        return _watched(original(model, backend=planned, dynamic=bool(dynamic), **kwargs), planned, report)

    original = torch.compile
    with mock.patch.object(torch, "compile", compile_within):
        yield made


def _watched(compiled: Any, planned: PlannedBackend, report: _Report) -> Any:
    """The compiled module or function, which says so if its first run compiles nothing."""

    def ran(*_: Any) -> None:
        while first:
            first.pop()()
            if not planned.called:
                report.say(f"{planned.name}: PyTorch compiles nothing of it, so that no limit holds")

    first: list[Callable[[], None]] = []
    if isinstance(compiled, torch.nn.Module):
        first.append(compiled.register_forward_hook(ran).remove)
        return compiled

    @functools.wraps(compiled)
    def watched(*args: Any, **kwargs: Any) -> Any:
        result = compiled(*args, **kwargs)
        ran()
        return result

    first.append(lambda: None)
    return watched


def _name_of(model: Any) -> str:
    """What lines about a module or function call it; `Module.compile` compiles a method of the module."""
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        model = owner
    return str(getattr(model, "__qualname__", type(model).__name__))


def _check_compiled(model: Any, name: str) -> None:
    """InputError for `Module.compile` of what has PyTorch's own forward, such as `Sequential`: no limit would hold."""
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module) and type(owner).forward.__module__.startswith("torch.nn."):
        raise InputError(
            f"{name}.compile(): expected torch.compile(model): PyTorch compiles no module of its own like this"
        )


def _limit(
    limit: str | int | None,
    fraction: float | None,
    reserved: str | int,
    plan: str | Path | None,
    method: str,
    seconds: float,
    seed: int,
    offload: bool | str,
) -> Limit:
    if sum(given is not None for given in (limit, fraction, plan)) != 1:
        raise InputError("memory_limit: expected one of limit, fraction and plan, found none or several")
    if fraction is not None and not (isinstance(fraction, int | float) and 0 < fraction <= 1):
        raise InputError(f"fraction: expected a number above 0 and at most 1, found {fraction!r}")
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise InputError(f"seconds: expected a number above 0, found {seconds!r}")
    find_method(method)
    room = None if limit is None else size_of(limit)
    taken = size_of(reserved, "reserved") if reserved else 0
    if room is not None and taken >= room:
        raise InputError(
            f"reserved: expected less than the limit of {size_text(room)}, found {size_text(taken)}"
        )
    return Limit(room, fraction, taken, method, seconds, seed, _rates(offload))


def _rates(offload: bool | str) -> tuple[float, float] | None:
    """`Limit.host_Bps` of the argument `offload`. InputError if it is no rate."""
    if isinstance(offload, bool):
        return None if offload else (0.0, 0.0)
    named = isinstance(offload, str) and offload.strip().upper().endswith("B/S")
    rate = float(read_quantity(offload) or 0.0) if named else 0.0
    if not 1 <= rate <= MOST_BPS:
        raise InputError(
            f'offload: expected True, False or bytes per second such as "25 GB/s", found {offload!r}'
        )
    return rate, rate


@dataclass
class _Report:
    """Where plans go when they are made."""

    made: Plans
    save: str | Path | None
    quiet: bool

    def __call__(self, plan: Plan) -> None:
        self.made.append(plan)
        if self.save is not None:
            atomic.write(Path(self.save), plans.dumps(self.made))
        if not self.quiet:
            self.say(str(plan))

    def say(self, text: str) -> None:
        """Write a line to stderr, in place of what `passing` wrote."""
        cleared = CLEAR if sys.stderr.isatty() else ""
        print(f"{cleared}egrl: {text}", file=sys.stderr, flush=True)

    def passing(self, text: str) -> None:
        """Write to a terminal what is being done; the next text takes its place."""
        if not self.quiet and sys.stderr.isatty():
            print(f"{CLEAR}egrl: {text}", end="", file=sys.stderr, flush=True)

    def planning(self, joint: JointGraph, seconds: float) -> contextlib.ExitStack:
        """Within it a line says what takes long, if it does, and that kernels are compiled."""
        text = f"{joint.step.name}: timing {len(joint.ops)} ops, then searching for a plan, {seconds:g} s at most"
        stack = contextlib.ExitStack()
        stack.enter_context(note_if_slow(text, self.quiet or sys.stderr.isatty()))
        stack.enter_context(compiling(self.quiet))
        return stack

    def progress(self, done: int, of: int) -> None:
        """How many ops are timed."""
        self.passing(f"timing op {done} of {of}")

    def results(self, step: TrainingStep, plan: Plan) -> None:
        """Say if so much leaves the graph that a loss is probably computed outside of it."""
        owners = {int(step.owner[number]) for number in step.outputs}
        size = sum(step.values[number].size_bytes for number in owners if step.maker[number] >= 0)
        if not self.quiet and size > LARGE_RESULT * plan.all_peak_bytes:
            self.say(
                f"{plan.name}: it returns {size_text(size)}: what is computed of this outside, such as a loss, takes"
                " memory that no plan knows; compile both together"
            )


class _Planner:
    """Makes the plan of each graph of one compiled function, or takes it from the given ones."""

    def __init__(self, limit: Limit, given: Sequence[Plan] | None, backend: str, report: _Report) -> None:
        self._limit, self._given, self._backend, self._report = limit, given, backend, report
        self._held: dict[int, int] = {}
        """By the number of a compiled frame: bytes that its graph holds while later graphs run."""

    def __call__(self, joint: JointGraph) -> Cut:
        """How a joint graph is cut. MemoryLimitError if nothing fits."""
        try:
            plan = self._planned(joint) if self._given is None else self._chosen(joint)
        except InputError as error:
            raise MemoryLimitError(str(error)) from None
        self._report(plan)
        self._report.results(joint.step, plan)
        return Cut(joint.positions(plan.keep), plan.offload)

    def _best(self, limit: Limit, joint: JointGraph) -> tuple[Plan, int]:
        """The plan of a measured graph, and what it holds after the forward pass. InputError if nothing fits."""
        if self._backend != "inductor":
            if limit.host_Bps is None:
                limit = replace(limit, host_Bps=host_Bps(main_device(joint.ops)))
            return limit.plan(joint.step)
        if limit.host_Bps != (0.0, 0.0):
            self._report.say(
                f"{joint.step.name}: nothing is kept on the host: that needs the backend {HOST_BACKEND}"
            )
            limit = replace(limit, host_Bps=(0.0, 0.0))
        step = fused(joint)
        try:
            return limit.plan_compiled(step, lambda names: memory_of(joint, joint.positions(names)))
        except UnreadableCodeError as reason:
            self._report.say(
                f"{step.name}: {INDUCTOR_MARGIN:.0%} of the limit is left free, since the peak is not known: {reason}"
            )
            return limit.plan(step, INDUCTOR_MARGIN)

    def _chosen(self, joint: JointGraph) -> Plan:
        """The given plan of this graph. InputError if there is none."""
        assert self._given is not None
        graph = joint.step.graph
        fitting = [plan for plan in self._given if plan.graph == graph]
        plan = fitting[0] if fitting else self._given[0].checked(graph)
        if plan.offload and self._backend != HOST_BACKEND:
            raise InputError(
                f"the plan of {plan.name}: offload: expected the backend {HOST_BACKEND} for what is on the host, found"
                f" {self._backend}"
            )
        unknown = set(plan.keep) - {value.name for value in joint.step.values}
        if unknown:
            raise InputError(
                f"the plan of {plan.name}: keep: expected values of its graph, found {min(unknown)!r}"
            )
        if self._backend == "inductor":
            self._check_compiled(joint, plan)
        return plan

    def _check_compiled(self, joint: JointGraph, plan: Plan) -> None:
        """Say so if a given plan takes more than its limit when it is compiled."""
        try:
            peak = memory_of(joint, joint.positions(plan.keep)).peak_bytes
        except UnreadableCodeError as reason:
            self._report.say(f"{plan.name}: its peak as it is compiled is not known: {reason}")
        else:
            if peak > plan.limit_bytes:
                self._report.say(
                    f"{plan.name}: as it is compiled, its peak is {size_text(peak)}, above its limit of"
                    f" {size_text(plan.limit_bytes)}: plan it with memory_limit, which compiles what it plans"
                )

    def _planned(self, joint: JointGraph) -> Plan:
        if not joint.step.candidates:
            raise UnsupportedGraphError("it has no value that could be computed again")
        frame = _frame()
        earlier = sum(held for other, held in self._held.items() if other != frame)
        limit = (
            self._limit
            if self._limit.bytes is None
            else replace(self._limit, reserved=self._limit.reserved + earlier)
        )
        with self._report.planning(joint, limit.seconds):
            joint = TIMES.measure(joint, self._report.progress)
            self._report.passing(f"searching for a plan, {limit.seconds:g} s at most")
            plan, self._held[frame] = self._within(limit, joint, earlier)
        return plan

    def _within(self, limit: Limit, joint: JointGraph, earlier: int) -> tuple[Plan, int]:
        """As `_best`, with a word about what earlier graphs of the function hold if nothing fits."""
        try:
            return self._best(limit, joint)
        except InputError as error:
            if not earlier:
                raise
            raise InputError(
                f"{error}. Earlier graphs of the same function, planned before this one was known, hold"
                f" {size_text(earlier)} of this: compile it as one graph; fullgraph=True says where it breaks"
            ) from None


def _frame() -> int:
    """The number of the frame of Python that is being compiled; a frame is one graph at a time."""
    compiled = torch._guards.CompileContext.current_compile_id()
    return -1 if compiled is None or compiled.frame_id is None else int(compiled.frame_id)
