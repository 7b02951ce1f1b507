"""Bytes that ops take beside what they are given and return, by their shapes: for ops that cannot run here.

Sources: PyTorch's kernels (`aten/src/ATen/native/`), and what they took when they ran, on a processor with AVX-512.
Dropout and masked attention make masks. Norms copy what does not lie in order. Convolutions have a file of their own
(`convolutions.py`).

Deviations: how threads share a product in bfloat16, and the size of its blocks, are guessed (`_blocks`; with caches of
another size they differ); on a GPU, where a library chooses algorithms with workspaces, ops take nothing beside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from egrl_training.pytorch import convolutions
from egrl_training.pytorch.counted import tensors_of

aten = torch.ops.aten
BLOCK, SUMMED = 128, 512
"""Rows and columns of a block of a product in bfloat16, and how many products are added up in it."""
MANY_ROWS = 4096
"""From so many rows on, no more than that."""
LEAST_PRODUCT = 16**3
"""Multiplications of a product that PyTorch does not give to oneDNN (`use_mkldnn_matmul` in `mkldnn/Matmul.cpp`)."""
FLOAT_BYTES = 4
"""Of what attention computes with, and of sums of products in bfloat16."""


def scratch_bytes(node: fx.Node) -> int:
    """What an op takes at most beside its inputs and results."""
    estimate = _SCRATCH.get(getattr(node.target, "overloadpacket", None))
    values = [source.meta.get("val") for source in node.all_input_nodes]
    if any(tensor.device.type != "cpu" for tensor in tensors_of(values)):
        return 0
    if estimate is None:
        return _promoted(node) if torch.Tag.pointwise in getattr(node.target, "tags", ()) else 0
    return estimate(*fx.map_arg(node.args, lambda source: source.meta.get("val")))


def held_bytes(node: fx.Node) -> int:
    """What the storage of an op's result has at least: losses are reduced in place of their terms."""
    if (
        getattr(node.target, "overloadpacket", None) not in _LOSSES
        or len(tensors_of(node.meta.get("val"))) != 1
    ):
        return 0
    source = node.all_input_nodes[0].meta["val"]
    return int(source.numel() * source.element_size())


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _promoted(node: fx.Node) -> int:
    """Copies of what an op of single elements is given in another type than it computes in."""
    result, total = node.meta.get("val"), 0
    if not isinstance(result, torch.Tensor) or not result.dtype.is_floating_point:
        return 0
    for tensor in tensors_of([source.meta.get("val") for source in node.all_input_nodes]):
        if tensor.dtype != result.dtype and tensor.dim() and not _converts(node):
            total += tensor.numel() * result.element_size()
    return total


def _converts(node: fx.Node) -> bool:
    return getattr(node.target, "overloadpacket", None) in (aten._to_copy, aten.where, aten.masked_fill)


def _blocks(first: Any, second: Any) -> int:
    """Of a product in bfloat16: sums of a block in float32, and copies of what it reads, for each thread."""
    rows, inner, columns = first.shape[-2], first.shape[-1], second.shape[-1]
    if first.dtype != torch.bfloat16 or rows * inner * columns <= LEAST_PRODUCT:
        return 0
    threads = torch.get_num_threads()
    own = rows if first.dim() == 3 else math.ceil(rows / threads)
    deep = min(inner, SUMMED if inner % SUMMED == 0 and inner <= 2 * SUMMED else 2 * SUMMED)
    deep = min(deep, SUMMED) if rows >= MANY_ROWS else deep
    wide = min(columns, BLOCK if own > BLOCK // 2 else BLOCK // 2)
    copies = BLOCK // 2 * deep
    if first.stride(-1) != 1 and first.stride(-2) == 1:  # transposed
        copies += min(own, 2 * BLOCK) * deep
    return int(threads * (min(own, BLOCK) * wide * FLOAT_BYTES + copies * first.element_size()))


def _added_blocks(added: Any, first: Any, second: Any, *more: Any) -> int:
    return _blocks(first, second)


def _attention_blocks(query: Any, key: Any) -> tuple[int, int]:
    """Rows of queries and of keys that a thread looks at together (`FlashAttentionKernel.cpp`)."""
    length = query.shape[2]
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    return min(rows, length), min(512, key.shape[2])


def _attention(query: Any, key: Any, value: Any, *more: Any) -> int:
    """Scores of a block, their largest and sum by row, and the rows of the result, for each thread."""
    rows, columns = _attention_blocks(query, key)
    return torch.get_num_threads() * rows * (columns + 2 + query.shape[3]) * FLOAT_BYTES


def _attention_backward(gradient: Any, query: Any, key: Any, *more: Any) -> int:
    """Scores of a block and their gradients, for each thread."""
    rows, columns = _attention_blocks(query, key)
    return torch.get_num_threads() * 2 * rows * columns * FLOAT_BYTES


def _copy(image: Any, *more: Any) -> int:
    return 0 if image.is_contiguous() else _bytes(image)


def _copies(gradient: Any, image: Any, *more: Any) -> int:
    return _copy(gradient) + _copy(image)


def _norm_backward(gradient: Any, image: Any, weight: Any, *more: Any) -> int:
    return 0 if weight is not None and weight.dtype != image.dtype else _bytes(image)


def _like(image: Any, *more: Any) -> int:
    return _bytes(image)


_SCRATCH: dict[Any, Callable[..., int]] = {
    aten.convolution: convolutions.forward_bytes,
    aten.convolution_backward: convolutions.backward_bytes,
    **dict.fromkeys((aten.mm, aten.bmm), _blocks),
    **dict.fromkeys((aten.addmm, aten.baddbmm), _added_blocks),
    aten.native_layer_norm: _copy,
    aten.native_layer_norm_backward: _copies,
    aten.native_group_norm: _copy,
    aten.native_group_norm_backward: _copies,
    aten.native_batch_norm_backward: _norm_backward,
    aten.native_dropout: _like,
    aten.native_dropout_backward: _like,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten._safe_softmax: lambda image, *more: int(image.numel()),
}
_LOSSES = (aten.mse_loss, aten.smooth_l1_loss, aten.huber_loss, aten.binary_cross_entropy)
