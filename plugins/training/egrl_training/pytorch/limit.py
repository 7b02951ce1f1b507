"""Train within a limit of memory: what `memory_limit` does to `torch.compile`, and how a plan is made."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._dynamo.exc import ShortenTraceback

from egrl_training.pytorch import plan as plans
from egrl_training.pytorch.asked import Limit, asked, simulated_peak
from egrl_training.pytorch.backend import HOST_BACKEND, PlannedBackend, fixed_when_copied
from egrl_training.pytorch.check import UNCHECKED, checked
from egrl_training.pytorch.compiled import Memory, UnreadableCodeError, memory_of
from egrl_training.pytorch.frames import is_part
from egrl_training.pytorch.fusion import fused
from egrl_training.pytorch.host import COPY_LAUNCH_S
from egrl_training.pytorch.joint import JointGraph, UnsupportedGraphError
from egrl_training.pytorch.partition import Cut
from egrl_training.pytorch.plan import Plan
from egrl_training.pytorch.reached import modules_of, tensors_in
from egrl_training.pytorch.reporting import Plans, Report
from egrl_training.pytorch.runs import Graph, OpenRuns, plan_for_runs
from egrl_training.pytorch.times import TIMES, host_Bps, main_device
from egrl_training.pytorch.unread import Resident, with_unread
from egrl_training.pytorch.versions import check_version
from workloads.errors import InputError
from workloads.text import size_text

ONE_CONTEXT = threading.Lock()
"""Held by the context that has replaced `torch.compile`."""
LAZY = (
    "{name}: PyTorch makes lazy layers of random numbers that the step then draws again: run it in eager mode once,"
    " before it is compiled"
)
INDUCTOR_MARGIN = 0.05
"""Share of the limit that is left free where only the simulation knows the peak under inductor."""


class MemoryLimitError(ShortenTraceback):
    """No plan within the limit was found. The message names the least peak, where it is, and the largest tensors."""

    def __init__(self, message: str) -> None:
        # PyTorch shows the traceback from this frame on, without some thirty frames of its compiler
        super().__init__(message, first_useful_frame=sys._getframe(1))


class _Context(contextlib.ContextDecorator):
    """What `memory_limit` gives: a context that may be entered again once it has ended, each time anew."""

    def __init__(self, make: Callable[[], contextlib.AbstractContextManager[Plans]]) -> None:
        self._make, self._entered = make, list[contextlib.AbstractContextManager[Plans]]()

    def __enter__(self) -> Plans:
        context = self._make()
        made = context.__enter__()
        self._entered.append(context)
        return made

    def __exit__(self, *error: Any) -> bool | None:
        return self._entered.pop().__exit__(*error)


def memory_limit(
    limit: str | int | None = None,
    *,
    fraction: float | None = None,
    reserved: str | int = 0,
    plan: str | Path | None = None,
    save: str | Path | None = None,
    offload: bool | str = False,
    runs: int = 1,
    method: str = "exact",
    seconds: float = 20.0,
    seed: int = 0,
    check: bool = False,
    quiet: bool = False,
) -> _Context:
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
        runs: how often a compiled graph runs before its backward pass, as do layers that are compiled one by one.
        method: what searches for the plan, of `egrl list methods`; "exact" proves how far it is from the best.
        seconds: time limit of each search: one per graph, under inductor up to `fitting.TURNS`.
        seed: of the search.
        check: True to run the first step of each function in eager mode, too, on copies, and to compare results,
            gradients, parameters, buffers and random state; it takes the memory of eager mode and of the copies.
        quiet: True to write no line about each plan to stderr.

    Returns:
        A context that gives the list of plans, which grows with each graph that is compiled.

    Raises:
        InputError: at once: a wrong argument, another version of PyTorch, or another context that has not ended.
        MemoryLimitError: when the function first runs, if no plan within the limit is found.
        WrongStepError: with `check`, when the function first runs, if it differs from eager mode by more than plain
            `torch.compile` does.
    """

    @contextlib.contextmanager
    def limited() -> Iterator[Plans]:
        check_version()
        limits = asked(limit, fraction, reserved, plan, method, seconds, seed, offload, runs)
        given = None if plan is None else plans.read(str(plan))
        backends = _Backends(limits, given, report := Report(Plans(), save, quiet))
        with _alone(), mock.patch.object(torch, "compile", _compiler(backends, check)):
            yield report.made
        if not backends.asked:
            report.say(
                "nothing was compiled within memory_limit, so that no limit holds: call torch.compile in it"
            )

    return _Context(limited)


