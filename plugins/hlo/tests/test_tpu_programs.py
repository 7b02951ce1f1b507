"""Whole programs as the TPU compiler printed them, beside its own analysis of their cost; they do not come with egrl.

`flops` and `bytes accessed` are those of `cost_analysis()` of the same compilation, on a v5e (jax 0.10.2).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from egrl_hlo import moves, read
from egrl_hlo.parse import array, parse
from egrl_hlo.price import Pricer
from egrl_hlo.trace import trace
from workloads.files import unpack

FOLDER = next(
    (found for each in Path(__file__).parents if (found := each / "shared/data/tpu").is_dir()), None
)
pytestmark = pytest.mark.skipif(FOLDER is None, reason="needs ../shared/data/tpu")
FLOPS, BYTES = 0, 1
XLA = {
    "bert-4": (59_957_624_832, 472_296_960),
    "bert-12": (284_644_638_720, 2_131_706_880),
    "bert-4-train": (176_575_561_728, 1_231_222_784),
    "resnet50": (63_581_483_008, 796_764_672),
    "resnet50-train": None,
    "unet": None,
    "lstm": (403_931_136 * 64, None),  # XLA counts a step of its 64 steps
}
STEPS = {
    "bert-4": 57,
    "bert-12": 169,
    "bert-4-train": 158,
    "resnet50": 48,
    "resnet50-train": 166,
    "unet": 89,
    "lstm": 2,
}


def text_of(name):
    file = FOLDER / f"{name}.hlo.xz"
    return unpack(file.read_bytes(), str(file), 1 << 24).decode()


@pytest.mark.parametrize("name", XLA)
def test_every_program_is_read_as_it_is(name):
    program = read(str(FOLDER / f"{name}.hlo.xz"))
    assert (program.name, program.remarks, len(program.instructions)) == (name, (), STEPS[name])
    if XLA[name] is not None:
        assert program.flops == pytest.approx(XLA[name][FLOPS], rel=0.01)


@pytest.mark.parametrize("name", [name for name, known in XLA.items() if known])
def test_products_are_those_that_xla_counts(name):
    """XLA adds what is element-wise, which is less than 1 %."""
    module = parse(text_of(name), name)
    pricer = Pricer(module)
    products = sum(
        pricer._flops(node, computation.operands(node))
        for computation in module.computations.values()
        for node in computation.nodes
        if node.opcode in ("dot", "convolution")
    )
    assert products * (64 if name == "lstm" else 1) == pytest.approx(XLA[name][FLOPS], rel=0.01)


@pytest.mark.parametrize("name", [name for name, known in XLA.items() if known and known[BYTES]])
def test_bytes_differ_from_xlas_by_its_own_moves(name):
    """XLA counts a copy four times (each of its two instructions reads and writes), a slice once, a join twice."""
    module = parse(text_of(name), name)
    entry, found = module.entry, moves.find(module.entry, module)
    steps = trace(entry, Pricer(module).price, lambda number, leaf: False, found).steps
    own = sum(sum(step.reads.values()) + sum(step.writes.values()) + step.slow_bytes for step in steps)
    slices = {part for parts in found.joined.values() for part in parts}
    moved = sum(
        array(entry.by_name[end]).size_bytes * (1 if start in slices else 4)
        for end, start in found.ended.items()
    )
    moved += sum(2 * array(entry.by_name[name]).size_bytes for name in found.joined)
    assert own + moved == pytest.approx(XLA[name][BYTES], rel=0.001)
