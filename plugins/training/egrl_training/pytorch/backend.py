"""A backend of `torch.compile` that keeps and recomputes as a plan says, around inductor or aot_eager."""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._functorch._aot_autograd import graph_compile as _graph_compile
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from egrl_training.pytorch.inductor_faults import without_faults
from egrl_training.pytorch.joint import (
    JointGraph,
    UnsupportedGraphError,
    clean,
    never_recompute,
    read_joint,
)
from egrl_training.pytorch.judge import Meaning, WrongGraphsError
from egrl_training.pytorch.partition import Cut, partition
from egrl_training.pytorch.same import once_each
from egrl_training.pytorch.writes import changed_in_both
from workloads.errors import InputError

graph_compile: Any = _graph_compile
BACKENDS = ("inductor", "aot_eager")
HOST_BACKEND = "aot_eager"
"""The one with which values may be kept on the host: inductor orders ops anew, and copies with them."""
CUT_BY_PYTORCH = "a graph is not planned, but cut as PyTorch does by itself: "
"""What a line about such a graph says before the reason."""
CUT_FOR_DDP = "DDPOptimizer"
"""In the reason why a part of a graph ends that PyTorch cut for `DistributedDataParallel`."""
BOTH = (
    "both passes change a tensor of shape {shape}, and the backward pass of a function reads it: right is one backward"
    " pass directly after each forward pass; a further one reads what its forward pass left, not what is there then"
)
log = logging.getLogger(__name__)

Planner = Callable[[JointGraph], Cut]
"""What says how a joint graph is cut. It may raise UnsupportedGraphError, too."""


class Partitioner(CustomPartitionerFn):
    """Cuts joint graphs as a planner says. A graph that cannot be planned is cut as PyTorch does by itself."""

    def __init__(self, planner: Planner, name: str, say: Callable[[str], object]) -> None:
        self._planner, self._name, self._say = planner, name, say
        self.unsaid: list[str] = []
        """Lines that are said when the next graph is cut, if they are still there."""

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward graph; arguments as PyTorch gives them to its own partitioner."""
        outputs: int = kwargs["num_fwd_outputs"]
        parameters: Sequence[int] = kwargs.get("static_lifetime_input_indices") or ()
        meaning = Meaning(gm.graph, outputs)
        while self.unsaid:
            self._say(f"{self._name}: {self.unsaid.pop()}")
        for node in changed_in_both(gm.graph):
            self._say(f"{self._name}: {BOTH.format(shape=list(node.meta['val'].shape))}")
        try:
            joint = read_joint(clean(gm), outputs, parameters, self._name)
            forward, backward = partition(joint, self._planner(joint))
            meaning.check(forward.graph, backward.graph)
            return forward, backward
        except (UnsupportedGraphError, WrongGraphsError) as reason:
            self._say(f"{self._name}: {CUT_BY_PYTORCH}{reason}")
            never_recompute(gm, outputs, parameters)
            cut = min_cut_rematerialization_partition(
                gm, joint_inputs, num_fwd_outputs=outputs, static_lifetime_input_indices=list(parameters)
            )
            self._judge(meaning, *cut)
            return cut

    def _judge(self, meaning: Meaning, forward: fx.GraphModule, backward: fx.GraphModule) -> None:
        """Say so if what PyTorch made of a graph cannot be proved right."""
        try:
            meaning.check(forward.graph, backward.graph)
        except WrongGraphsError as reason:
            self._say(f"{self._name}: that this is right cannot be proved, use check=True: {reason}")

    def uuid(self) -> str:
        """What caches of compiled graphs see: they hold the graphs after the cut, so that any plan may share them."""
        return "egrl"

    def __deepcopy__(self, memo: dict[int, Any]) -> Partitioner:
        """Itself: a copy of a compiled module is planned as the module is."""
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickled as its `uuid`: PyTorch pickles its settings, of which this is one, to name what it caches."""
        return str, ("egrl",)


@contextlib.contextmanager
def scalars_stay() -> Iterator[None]:
    """Within it PyTorch makes no numbers of Python of scalars in float64, unless a graph has such numbers.

    That pass (`tensorify_python_scalars`) takes any float64 tensor without dimensions on a processor for one, and drops
    what changes it in place.
    """
    original = getattr(graph_compile, SCALARS, None)

    def only_of_numbers(module: fx.GraphModule) -> None:
        if any(isinstance(node.meta.get("val"), torch.SymFloat) for node in module.graph.nodes):
            assert original is not None
            original(module)

    if original is None:  # another version of PyTorch
        yield
    else:
        with mock.patch.object(graph_compile, SCALARS, only_of_numbers):
            yield


