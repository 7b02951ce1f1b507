"""Seconds and scratch bytes of each op of a joint graph, estimated from its shapes: nothing runs.

Source: the roofline model (Williams, Waterman, Patterson, *Comm. ACM* 52, 2009): an op takes as long as its
multiplications and additions, or as reading and writing its values, whichever is longer. Operations are counted by
PyTorch's own formulas (`torch/utils/flop_counter.py`): those of products, convolutions and attention.

Deviations: launching an op takes no time; nothing is read from a cache.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import flop_registry

from egrl_training.pytorch.counted import tensors_of
from egrl_training.pytorch.joint import JointGraph
from egrl_training.pytorch.scratch import held_bytes, scratch_bytes
from egrl_training.pytorch.times import device_of, moved_bytes, rate_Bps
from egrl_training.pytorch.timing import now

aten = torch.ops.aten
PRODUCT = 1024
"""Rows and columns of the matrices whose product is timed."""
PRODUCTS = 3
_AS_ON_GPU = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_flash_attention_backward,
}


@dataclass(frozen=True)
class Rates:
    """What a device does per second; 0: as measured on the one at hand.

    Attributes:
        flops: floating-point operations per second, whatever the type.
        Bps: bytes per second that it reads and writes.
    """

    flops: float = 0.0
    Bps: float = 0.0

    def seconds(self, node: fx.Node) -> float:
        """Of one op."""
        work, device = flops_of(node), _here(device_of(node))
        computing = work / (self.flops or product_rate(device, _dtype(node))) if work else 0.0
        return max(computing, moved_bytes(node) / (self.Bps or rate_Bps(device)))


def estimated(joint: JointGraph, rates: Rates) -> JointGraph:
    """The joint graph with estimated seconds and scratch bytes."""
    ops, values = [], list(joint.step.values)
    for op, node in zip(joint.step.ops, joint.ops, strict=True):
        makes = any(values[output].size_bytes for output in op.outputs)
        if makes and (held := held_bytes(node)):
            (output,) = op.outputs
            values[output] = replace(values[output], size_bytes=max(held, values[output].size_bytes))
        seconds, scratch = (rates.seconds(node), scratch_bytes(node)) if makes else (0.0, 0)
        ops.append(replace(op, seconds=seconds, scratch_bytes=scratch))
    return replace(joint, step=replace(joint.step, ops=tuple(ops), values=tuple(values)))


def taken_bytes(node: fx.Node) -> int:
    """What an op takes while it runs, its results included."""
    return scratch_bytes(node) + sum(t.untyped_storage().nbytes() for t in tensors_of(node.meta.get("val")))


def flops_of(node: fx.Node) -> int:
    """Multiplications and additions of an op; 0 for what is no product."""
    packet: Any = getattr(node.target, "overloadpacket", None)
    formula = flop_registry.get(_AS_ON_GPU.get(packet, packet))
    if formula is None:
        return 0
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: source.meta.get("val"))
    return int(formula(*args, **kwargs, out_val=node.meta.get("val")))


@functools.cache
def product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of a product of matrices."""
    with _disable_current_modes(), torch.no_grad():
        one = torch.ones(PRODUCT, PRODUCT, dtype=dtype, device=device)
        took = []
        for _ in range(PRODUCTS):
            begun = now(device)
            one @ one
            took.append(now(device) - begun)
    return 2 * PRODUCT**3 / min(took)


def _here(device: torch.device) -> torch.device:
    """The device, or the processor for what has no data."""
    return torch.device("cpu") if device.type == "meta" else device


def _dtype(node: fx.Node) -> torch.dtype:
    """What a product computes with."""
    tensors: list[Any] = [source.meta.get("val") for source in node.all_input_nodes]
    return next(
        (t.dtype for t in tensors if isinstance(t, torch.Tensor) and t.dtype.is_floating_point), torch.float32
    )
