from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.programs.compiled import Compiled, Estimate, Placed
from workloads.programs.json_file import check, from_json, to_json
from workloads.programs.program import Buffer, Instruction, Program, ProgramBuilder, Tensor

SMALL = Program(
    "small",
    (Instruction("i", "dot", 10), Instruction("j", "add", 4, 7), Instruction("k", "while", 2)),
    (
        Tensor("a", 8, -1, 1),
        Tensor("b", 16, 0, 2),
        Tensor("c", 0, -1, 0),
        Tensor("d", 16, 2, 2, leaves=True),
        Tensor("e", 8, 1, 1),
    ),
    (
        Buffer(0, 0, False, 8),
        Buffer(1, 0, True, 16),
        Buffer(0, 1, False, 4),
        Buffer(4, 1, True, 8),
        Buffer(1, 2, False, 32, 3),
        Buffer(3, 2, True, 16, 3),
    ),
    "by hand",
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any sound program: instructions that read what is there and write new tensors, now and then in place."""
    build = ProgramBuilder()
    sizes = st.sampled_from((0, 1, 8, 1000))
    known = {build.tensor(f"start{i}", draw(sizes)) for i in range(draw(st.integers(1, 4)))}
    seed = build.tensor("seed", 8)
    build.instruction("first", "iota", 0, {}, {seed: 8})
    known.add(seed)
    for i in range(draw(st.integers(0, 8))):
        reads = draw(st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4))
        new = [build.tensor(f"t{i}.{j}", draw(sizes)) for j in range(draw(st.integers(0, 2)))]
        pairs = []
        if reads and draw(st.booleans()):
            old = reads[0]
            twin = build.tensor(f"t{i}.new", build._sizes[old])
            new.append(twin)
            pairs = [(old, twin)]
            known.discard(old)
        traffic = dict.fromkeys(reads, draw(st.integers(0, 5000)))
        build.instruction(
            f"i{i}", "any", draw(st.integers(0, 9)), traffic, dict.fromkeys(new, 3), 5, in_place=pairs
        )
        known.update(new)
    for tensor in sorted(known):
        if draw(st.booleans()):
            build.result(tensor)
    return build.build("drawn", draw(st.sampled_from(("", "a “source”"))))


@given(program=programs())
def test_a_program_comes_back_equal_from_its_json(program):
    assert from_json(to_json(program), "there") == program


def test_live_ranges_are_closed_and_results_stay_to_the_end():
    assert [SMALL.live_range(i) for i in range(5)] == [(0, 1), (0, 2), (0, 0), (2, 2), (1, 1)]
    kept = replace(SMALL, tensors=(*SMALL.tensors[:4], replace(SMALL.tensors[4], leaves=True)))
    assert kept.live_range(4) == (1, 2)
    assert SMALL.flops == 16
    assert SMALL.buffer_name(3) == "j/out/e"


def changed(table: str, row: int, **fields: Any) -> Program:
    rows = list(getattr(SMALL, table))
    rows[row] = replace(rows[row], **fields)
    return replace(SMALL, **{table: tuple(rows)})


def swapped(a: int, b: int) -> Program:
    rows = list(SMALL.buffers)
    rows[a], rows[b] = rows[b], rows[a]
    return replace(SMALL, buffers=tuple(rows))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (replace(SMALL, name="a/b"), "name: expected a printable name of at most 200 characters without path"),
        (replace(SMALL, instructions=()), "instructions: expected 1 to 1000000 of them, found 0"),
        (replace(SMALL, buffers=()), "buffers: expected 1 to 1000000 of them, found 0"),
        (changed("instructions", 1, name="i"), "instructions[1].name: expected a new name, found 'i' of"),
        (changed("tensors", 1, name="a"), "tensors[1].name: expected a new name, found 'a' of tensors[0]"),
        (changed("instructions", 1, flops=-1), "instructions[1] ('j').flops: expected an integer from 0 to"),
        (changed("instructions", 1, slow_bytes=True), "('j').slow_bytes: expected an integer from 0 to"),
        (changed("tensors", 0, size_bytes=-8), "tensors[0] ('a').size_bytes: expected an integer from 0 to"),
        (changed("tensors", 0, produced=3), "('a').produced: expected an integer from -1 to 2, found 3"),
        (changed("tensors", 3, last_use=1), "('d').last_use: expected an integer from 2 to 2, found 1"),
        (changed("tensors", 0, last_use=9), "('a').last_use: expected an integer from 0 to 2, found 9"),
        (changed("tensors", 0, leaves=1), "('a').leaves: expected true or false, found 1"),
        (changed("buffers", 0, tensor=5), "buffers[0].tensor: expected an integer from 0 to 4, found 5"),
        (changed("buffers", 0, alias_id=-2), "buffers[0].alias_id: expected an integer from -1 to"),
        (changed("buffers", 0, traffic_bytes=2**50), "buffers[0].traffic_bytes: expected an integer from 0 to"),
        (swapped(0, 1), "expected buffers by instruction, inputs before outputs, found an input of"),
        (swapped(1, 2), "found an output of instruction 0 after an input of instruction 1"),
        (changed("tensors", 4, produced=0), "buffers[3] ('e').instruction: expected 0, when its tensor is produced"),
        (changed("buffers", 3, tensor=1), "expected a tensor to be written once, found it written by buffers[1], too"),
        (changed("buffers", 2, tensor=4), "expected 2 to 1, from after its tensor is produced"),
        (changed("tensors", 0, last_use=0), "('a').instruction: expected 0 to 0, from after its tensor"),
        (
            replace(SMALL, buffers=(SMALL.buffers[0], *SMALL.buffers)),
            "expected one buffer per tensor that an instruction reads, found two",
        ),
        (
            changed("buffers", 0, alias_id=3),
            "alias group 3: expected buffers of one size, found 'a' of 8 bytes and 'b' of 16",
        ),
        (
            replace(
                SMALL,
                tensors=(*SMALL.tensors, Tensor("f", 16, 2, 2)),
                buffers=(*SMALL.buffers, Buffer(5, 2, True, 16, 3)),
            ),
            "alias group 3: expected one of its buffers written by an instruction, found 'd' and 'f' at 2",
        ),
        (
            changed("tensors", 1, leaves=True),
            "found 'b' kept as a result though 'd' takes its place at 2",
        ),
        (changed("instructions", 0, flops=2**50 - 1), None),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_in_one_line(bad, says):
    if says is None:
        assert check(bad) is bad
        return
    with pytest.raises(InputError) as caught:
        check(bad)
    assert says in str(caught.value)
    assert str(caught.value).startswith("program ")


def test_a_value_may_not_be_read_after_another_takes_its_place():
    later = replace(
        SMALL,
        instructions=(*SMALL.instructions, Instruction("l", "add", 1)),
        tensors=(*SMALL.tensors[:1], replace(SMALL.tensors[1], last_use=3), *SMALL.tensors[2:]),
    )
    with pytest.raises(InputError, match="'b' read at 3 though 'd' takes its place at 2"):
        check(later)


def edited(change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(to_json(SMALL))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("name"), "f: name: expected a string, found nothing"),
        (lambda d: d.update(name=3), "f: name: expected a string, found 3"),
        (lambda d: d.update(kind="workload"), 'f: kind: expected "program", found "workload"'),
        (lambda d: d.update(version=2), "f: version: expected 1, found 2"),
        (lambda d: d.update(ops=[]), "f: expected one of the fields kind, version, name, source, instructions"),
        (lambda d: d.pop("tensors"), "f: tensors: expected an object of columns, found nothing"),
        (lambda d: d.update(tensors=[]), "f: tensors: expected an object of columns, found a list"),
        (lambda d: d["buffers"].pop("alias_id"), "f: buffers.alias_id: expected a list, found nothing"),
        (lambda d: d["buffers"].update(offset=[]), "f: buffers: expected one of the columns tensor, instruction,"),
        (lambda d: d["tensors"]["size_bytes"].pop(), "f: tensors.size_bytes: expected 5 values as in name, found 4"),
        (lambda d: d["tensors"]["size_bytes"].__setitem__(1, 1.0), "f: tensors.size_bytes[1]: expected an integer"),
        (lambda d: d["tensors"]["leaves"].__setitem__(1, 0), "f: tensors.leaves[1]: expected true or false, found 0"),
        (lambda d: d["buffers"]["tensor"].__setitem__(1, True), "f: buffers.tensor[1]: expected an integer"),
        (lambda d: d["instructions"]["name"].__setitem__(0, None), "f: instructions.name[0]: expected a string"),
        (lambda d: d["tensors"]["size_bytes"].__setitem__(1, -1), "f: program 'small': tensors[1] ('b').size_bytes"),
    ],
)  # fmt: skip
def test_a_damaged_document_is_refused_in_one_line(change, says):
    with pytest.raises(InputError) as caught:
        from_json(edited(change), "f")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.exhaustive
def test_a_hundred_thousand_buffers_are_read_in_seconds():
    build = ProgramBuilder()
    value = build.tensor("start", 8)
    for i in range(50_000):
        new = build.tensor(f"t{i}", 8)
        build.instruction(f"i{i}", "add", 1, {value: 8}, {new: 8})
        value = new
    program = build.build("long")
    assert len(program) == 100_000
    text = to_json(program)
    began = time.process_time()
    assert from_json(text, "there") == program
    assert time.process_time() - began < 30  # one; what is quadratic takes hours


COMPILED = Compiled(
    "xla",
    (Estimate(7, 0), Estimate(0, 4096), Estimate(12, 64)),
    (Placed(0), Placed(2), Placed(1, 0, 0), Placed(0), Placed(2), Placed(1, 2, 2)),
)
WHOLE = replace(SMALL, compiled=COMPILED)


def test_what_the_compiler_decided_comes_back():
    assert from_json(to_json(WHOLE), "f") == WHOLE
    assert (COMPILED.cycles, COMPILED.scratch_bytes) == (19, 4096)
    assert "compiled" not in json.loads(to_json(SMALL))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.pop("name"), "compiled: expected an object of name, instructions and buffers"),
        (lambda c: c.update(name=3), "compiled: name: expected a string, found 3"),
        (lambda c: c.update(more=1), "compiled: expected an object of name, instructions and buffers"),
        (lambda c: c["buffers"].pop("action"), "compiled: buffers.action: expected a list, found nothing"),
        (
            lambda c: c["instructions"].update(cycles=[1.5, 0, 0]),
            "cycles\\[0\\]: expected an integer, found 1.5",
        ),
    ],
)
def test_damage_of_what_the_compiler_decided_is_refused(change, words):
    document = json.loads(to_json(WHOLE))
    change(document["compiled"])
    with pytest.raises(InputError, match=words):
        from_json(json.dumps(document), "f")


@pytest.mark.parametrize(
    ("compiled", "words"),
    [
        (replace(COMPILED, name="of mine"), "compiled.name: expected a word, found 'of mine'"),
        (replace(COMPILED, buffers=COMPILED.buffers[1:]), "compiled.buffers: expected 6, found 5"),
        (replace(COMPILED, instructions=()), "compiled.instructions: expected 3, found 0"),
        (replace(COMPILED, instructions=(Estimate(-1, 0),) * 3), r"compiled.instructions\[0\].cycles"),
        (
            replace(COMPILED, buffers=(Placed(3),) * 6),
            r"compiled.buffers\[0\].action: expected an integer from 0 to 2",
        ),
        (
            replace(COMPILED, buffers=(Placed(1, 0, 3),) * 6),
            r"copy_last: expected an integer from -1 to 2, found 3",
        ),
        (replace(COMPILED, buffers=(Placed(1),) * 6), "expected a window of a copy, and of no other action"),
        (
            replace(COMPILED, buffers=(Placed(2, 0, 1),) * 6),
            "expected a window of a copy, and of no other action",
        ),
    ],
)
def test_what_does_not_fit_the_program_is_refused(compiled, words):
    with pytest.raises(InputError, match=words):
        check(replace(SMALL, compiled=compiled))


def test_a_file_of_many_remarks_leaves_some_and_how_many_more():
    many = tuple(f"remark {i}" for i in range(1_000))
    assert from_json(to_json(replace(SMALL, remarks=many)), "f").remarks == (
        *many[:50],
        "and 950 more remarks",
    )
