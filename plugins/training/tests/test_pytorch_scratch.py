"""What ops take beside their inputs and results is what they took when they ran."""

from __future__ import annotations

import pytest
import torch

from egrl_training.pytorch import convolutions, scratch
from egrl_training.pytorch.peak import peak_of

AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"
BFLOAT16 = AVX512 and torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()
ORDERS = (torch.contiguous_format, torch.channels_last)


def _hold_scratch(
    channels: tuple[int, int],
    groups: int,
    window: int,
    lies: torch.memory_format,
    dtype: torch.dtype,
    stride: int = 1,
    images: int = 4,
    dilation: int = 1,
) -> None:
    """Within small blocks that each thread keeps."""
    image = torch.randn(images, channels[0], 16, 16, dtype=dtype).to(memory_format=lies)
    weight = torch.randn(channels[1], channels[0] // groups, window, window, dtype=dtype)
    weight = weight.to(memory_format=lies) if dilation > 1 else weight
    bias = torch.randn(channels[1], dtype=dtype)
    settings = [stride] * 2, [window // 2 * dilation] * 2, [dilation] * 2, False, [0, 0], groups
    result = torch.ops.aten.convolution(image, weight, bias, *settings)
    forward = image, weight, bias, *settings
    backward = result, image, weight, [channels[1]], *settings, [True] * 3
    for expected, call in (
        (convolutions.forward_bytes(*forward), lambda: torch.ops.aten.convolution(*forward)),
        (convolutions.backward_bytes(*backward), lambda: torch.ops.aten.convolution_backward(*backward)),
    ):
        made = call()
        held = sum(each.nbytes for each in (made if isinstance(made, tuple) else (made,)))
        del made
        assert expected + held == pytest.approx(peak_of(call, torch.device("cpu")), rel=0.02, abs=16_384)


@pytest.mark.skipif(not AVX512, reason="sizes are those of kernels with AVX-512")
@pytest.mark.parametrize(
    ("channels", "groups", "window", "lies"),
    [
        *((each, 1, 3, lies) for each in ((3, 16), (8, 24), (12, 16), (64, 64)) for lies in ORDERS),
        *(((64, 64), 64, window, lies) for window in (3, 5, 7) for lies in ORDERS),
    ],
)
def test_scratch_of_a_convolution_is_what_its_kernels_take(
    channels: tuple[int, int], groups: int, window: int, lies: torch.memory_format
) -> None:
    _hold_scratch(channels, groups, window, lies, torch.float32)


@pytest.mark.skipif(not BFLOAT16, reason="this processor has other kernels for bfloat16")
@pytest.mark.parametrize("lies", ORDERS)
@pytest.mark.parametrize(
    ("channels", "groups", "window", "stride"),
    [
        *(((64, 64), 1, 3, stride) for stride in (1, 2)),
        *((each, 1, 3, 1) for each in ((16, 24), (256, 256))),
        *(((96, 96), 12, 3, stride) for stride in (1, 2)),
        *(((64, 64), 64, *each) for each in ((7, 1), (5, 1), (5, 2))),
    ],
)
def test_scratch_of_a_convolution_in_bfloat16_has_sums_in_float32(
    channels: tuple[int, int], groups: int, window: int, stride: int, lies: torch.memory_format
) -> None:
    _hold_scratch(channels, groups, window, lies, torch.bfloat16, stride)


@pytest.mark.parametrize("lies", ORDERS)
@pytest.mark.parametrize(
    ("groups", "window", "stride"), [(1, 3, 1), (1, 3, 2), (1, 1, 1), (1, 1, 2), (2, 3, 1), (16, 3, 1)]
)
def test_scratch_of_a_convolution_in_float64_is_its_windows_side_by_side(
    groups: int, window: int, stride: int, lies: torch.memory_format
) -> None:
    _hold_scratch((16, 32), groups, window, lies, torch.float64, stride)


@pytest.mark.parametrize("window", [1, 3])
def test_scratch_of_a_small_convolution_of_one_image_is_its_windows_side_by_side(window: int) -> None:
    _hold_scratch((16, 32), 1, window, torch.contiguous_format, torch.float32, images=1)


@pytest.mark.skipif(not BFLOAT16, reason="this processor has other kernels for bfloat16")
@pytest.mark.parametrize("sizes", [(256, 128, 128), (256, 512, 512), (1024, 256, 1024), (4, 16, 32)])
@pytest.mark.parametrize("transposed", [False, True])
def test_scratch_of_a_product_in_bfloat16_is_that_of_its_blocks(
    sizes: tuple[int, int, int], transposed: bool
) -> None:
    """Within a twentieth of what is there, and small blocks."""
    rows, inner, columns = sizes
    first = torch.randn(inner, rows, dtype=torch.bfloat16).t()
    first, second = first if transposed else first.contiguous(), torch.randn(inner, columns).bfloat16()
    result, held = first @ second, sum(each.nbytes for each in (first, second))
    measured = peak_of(lambda: first @ second, torch.device("cpu")) - result.nbytes
    assert abs(scratch._blocks(first, second) - measured) <= 0.05 * (held + result.nbytes) + 4_096


@pytest.mark.skipif(not BFLOAT16, reason="this processor has other kernels for bfloat16")
@pytest.mark.parametrize("lies", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [8, 14, 16])
def test_scratch_of_patches_has_their_gradient_laid_anew(
    window: int, dtype: torch.dtype, lies: torch.memory_format
) -> None:
    image = torch.randn(2, 3, 6 * window, 6 * window, dtype=dtype)
    weight = torch.randn(64, 3, window, window, dtype=dtype)
    gradient = torch.randn(2, 64, 6, 6, dtype=dtype).to(memory_format=lies)
    settings = [window] * 2, [0, 0], [1, 1], False, [0, 0], 1, [False, True, True]
    backward = gradient, image, weight, [64], *settings
    held = weight.nbytes + 64 * weight.element_size()
    peak = peak_of(lambda: torch.ops.aten.convolution_backward(*backward), torch.device("cpu"))
    assert convolutions.backward_bytes(*backward) + held == pytest.approx(peak, rel=0.02, abs=20_480)


@pytest.mark.skipif(not AVX512, reason="sizes are those of kernels with AVX-512")
@pytest.mark.parametrize("lies", ORDERS)
@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 2), (1, 8)])
def test_scratch_of_a_dilated_convolution_may_have_windows_side_by_side(
    stride: int, dilation: int, lies: torch.memory_format
) -> None:
    _hold_scratch((64, 256), 1, 3, lies, torch.float32, stride, dilation=dilation)
