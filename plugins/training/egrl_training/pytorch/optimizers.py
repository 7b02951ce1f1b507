"""What an optimizer takes: its state, and what its step takes at most beside it.

The optimizer itself runs two steps on parameters and gradients without data, and the bytes that it makes are counted.
So any optimizer may be asked, and what its loops over all parameters hold at once counts as well. One that makes
tables of data (of 8-bit numbers, say) is built with data beside parameters without, after a step on a small parameter;
and what it compiles runs op by op, which takes more.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from egrl.measure.board import excerpt
from egrl_training.pytorch.counted import Counted, plain_of, tensors_of
from egrl_training.pytorch.no_data import without_data
from workloads.errors import InputError

NONE = "none"
MOMENTUM = "sgd-momentum"
SMALL = (64, 64)
"""The shape of a parameter that is large enough for whatever an optimizer does with large ones."""
PYTORCHS = ("aten", "prim", "prims", "profiler")
"""Libraries whose ops return all that they take, or nearly."""
OTHERS = "and what ops of {} take"
COMPILED = "run op by op, which is more than compiled"
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
        remark: what is not known of its step, in words; "" if all is.
    """

    name: str
    state: int = 0
    step: int = 0
    remark: str = ""


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
    except Exception:  # whatever an optimizer of the user raises on tensors without data
        pass
    try:
        with mock.patch.object(torch, "compile", side_effect=_uncompiled) as asked:
            _try_out(optimizer, make)
            asked.reset_mock()
            found = OptimizerBytes(name, *_counted(parameters, make, tables=True))
        return replace(found, remark=COMPILED) if asked.called else found
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

    with parameters[0].fake_mode if isinstance(parameters[0], FakeTensor) else contextlib.nullcontext():
        groups = [
            {**group, "params": [own(each) for each in group["params"]]} for group in optimizer.param_groups
        ]
    return kind(groups, **_accepted(optimizer))


def _accepted(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The settings of an optimizer that its class takes: AdamW has defaults that it does not."""
    taken = inspect.signature(type(optimizer)).parameters
    return {name: value for name, value in optimizer.defaults.items() if name in taken}


def _uncompiled(function: Any = None, **settings: Any) -> Any:
    """What stands for `torch.compile` while an optimizer steps on tensors without data."""
    return function if function is not None else lambda function: function


def _try_out(optimizer: Any, make: Callable[..., Any]) -> None:
    """Step with data on a small parameter, so that tables are there that are made once."""
    if isinstance(optimizer, torch.optim.Optimizer):
        make = functools.partial(type(optimizer), **_accepted(optimizer))
    parameter = torch.nn.Parameter(torch.zeros(SMALL))
    parameter.grad = torch.zeros(SMALL)
    make([parameter]).step()


def _counted(
    parameters: Sequence[torch.Tensor], make: Callable[..., Any], tables: bool = False
) -> tuple[int, int, str]:
    """Bytes of state, what a step takes at most beside it, and `OptimizerBytes.remark`; with `tables` as in
    `without_data`."""
    with without_data(tables):
        own = [_parameter(each) for each in parameters]
        with unset_fake_temporarily() if tables else contextlib.nullcontext():
            optimizer = make(own)
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
        remark = OTHERS.format(" and ".join(sorted(bytes_now.others))) if bytes_now.others else ""
        return state + _tables_bytes(optimizer), max(bytes_now.most - state, 0), remark


def _tables_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the tensors with data in the state of an optimizer that has none otherwise."""
    found = {
        each.untyped_storage()._cdata: each.untyped_storage().nbytes()
        for given in tensors_of(dict(optimizer.state))
        for each in plain_of(given)
        if not isinstance(each, FakeTensor)
    }
    return sum(found.values())


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

    def __init__(self) -> None:
        super().__init__()
        self.others: set[str] = set()
        """Libraries of whose ops it is not known what they take while they run, beside what they return."""

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 0.5 if args[0].dtype.is_floating_point else 1
        if func.namespace not in PYTORCHS:
            self.others.add(func.namespace)
        return super().run(func, args, kwargs)
