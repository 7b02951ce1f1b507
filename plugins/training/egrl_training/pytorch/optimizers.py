"""What an optimizer takes: its state, and what its step takes at most beside it.

The optimizer itself runs two steps on parameters and gradients without data, and the bytes that it makes are counted.
So any optimizer may be asked, and what its loops over all parameters hold at once counts as well.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from egrl.measure.board import excerpt
from egrl_training.pytorch.counted import Counted
from egrl_training.pytorch.no_data import without_data
from workloads.errors import InputError

NONE = "none"
MOMENTUM = "sgd-momentum"
LEARNING_RATE = 1e-3
"""Of optimizers that are asked for by name; it decides no bytes."""
NAMES = tuple(
    sorted(
        name.lower()
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type)
        and issubclass(kind, torch.optim.Optimizer)
        and kind is not torch.optim.Optimizer
    )
)
"""Those of `torch.optim`."""


@dataclass(frozen=True)
class OptimizerBytes:
    """What an optimizer takes.

    Attributes:
        name: for people.
        state: bytes that it holds from its first step on.
        step: bytes that its step takes at most beside state, parameters and gradients.
    """

    name: str
    state: int = 0
    step: int = 0


def optimizer_bytes(parameters: Sequence[torch.Tensor], optimizer: Any) -> OptimizerBytes:
    """What an optimizer of these parameters takes.

    Args:
        parameters: those that get gradients, with or without data.
        optimizer: a name ("adamw", "sgd", "sgd-momentum", any of `torch.optim`, "none"); a class or function that makes
            one of parameters; or one, whose class and settings are taken.

    Raises:
        InputError: there is no such optimizer, or it reads data.
    """
    if optimizer is None or optimizer == NONE or not parameters:
        return OptimizerBytes(NONE)
    name, make = _maker(optimizer)
    try:
        return OptimizerBytes(name, *_counted(parameters, make))
    except Exception as error:  # whatever an optimizer of the user raises on tensors without data
        raise InputError(
            f"optimizer: expected one that steps on tensors without data, found {name}: {type(error).__name__}:"
            f" {excerpt(str(error))}"
        ) from error


def _maker(optimizer: Any) -> tuple[str, Callable[..., Any]]:
    """The name of an optimizer, and what makes it of parameters or of groups of them."""
    if optimizer == MOMENTUM:
        return MOMENTUM, functools.partial(torch.optim.SGD, lr=LEARNING_RATE, momentum=0.9)
    if isinstance(optimizer, torch.optim.Optimizer):
        return type(optimizer).__name__, functools.partial(_like, optimizer)
    if isinstance(optimizer, str) and optimizer.lower() in NAMES:
        kinds = {name.lower(): kind for name, kind in vars(torch.optim).items()}
        return optimizer, functools.partial(kinds[optimizer.lower()], lr=LEARNING_RATE)
    if callable(optimizer):
        return getattr(optimizer, "__name__", "the optimizer"), optimizer
    names = ", ".join((NONE, MOMENTUM, *NAMES))
    raise InputError(f"optimizer: expected {names}, a class or an optimizer, found {excerpt(optimizer)}")


def _like(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> Any:
    """An optimizer with the class and the groups of another, whose parameters it has without data.

    Those are its own: `parameters`, which get gradients, may be fewer, or more. As many of its own are trained as have
    shapes of these; all, if they are other ones (parameters laid out as one, say).
    """
    kind: Any = type(optimizer)
    left = Counter(each.shape for each in parameters)
    others = not any(each.shape in left for group in optimizer.param_groups for each in group["params"])

    def own(each: torch.Tensor) -> torch.nn.Parameter:
        left[each.shape] -= 1
        return _parameter(each, others or left[each.shape] >= 0)

    groups = [
        {**group, "params": [own(each) for each in group["params"]]} for group in optimizer.param_groups
    ]
    accepted = inspect.signature(kind).parameters  # AdamW has defaults that it does not take
    return kind(groups, **{name: value for name, value in optimizer.defaults.items() if name in accepted})


def _counted(parameters: Sequence[torch.Tensor], make: Callable[..., Any]) -> tuple[int, int]:
    """Bytes of state, and what a step takes at most beside it."""
    with without_data():
        optimizer = make([_parameter(each) for each in parameters])
        bytes_now = _Steps()
        for group in optimizer.param_groups:
            _several_at_once(group)
            bytes_now.ignore(group["params"])
            for parameter in filter(_is_trained, group["params"]):
                parameter.grad = torch.empty_like(parameter)
                bytes_now.ignore([parameter.grad])
        with bytes_now:
            optimizer.step()
            state, bytes_now.most = bytes_now.now, 0
            optimizer.step()
        return state, max(bytes_now.most - state, 0)


def _parameter(tensor: torch.Tensor, is_trained: bool = True) -> torch.nn.Parameter:
    size, stride = tuple(tensor.shape), tensor.stride()
    made = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device)
    return torch.nn.Parameter(made, is_trained)


def _is_trained(parameter: torch.Tensor) -> bool:
    return parameter.requires_grad


def _several_at_once(group: dict[str, Any]) -> None:
    """PyTorch updates all parameters on a GPU at once unless it is told otherwise, but not those without data."""
    unasked = group.get("foreach", False) is None and not group.get("fused")
    if unasked and any(parameter.device.type == "cuda" for parameter in group["params"]):
        group["foreach"] = True


class _Steps(Counted):  # type: ignore[no-untyped-call]
    """Numbers that a step reads, such as how many steps there were, are made up."""

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 0.5 if args[0].dtype.is_floating_point else 1
        return super().run(func, args, kwargs)
