"""A compiled step held to eager mode: its results, gradients, buffers and random state, on copies, once.

The step runs in eager mode and compiled, each on copies of its inputs, from the same state, which is put back
afterwards (`put_back.py`). Where they differ by more than rounding explains, plain
`torch.compile` runs as well: what it shows, too, is PyTorch's; the rest is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
import torch._inductor.config as _inductor
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from egrl_training.pytorch.put_back import passing, put_back
from egrl_training.pytorch.reached import modules_among, reached

inductor: Any = _inductor
ROUNDING = {torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 1e-5, torch.complex64: 1e-5}
"""Differences, relative to the largest number of a tensor, that rounding explains without a second look."""
COARSE = 2e-2
"""The same for numbers of 16 bits and fewer."""
AS_PLAIN = 4.0
"""So many times the difference of plain `torch.compile` is no more than that."""

UNCHECKED = (
    "check: nothing is compared, since what torch.compile returned is not called itself: trainers may run a method of"
    " the module, or a copy; compile a module within it, which is called"
)


class WrongStepError(Exception):
    """A compiled step differs from eager mode; the message names the tensor and its module."""


def checked(
    model: Any,
    compiled: Any,
    plain: Callable[[], Callable[..., Any]],
    backend: str,
    say: Callable[[str], object],
    begun: Callable[[], object] = lambda: None,
) -> Any:
    """The compiled module or function, whose first run with gradients is held to eager mode; see `hold`.

    What that run reads must not change before its backward pass in a way that PyTorch cannot see: a line says so.
    `begun` is called before that run.
    """
    waiting = [True]
    held: list[nn.Module] = []
    """The modules that the first run was held with, until it has returned."""

    def first(called: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        if waiting and torch.is_grad_enabled():
            waiting.clear()
            begun()
            same = backend != "inductor" or bool(inductor.fallback_random)
            used = reached(model, args, kwargs)
            if (iterator := passing(used)) is not None:
                say(
                    f"check: nothing is compared: what a {type(iterator).__name__} has given cannot be taken back"
                )
                return
            retain = backend != "inductor"  # whose code writes over what it reads for the last time
            hold(model, called, plain, used, args, kwargs, same, say, retain)
            held.extend(modules_among(used))

    def then(results: Any) -> None:
        if held:
            _watch_until_backward(results, held, say)
            held.clear()

    if isinstance(compiled, nn.Module):
        compiled.register_forward_pre_hook(
            lambda module, args, kwargs: first(module.forward, args, kwargs), with_kwargs=True
        )
        compiled.register_forward_hook(lambda module, args, results: then(results))
        return compiled

    @functools.wraps(compiled)
    def run(*args: Any, **kwargs: Any) -> Any:
        first(compiled, args, kwargs)
        results = compiled(*args, **kwargs)
        then(results)
        return results

    return run


def hold(
    function: Callable[..., Any],
    compiled: Callable[..., Any],
    plain: Callable[[], Callable[..., Any]],
    used: Sequence[Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    same_chance: bool,
    say: Callable[[str], object],
    retain: bool = False,
) -> None:
    """Compare a compiled function with the function itself, once.

    Args:
        function: in eager mode.
        compiled: what is checked.
        plain: makes what PyTorch compiles by itself; called if there is a difference.
        used: modules and other objects that the function may use and change (`reached.reached`).
        args, kwargs: what it is called with; left as they are.
        same_chance: the compiled function draws the random numbers of eager mode.
        say: gets a line about what PyTorch does by itself, and about what cannot be compared.
        retain: the backward pass may follow more than once (`retain_graph=True`).

    Raises:
        WrongStepError: a result, gradient, buffer or random state differs by more than plain `torch.compile` does.
    """

    modules = modules_among(used)

    def run(called: Callable[..., Any]) -> dict[str, Tensor]:
        with put_back(used):
            return _outcome(called, modules, args, kwargs, retain)

    before = torch.get_rng_state()
    wanted = run(function)
    if not same_chance and not torch.equal(wanted["the random state"], before):
        say(
            "check: nothing is compared: the step draws random numbers, and inductor draws others than eager mode"
        )
        return
    off = _differences(run(compiled), wanted)
    if not off:
        return
    theirs = _differences(run(plain()), wanted)
    for name, difference in off.items():
        known = theirs.get(name, 0.0)
        if difference > AS_PLAIN * known:
            raise WrongStepError(
                f"{name} differs from eager mode by {difference:.1e} of its largest number, plain torch.compile by"
                f" {known:.1e}"
            )
        say(
            f"check: {name} differs from eager mode by {difference:.1e}; plain torch.compile, too, by {known:.1e}"
        )


def _watch_until_backward(results: Any, modules: Sequence[nn.Module], say: Callable[[str], object]) -> None:
    """Say which parameters and buffers are changed through `.data` between the passes.

    PyTorch raises an error for other changes of what the backward pass reads. For these it does not, and what runs
    again reads the new values.
    """
    tensors = dict(chain(_named(modules, "parameters"), _named(modules, "buffers")))
    before = {name: (each._version, each.detach().clone()) for name, each in tensors.items()}

    def compare(gradient: Tensor) -> None:
        changed = [
            name
            for name, (version, content) in before.items()
            if tensors[name]._version == version and _difference(tensors[name].detach(), content)
        ]
        before.clear()
        if changed:
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            say(
                f"check: changed through .data between the passes: {changed[0]}{more}; what is computed again from"
                " that differs from eager mode"
            )

    for result in _tensors(results):
        if result.requires_grad:
            result.register_hook(compare)  # type: ignore[no-untyped-call]


def _outcome(
    called: Callable[..., Any],
    modules: Sequence[nn.Module],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    retain: bool = False,
) -> dict[str, Tensor]:
    """Results, gradients, what is given, parameters, buffers and the random state after a step, all copied.

    PyTorch compiles the backward pass at its first run: with `retain` so that it may run again.
    """
    args, kwargs = _copied((args, kwargs))
    inputs = _tensors((args, kwargs))
    result = called(*args, **kwargs)
    results = _tensors(result)
    found = {f"result {number}": each for number, each in enumerate(results)}
    parameters = dict(_named(modules, "parameters"))
    sources = {f"the gradient of {name}": each for name, each in parameters.items()}
    sources |= {f"the gradient of input {number}": each for number, each in enumerate(inputs)}
    sources = {name: each for name, each in sources.items() if each.requires_grad}
    roots = [each for each in results if each.requires_grad]
    if roots and sources:
        ones = [torch.ones_like(each) for each in roots]
        gradients = torch.autograd.grad(
            roots, list(sources.values()), ones, retain_graph=retain, allow_unused=True
        )
        found |= {name: each for name, each in zip(sources, gradients, strict=True) if each is not None}
    found |= parameters | dict(_named(modules, "buffers"))
    left = ((f"the gradient that the step left of {name}", each.grad) for name, each in parameters.items())
    found |= {name: gradient for name, gradient in left if gradient is not None}
    found |= {f"input {number}": each for number, each in enumerate(inputs)}
    copies = {name: each.detach().clone() for name, each in found.items()}
    return copies | {"the random state": torch.get_rng_state()}


def _named(modules: Sequence[nn.Module], kind: str) -> Iterator[tuple[str, Tensor]]:
    """Parameters or buffers of modules with the names of their own modules, for people."""
    for number, module in enumerate(modules):
        within = f"module {number}: " if len(modules) > 1 else ""
        for path, owner in module.named_modules():
            for name, tensor in getattr(owner, f"named_{kind}")(recurse=False):
                yield f"{within}{path}{'.' if path else ''}{name} ({type(owner).__name__})", tensor


def _differences(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, float]:
    """For each tensor that is not the same up to rounding the difference, relative to its largest number."""
    off = {name: float("inf") for name in found.keys() ^ wanted.keys()}
    for name in wanted.keys() & found.keys():
        difference = _difference(found[name], wanted[name])
        if difference > ROUNDING.get(wanted[name].dtype, COARSE if wanted[name].is_floating_point() else 0.0):
            off[name] = difference
    return {name: off[name] for name in (*wanted, *found) if name in off}


def _difference(found: Tensor, wanted: Tensor) -> float:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if not wanted.numel():
        return 0.0
    exact = torch.complex128 if wanted.is_complex() else torch.float64
    first, second = (each.to_dense().to(exact).nan_to_num() for each in (found, wanted))
    off = float((first - second).abs().max())
    if not torch.equal(found.to_dense().isnan(), wanted.to_dense().isnan()):
        return float("inf")
    return off / max(float(second.abs().max()), torch.finfo(torch.float32).tiny) if off else 0.0


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _copied(tree: Any) -> Any:
    """The same tree with copies of its tensors, as leaves; those that share memory share it again."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies: dict[int, Tensor] = {}

    def copy(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            if tensor.layout is torch.strided:
                storage: Any = tensor.untyped_storage()
                shared = storages.setdefault(storage.data_ptr(), storage.clone())
                made: Any = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                made.set_(shared, tensor.storage_offset(), tensor.shape, tensor.stride())
                base = tensor._base
                if base is not None and not (base.requires_grad or tensor.requires_grad):
                    # PyTorch compiles changes of inputs that share memory only if they are views
                    made = copy(base).as_strided(made.shape, made.stride(), made.storage_offset())
            else:
                made = tensor.detach().clone()
            copies[id(tensor)] = made.requires_grad_(tensor.requires_grad)
        return copies[id(tensor)]

    return tree_map_only(Tensor, copy, tree)
