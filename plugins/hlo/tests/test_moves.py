"""What XLA's memory-space assignment adds to a program for a TPU is placement; what looks like it and is none stays."""

from __future__ import annotations

import pytest
from test_lower import program_of, uses

from egrl_hlo import moves
from egrl_hlo.parse import parse

TILES = "{1,0:T(8,128)}"
FAST = "{1,0:T(8,128)S(1)}"


def names(program):
    return [(each.name, each.opcode) for each in program.instructions]


def test_a_copy_to_fast_memory_and_back_is_no_instruction():
    program = program_of(f"""
  %p = f32[8,128]{TILES} parameter(0)
  %cs = (f32[8,128]{FAST}, f32[8,128]{TILES}, u32[]{{:S(2)}}) copy-start(%p), cross_program_prefetch_index=0
  %cd = f32[8,128]{FAST} copy-done(%cs)
  %n = f32[8,128]{FAST} negate(%cd)
  %es = (f32[8,128]{TILES}, f32[8,128]{FAST}, u32[]{{:S(2)}}) copy-start(%n)
  %m = f32[8,128]{FAST} negate(%n)
  %ed = f32[8,128]{TILES} copy-done(%es)
  %at = f32[8,128]{FAST} copy(%ed)
  ROOT %r = f32[8,128]{TILES} add(%at, %m)""")
    assert names(program) == [("n", "negate"), ("m", "negate"), ("r", "add")]
    assert uses(program) == [
        ("n/in/p", 4096, False),
        ("n/out/n", 4096, False),
        ("m/in/n", 4096, False),
        ("m/out/m", 4096, False),
        ("r/in/n", 4096, False),
        ("r/in/m", 4096, False),
        ("r/out/r", 4096, False),
    ]
    assert program.remarks == ()


@pytest.mark.parametrize(
    ("to", "size"),
    [
        ("f32[8,128]{0,1:T(8,128)S(1)}", 128 * 128 * 4),  # another layout
        ("f32[8,128]{1,0:T(4,128)S(1)}", 4096),  # other tiles
        ("f32[8,128]{1,0:T(8,128)S(5)}", 4096),  # the host
        ("f32[8,128]{1,0:T(8,128)}", 4096),  # the same memory
    ],
)
def test_copies_that_do_more_than_change_between_hbm_and_vmem_are_the_programs_own(to, size):
    program = program_of(f"""
  %p = f32[8,128]{TILES} parameter(0)
  %cs = ({to}, f32[8,128]{TILES}, u32[]{{:S(2)}}) copy-start(%p)
  %cd = {to} copy-done(%cs)
  ROOT %r = f32[8,128]{TILES} negate(%cd)""")
    assert names(program) == [("cs", "copy"), ("r", "negate")]
    assert uses(program)[:2] == [("cs/in/p", 4096, False), ("cs/out/cs", size, False)]


def sliced(first, second, joined='custom-call(%d0, %d1), custom_call_target="ConcatBitcast"', more=""):
    """Two slices of a value of 16 rows that a call joins."""
    begun = f"((f32[16,128]{TILES}), f32[8,128]{FAST}, s32[]{{:S(2)}})"
    return f"""
  %p = f32[16,128]{TILES} parameter(0)
  %q = f32[16,128]{TILES} parameter(1)
  %s0 = {begun} slice-start(%p), slice={{[0:8], [0:128]}}
  %s1 = {begun} slice-start({first}), slice={{{second}, [0:128]}}
  %d0 = f32[8,128]{FAST} slice-done(%s0)
  %d1 = f32[8,128]{FAST} slice-done(%s1)
  %j = f32[16,128]{FAST} {joined}{more}
  ROOT %r = f32[16,128]{TILES} negate(%j)"""


def test_slices_that_are_joined_are_a_view():
    program = program_of(sliced("%p", "[8:16]"))
    assert uses(program) == [("r/in/p", 8192, False), ("r/out/r", 8192, False)]


def test_slices_of_two_values_are_the_programs_own_and_need_no_flag():
    program = program_of(sliced("%q", "[8:16]"))
    assert names(program) == [("s0", "slice"), ("s1", "slice"), ("j", "custom-call"), ("r", "negate")]
    assert program.flops == 16 * 128
    program = program_of(sliced("%p", "[8:16]", joined="concatenate(%d0, %d1), dimensions={0}"))
    assert names(program)[2] == ("j", "concatenate")


def test_a_slice_that_something_else_reads_stays_an_instruction():
    more = f"\n  %k = f32[8,128]{TILES} negate(%d0)"
    program = program_of(sliced("%p", "[8:16]", more=more))
    assert [name for name, _ in names(program)] == ["s0", "s1", "j", "k", "r"]
    assert uses(program)[0] == ("s0/in/p", 4096, False)


