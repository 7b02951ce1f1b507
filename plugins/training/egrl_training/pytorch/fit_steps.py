"""The training step of a function at any batch size, with estimates in place of measurements."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx
from torch._dynamo.exc import TorchDynamoException, TorchRuntimeError

from egrl.measure.board import excerpt
from egrl_training.pytorch.asked import SCALAR_BYTES
from egrl_training.pytorch.capture import capture_joint
from egrl_training.pytorch.compiled import Memory, UnreadableCodeError, memory_of
from egrl_training.pytorch.estimates import Rates, estimated, taken_bytes
from egrl_training.pytorch.exchanged import twice_bytes
from egrl_training.pytorch.fusion import fused
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.no_data import batch_of, with_batch
from egrl_training.pytorch.optimizers import OptimizerBytes, optimizer_bytes
from egrl_training.pytorch.reached import modules_of
from egrl_training.pytorch.theirs import kept_by_pytorch
from egrl_training.pytorch.writes import partitioners
from egrl_training.simulator.simulate import KEEP, simulate
from egrl_training.simulator.tables import Tables, build_tables
from workloads.errors import InputError

Plan = NDArray[np.int16]
FAKE_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@dataclass(frozen=True)
class FitStep:
    """A step at one batch size.

    Attributes:
        joint: its graph; under inductor, with the values that it writes to memory.
        tables: with estimated times, and the optimizer's state in memory all the time.
        optimizer: what the optimizer takes.
        kept_by_pytorch: says what PyTorch itself keeps, by names of values.
        compiled: under inductor, what a step takes that keeps the values called so, without the optimizer's state.
        twice_bytes: of gradients that are in memory once while the optimizer steps, as in buckets, not beside them.
    """

    joint: JointGraph
    tables: Tables
    optimizer: OptimizerBytes
    kept_by_pytorch: Callable[[], frozenset[str]]
    compiled: Callable[[frozenset[str]], Memory] | None = None
    twice_bytes: int = 0

    @property
    def everything(self) -> Plan:
        """The plan int16 [N] that keeps every value."""
        return np.full(len(self.joint.step.candidates), KEEP, np.int16)

    @property
    def stepping_bytes(self) -> int:
        """Bytes while the optimizer steps, when nothing that was kept is left."""
        t = self.tables
        results = t.size_bytes[t.is_gradient | t.is_output].sum()
        return int(t.fixed_bytes + results) + self.optimizer.step - self.twice_bytes

    def theirs(self) -> Plan:
        """The plan int16 [N] of PyTorch itself."""
        return self.keeping(self.kept_by_pytorch())

    def keeping(self, names: Collection[str]) -> Plan:
        """The plan int16 [N] that keeps the values called so."""
        step = self.joint.step
        return np.array([step.values[number].name in names for number in step.candidates], np.int16)

    def peak_bytes(self, plan: Plan | None) -> int:
        """Bytes at the fullest moment of both passes and the optimizer's step under a plan int16 [N]; None is PyTorch's
        own, which may keep what inductor computes within a kernel here."""
        return max(self.passes_bytes(plan), self.stepping_bytes)

    def passes_bytes(self, plan: Plan | None) -> int:
        """The same of both passes alone."""
        if self.compiled is None:
            kept = self.theirs() if plan is None else plan
            return int(simulate(self.tables, kept[None])[1][0])
        step = self.joint.step
        names = self.kept_by_pytorch()
        if plan is not None:
            pairs = zip(step.candidates, plan, strict=True)
            names = frozenset(step.values[number].name for number, kept in pairs if kept)
        return self.compiled(names).peak_bytes + self.optimizer.state

    def more_time(self, plan: Plan) -> float:
        """How much longer both passes take than with every value kept, as a share."""
        ours, all_kept = simulate(self.tables, np.stack([plan, self.everything]))[0]
        return float(ours / all_kept - 1) if all_kept else 0.0


class FitSteps:
    """The step of a function at the batch sizes that are asked for; each is captured once.

    Attributes:
        backend: of `torch.compile`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        dim: int,
        optimizer: Any,
        rates: Rates,
        name: str,
        backend: str = "aot_eager",
    ) -> None:
        self._function, self._inputs, self._dim = function, inputs, dim
        self._optimizer, self._rates, self.backend = optimizer, rates, backend
        self._name = name or getattr(function, "__qualname__", type(function).__name__)
        self._known: dict[int, FitStep] = {}

    @functools.cached_property
    def given(self) -> FitStep:
        """That of the inputs as they are."""
        return self._captured(self._inputs)

    @property
    def batch(self) -> int:
        """The batch of the inputs. InputError if they have none in common."""
        return batch_of(self._inputs, self._dim)

    def at(self, batch: int) -> FitStep:
        """That of another batch. InputError if it cannot be captured."""
        if batch not in self._known:
            inputs = with_batch(self._inputs, self._dim, batch)
            self._known[batch] = self.given if batch == self.batch else self._captured(inputs)
        return self._known[batch]

    def _captured(self, inputs: Sequence[Any]) -> FitStep:
        try:
            with _no_tracebacks():
                joint = capture_joint(self._function, *inputs, backend=self.backend, name=self._name)
        except TorchDynamoException as error:
            cause = _cause(error)
            raise InputError(
                f"{self._name}: expected a step that torch.compile captures as one graph, found"
                f" {type(cause).__name__}: {_said(cause)}"
            ) from error
        _check_loss(joint)
        joint = estimated(joint, self._rates)
        optimizer = optimizer_bytes(_in_order(_trained(joint), self._function), self._optimizer)
        theirs = functools.cache(functools.partial(_their_names, joint))
        compiled = None
        if self.backend == "inductor":
            compiled = functools.cache(functools.partial(_compiled, joint))
            joint = _fused(joint)
        tables = build_tables(joint.step, optimizer.state + SCALAR_BYTES)
        return FitStep(joint, tables, optimizer, theirs, compiled, twice_bytes(self._function))


