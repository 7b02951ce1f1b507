"""The peak of a plan under inductor, from the code that inductor generates for it: no kernel is compiled or run.

Inductor decides after the cut which values its kernels hold in registers, in which order kernels run, and which buffers
they take over from one another. So both graphs go through it as far as the Python code that calls the kernels, and that
code runs on tensors without data, with kernels that do nothing, while the bytes of the tensors are counted.

Source: `torch/_functorch/_aot_autograd/graph_compile.py`: what the backward graph is told of the forward one, namely
strides, and which saved tensors it may write to. `torch/_inductor/compile_fx.py`: which results keep their strides.

Deviations: gradients of results are there during the whole backward pass, as those that `backward()` makes are. What an
op of PyTorch takes beside its results is what it took when it ran alone; ops that write to a given tensor: nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._inductor import config as _config
from torch.multiprocessing import reductions as _reductions
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from egrl_training.pytorch.counted import Counted, tensors_of
from egrl_training.pytorch.inductor_faults import without_faults
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.partition import Cut, partition
from egrl_training.pytorch.times import TIMES

config: Any = _config
reductions: Any = _reductions

MOST_TEXT = 200
"""Characters of an error of inductor that are shown."""


class UnreadableCodeError(Exception):
    """What a plan takes under inductor is not known; the message says in one line why."""


class Memory(NamedTuple):
    """What a compiled step takes, parameters and inputs included.

    Attributes:
        peak_bytes: at its fullest moment.
        held_bytes: between its passes.
    """

    peak_bytes: int
    held_bytes: int


def memory_of(
    joint: JointGraph, keep: Collection[int], takes: Callable[[fx.Node], int] = TIMES.peak_bytes
) -> Memory:
    """What a step takes under inductor if the values `keep` are kept, positions in `TrainingStep.values`.

    `takes` says what an op of PyTorch takes while it runs, its results included; by default as measured.

    Raises:
        UnreadableCodeError: the code could not be generated, or did not run on tensors without data.
    """
    try:
        return _memory_of(joint, keep, takes)
    except Exception as error:  # whatever inductor raises, or its code, which is not made for such tensors
        text = (str(error).splitlines() or [""])[0]
        raise UnreadableCodeError(f"{type(error).__name__}: {text}"[:MOST_TEXT]) from error


def _memory_of(joint: JointGraph, keep: Collection[int], takes: Callable[[fx.Node], int]) -> Memory:
    forward, backward = partition(joint, Cut(keep))
    for node in (*forward.graph.nodes, *backward.graph.nodes):
        # inductor writes to it, and that of inputs is shared with the joint graph
        node.meta = dict(node.meta)
    given, needed = _placeholders(forward), _placeholders(backward)
    returned = _results(forward)
    fake = detect_fake_mode([node.meta["val"] for node in given])
    assert fake is not None
    others = {
        *_storages(given),
        *_storages(returned[: joint.forward_outputs]),
        *_storages(_results(backward)),
    }
    names = [node.name if isinstance(node, fx.Node) else "" for node in returned]
    donated = [
        number
        for number, node in enumerate(needed)
        if node.name in names and others.isdisjoint(_storages([node]))
    ]
    fixed = sum(value.size_bytes for value in joint.step.values if value.role in ("parameter", "input"))

    bytes_now = _Bytes(takes)
    function = _function(*_code(forward, [node.meta["val"] for node in given], joint.forward_outputs))
    with _without_data(fake):
        primals = [_like(node.meta["val"]) for node in given]
        bytes_now.ignore(primals)
        with bytes_now:
            results = list(function(list(primals)))
        held = bytes_now.now
        strides = [_like(result) for result in results]
    made = dict(zip(names, strides, strict=True))
    inputs = [made.get(node.name, node.meta["val"]) for node in needed]
    function = _function(*_code(backward, inputs, len(_results(backward)), donated))
    with _without_data(fake), bytes_now:
        there = dict(zip(names, results, strict=True))
        tangents = {node.name: _like(node.meta["val"]) for node in needed if node.name not in there}
        values = [there[node.name] if node.name in there else tangents[node.name] for node in needed]
        del there, results[joint.forward_outputs :]
        gradients = function(values)
    copied = [grad.nbytes for grad, of in zip(gradients, primals, strict=False) if _is_copied(grad, of)]
    bytes_now.most = max(bytes_now.most, bytes_now.now + max(copied, default=0))
    return Memory(fixed + bytes_now.most, fixed + held)


class _CodeIsKnownError(Exception):
    """Ends a compilation before its kernels are compiled."""


def _code(
    module: fx.GraphModule, inputs: Sequence[Any], results: int, donated: Sequence[int] | None = None
) -> tuple[str, dict[str, Any]]:
    """The code that inductor generates for a graph, which it changes, and the constants that the code names.

    The first `results` outputs keep their strides. `donated` are the inputs of a backward pass that it may write to.
    """
    # to load inductor takes seconds, which only those pay who compile with it
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.graph import GraphLowering

    found: list[tuple[str, dict[str, Any]]] = []
    generate: Any = GraphLowering.codegen

    def codegen(lowering: Any) -> None:
        code, _ = generate(lowering)
        found.append(
            (str(getattr(code, "value", code)), {**lowering.constants, **lowering.torchbind_constants})
        )
        raise _CodeIsKnownError

    _output(module).meta["user_visible_output_idxs"] = [
        number for number, node in enumerate(_results(module)[:results]) if isinstance(node, fx.Node)
    ]
    with (
        config.patch(
            without_faults({"fx_graph_cache": False, "fx_graph_remote_cache": False, "cpp_wrapper": False})
        ),
        mock.patch("torch._inductor.graph.get_donated_idxs", return_value=donated),
        mock.patch.object(GraphLowering, "codegen", codegen),
    ):
        try:
            compile_fx_inner(module, inputs, is_backward=donated is not None)
        except Exception:
            if not found:
                raise
    return found[0]


def _function(code: str, constants: dict[str, Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """The function that generated code defines, with kernels that do nothing; it empties the list that it is given."""
    scope: dict[str, Any] = {"__name__": "egrl_compiled", **constants}
    with mock.patch("torch._inductor.async_compile.AsyncCompile", _Nothing):
        exec(compile(code, "<inductor>", "exec"), scope)
    for name in ("cpu", "cpu_pinned", "cuda", "xpu"):
        scope[f"empty_strided_{name}"] = _empty_on(name.removesuffix("_pinned"))
    scope["assert_size_stride"] = scope["assert_alignment"] = lambda *args: None
    scope["reinterpret_tensor"] = torch.as_strided
    function: Callable[[list[Any]], Sequence[Any]] = scope["call"]
    return function


def _empty_on(device: str) -> Callable[..., torch.Tensor]:
    return lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device=device)


class _Nothing:
    """A compiler whose kernels do nothing, and such a kernel."""

    def __getattr__(self, name: str) -> Callable[..., _Nothing]:
        return self

    def __call__(self, *args: object, **kwargs: object) -> _Nothing:
        return self


class _Bytes(Counted):  # type: ignore[no-untyped-call]
    """Counts the bytes of generated code, with what ops of PyTorch take while they run."""

    def __init__(self, takes: Callable[[fx.Node], int]) -> None:
        super().__init__()
        self._takes = takes

    def within_bytes(self, func: Any, args: Any, kwargs: Any, result: Any) -> int:
        if not tensors_of(result) or _makes_no_more(func):
            return 0
        return self._takes(_node(func, args, kwargs, result))


def _is_copied(gradient: Any, of: Any) -> bool:
    """True if PyTorch lays a gradient out anew, as the parameter is (`AccumulateGrad`)."""
    if not isinstance(gradient, torch.Tensor):
        return False
    strides = zip(gradient.shape, gradient.stride(), of.stride(), strict=True)
    return any(ours != wanted for size, ours, wanted in strides if size > 1)


def _makes_no_more(func: Any) -> bool:
    """True if the op takes nothing beside what it returns, or writes to what it is given."""
    return func.is_view or func._schema.is_mutable or func is torch.ops.aten.empty_strided.default


def _node(func: Any, args: Any, kwargs: Any, result: Any) -> fx.Node:
    """The op as a node of a graph, which holds none of the tensors."""
    graph = fx.Graph()

    def source(tensor: torch.Tensor) -> fx.Node:
        node = graph.placeholder("source")
        node.meta["val"] = _like(tensor)
        return node

    args, kwargs = tree_map_only(torch.Tensor, source, (args, kwargs))
    node = graph.call_function(func, tuple(args), kwargs)
    node.meta["val"] = tree_map_only(torch.Tensor, _like, result)
    return node


@contextlib.contextmanager
def _without_data(fake: Any) -> Iterator[None]:
    """New tensors have no data; constants with data may be read."""
    with (
        _disable_current_modes(),
        torch.no_grad(),
        mock.patch.object(fake, "allow_non_fake_inputs", True),
        fake,
    ):
        yield


def _like(value: Any) -> Any:
    """Another tensor of the same sizes; what is no tensor stays."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device=value.device)


def _placeholders(module: fx.GraphModule) -> list[fx.Node]:
    return list(module.graph.find_nodes(op="placeholder"))


def _results(module: fx.GraphModule) -> list[Any]:
    results: Any = _output(module).args[0]
    return list(results)


def _output(module: fx.GraphModule) -> fx.Node:
    return next(iter(module.graph.find_nodes(op="output")))


def _storages(nodes: Iterable[Any]) -> set[Any]:
    """Those of the values of nodes."""
    values = [node.meta.get("val") for node in nodes if isinstance(node, fx.Node)]
    return {reductions.StorageWeakRef(tensor.untyped_storage()) for tensor in tensors_of(values)}
