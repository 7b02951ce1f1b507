"""Exported PyTorch programs as workloads: modules, .pt2 files, and the same products as PyTorch counts."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn
from torch._export.serde import serialize
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from workloads.errors import InputError
from workloads.importers.pt2_file import WIDTHS
from workloads.importers.read import read
from workloads.importers.torch_export import from_torch
from workloads.importers.unread import NAME
from workloads.workload import Edge


class Small(nn.Module):
    """A convolution with batch norm and residual add, attention over its pixels, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.ln, self.head = nn.LayerNorm(8), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = torch.relu(self.norm(self.conv(x)) + x)
        x = self.depthwise(x).flatten(2).transpose(1, 2)
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(self.ln(x)).chunk(3, dim=-1)
        )
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = functional.gelu(self.out(y)) + x
        return torch.softmax(self.head(x.mean(dim=1)), dim=-1)


def flops(module: nn.Module, *inputs: torch.Tensor) -> int:
    """What PyTorch counts; it sees attention only where that is written out, and layers where none is fused."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            module(*inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    return int(counter.get_total_flops())


def test_every_type_that_pytorch_writes_has_its_width():
    kinds = serialize._TORCH_TO_SERIALIZE_DTYPE
    assert {kind.value: dtype.itemsize for dtype, kind in kinds.items()}.items() <= WIDTHS.items()


def exported(module: nn.Module, path: Path, *inputs: torch.Tensor, **options: Any) -> str:
    torch.export.save(torch.export.export(module, inputs, **options), path)
    return str(path)


@pytest.mark.slow
def test_a_module_has_the_products_and_parameters_that_pytorch_counts():
    module, image = Small().eval(), torch.zeros(2, 3, 16, 16)
    found = from_torch(module, (image,), fuse=False)
    assert found.remarks == ()
    assert found.unknown == ()
    assert 2 * found.workload.macs == flops(module, image)
    assert found.workload.parameters == sum(p.numel() for p in module.parameters())
    assert from_torch(module, (image,)).workload.macs == found.workload.macs


def test_tails_of_a_module_run_in_the_ops_before_them():
    ops = from_torch(Small().eval(), (torch.zeros(1, 3, 16, 16),)).workload.ops
    assert [op.kind for op in ops] == [
        "conv",
        "conv",
        "depthwise_conv",
        "transpose",
        "norm",
        "matmul",
        *["transpose"] * 3,
        "attention_matmul",
        "transpose",
        "matmul",
        "reduce",
        "matmul",
        "softmax",
    ]
    assert ops[1].inputs == (Edge(ops[0].name, 4 * 8 * 256),)
    assert ops[1].parameters == 8 * 8 * 9 + 8
    assert (ops[1].kernel, ops[1].stride, ops[1].pad, ops[2].groups) == ((3, 3), 1, 1, 8)
    assert [edge.read_bytes for edge in ops[6].inputs] == [4 * 64 * 8]


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Sequential(nn.Conv1d(4, 8, 5, stride=2, groups=2), nn.GELU()), (1, 4, 33)),
        (nn.ConvTranspose2d(4, 6, 2, stride=2), (2, 4, 5, 5)),
        (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 7, 16)),
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.SiLU(), nn.Linear(5, 3, bias=False)), (4, 3, 4)),
    ],
    ids=["conv1d", "conv_transpose", "transformer", "mlp"],
)
def test_layers_have_the_products_that_pytorch_counts(module, shape):
    module.eval().requires_grad_(False)
    example = torch.zeros(*shape)
    found = from_torch(module, (example,))
    assert 2 * found.workload.macs == flops(module, example)
    assert found.workload.parameters == sum(p.numel() for p in module.parameters())


def test_a_recurrent_layer_multiplies_every_matrix_at_every_step():
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(5, 6, batch_first=True)

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return self.lstm(x, (h, c))[0]

    state = torch.zeros(1, 2, 6)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "(?s).*were assigned during export", UserWarning
        )  # not by PyTorch 2.9
        found = from_torch(Reader().eval(), (torch.zeros(2, 9, 5), state, state))
    (op,) = found.workload.ops
    assert (op.kind, op.gemm.macs, op.parameters) == ("recurrent", 2 * 9 * 24 * 11, 24 * 11 + 48)


@pytest.mark.slow
def test_a_file_is_read_as_the_module_is_and_needs_no_pytorch(tmp_path):
    module, image = Small().eval(), torch.zeros(1, 3, 16, 16)
    file = exported(module, tmp_path / "small.pt2", image)
    assert read(file).workload.ops == from_torch(module, (image,)).workload.ops
    assert read(file).workload.name == "small"


def test_open_dimensions_of_a_program_are_named_and_given(tmp_path):
    module = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    rows = torch.export.Dim("rows", min=2, max=100)
    file = exported(module, tmp_path / "open.pt2", torch.zeros(4, 8), dynamic_shapes=({0: rows},))
    with pytest.raises(InputError, match=r"found open: '(s\d+)' \(of input 'input'\)") as caught:
        read(file)
    name = str(caught.value).split("'")[1]
    assert read(file, {name: 7}).workload.macs == 7 * 8 * 4


class Run(nn.Module):
    """A function and its weight [8, 4]."""

    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.w, self.run = nn.Parameter(torch.zeros(8, 4)), forward

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self.w, *inputs)


SIZES = {
    "squared": (lambda w, x: (x @ x.mT).flatten()[:, None] @ w[:1], 10 * 8 * 10 + 100 * 4),
    "scaled": (lambda w, x: functional.interpolate(x.mT[None], scale_factor=1.5)[0].mT @ w, 15 * 8 * 4),
    "padded": (lambda w, x: functional.pad(x, (0, 0, 0, 8 - x.shape[0] % 8)) @ w, 16 * 8 * 4),
    "halved": (lambda w, x: functional.unfold(x[None, None], (3, 8), stride=2)[0].T[:, :8] @ w, 4 * 8 * 4),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_are_computed_from_open_dimensions_are_followed(tmp_path, name):
    forward, macs = SIZES[name]
    rows = {0: torch.export.Dim("rows", min=8, max=100)}
    file = exported(Run(forward), tmp_path / "net.pt2", torch.zeros(12, 8), dynamic_shapes=((rows,),))
    with pytest.raises(InputError, match="found open") as caught:
        read(file)
    assert read(file, {str(caught.value).split("'")[1]: 10}).workload.macs == macs


def compared_in_place(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a = x > 0
    a ^= x < 1
    a &= x < 2
    return a.float() @ w


def quantised_by_row(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    ops = torch.ops.quantized_decomposed
    scales, zeros = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    given = scales, zeros, -128, 127, torch.int8
    return ops.dequantize_per_token(ops.quantize_per_token(x, *given), *given, torch.float32) @ w


KNOWN: dict[str, Any] = {
    "quantised": quantised_by_row,
    "in_place": compared_in_place,
    "random": lambda w, x: (x + torch.randn_like(w)[0, 0] + torch.randint_like(x, 3)) @ w,
    "places": lambda w, x: x[:, torch.tril_indices(4, 4)[0][:8]] @ w,
    "window": lambda w, x: (x * torch.hann_window(8)) @ w,
    "shifted": lambda w, x: torch.fft.fftshift(x @ w),
    "conjugate": lambda w, x: x @ w.mH.mH,
    "old_names": lambda w, x: torch.arcsin(torch.copysign(x @ w, x[:, :4])),
    "values": lambda w, x: torch.unique_consecutive(x @ w).sum() + torch.argwhere(x > 0).sum(),
    "diagonal": lambda w, x: torch.diagflat(x[0]).fill_diagonal_(1)[:3] @ w,
    "groups": lambda w, x: torch.zeros(2, 4).index_reduce_(0, torch.tensor([0, 1, 0]), x @ w, "amax"),
    "loss": lambda w, x: functional.binary_cross_entropy_with_logits(x @ w, x[:, :4]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_moves_or_changes_elements_one_by_one_is_known(name):
    found = from_torch(Run(KNOWN[name]), (torch.zeros(3, 8),), fuse=False)
    assert (found.workload.macs, found.workload.parameters) == (3 * 8 * 4, 32)
    assert not any("unknown work" in remark for remark in found.remarks)


FOURIER: dict[str, tuple[Any, tuple[int, ...], int]] = {
    "complex": (torch.fft.fft, (4, 1024), 5 * 4 * 1024 * 10),
    "real": (torch.fft.rfft, (4, 1024), 5 * 4 * 513 * 10),
    "back": (lambda x: torch.fft.irfft(x[0].to(torch.complex64)), (1, 4, 513), 4 * 513 + 5 * 4 * 513 * 10),
    "first_axis": (lambda x: torch.fft.fft(x, dim=0), (1024, 4), 5 * 4 * 1024 * 10),
    "plane": (torch.fft.fft2, (2, 32, 32), 5 * 2 * 1024 * 10),
    "short": (lambda x: torch.stft(x, 16, 8, return_complex=True), (3, 64), 3 * 80 + 5 * 3 * 9 * 9 * 4),
}


@pytest.mark.filterwarnings("ignore:A window was not provided")
@pytest.mark.parametrize("name", FOURIER)
def test_a_fourier_transform_costs_five_n_log_n_of_complex_numbers(name):
    forward, shape, work = FOURIER[name]
    found = from_torch(Run(lambda w, x: forward(x)), (torch.zeros(shape),), fuse=False).workload
    assert sum(op.vector_ops for op in found) == work


READ: dict[str, tuple[Any, int]] = {
    "similar": (lambda w, x: functional.cosine_similarity(x[:, :4], w[:3]), 1),
    "bounds": (lambda w, x: torch.clamp(x[:, :4], min=w[:3]), 1),
    "sequences": (lambda w, x: nn.utils.rnn.pad_sequence([x[:, :4], w, w[:2]]), 1),
    "places": (lambda w, x: torch.bucketize(x, w[:, 0].contiguous()), 1),
    "repeated": (lambda w, x: torch.meshgrid(x[0], w[0], indexing="ij")[0] + 1, 1),
    "type": (lambda w, x: x.type_as(w) + 1, 0),
}


@pytest.mark.parametrize("name", READ)
def test_every_tensor_whose_elements_are_used_is_read(name):
    forward, reads = READ[name]
    ops = from_torch(Run(forward), (torch.zeros(3, 8),), fuse=False).workload.ops
    assert sum(op.parameters > 0 for op in ops if op.name != NAME) == reads


def test_an_op_that_is_not_known_is_refused_or_priced_as_a_mover():
    class Bessel(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(torch.relu(x))

    with pytest.raises(InputError, match=r"found 1 op of 1 kind of unknown work \(aten\.special_bessel_j0\)"):
        from_torch(Bessel(), (torch.zeros(3, 4),))
    found = from_torch(Bessel(), (torch.zeros(3, 4),), allow_unknown=True)
    assert [op.kind for op in found.workload] == ["activation", "other"]


def changed(path: Path, **changes: Any) -> str:
    """A small program with parts of its graph replaced."""
    stream = io.BytesIO()
    torch.export.save(torch.export.export(nn.ReLU(), (torch.zeros(2),)), stream)
    with zipfile.ZipFile(stream) as archive:
        name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        document = json.loads(archive.read(name))
    document["graph_module"]["graph"] |= changes
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 5}, "found another form"),
        ({"nodes": [{}]}, "found another form"),
        ({"tensor_values": {}}, "expected a tensor called|written before|found another form"),
        ({"nodes": []}, "expected an op that computes or moves data"),
        ({"outputs": [{"as_tensor": {"name": "nowhere"}}]}, "expected a tensor called 'nowhere'"),
    ],
)
def test_a_damaged_program_is_refused_in_one_line(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        read(changed(tmp_path / "net.pt2", **changes))


def test_an_archive_without_a_program_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("net/data/weights/weight_0", b"")
    with pytest.raises(InputError, match=r"written by torch\.export\.save, found none in the archive"):
        read(str(tmp_path / "net.pt2"))
