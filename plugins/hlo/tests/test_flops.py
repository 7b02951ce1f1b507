"""Operations by shape, against counts that are made another way: position by position, straight from the text."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pytest
from commands import module_of

from egrl_hlo import of_text
from egrl_hlo.flops import flops
from egrl_hlo.parse import parse
from workloads.errors import InputError

FIXTURES = Path(__file__).parent / "texts"
PRODUCTS = ("dot", "convolution")


def numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", text)]


def counted(text: str) -> dict[str, int]:
    """Operations of each dot and convolution in HLO text, by name: what the test knows of HLO, in a dozen lines."""
    shapes = {name: numbers(dims) for name, dims in re.findall(r"%(\S+) = \w+\[([\d,]*)\]", text)}
    found = {}
    for name, opcode, left, right, rest in re.findall(
        r"%(\S+) = \S+ (dot|convolution)\(%([^,\s]+), %([^)\s]+)\)([^\n]*)", text
    ):
        a, b, out = shapes[left], shapes[right], shapes[name]
        if opcode == "dot":
            axes = numbers(re.search(r"lhs_contracting_dims=\{([\d,]*)\}", rest)[1])
            found[name] = 2 * math.prod(out) * math.prod(a[axis] for axis in axes)
        else:
            found[name] = 2 * convolution(a, b, out, rest)
    return found


def convolution(a: list[int], b: list[int], out: list[int], rest: str) -> int:
    """Multiply-accumulates: every position of the result and of the kernel is tried."""
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", rest)
    ins, kernel, outs = (
        dict(zip(text, shape, strict=True)) for text, shape in zip(labels.groups(), (a, b, out), strict=True)
    )
    axes = sorted(mark for mark in outs if mark.isdigit())

    def option(key: str, default: str) -> list[str]:
        given = re.search(rf"[{{ ]{key}=([\dx_\-]+)", rest)
        return given[1].split("x") if given else [default] * len(axes)

    stride, before = option("stride", "1"), [p.split("_")[0] for p in option("pad", "0_0")]
    holes, spread = option("lhs_dilate", "1"), option("rhs_dilate", "1")
    met = 1
    for k, mark in enumerate(axes):
        there = {n * int(holes[k]) for n in range(ins[mark])}
        places = itertools.product(range(outs[mark]), range(kernel[mark]))
        met *= sum(o * int(stride[k]) + w * int(spread[k]) - int(before[k]) in there for o, w in places)
    return outs["b"] * outs["f"] * kernel["i"] * met


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.hlo")), ids=lambda file: file.stem)
def test_products_cost_what_counting_positions_says(file):
    text = file.read_text()
    expected = counted(text)
    found = {
        node.name: flops(node, [computation.by_name[name] for name in node.operands], lambda node: 1)
        for computation in parse(text, "f").computations.values()
        for node in computation.nodes
        if node.opcode in PRODUCTS
    }
    assert found == expected


def test_the_fixtures_have_padding_strides_holes_and_groups():
    text = (FIXTURES / "convolutions.hlo").read_text()
    assert len(counted(text)) >= 8
    for mark in ("stride=2x2", "lhs_dilate=2x2", "rhs_dilate=2x2", "pad="):
        assert mark in text
    assert "feature_group_count=8" in text or "batch_group_count=8" in text


def single(instruction: str, operands: str = "", others: str = "") -> int:
    text = f"HloModule m, is_scheduled=true\n{others}\nENTRY %main {{\n{operands}\n  ROOT {instruction}\n}}\n"
    return of_text(text, "m", "", "f").flops


X = "  %x = f32[8,16]{1,0} parameter(0)\n  %z = f32[] parameter(1)\n  %i = s32[4,1]{1,0} parameter(2)\n"
X += "  %u = f32[4,16]{1,0} parameter(3)\n"
SUM = "%sum {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %r = f32[] add(%a, %b)\n}\n"
LESS = SUM.replace("%sum", "%less").replace("f32[] add(%a, %b)", "pred[] compare(%a, %b), direction=LT")


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("%r = f32[8,16]{1,0} tanh(%x)", 128),
        ("%r = f32[16,8]{1,0} transpose(%x), dimensions={1,0}", 0),
        ("%r = bf16[8,16]{1,0} convert(%x)", 0),
        ("%r = f32[8]{0} reduce(%x, %z), dimensions={1}, to_apply=%sum", 128),
        ("%r = f32[8,4]{1,0} reduce-window(%x, %z), window={size=1x4 stride=1x4}, to_apply=%sum", 8 * 4 * 4),
        ("%r = f32[8,16]{1,0} sort(%x), dimensions={1}, to_apply=%less", 128 * 4),
        ("%r = f32[8,16]{1,0} sort(%x), dimensions={0}, to_apply=%less", 128 * 3),
        ("%r = c64[8,16]{1,0} fft(%x), fft_type=FFT, fft_length={16}", 5 * 128 * 4),
        ("%r = f32[8,16]{1,0} scatter(%x, %i, %u), update_window_dims={1}, to_apply=%sum", 64),
        ("%r = f32[8,8]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={1}", 2 * 64 * 16),
        ("%r = f32[8,16]{1,0} map(%x), dimensions={0,1}, to_apply=%sum", 128),
    ],
)
def test_each_kind_of_instruction_has_its_count(instruction, expected):
    assert single(instruction, X, SUM + LESS) == expected


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        ("%r = f32[8,8]{1,0} dot(%x, %x), lhs_contracting_dims={2}", "lhs_contracting_dims: expected an axis below 2"),
        ("%r = f32[8,8]{1,0} convolution(%x, %x), dim_labels=b01f_01io->b01f", "r: expected dim_labels of its shapes"),
        ("%r = f32[8,8]{1,0} convolution(%x), dim_labels=bf_io->bf", "r: expected at least 2 operands of convolution"),
        ("%r = f32[8,8]{1,0} scatter(), to_apply=%sum", "r: expected at least 1 operands of scatter, found 0"),
        ("%r = f32[8,8]{1,0} reduce-window(%x, %z), window={size=3}, to_apply=%sum", "window: expected 2 numbers of"),
        ("%r = f32[8,8]{1,0} reduce-window(%x, %z), window={size=0x1}", "window: expected size of at least 1"),
    ],
)  # fmt: skip
def test_attributes_that_contradict_shapes_are_refused(instruction, says):
    with pytest.raises(InputError) as caught:
        single(instruction, X, SUM)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["attention's gradient", "depthwise convolution", "powers (loop)"])
def test_operations_of_jitted_programs_are_those_that_xla_counts_with_loops_written_out(name):
    pytest.importorskip("jax", reason="the extra `jax`")
    hlo_costs = module_of(Path(__file__).resolve().parents[1] / "benchmarks" / "hlo_costs.py")
    _, theirs, ours, *_ = (cell.replace(",", "") for cell in hlo_costs.row(name))
    assert int(ours) == pytest.approx(int(theirs), rel=0.001)


@pytest.mark.parametrize(
    ("window", "out", "each"),
    [
        ("size=1x7 pad=0_0x3_3", "2,4", 2 * 4),  # every window has all four: one sum a row, given to each
        ("size=1x8 pad=0_0x3_4", "2,4", 2 * 4),
        ("size=1x6 pad=0_0x3_2", "2,4", 2 * 4 * 6),  # the first window misses the last one
        ("size=1x7 pad=0_0x2_3", "2,3", 2 * 3),
        ("size=1x3 pad=0_0x1_1", "2,4", 2 * 4 * 3),
        ("size=1x7 stride=1x2 pad=0_0x3_3", "2,2", 2 * 2 * 7),
    ],
)
def test_windows_that_all_have_everything_are_one_reduction(window, out, each):
    text = f"""HloModule m, is_scheduled=true
%sum {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}}
ENTRY %main {{
  %p = f32[2,4]{{1,0}} parameter(0)
  %z = f32[] constant(0)
  ROOT %w = f32[{out}]{{1,0}} reduce-window(%p, %z), window={{{window}}}, to_apply=%sum
}}
"""
    assert of_text(text, "m", "", "f").flops == each
