"""Reading HLO text: what is accepted, what is refused, and that damage never ends in a traceback."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pytest

from egrl_hlo import of_text, read
from egrl_hlo.parse import parse
from egrl_hlo.scan import Array, Fault, Line, leaves
from egrl_hlo.scan import parse as shape_of
from workloads.errors import InputError

FIXTURES = sorted((Path(__file__).parent / "texts").glob("*.hlo"))
SMALL = """\
HloModule small, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

FileNames
1 "somewhere.py"

FileLocations
1 {file_name_id=1 line=3}

%add_one (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %one = f32[4]{0} constant({1, 1,
    1, 1})
  ROOT %sum = f32[4]{0} add(%p, /*index=1*/%one), metadata={op_name="a/constant(b" source_file="x}\\".py"}
}

// a remark
ENTRY main {
  x = f32[4]{0:T(256)} parameter(0), sharding={replicated}
  ROOT y = f32[4]{0} fusion(f32[4]{0} x), kind=kLoop, calls=add_one, backend_config={"a":{"b":["}"]}}
}
"""


def test_both_ways_of_printing_comments_tables_and_long_literals_are_read():
    module = parse(SMALL, "f")
    assert list(module.computations) == ["add_one", "main"]
    assert module.entry.root.operands == ("x",)
    assert module.entry.root.attributes["calls"] == "add_one"
    assert module.computations["add_one"].root.operands == ("p", "one")
    assert module.computations["add_one"].root.attributes == {}
    program = of_text(SMALL, "small", "", "f")
    assert [(b.tensor, b.is_output, b.traffic_bytes) for b in program] == [(0, False, 16), (1, True, 16)]
    assert program.flops == 4


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[2,3]{1,0}", 24),
        ("pred[5]", 5),
        ("s4[5]{0:E(4)}", 3),
        ("u4[8]", 4),
        ("s8[8]{0:E(4)}", 4),
        ("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}", 2048),
        ("f8e4m3fn[7]", 7),
        ("f8e5m2[2,2]", 4),
        ("f4e2m1fn[8]", 4),
        ("c64[3]", 24),
        ("c128[]", 16),
        ("token[]", 0),
        ("f32[0,5]", 0),
        ("s32[<=10]", 40),
        ("(f32[2]{0}, /*index=1*/(s32[], token[]), u8[3])", 8 + 4 + 0 + 3),
        ("()", 0),
    ],
)
def test_shapes_take_so_many_bytes(text, size):
    line = Line(text)
    assert sum(leaf.size_bytes for leaf in leaves(shape_of(line))) == size
    assert not line.peek()


@pytest.mark.parametrize(
    "text", ["f32", "f32[2", "f32[?]", "f32[-1]", "float[2]", "f32[1,]", "(f32[2]", "f99999[1]", ""]
)
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(Fault):
        shape_of(Line(text))


def test_scalars_are_arrays_of_one_element():
    assert shape_of(Line("f32[]")) == Array(32)
    assert Array(32).elements == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("is_scheduled=true", "is_scheduled=false"), "line 1: expected a scheduled module (is_scheduled=true)"),
        (("HloModule", "module"), "line 1: expected HLO text, which begins with HloModule, found something else"),
        (("ENTRY ", ""), "expected an ENTRY computation, found the end: the text is cut off"),
        (("ROOT y", "y"), "line 20: expected a ROOT in computation 'main', found none"),
        (("f32[4]{0} x)", "f32[4]{0} z)"), "line 19: y: expected operands among the instructions before it, found 'z'"),
        (("calls=add_one", "calls=add_two"), "f: expected a computation called 'add_two', found none"),
        (("fusion(f32[4]{0} x)", "fusion(x, x)"), "expected 1 operands of 1 arrays for computation 'add_one'"),
        ((", calls=add_one", ""), "f: y: expected calls=COMPUTATION, found 'nothing'"),
        (("parameter(0), sharding", "parameter(1), sharding"), "expected parameters 0, 1, … in computation 'main'"),
        (("  x = ", "  x : "), "line 18: expected '=', found ': f32[4]{0:T(256)} parameter(0)"),
        (("%sum = f32[4]{0}", "%sum = f32[4"), "line 13: expected a shape, found"),
        (("x = f32[4]", f"x = f{'9' * 5000}[4]"), "line 18: expected an element type, found 'f9999"),
        (("main {", "add_one {"), "expected a new name of a computation, found 'add_one' again"),
        (("  x = f32[4]{0:T(256)}", "  y = f32[4]"), "expected a new name of an instruction, found 'y' again"),
        (("    1, 1})", "    1, 1)"), "line 11: expected a closing bracket of a constant, found the end"),
        (("add(%p", "add(%p %p"), "line 13: expected ')'"),
        (("true", "true, input_output_alias={ {0 1}: (0, {}) }"), "line 1: input_output_alias: expected a path"),
        (("true", f"true, input_output_alias={{ {{}}: (0, {{{'9' * 5000}}}) }}"), "input_output_alias: expected a"),
        (("kind=kLoop", "output_to_operand_aliasing={{0 1}: (0, {})}"), "y: output_to_operand_aliasing: expected a"),
    ],
)  # fmt: skip
def test_a_wrong_module_is_refused_in_one_line(change, says):
    assert change[0] in SMALL
    with pytest.raises(InputError) as caught:
        of_text(SMALL.replace(*change, 1), "small", "", "f")
    assert says in str(caught.value)
    assert str(caught.value).startswith("f: ")


def test_computations_that_call_themselves_are_refused():
    text = SMALL.replace("add(%p, /*index=1*/%one)", "fusion(%p), calls=%add_one")
    with pytest.raises(InputError, match="found 'add_one' calling itself"):
        of_text(text, "small", "", "f")


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.stem)
def test_a_cut_text_is_refused_in_one_line(file):
    text = file.read_text()
    for at in range(0, len(text.rstrip()) - 1, max(1, len(text) // 40)):
        with pytest.raises(InputError) as caught:
            of_text(text[:at], "cut", "", "f")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.stem)
def test_a_damaged_text_never_ends_in_a_traceback(file):
    text = file.read_text()
    draw = random.Random(file.stem)
    messages = []
    for _ in range(60):
        characters = list(text)
        for _ in range(draw.choice((1, 1, 5))):
            characters[draw.randrange(len(text))] = draw.choice('{}()[],=%"*/-0123456789 \nazf:_')
        try:
            of_text("".join(characters), "damaged", "", "f")
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all(message.startswith("f: ") and "\n" not in message for message in messages)


@pytest.mark.slow
@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.stem)
def test_a_text_that_contradicts_itself_never_ends_in_a_traceback(file):
    text = file.read_text()
    draw = random.Random(file.stem)
    names = re.findall(r"%[\w.\-]+", text)
    changes = {
        r"(%[\w.\-]+)": names,
        r"(\d+)": ["0", "1", "7", "999999", "123456789012345678", "-1"],
        r" ([a-z][a-z\-]+)\(": [
            "while",
            "conditional",
            "fusion",
            "dot",
            "scatter",
            "copy-start",
            "copy-done",
            "sort",
        ],
        r"(, [a-z_]+=[^,\n]+)": [""],
    }
    messages = []
    for pattern, instead in list(changes.items()) * 15:
        found = draw.choice(list(re.finditer(pattern, text)))
        try:
            of_text(text[: found.start(1)] + draw.choice(instead) + text[found.end(1) :], "odd", "", "f")
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all(message.startswith("f: ") and "\n" not in message for message in messages)


def test_files_are_read_plain_and_compressed(tmp_path):
    text = FIXTURES[0].read_bytes()
    (tmp_path / "a.hlo").write_bytes(text)
    (tmp_path / "a.hlo.gz").write_bytes(gzip.compress(text))
    plain, packed = read(str(tmp_path / "a.hlo")), read(str(tmp_path / "a.hlo.gz"))
    assert plain.name == packed.name == "a"
    assert plain.buffers == packed.buffers


def test_a_file_that_is_no_text_is_refused_in_one_line(tmp_path):
    (tmp_path / "a.hlo").write_bytes(b"HloModule \xff")
    with pytest.raises(InputError, match="expected HLO text in UTF-8, found other bytes at offset 10"):
        read(str(tmp_path / "a.hlo"))
    (tmp_path / "a.hlo.gz").write_bytes(b"HloModule")
    with pytest.raises(InputError, match="expected gzip"):
        read(str(tmp_path / "a.hlo.gz"))
    with pytest.raises(InputError, match="expected HLO text"):
        read(str(tmp_path / "none.txt"))
