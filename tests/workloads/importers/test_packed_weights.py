"""Weights of few bits that a model unpacks and scales itself: parameters, bytes and widths are those of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto
from torch import nn

from gate import gate
from onnx_models import Net
from workloads.importers.read import Imported, read

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
"""PyTorch warns of its own code while it exports."""

ROWS, COLUMNS, GROUPS = 128, 64, 4
"""Of the weight (what it multiplies has as many columns as it has rows), and groups of rows that have a scale."""
NUMBERS = ROWS * COLUMNS


class Held(nn.Module):
    """A `forward` with buffers."""

    def __init__(self, forward: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.run = forward
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


def eights(packed: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.bitwise_right_shift(packed, places) & 15


def gptq(m: Any, x: torch.Tensor) -> torch.Tensor:
    """As AutoGPTQ unpacks: eight numbers of four bits in each integer, zero points packed, too, rows in any order."""
    w = eights(m.q[:, None].expand(-1, 8, -1), m.places[None, :, None]).reshape(ROWS, COLUMNS)
    zeros = eights(m.zeros[..., None].expand(-1, -1, 8), m.places[None, None]).reshape(GROUPS, COLUMNS) + 1
    return x @ (m.scales[m.group] * (w - zeros[m.group]))


def nibbles(m: Any, x: torch.Tensor) -> torch.Tensor:
    w = torch.stack((m.q & 15, m.q >> 4), -1).reshape(COLUMNS, ROWS)
    return x @ ((w.float() - 8) * m.scales).t()


def awq(m: Any, x: torch.Tensor) -> torch.Tensor:
    """As AutoAWQ unpacks: columns lie in the integers in another order."""
    w, zeros = (
        eights(each[..., None], m.places).reshape(len(each), COLUMNS)[:, m.order] for each in (m.q, m.zeros)
    )
    rows = ROWS // GROUPS
    return x @ ((w - zeros.repeat_interleave(rows, 0)) * m.scales.repeat_interleave(rows, 0))


def halves(m: Any, x: torch.Tensor) -> torch.Tensor:
    """As HQQ unpacks: the upper halves of all bytes, then the lower ones."""
    w = torch.cat([(m.q & 0xF0) >> 4, m.q & 0x0F]).float()
    return x @ ((w - 8).reshape(COLUMNS, ROWS) * m.scales).t()


def remainders(m: Any, x: torch.Tensor) -> torch.Tensor:
    w = torch.stack([m.q % 16, m.q // 16], -1).reshape(COLUMNS, ROWS).float()
    return x @ ((w - 8) * m.scales).t()


def bytes_(m: Any, x: torch.Tensor) -> torch.Tensor:
    return x @ ((m.q.float() - m.zeros.float()) * m.scales).t()


def twice(m: Any, x: torch.Tensor) -> torch.Tensor:
    return nibbles(m, nibbles(m, x).repeat(1, 2))


def quarters(m: Any, x: torch.Tensor) -> torch.Tensor:
    """As AutoGPTQ unpacks eight bits."""
    w = torch.bitwise_right_shift(m.q[:, None].expand(-1, 4, -1), m.places[:, None]) & 255
    return x @ ((w.reshape(ROWS, COLUMNS) - 128) * m.scales)


def integers(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


GPTQ = {
    "q": integers(ROWS // 8, COLUMNS),
    "zeros": integers(GROUPS, COLUMNS // 8),
    "scales": torch.ones(GROUPS, COLUMNS),
    "group": torch.arange(ROWS) * GROUPS // ROWS,
    "places": torch.arange(0, 32, 4, dtype=torch.int32),
}
AWQ = {
    "q": integers(ROWS, COLUMNS // 8),
    "zeros": integers(GROUPS, COLUMNS // 8),
    "scales": torch.ones(GROUPS, COLUMNS),
    "order": torch.arange(COLUMNS).flip(0),
    "places": torch.arange(0, 32, 4, dtype=torch.int32),
}
HALVES = {"q": integers(COLUMNS, ROWS // 2, dtype=torch.uint8), "scales": torch.ones(COLUMNS, 1)}
EIGHT = {
    "q": integers(COLUMNS, ROWS, dtype=torch.int8),
    "zeros": integers(COLUMNS, 1, dtype=torch.int8),
    "scales": torch.ones(COLUMNS, 1),
}
QUARTERS = {
    "q": integers(ROWS // 4, COLUMNS),
    "places": torch.arange(0, 32, 8, dtype=torch.int32),
    "scales": torch.ones(1, COLUMNS),
}
UNPACKED: dict[str, tuple[Callable[..., Any], dict[str, torch.Tensor], float, int]] = {
    "eight in an integer": (gptq, GPTQ, 0.5, 4 * GROUPS * (COLUMNS // 8 + COLUMNS) + 8 * ROWS),
    "eight columns in an integer": (
        awq,
        AWQ,
        0.5,
        4 * GROUPS * (COLUMNS // 8 + COLUMNS) + 8 * COLUMNS,
    ),
    "four in an integer": (quarters, QUARTERS, 1.0, 4 * COLUMNS),
    "two in a byte": (nibbles, HALVES, 0.5, 4 * COLUMNS),
    "halves of bytes": (halves, HALVES, 0.5, 4 * COLUMNS),
    "remainders": (remainders, HALVES, 0.5, 4 * COLUMNS),
    "one in a byte": (bytes_, EIGHT, 1.0, 5 * COLUMNS),
}
"""What unpacks it, buffers, bytes a number, bytes of scales, zero points and groups."""


def imported(tmp_path: Path, module: nn.Module, *inputs: torch.Tensor, **options: Any) -> list[Imported]:
    """The program as it is exported, and written out in simpler ops."""
    program = torch.export.export(module, inputs)
    found = []
    for each in (program, program.run_decompositions()):
        torch.export.save(each, tmp_path / "net.pt2")
        found.append(read(str(tmp_path / "net.pt2"), **options))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(UNPACKED, ("two in a byte", "eight columns in an integer")))
def test_a_weight_that_the_program_unpacks_is_held_and_read_as_it_is_packed(name, tmp_path):
    forward, buffers, width, beside = UNPACKED[name]
    for found in imported(tmp_path, Held(forward, **buffers), torch.zeros(2, ROWS)):
        (op,) = found.workload.ops
        assert (op.kind, op.gemm and op.gemm.macs, op.parameters) == ("matmul", 2 * NUMBERS, NUMBERS)
        assert op.weight_bytes == op.weight_read_bytes == width * NUMBERS + beside
        assert found.workload.element_bytes.weight == width


@pytest.mark.slow
def test_a_packed_weight_that_is_unpacked_twice_has_its_parameters_once(tmp_path):
    for found in imported(tmp_path, Held(twice, **HALVES), torch.zeros(2, ROWS)):
        assert [op.parameters for op in found.workload if op.gemm] == [NUMBERS, 0]
        assert {op.weight_bytes for op in found.workload if op.gemm} == {NUMBERS // 2 + 4 * COLUMNS}


@pytest.mark.slow
def test_a_width_that_is_given_is_that_of_each_packed_number(tmp_path):
    for found in imported(tmp_path, Held(nibbles, **HALVES), torch.zeros(2, ROWS), element_bytes=2.0):
        assert found.workload.ops[0].weight_bytes == 2 * (NUMBERS + COLUMNS)


@pytest.mark.slow
def test_a_mask_of_two_ranges_is_held_as_it_is_computed(tmp_path):
    module = Held(
        lambda m, x: x + (m.at[:, None] >= m.at).float() * -1e9, at=torch.arange(ROWS, dtype=torch.int32)
    )
    for found in imported(tmp_path, module, torch.zeros(ROWS, ROWS)):
        assert found.workload.ops[0].weight_bytes == 4 * ROWS * ROWS
        assert found.workload.parameters == 0


@pytest.mark.slow
def test_a_look_up_reads_the_scales_of_its_rows(tmp_path):
    module = Held(
        lambda m, ids: nn.functional.embedding(ids, m.q.float() * m.scales),
        q=integers(1000, 16, dtype=torch.int8),
        scales=torch.ones(1000, 1),
    )
    for found in imported(tmp_path, module, torch.zeros(5, dtype=torch.long)):
        (op,) = found.workload.ops
        assert (op.parameters, op.weight_bytes, op.weight_read_bytes) == (16000, 20000, 5 * 20)


@pytest.mark.slow
def test_a_mask_of_integers_has_no_parameters_however_it_is_used(tmp_path):
    def masked(m: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.where(m.mask.expand(4, -1, -1) > 0, 0.0, -1e9)

    module = Held(masked, mask=integers(ROWS, ROWS))
    for found in imported(tmp_path, module, torch.zeros(4, ROWS, ROWS)):
        assert found.workload.parameters == 0
        assert sum(op.weight_bytes for op in found.workload) == 4 * 4 * ROWS * ROWS


def int4(packed: bool) -> nn.Module:
    pack, w = torch.ops.aten._convert_weight_to_int4pack_for_cpu, integers(COLUMNS, ROWS)
    scales = torch.ones(ROWS // 32, COLUMNS, 2, dtype=torch.bfloat16)
    product = torch.ops.aten._weight_int4pack_mm_for_cpu
    if packed:
        return Held(lambda m, x: product(x, m.w, 32, m.scales), w=pack(w, 2), scales=scales)
    return Held(lambda m, x: product(x, pack(m.w, 2), 32, m.scales), w=w, scales=scales)


def on_a_gpu() -> nn.Module:
    w = torch.empty(COLUMNS // 8, ROWS // 32, 32, 1, dtype=torch.int32, device="meta")
    scales = torch.empty(ROWS // 32, COLUMNS, 2, dtype=torch.bfloat16, device="meta")
    return Held(lambda m, x: torch.ops.aten._weight_int4pack_mm(x, m.w, 32, m.scales), w=w, scales=scales)


PACKS: dict[str, Callable[[], nn.Module]] = {
    "in the file": lambda: int4(True),
    "in the program": lambda: int4(False),
    "on a GPU": on_a_gpu,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", gate(PACKS, ("in the program",)))
def test_packs_of_pytorch_have_two_numbers_in_a_byte(name, tmp_path):
    module = PACKS[name]()
    x = torch.zeros(2, ROWS, dtype=torch.bfloat16, device=next(module.buffers()).device)
    for found in imported(tmp_path, module, x):
        (op,) = found.workload.ops
        assert (op.gemm and op.gemm.macs, op.parameters) == (2 * NUMBERS, NUMBERS)
        assert op.weight_bytes == NUMBERS // 2 + 2 * 2 * COLUMNS * (ROWS // 32)
        assert (found.workload.element_bytes.weight, found.remarks) == (0.5, ())


def test_integers_that_onnx_shifts_with_their_sign_are_held_as_they_are_packed(tmp_path):
    """ONNX shifts unsigned integers alone, so that PyTorch's exporter masks and chooses by the sign."""
    net = Net(x=[2, ROWS])
    packed = net.add("Unsqueeze", net.weight(ROWS // 8, COLUMNS, kind=TensorProto.INT32), net.value([1]))
    wide = net.add("Expand", packed, net.value([ROWS // 8, 8, COLUMNS]))
    negative = net.add("Less", wide, net.value(np.int32(0)))
    places = net.value(np.arange(0, 32, 4, dtype=np.uint32).reshape(1, 8, 1))
    unsigned = net.add("Cast", wide, to=TensorProto.UINT32)
    shifted = net.add("BitShift", unsigned, places, direction="RIGHT")
    ones = net.add("BitShift", net.value(np.uint32(2**32 - 1)), places, direction="RIGHT")
    signed = net.add("BitwiseOr", shifted, net.add("BitwiseNot", ones))
    signed, shifted = (net.add("Cast", each, to=TensorProto.INT32) for each in (signed, shifted))
    w = net.add("BitwiseAnd", net.add("Where", negative, signed, shifted), net.value(np.int32(15)))
    w = net.add("Cast", net.add("Reshape", w, net.value([ROWS, COLUMNS])), to=TensorProto.FLOAT)
    w = net.add("Mul", net.add("Sub", w, net.value(np.float32(8))), net.weight(1, COLUMNS))
    found = read(net.save(tmp_path / "net.onnx", net.add("MatMul", "x", w))).workload
    (op,) = found.ops
    assert (op.parameters, op.weight_bytes) == (NUMBERS, NUMBERS // 2 + 4 * COLUMNS)
    assert found.element_bytes.weight == 0.5


def gathered(net: Net, group: str, late: bool) -> str:
    """Scales of the groups of a weight of eight bits, looked up by ONNX's Gather."""
    w = net.add("Cast", net.weight(ROWS, COLUMNS, kind=TensorProto.INT8), to=TensorProto.FLOAT)
    scales = net.add("Gather", net.weight(GROUPS, COLUMNS), group, axis=0)
    return net.add("Mul", *((w, scales) if late else (scales, w)))


@pytest.mark.parametrize("late", [False, True])
def test_scales_that_are_looked_up_at_fixed_places_are_beside_their_weight(tmp_path, late):
    net = Net(x=[2, ROWS])
    w = gathered(net, net.value(np.arange(ROWS) * GROUPS // ROWS), late)
    (op,) = read(net.save(tmp_path / "net.onnx", net.add("MatMul", "x", w))).workload.ops
    assert (op.kind, op.parameters) == ("matmul", NUMBERS)
    assert op.weight_bytes == NUMBERS + 4 * GROUPS * COLUMNS + 8 * ROWS


def test_rows_at_fixed_places_that_a_float_constant_is_added_to_are_looked_up(tmp_path):
    net = Net(x=[4, 16])
    rows = net.add("Gather", net.weight(100, 16), net.value(np.arange(4)), axis=0)
    y = net.add("Add", "x", net.add("Add", rows, net.weight(4, 16)))
    found = read(net.save(tmp_path / "net.onnx", y)).workload
    assert [op.kind for op in found] == ["embedding", "elementwise"]
    assert found.parameters == 1600 + 64


OWN: dict[str, Any] = {"domain": "own"}


def test_unknown_ops_on_constants_are_named_and_what_they_make_is_a_weight(tmp_path):
    net = Net(x=[2, 8])
    w = net.add("Unpack", net.add("Unpack", net.weight(8, 4), **OWN), **OWN)
    net.add("Unread", net.weight(8, 8), **OWN)
    found = read(
        net.save(tmp_path / "net.onnx", net.add("MatMul", "x", net.add("Reshape", w, net.value([8, 4]))))
    )
    assert found.remarks[0] == (
        "2 ops of 1 kind of unknown work (own.Unpack x2) read constants alone: each counts as done before the first"
        " inference, and what it makes as a weight"
    )
    assert found.remarks[0] in found.summary
    assert "Unread" not in found.summary
    assert found.workload.ops[0].weight_bytes == 4 * 32


@pytest.mark.parametrize(
    ("kind", "bits", "scale", "opset"),
    [
        ("FLOAT8E4M3FN", 8, "FLOAT", 21),
        ("FLOAT8E5M2", 8, "FLOAT16", 23),
        ("INT4", 4, "FLOAT", 21),
        ("FLOAT4E2M1", 4, "FLOAT", 23),
        ("FLOAT4E2M1", 4, "FLOAT8E8M0", 24),
        ("INT2", 2, "FLOAT", 25),
    ],
)
def test_weights_of_narrow_kinds_are_held_as_the_file_has_them(tmp_path, kind, bits, scale, opset):
    net, block = Net(x=[2, ROWS]), ROWS // GROUPS
    scales = net.weight(GROUPS, COLUMNS, kind=getattr(TensorProto, scale))
    options = {"axis": 0, "block_size": block, **({"output_dtype": 1} if scale != "FLOAT" else {})}
    w = net.add(
        "DequantizeLinear", net.weight(ROWS, COLUMNS, kind=getattr(TensorProto, kind)), scales, **options
    )
    (op,) = read(net.save(tmp_path / "net.onnx", net.add("MatMul", "x", w), opset=opset)).workload.ops
    assert (op.parameters, op.gemm.macs) == (NUMBERS, 2 * NUMBERS)
    width = {"FLOAT": 4, "FLOAT16": 2, "FLOAT8E8M0": 1}[scale]
    assert op.weight_bytes == NUMBERS * bits // 8 + GROUPS * COLUMNS * width