@contextlib.contextmanager
def _no_tracebacks() -> Iterator[None]:
    """Without the traceback that PyTorch logs of a shape that does not suit: the error says it."""
    was, FAKE_LOG.disabled = FAKE_LOG.disabled, True
    try:
        yield
    finally:
        FAKE_LOG.disabled = was


def _cause(error: BaseException) -> BaseException:
    """What an op raised on its inputs, which PyTorch reports behind much of its own; else the error itself."""
    found: BaseException | None = error if isinstance(error, TorchRuntimeError) else None
    while isinstance(found, TorchDynamoException):
        found = found.__cause__ or found.__context__
    return found or error


def _said(error: BaseException) -> str:
    """What an exception says, on one line; of PyTorch's refusals the heading, the place and the hints."""
    heading, *lines = str(error).splitlines() or [""]
    hints = [excerpt(line.strip()) for line in lines if line.lstrip().startswith("Hint:")]
    frame = getattr(error, "innermost_user_frame_summary", None)
    if not hints and frame is None:
        return excerpt(str(error))
    place = "" if frame is None else f" ({Path(frame.filename).name}, line {frame.lineno})"
    return " ".join((f"{excerpt(heading)}{place}", *hints))


def _check_loss(joint: JointGraph) -> None:
    """InputError if the step returns no number that depends on parameters: what else its loss takes is not known."""
    shapes = [
        tuple(node.meta["val"].shape)
        for node, value in zip(joint.values, joint.step.values, strict=True)
        if value.role == "tangent"
    ]
    if not any(math.prod(shape) == 1 for shape in shapes):
        raise InputError(
            f"{joint.step.name}: expected a function that returns a loss, one number, found results of the shapes"
            f" {', '.join(str(list(shape)) for shape in shapes)}"
        )


def _in_order(trained: Sequence[torch.Tensor], function: Callable[..., Any]) -> list[torch.Tensor]:
    """Parameters in the order of their modules, in which optimizers step; those of no module come last.

    What a step takes depends on which parameters it takes one after the other.
    """
    there = [each for module in modules_of(function) for each in module.parameters() if each.requires_grad]
    places: dict[Any, list[int]] = {}
    for place, parameter in enumerate(there):
        places.setdefault(_like(parameter), []).append(place)
    placed = []
    for each in trained:
        left = places.get(_like(each))
        placed.append(left.pop(0) if left else len(there))
    return [trained[number] for number in sorted(range(len(trained)), key=placed.__getitem__)]


def _like(parameter: torch.Tensor) -> tuple[Any, ...]:
    """What equals for parameters that take the same."""
    return tuple(parameter.shape), parameter.dtype


def _their_names(joint: JointGraph) -> frozenset[str]:
    return frozenset(joint.step.values[number].name for number in kept_by_pytorch(joint))


def _fused(joint: JointGraph) -> JointGraph:
    """The graph with the step that inductor makes of it; its ops are left out."""
    step = fused(joint)
    nodes = {value.name: node for value, node in zip(joint.step.values, joint.values, strict=True)}
    return replace(joint, step=step, values=tuple(nodes[value.name] for value in step.values), ops=())


def _compiled(joint: JointGraph, names: frozenset[str]) -> Memory:
    """What a step takes under inductor. InputError if that is not known."""
    try:
        return memory_of(joint, joint.positions(names), taken_bytes)
    except UnreadableCodeError as reason:
        raise InputError(
            f"{joint.step.name}: expected code of inductor whose peak can be read, found {reason}"
        ) from None


def _trained(joint: JointGraph) -> list[torch.Tensor]:
    """The parameters that get gradients, without data."""
    primals = [node for node in joint.module.graph.nodes if partitioners._is_primal(node)]
    gradients = partitioners._extract_fwd_bwd_outputs(joint.module, num_fwd_outputs=joint.forward_outputs)[1]
    role = {node: value.role for node, value in zip(joint.values, joint.step.values, strict=True)}
    return [
        primal.meta["val"]
        for primal, gradient in zip(primals, gradients, strict=False)
        if isinstance(gradient, fx.Node) and role[primal] == "parameter"
    ]
