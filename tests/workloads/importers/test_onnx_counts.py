"""Products of ONNX files as an independent count has them: ONNX's own cases by running them, networks by PyTorch."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import onnx_counting
import pytest
import torch
from onnx import TensorProto
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from workloads.errors import InputError
from workloads.importers.read import read

PLAIN = (
    "matmul gemm einsum conv convtranspose convinteger matmulinteger qlinearconv qlinearmatmul deformconv rnn lstm gru"
    " if_ loop scan"
)
DEFINED = "attention linear_attention causal_conv_with_state affinegrid"
"""Modules of ONNX's cases: of ops that multiply or hold others, and of those that ONNX defines by others."""


def counts(folder: Path, modules: str) -> dict[str, tuple[int | str, int]]:
    """By the case's name: what the importer counts, or refuses in a line; what runs."""
    cases = onnx_counting.node_cases(*modules.split())
    found: dict[str, tuple[int | str, int]] = {}
    for name, case in cases.items():
        right = onnx_counting.of_case(case, cases)
        kinds = {info.type.tensor_type.elem_type for info in case.model.graph.input}
        if right is None or not kinds - {TensorProto.UNDEFINED}:
            continue
        names = [info.name for info in case.model.graph.input]
        model = onnx_counting.with_constants(case.model, dict(zip(names, case.data_sets[0][0], strict=True)))
        (folder / "case.onnx").write_bytes(model.SerializeToString())
        try:
            found[name] = read(str(folder / "case.onnx"), fuse=False).workload.macs, right
        except InputError as error:
            if "found only views and constants" not in str(error):
                found[name] = str(error), right
    return found


def test_ops_that_multiply_have_the_products_that_run(tmp_path):
    found = counts(tmp_path, PLAIN)
    assert len(found) > 80
    assert sum(right > 0 for _, right in found.values()) > 60
    wrong = {name: each for name, each in found.items() if each[0] != each[1]}
    assert set(wrong) == {"test_loop13_seq", "test_loop16_seq_none"}
    assert all("expected a tensor, found" in str(mine) for mine, _ in wrong.values())


@pytest.mark.slow
def test_ops_that_onnx_defines_by_others_have_the_products_that_run(tmp_path):
    found = counts(tmp_path, DEFINED)
    assert len(found) > 200
    wrong = {name: each for name, each in found.items() if each[0] != each[1]}
    assert all("of unknown work" in str(mine) for mine, _ in wrong.values()), wrong
    assert len(wrong) <= 15


def exported(module: torch.nn.Module, path: Path, *inputs: torch.Tensor) -> str:
    torch.onnx.export(module, inputs, path, dynamo=True, external_data=False, verbose=False)
    return str(path)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("package", "name", "options"),
    [
        ("torchvision.models", "mobilenet_v3_small", {}),
        ("torchvision.models", "shufflenet_v2_x0_5", {}),
        ("torchvision.models", "swin_t", {}),
        ("torchvision.models", "vit_b_16", {}),
        ("torchvision.models", "maxvit_t", {}),
        ("torchvision.models.segmentation", "lraspp_mobilenet_v3_large", {"weights_backbone": None}),
        ("timm.models", "convnext_atto", {}),
        ("timm.models", "mixer_s32_224", {}),
        ("timm.models", "crossvit_tiny_240", {}),
    ],
)
def test_networks_that_pytorch_exports_have_the_products_that_it_counts(tmp_path, package, name, options):
    pytest.importorskip("onnxscript")
    pytest.importorskip(package.partition(".")[0])
    build: Any = getattr(importlib.import_module(package), name)
    module = build(**({"weights": None} if "torchvision" in package else {}), **options).eval()
    side = 240 if name.endswith("240") else 224
    image = torch.zeros(1, 3, side, side)
    found = read(exported(module, tmp_path / "net.onnx", image)).workload
    assert found.remarks == () or all("read by several ops" in line for line in found.remarks)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        module(image)
    assert 2 * found.macs == counter.get_total_flops()