def test_a_start_that_names_its_computation_is_read_like_one_that_names_its_opcode():
    others = f"""
%wrapped {{
  %x = f32[8,128]{TILES} parameter(0)
  ROOT %c = f32[8,128]{FAST} copy(%x)
}}
"""
    program = program_of(
        f"""
  %p = f32[8,128]{TILES} parameter(0)
  %cs = ((f32[8,128]{TILES}), f32[8,128]{FAST}, u32[]{{:S(2)}}) async-start(%p), calls=%wrapped
  %cd = f32[8,128]{FAST} async-done(%cs)
  ROOT %r = f32[8,128]{TILES} negate(%cd)""",
        others,
    )
    assert names(program) == [("r", "negate")]


def test_room_that_nothing_has_written_is_no_value():
    program = program_of(f"""
  %b = f32[8,128]{FAST} custom-call(), custom_call_target="AllocateBuffer"
  %p = f32[1,128]{{1,0:T(1,128)}} parameter(0)
  %i = s32[]{{:T(128)S(6)}} parameter(1)
  ROOT %u = f32[8,128]{FAST} dynamic-update-slice(%b, %p, %i, %i)""")
    assert uses(program) == [("u/in/p", 512, False), ("u/out/u", 512, False)]


def test_moves_within_a_loop_are_no_traffic_of_it():
    body = """
%body {
  %s = (s32[], f32[8,128]TILES, f32[8,128]TILES) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[8,128]TILES get-tuple-element(%s), index=1
  %w = f32[8,128]TILES get-tuple-element(%s), index=2
  %cs = (f32[8,128]FAST, f32[8,128]TILES, u32[]{:S(2)}) copy-start(%w)
  %cd = f32[8,128]FAST copy-done(%cs)
  %y = f32[8,128]TILES add(%x, %cd), backend_config={"window_config":{"estimated_cycles":"40"}}
  ROOT %t = (s32[], f32[8,128]TILES, f32[8,128]TILES) tuple(%i, %y, %w)
}
%more {
  %s = (s32[], f32[8,128]TILES, f32[8,128]TILES) parameter(0)
  ROOT %c = pred[] constant(true)
}
""".replace("TILES", TILES).replace("FAST", FAST)
    program = program_of(
        f"""
  %p = f32[8,128]{TILES} parameter(0)
  %q = f32[8,128]{TILES} parameter(1)
  %z = s32[] constant(0)
  %t = (s32[], f32[8,128]{TILES}, f32[8,128]{TILES}) tuple(%z, %p, %q)
  %l = (s32[], f32[8,128]{TILES}, f32[8,128]{TILES}) while(%t), condition=%more, body=%body,"""
        """ backend_config={"known_trip_count":{"n":"5"}}
"""
        f"""  ROOT %r = f32[8,128]{TILES} get-tuple-element(%l), index=1""",
        body,
    )
    # The state is a parameter that is not donated: copied once, which takes its traffic to its size at least.
    assert uses(program) == [
        ("l/in/p", 5 * 4096, False),
        ("l/in/q", 5 * 4096, False),
        ("l/out/l#1", 5 * 4096, False),
    ]
    assert program.instructions[0].slow_bytes == 0


def test_the_tpu_compilers_statement_of_shared_memory_is_an_update_in_place():
    shared = '{"aliasing_operands":{"lists":[{"indices":["1","2"]}]}}'
    program = program_of(f"""
  %p = f32[8,128]{TILES} parameter(0)
  %x = f32[8,128]{FAST} negate(%p)
  %o = f32[8,128]{TILES} parameter(1)
  ROOT %r = f32[8,128]{FAST} add(%o, %x), backend_config={shared}""")
    assert uses(program)[2:] == [
        ("r/in/o", 4096, False),
        ("r/in/x", 4096, True),
        ("r/out/r", 4096, True),
    ]


def test_an_update_in_place_that_is_stated_as_well_is_one():
    shared = '{"aliasing_operands":{"lists":[{"indices":["0","4"]}]}}'
    program = program_of(f"""
  %p = f32[8,128]{TILES} parameter(0)
  %x = f32[8,128]{FAST} negate(%p)
  %o = f32[1,128]{{1,0:T(1,128)}} parameter(1)
  %i = s32[]{{:T(128)S(6)}} parameter(2)
  ROOT %r = f32[8,128]{FAST} dynamic-update-slice(%x, %o, %i, %i), backend_config={shared}""")
    assert uses(program)[2:] == [("r/in/x", 0, True), ("r/in/o", 512, False), ("r/out/r", 512, True)]


def test_unknown_calls_are_refused_by_name_as_before():
    from workloads.errors import InputError

    with pytest.raises(InputError, match="custom-call tpu_custom_call"):
        program_of(f"""
  %p = f32[8,128]{TILES} parameter(0)
  ROOT %r = f32[8,128]{TILES} custom-call(%p, %p), custom_call_target="tpu_custom_call\"""")


def test_begins_says_what_a_start_begins():
    module = parse("HloModule m, is_scheduled=true\nENTRY %e {\n  ROOT %p = f32[8]{0} parameter(0)\n}\n", "f")
    assert moves.begins(module.entry.root, module) == ""
