"""What training by several processes takes beside a graph: buckets of gradients, and what no plan can know.

`DistributedDataParallel` copies each gradient into a bucket, to exchange it with other processes; with
`gradient_as_bucket_view`, too, since a graph makes all its gradients before they are put there. FSDP gathers parameters
for a unit, and frees them, around graphs: no graph shows when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from egrl_training.pytorch.no_data import without_data
from egrl_training.pytorch.reached import modules_of
from workloads.errors import InputError

SHARDED = "_is_fsdp_managed_module"
"""What FSDP marks its modules with, the old and the new one."""


def exchanging(functions: Sequence[Any]) -> list[DistributedDataParallel]:
    """The DDP modules that functions lead to, and the one whose forward pass runs now."""
    found = [part for module in modules_of(*functions) for part in module.modules()]
    active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
    return [each for each in (*found, active) if isinstance(each, DistributedDataParallel)]


def bucket_bytes(function: Any, exchanging: Sequence[DistributedDataParallel]) -> dict[torch.device, int]:
    """Bytes of the buckets that hold the gradients of a function's modules, by device."""
    exchanged = {
        id(parameter)
        for each in exchanging
        for parameter in each.parameters()
        if parameter.requires_grad and not getattr(parameter, "_ddp_ignored", False)
    }
    own = {id(each): each for module in modules_of(function) for each in module.parameters()}
    sizes: dict[torch.device, int] = {}
    for key in own.keys() & exchanged:
        sizes[own[key].device] = sizes.get(own[key].device, 0) + own[key].nbytes
    return sizes


def twice_bytes(function: Any) -> int:
    """Bytes of gradients that lie in buckets once they were put there, and nowhere else (`gradient_as_bucket_view`)."""
    views = [each for each in exchanging([function]) if each.gradient_as_bucket_view]
    return sum(bucket_bytes(function, views).values())


def buckets(
    function: Any, exchanging: Sequence[DistributedDataParallel]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The buckets of a function, by name, as tensors without data."""
    for device, size in bucket_bytes(function, exchanging).items():
        with without_data():
            yield "buckets of gradients", torch.empty(size, dtype=torch.uint8, device=device)


def check_known(functions: Sequence[Any], is_whole: bool = True) -> None:
    """InputError if what a step takes cannot be known from its graphs; `is_whole`: PyTorch gave a graph as it was."""
    for module in modules_of(*functions):
        if any(getattr(part, SHARDED, False) for part in module.modules()):
            raise InputError(
                "expected a model that this process holds whole, found one in FSDP: when parameters are gathered and"
                " freed, no graph shows, so that no peak is known"
            )
    for each in exchanging(functions):
        if not is_whole:
            raise InputError(
                "expected one graph, found the parts that PyTorch cuts it into for DistributedDataParallel, whose peaks"
                " are not that of the step: set torch._dynamo.config.optimize_ddp = False"
            )
        if each._comm_hooks or each.mixed_precision is not None:
            raise InputError(
                "expected DistributedDataParallel as it is, found one with a communication hook or mixed precision:"
                " what that takes, no graph shows, so that no peak is known"
            )