def _compiler(backends: _Backends, check: bool) -> Callable[..., Any]:
    """What stands for `torch.compile` within a context; `check` as in `memory_limit`."""
    original, report = torch.compile, backends.report

    def compile_within(
        model: Any = None, *, backend: Any = "inductor", dynamic: bool | None = None, **kwargs: Any
    ) -> Any:
        if model is None:
            return lambda model: compile_within(model, backend=backend, dynamic=dynamic, **kwargs)
        name = _name_of(model)
        _check_compiled(model, name)
        if any(map(torch.nn.parameter.is_lazy, tensors_in(modules_of(model)))):
            report.say_once(LAZY.format(name=name))
        planned = backends.of(model, backend, bool(dynamic), name)
        compiled = fixed_when_copied(original(model, backend=planned, dynamic=bool(dynamic), **kwargs))
        if check:
            plain = functools.partial(original, model, backend=backend, dynamic=bool(dynamic), **kwargs)
            planned.unsaid += [] if planned.called else [UNCHECKED]
            compiled = checked(model, compiled, plain, backend, report.say, planned.unsaid.clear)
        return _watched(compiled, planned, report)

    return compile_within


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """InputError if another context is active: of two, one would leave `torch.compile` as the other made it."""
    if not ONE_CONTEXT.acquire(blocking=False):
        raise InputError("memory_limit: expected one context at a time, found another that has not ended")
    try:
        yield
    finally:
        ONE_CONTEXT.release()


def _watched(compiled: Any, planned: PlannedBackend, report: Report) -> Any:
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


class _Backends:
    """What cuts the graphs of each function that is compiled within one context.

    Modules that are alike share it: PyTorch compiles their code once then, and for no more than eight backends else.
    """

    def __init__(self, limit: Limit, given: Sequence[Plan] | None, report: Report) -> None:
        self._limit, self._given, self.report = limit, given, report
        room = None if limit.bytes is None else limit.bytes - limit.reserved
        self._open = OpenRuns(report.say, room)
        self._known: dict[Any, tuple[Any, _Planner, PlannedBackend]] = {}

    @property
    def asked(self) -> bool:
        """True once something was compiled."""
        return bool(self._known)

    def of(self, model: Any, backend: Any, dynamic: bool, name: str) -> PlannedBackend:
        """That of a module or function, with a backend of PyTorch."""
        owner = getattr(model, "__self__", model)
        key: Any = id(model)
        lazy = torch.nn.parameter.is_lazy
        if isinstance(owner, torch.nn.Module) and not any(map(lazy, owner.parameters())):
            sizes = tuple((each.shape, each.dtype, each.device) for each in owner.parameters())
            key = (type(owner).forward, sizes)
        key = (key, str(backend), dynamic)
        if key not in self._known:
            planner = _Planner(self._limit, self._given, backend, self.report, self._open)
            # The model is kept, so that nothing else gets its id.
            self._known[key] = model, planner, planner.backend(name, dynamic)
        _, planner, backend = self._known[key]
        planner.resident.add(model)
        return backend