SCALARS = "_apply_tensorify_python_scalars"


class PlannedBackend:
    """A backend of `torch.compile` that cuts graphs as a planner says, and compiles them with another backend."""

    __name__ = "egrl"

    def __init__(
        self,
        backend: Any,
        planner: Planner,
        name: str,
        dynamic: bool | None,
        say: Callable[[str], object] = log.warning,
        begins: Callable[[bool, Sequence[Any], bool], object] = lambda ends_early, given, is_whole: None,
        counted: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda compiled: compiled,
    ) -> None:
        """`backend` is the name of one of `BACKENDS`; `say` gets a line about each graph that is not planned.

        `begins` is told of each graph, before it is planned, whether it ends before its function does, so that others
        follow, what it is given, and whether PyTorch gave it as it was, or a part.
        `counted` makes of a compiled graph what runs in its place.

        InputError if the backend is another.
        """
        if backend not in BACKENDS:
            raise InputError(f"backend: expected {' or '.join(BACKENDS)}, found {backend!r}")
        self._backend, self._dynamic = backend, dynamic
        self.name, self._begins, self._counted = name, begins, counted
        self.called = False
        """True once PyTorch has given it a graph."""
        self._partitioner = Partitioner(planner, name, say)
        self.unsaid = self._partitioner.unsaid

    def __deepcopy__(self, memo: dict[int, Any]) -> PlannedBackend:
        """Another that plans as this one does, for a copy of a compiled module."""
        made = object.__new__(PlannedBackend)
        made.__dict__ |= self.__dict__
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Saved with a compiled module; the limit is not."""
        return _loaded, (self._backend, self.name, self._dynamic)

    def __call__(self, gm: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        """Compile one graph; `kwargs` are `mode` and `options`, as in `torch.compile`."""
        self.called = True
        reason = getattr(gm, "compile_subgraph_reason", None)
        given = (*inputs, *gm.parameters(), *gm.buffers())
        is_whole = reason is None or CUT_FOR_DDP not in reason.reason
        self._begins(reason is not None and bool(reason.graph_break), given, is_whole)
        if self._backend == "aot_eager":
            from torch._dynamo.backends.common import aot_autograd
            from torch._dynamo.backends.debugging import boxed_nop

            eager = aot_autograd(
                fw_compiler=boxed_nop, partition_fn=self._partitioner, keep_inference_input_mutations=True
            )
            with scalars_stay(), once_each(draws_as_eager=True):
                return self._counted(eager(gm, inputs))
        wrapper: Any = torch._TorchCompileInductorWrapper
        compiler = wrapper(kwargs.get("mode") or "default", kwargs.get("options"), self._dynamic)
        compiler.config = without_faults(
            compiler.config
        )  # they hold for the backward pass, too, compiled when it runs
        planned = torch._inductor.config.patch(custom_partitioner_fn=self._partitioner)
        # the cache of joint graphs would skip the partitioner, and with it the plan
        uncached = torch._functorch.config.patch(enable_autograd_cache=False)
        with planned, uncached, scalars_stay(), once_each(draws_as_eager=False):
            return self._counted(compiler(gm, inputs))


def fixed_when_copied(compiled: Any) -> Any:
    """The compiled module, whose deep copies have fixed sizes as it has: PyTorch's forget `dynamic` (`__reduce__`)."""
    if isinstance(compiled, torch.nn.Module):
        _remember_dynamic(compiled.dynamo_ctx)
    return compiled


def _remember_dynamic(context: Any) -> None:
    def copied(memo: dict[int, Any]) -> Any:
        make, given, *settings = context.__reduce__()
        made = make(*copy.deepcopy(given, memo), **(settings[0] if settings else {}))
        _remember_dynamic(made)
        return made

    context.__deepcopy__ = copied


def _loaded(backend: str, name: str, dynamic: bool | None) -> PlannedBackend:
    """The backend of a compiled module that was saved: each graph is cut as PyTorch does, and a line says why."""

    def planner(_: JointGraph) -> Cut:
        raise UnsupportedGraphError("files of compiled modules have no limit: compile it within memory_limit")

    def say(text: str) -> None:
        print(f"egrl: {text}", file=sys.stderr, flush=True)

    return PlannedBackend(backend, planner, name, dynamic, say)
