"""Bytes that convolutions take beside what they are given and return, by their shapes, on a processor.

oneDNN copies what it reads into layouts of its own, and results back; of images whose channels lie last
(`torch.channels_last`) weights alone. In bfloat16 the gradient of a weight is added up in float32, from rows that are
laid out for it. What PyTorch does not give to oneDNN it multiplies: windows side by side, with the weight.

Sources: `aten/src/ATen/native/Convolution.cpp` and `mkldnn/Conv.cpp`, and what ops took when they ran, on a processor
with AVX-512.

Deviations: how threads share the work in bfloat16 is guessed from its sizes (`_sharing`), and gradients of a weight in
float32 that threads add up are left out.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import _prims_common as _prims

aten = torch.ops.aten
LANES = 16
"""Channels lie in blocks of so many in the layouts of oneDNN."""
FEW_CHANNELS = 4
"""Images with fewer channels are read as they are."""
WIDEST = 14
"""Windows that are wider have no kernel of their own, in bfloat16 those of twice the width: they are written side by
side for a product."""
WINDOW = 3
"""Wider windows of single channels have no kernel for the gradient of the weight, but where channels lie last one in
blocks; neither have windows that are wider than the image."""
LITTLE = 20_480
"""Numbers of an image that is convolved without oneDNN if it is the only one of its batch."""
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
FLOAT_BYTES = 4
"""Of sums of products in bfloat16."""
OWN_GRADIENTS = 4
"""Gradients of the weight that each thread has there, and one in float32 if they are in bfloat16."""


def _padded(tensor: Any, *dims: int, lanes: int = LANES) -> int:
    """Bytes of a tensor whose sizes in these dimensions are whole blocks."""
    size = [math.ceil(n / lanes) * lanes if dim in dims else n for dim, n in enumerate(tensor.shape)]
    return math.prod(size) * int(tensor.element_size())


def _image(tensor: Any, lanes: int = LANES) -> int:
    return 0 if tensor.shape[1] < FEW_CHANNELS else _padded(tensor, 1, lanes=lanes)


def _weight(image: Any, weight: Any, groups: int, lanes: int = LANES) -> int:
    """The copy of a weight: of few channels, or of groups of them, these do not lie in blocks."""
    dims = (0,) if groups > 1 or image.shape[1] < FEW_CHANNELS else (0, 1)
    return _padded(weight, *dims, lanes=lanes)


def _lanes(image: Any) -> int:
    """Channels that lie together where an image with these is read for the gradient of a weight."""
    return LANES // 2 if FEW_CHANNELS <= image.shape[1] < LANES else LANES


def forward_bytes(
    image: Any, weight: Any, bias: Any, stride: Any, pad: Any, dilation: Any, transposed: bool, *more: Any
) -> int:
    """Bytes that `aten.convolution` takes beside its result, of tensors [N, C, ...] with data or without.

    Copies of image, weight and result; once the result is there, of that alone. `more` are output padding and groups.
    """
    out = aten.convolution.default(image, weight, bias, stride, pad, dilation, transposed, *more)
    if not transposed and _is_product(image, weight, stride, dilation, more[1]):
        return _product(out, image, weight, stride, pad, more[1])
    if _is_last(image, weight, transposed):
        return _weight_last(image, weight, more[1])
    if transposed:
        return max(_image(image) + _padded(weight, 0), 2 * _bytes(out))
    copies = (_padded(image, 1) if image.shape[1] >= LANES else 0) + _weight(image, weight, more[1])
    if math.prod(weight.shape[2:]) == 1:
        copies += _points(image, weight, out, max(stride))
    return max(copies + _padded(out, 1) - _bytes(out), _padded(out, 1))


def _is_product(image: Any, weight: Any, stride: Any, dilation: Any, groups: int) -> bool:
    """True if PyTorch does not ask oneDNN: for float64, and for little work (`use_mkldnn` in `Convolution.cpp`)."""
    if image.dtype != torch.float32:
        return bool(image.dtype == torch.float64)
    plain = max(*stride, *dilation) == 1 and math.prod(weight.shape[2:]) == 1
    alone = plain and image.shape[0] < LANES and torch.get_num_threads() == 1
    little = groups == 1 and min(weight.shape[2:]) <= WINDOW and image.shape[0] == 1
    return alone or (little and image.numel() <= LITTLE)


def _product(
    out: Any, image: Any, weight: Any, stride: Any, pad: Any, groups: int, backward: bool = False
) -> int:
    """Windows side by side, for a product with the weight, group by group; results of groups are put together."""
    windows = (
        math.prod(weight.shape[1:]) * out.shape[0] * math.prod(out.shape[2:]) * int(image.element_size())
    )
    if math.prod(weight.shape[2:]) == 1 and max(*stride, *(each + 1 for each in pad)) == 1:
        windows = 0
    if groups == 1:
        return windows + _laid_anew(image, weight)
    if backward:
        return max(windows + (_bytes(image) + _bytes(out)) // groups, _bytes(image) + _bytes(weight))
    return max(windows + _bytes(image) // groups, _bytes(out))


def _points(image: Any, weight: Any, out: Any, stride: int) -> int:
    """What threads take for windows of one point: each what it reads of an image, if it skips some, and sums."""
    read = image.shape[1] * image.element_size() if stride > 1 else 0
    sums = out.shape[1] * FLOAT_BYTES if image.dtype == torch.bfloat16 else 0
    return int(_sharing(image, weight, out) * (read + sums) * math.prod(out.shape[2:]))


def _sharing(image: Any, weight: Any, out: Any, stride: int = 1) -> int:
    """How many threads have images of their own; those that share them divide the channels."""
    images = image.numel() + out.numel() >= 2 * weight.numel() and stride == 1
    return min(torch.get_num_threads(), image.shape[0]) if images else 1


def backward_bytes(gradient: Any, image: Any, weight: Any, bias: Any, *more: Any) -> int:
    """Bytes that `aten.convolution_backward` takes beside its results.

    First for the gradient of the image, then, beside that, for the one of the weight. `more` are stride, padding,
    dilation, whether it is transposed, output padding, groups, and what is asked for.
    """
    groups, half = more[5], image.dtype == torch.bfloat16
    of_image, of_weight = more[-1][:2]
    alone = groups == image.shape[1]
    few = groups > 1 and image.shape[1] // groups < LANES
    strided = max(more[0]) > 1 and not more[3] and (not few or (alone and half))
    if not more[3] and _is_product(image, weight, more[0], more[2], groups):
        return _product(gradient, image, weight, more[0], more[1], groups, backward=True)
    if _is_last(image, weight, more[3]):
        return _backward_last(gradient, image, weight, *more)
    there, peak, anew = 0, 0, 0 if gradient.is_contiguous() else _bytes(gradient)
    if of_image:
        peak = (
            anew + _image(gradient) + _padded(weight, *((0,) if groups > 1 else (0, 1))) + _padded(image, 1)
        )
        peak = max(peak, (3 if strided else 2) * _bytes(image))
        there = _bytes(image)
    if of_weight:
        lanes = _lanes(image)
        copies = _weight(image, weight, groups, lanes)
        blocks = _image(image, lanes) + _image(gradient, lanes)
        if half and not more[3] and not few:
            blocks += _sums(gradient, image, weight, more[0], more[1], groups)
        copies += max(blocks, _bytes(weight))
        if (
            weight.shape[-1] > WIDEST * (1 + half)
            or _is_dilated(image, weight, more[0], more[2])
            or _has_no_kernel(image, weight, groups)
        ):
            copies = _bytes(weight) + _columns(gradient, image, weight)
        elif half and few and not alone:
            copies = _in_blocks(weight, groups, image.element_size() + FLOAT_BYTES)
        peak = max(peak, there + anew + copies)
        there += _bytes(weight)
    return max(peak - there, 0)


def _is_dilated(image: Any, weight: Any, stride: Any, dilation: Any) -> bool:
    """True if oneDNN has no kernel for the gradient of a dilated weight: in strides, or wider than the image."""
    return max(dilation) > 1 and (max(stride) > 1 or dilation[-1] * (weight.shape[-1] - 1) >= image.shape[-1])


def _has_no_kernel(image: Any, weight: Any, groups: int) -> bool:
    """True if oneDNN has none for the gradient of the weight of such groups."""
    if groups == image.shape[1]:
        return bool(weight.shape[-1] > min(WINDOW, image.shape[-1]))
    return groups > 1 and image.shape[1] // groups < LANES // 2


def _lies_last(tensor: Any) -> bool:
    return tensor.dim() in _LAST and _prims.suggest_memory_format(tensor) == _LAST[tensor.dim()]


def _is_last(image: Any, weight: Any, transposed: bool) -> bool:
    """True if the channels of image or weight lie together (`torch.channels_last`): so all of them are read then."""
    return not transposed and (_lies_last(image) or _lies_last(weight))


def _laid_anew(image: Any, weight: Any) -> int:
    """Copies of image or weight if the channels of the other alone lie together."""
    both = (image, weight)
    return sum(_bytes(each) for each in both if not _lies_last(each)) if any(map(_lies_last, both)) else 0


def _weight_last(image: Any, weight: Any, groups: int) -> int:
    """Copies of what lies in another order, and of the weight in blocks."""
    return _laid_anew(image, weight) + _padded(weight, *((0,) if groups > 1 else (0, 1)))


def _backward_last(gradient: Any, image: Any, weight: Any, stride: Any, pad: Any, *more: Any) -> int:
    """The same, and for the gradient of a weight that in blocks, whose groups have blocks of their own."""
    groups = more[3]
    alone = groups == image.shape[1] and not _has_no_kernel(image, weight, groups)
    blocks = _bytes(weight) if alone or groups == 1 else _in_blocks(weight, groups, image.element_size())
    copies = _weight_last(image, weight, groups)
    copies += 0 if _lies_last(gradient) else _bytes(gradient)
    if not more[-1][1]:
        return copies
    if _is_dilated(image, weight, stride, more[0]):
        return max(copies, _laid_anew(image, weight) + _columns(gradient, image, weight))
    if image.dtype == torch.bfloat16 and not alone:
        sums = _sums(gradient, image, weight, stride, pad, groups, lie_last=True)
        return copies + max(blocks + sums - 2 * _bytes(weight), _bytes(weight))
    return copies + blocks


def _sums(
    gradient: Any, image: Any, weight: Any, stride: Any, pad: Any, groups: int, lie_last: bool = False
) -> int:
    """For the gradient of a weight in bfloat16: sums in float32, and rows that are laid out for it."""
    if groups == 1 and image.shape[1] < FEW_CHANNELS:
        rows = gradient.shape[1] * math.prod(gradient.shape[2:-1]) * _even(gradient.shape[-1])
        return int(weight.numel() * FLOAT_BYTES + rows * image.element_size())
    sums = _in_blocks(weight, groups, FLOAT_BYTES)
    if math.prod(weight.shape[2:]) == 1 and not lie_last:
        return sums
    given, made = (groups * _whole(each // groups) for each in (image.shape[1], weight.shape[0]))
    width = _even(math.ceil(image.shape[-1] / stride[-1])) + _even(math.ceil(pad[-1] / stride[-1]) + 1)
    rows = given * math.prod(image.shape[2:-1]) * stride[-1] * width
    rows += made * math.prod(gradient.shape[2:-1]) * _even(gradient.shape[-1])
    sharing = _sharing(image, weight, gradient, max(stride)) if groups == 1 else 1
    return int(sharing * (sums + rows * image.element_size()))


def _in_blocks(weight: Any, groups: int, element: int) -> int:
    """Bytes of a weight whose groups have blocks of their own, with elements of so many bytes."""
    group = _whole(weight.shape[0] // groups) * _whole(weight.shape[1])
    return int(groups * group * math.prod(weight.shape[2:]) * element)


def _whole(channels: int) -> int:
    """Channels of whole blocks."""
    return math.ceil(channels / LANES) * LANES


def _even(number: int) -> int:
    return number + number % 2


def _columns(gradient: Any, image: Any, weight: Any) -> int:
    """What threads take that write windows side by side, and add up gradients of their own."""
    window = math.prod(weight.shape[1:]) * math.prod(gradient.shape[2:]) * int(image.element_size())
    own = OWN_GRADIENTS * _bytes(weight) + (image.dtype == torch.bfloat16) * FLOAT_BYTES * weight.numel()
    return int(torch.get_num_threads() * (window + own))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