class _Planner:
    """Makes the plan of each graph of one compiled function, or takes it from the given ones."""

    def __init__(
        self,
        limit: Limit,
        given: Sequence[Plan] | None,
        backend: str,
        report: Report,
        open_runs: OpenRuns,
    ) -> None:
        self._limit, self._given, self._backend, self._report = limit, given, backend, report
        self._name, self._several, self._ends_early, self._broken = "", False, False, False
        self._open, self._planned_now = open_runs, list[Graph]()
        self.resident = Resident()
        """What the compiled functions hold, to which this is told."""
        self._own: dict[int, int] = {}
        """By the number of a compiled frame: bytes of its parameters and buffers."""

    def backend(self, name: str, dynamic: bool) -> PlannedBackend:
        """What cuts the graphs of a function called `name` as they are planned here."""
        say, self._name = self._report.say, name
        return PlannedBackend(self._backend, self, name, dynamic, say, self._begins, self._counted)

    def _begins(self, ends_early: bool, given: Sequence[Any], is_whole: bool) -> None:
        """Whether the next graph ends before its function does, which has several then, what it is given, and whether
        it is one as PyTorch traced it. MemoryLimitError if what the step takes cannot be known."""
        try:
            self.resident.reads(given, is_whole)
        except InputError as error:
            raise MemoryLimitError(f"{self._name}: {error}") from None
        self._ends_early = ends_early
        self._several |= ends_early
        self._broken |= ends_early or is_part(self.resident.functions())

    def _counted(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The graph that was just compiled; its runs are counted if it was planned."""
        graphs, self._planned_now = self._planned_now, []
        return self._open.counted(compiled, graphs[-1]) if graphs else compiled

    def __call__(self, joint: JointGraph) -> Cut:
        """How a joint graph is cut. MemoryLimitError if nothing fits."""
        joint = with_unread(joint, self.resident.unread(main_device(joint.ops)))
        try:
            plan = self._planned(joint) if self._given is None else self._chosen(joint)
        except InputError as error:
            raise MemoryLimitError(str(error)) from None
        self._report(plan)
        if self._broken:
            self._report.broken(plan.name)
        if not self._ends_early:  # else the next graph takes its results
            self._report.results(joint.step, plan)
            self._report.unread(joint.step, plan)
        self._say_if_last(plan.name)
        return Cut(joint.positions(plan.keep), plan.offload)

    def _say_if_last(self, name: str) -> None:
        """Say so if PyTorch compiles the function no more: what it was not compiled for runs in eager mode."""
        most: int = torch._dynamo.config.recompile_limit
        compiled = torch._guards.CompileContext.current_compile_id()
        if compiled is not None and (compiled.frame_compile_id or 0) + 1 >= most:
            self._report.say_once(
                f"{name}: compiled {most} times, which is PyTorch's most (torch._dynamo.config.recompile_limit): other"
                " sizes run in eager mode, so that no limit holds"
            )

    def _best(
        self, limit: Limit, joint: JointGraph, memory: Callable[[tuple[str, ...]], Memory]
    ) -> tuple[Plan, int]:
        """The plan of a measured graph, and what it holds after the forward pass. InputError if nothing fits.

        `memory` is that of the graph as inductor compiles it, of the names of what is kept.
        """
        if self._backend != "inductor":
            device = main_device(joint.ops)
            if limit.host_Bps is None:
                limit = replace(limit, host_Bps=host_Bps(device))
            if limit.host_Bps != (0.0, 0.0) and device.type == "cuda":
                limit = replace(limit, least_copy_s=COPY_LAUNCH_S)
            return limit.plan(joint.step)
        if limit.host_Bps != (0.0, 0.0):
            self._report.say_once(
                f"{joint.step.name}: nothing is kept on the host: that needs the backend {HOST_BACKEND}"
            )
            limit = replace(limit, host_Bps=(0.0, 0.0))
        step = fused(joint)
        try:
            return limit.plan_compiled(step, lambda names: memory(tuple(names)))
        except UnreadableCodeError as reason:
            self._report.say_once(
                f"{step.name}: {INDUCTOR_MARGIN:.0%} of the limit is left free, since the peak is not known: {reason}"
            )
            whole = limit.runs > 1 and limit.fraction == 1.0
            return limit.plan(step, 0.0 if whole else INDUCTOR_MARGIN)

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
        self._check_peak(joint, plan)
        return plan

    def _check_peak(self, joint: JointGraph, plan: Plan) -> None:
        """Say so if a given plan takes more than its limit."""
        try:
            peak = self._peak(joint, plan)
        except UnreadableCodeError as reason:
            self._report.say(f"{plan.name}: its peak as it is compiled is not known: {reason}")
        else:
            if peak > plan.limit_bytes:
                self._report.say(
                    f"{plan.name}: as it is compiled, its peak is {size_text(peak)}, above its limit of"
                    f" {size_text(plan.limit_bytes)}: plan it with memory_limit, which compiles what it plans"
                )

    def _peak(self, joint: JointGraph, plan: Plan) -> int:
        """Bytes of a given plan at its peak, whatever it says itself; with values on the host what it says."""
        if self._backend == "inductor":
            return memory_of(joint, joint.positions(plan.keep)).peak_bytes
        return plan.peak_bytes if plan.offload else simulated_peak(joint.step, plan.keep)

    def _planned(self, joint: JointGraph) -> Plan:
        step = joint.step if self._backend != "inductor" else fused(joint)
        if not step.candidates:
            raise UnsupportedGraphError("it has no value that could be computed again")
        frame = _frame()
        values = joint.step.values
        unread = sum(value.size_bytes for value in joint.step.unread)
        self._own[frame] = sum(value.size_bytes for value in values if value.role == "parameter") - unread
        elsewhere = self._open.left_bytes(joint.step.graph if self._limit.runs > 1 else "")
        elsewhere += self._later(main_device(joint.ops))
        limit = (
            self._limit
            if self._limit.bytes is None
            else replace(self._limit, reserved=self._limit.reserved + elsewhere)
        )
        with self._report.planning(joint, limit.seconds):
            joint = TIMES.measure(joint, self._report.progress)
            self._report.passing(f"searching for a plan, {limit.seconds:g} s at most")
            plan, held = self._within(limit, joint, elsewhere, unread)
        inputs = sum(value.size_bytes for value in values if value.role == "input")
        self._planned_now.append(
            Graph(joint.step.name, joint.step.graph, held - inputs - unread, self._own[frame])
        )
        self._open.graphs.append(self._planned_now[-1])
        return plan

    def _later(self, device: torch.device) -> int:
        """Bytes of the gradients of parameters of graphs that are not known yet, which are made before a graph's own
        backward pass; 0 if the function is one graph."""
        if not self._several:
            return 0
        return sum(each.nbytes for each in self.resident.unread(device).values() if each.requires_grad)

    def _within(self, limit: Limit, joint: JointGraph, elsewhere: int, unread: int) -> tuple[Plan, int]:
        """As `_best`, for all runs that are open at once, with a word about other graphs if nothing fits.

        `unread` are bytes of parameters that no op reads.
        """
        step = joint.step
        owners = {int(step.owner[number]) for number in step.gradients}
        gradients = sum(step.values[number].size_bytes for number in owners)
        parameters = self._own[_frame()]
        own = parameters + unread, min(gradients, parameters)
        memory = functools.cache(lambda names: memory_of(joint, joint.positions(names)))
        try:
            return plan_for_runs(limit, lambda limit: self._best(limit, joint, memory), *own)
        except InputError as error:
            if not elsewhere:
                raise
            raise InputError(
                f"{error}. Other graphs of the step hold {size_text(elsewhere)} of the limit; those before this one"
                " were planned when it was not known. Compile the step as one graph (fullgraph=True says where it"
                " breaks), or say with runs= how many alike there are"
            ) from None


def _frame() -> int:
    """The number of the frame of Python that is being compiled; a frame is one graph at a time."""
    compiled = torch._guards.CompileContext.current_compile_id()
    return -1 if compiled is None or compiled.frame_id is None else int(compiled.frame_id)
