"""What becomes of HLO instructions: views, traffic, updates in place, loops, branches, calls, pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from egrl_hlo import of_text, read
from workloads.errors import InputError
from workloads.programs.program import NO_ALIAS, Program

FIXTURES = Path(__file__).parent / "texts"
ADD = """
%sum {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}
"""


def program_of(entry: str, others: str = "", header: str = "", **options: bool) -> Program:
    text = f"HloModule m, is_scheduled=true{header}\n{others}\nENTRY %main {{\n{entry}\n}}\n"
    return of_text(text, "m", "", "f", **options)


def uses(program: Program) -> list[tuple[str, int, bool]]:
    """(buffer's name, traffic, in an alias group), in the game's order."""
    return [
        (program.buffer_name(i), b.traffic_bytes, b.alias_id != NO_ALIAS)
        for i, b in enumerate(program.buffers)
    ]


def test_views_define_nothing_and_scalars_have_no_buffers():
    program = program_of("""
  %p = (f32[8]{0}, f32[4]{0}, f32[]) parameter(0)
  %x = f32[8]{0} get-tuple-element(%p), index=0
  %y = f32[4]{0} get-tuple-element(%p), index=1
  %z = f32[] get-tuple-element(%p), index=2
  %v = f32[2,4]{1,0} bitcast(%x)
  %t = (f32[2,4]{1,0}, f32[4]{0}) tuple(%v, %y)
  %o = (f32[2,4]{1,0}, f32[4]{0}) opt-barrier(%t)
  %w = f32[2,4]{1,0} get-tuple-element(%o), index=0
  %s = f32[] add(%z, %z)
  %n = f32[2,4]{1,0} negate(%w)
  ROOT %r = (f32[2,4]{1,0}, f32[4]{0}) tuple(%n, %y)""")
    assert [t.name for t in program.tensors] == ["p#0", "p#1", "n"]
    assert [i.name for i in program.instructions] == ["s", "n"]
    assert uses(program) == [("n/in/p#0", 32, False), ("n/out/n", 32, False)]
    assert [t.leaves for t in program.tensors] == [False, False, True]


def test_constants_are_there_from_the_start():
    program = program_of("""
  %c = f32[1000]{0} constant({...})
  ROOT %n = f32[1000]{0} negate(%c)""")
    assert (program.tensors[0].produced, program.tensors[0].last_use) == (-1, 0)


SLICES = """
%body {
  %p = f32[100,8]{1,0} parameter(0)
  %q = f32[1000,8]{1,0} parameter(1)
  %ids = s32[5,1]{1,0} parameter(2)
  %e = f32[100,8]{1,0} exponential(%p)
  %s = f32[5,8]{1,0} slice(%e), slice={[0:5], [0:8]}
  %g = f32[5,8]{1,0} gather(%q, %ids), offset_dims={1}, collapsed_slice_dims={0}, slice_sizes={1,8}
  ROOT %r = f32[5,8]{1,0} add(%s, %g)
}
"""


def test_a_fusion_reads_of_each_operand_what_its_result_needs():
    program = program_of(
        """
  %p = f32[100,8]{1,0} parameter(0)
  %q = f32[1000,8]{1,0} parameter(1)
  %ids = s32[5,1]{1,0} parameter(2)
  ROOT %f = f32[5,8]{1,0} fusion(%p, %q, %ids), kind=kLoop, calls=%body""",
        SLICES,
    )
    assert [traffic for _, traffic, _ in uses(program)] == [160, 160, 20, 160]
    assert program.instructions[0].flops == 40 + 40


UPDATE = """
  %p = f32[100,8]{1,0} parameter(0)
  %u = f32[1,8]{1,0} parameter(1)
  %i = s32[] parameter(2)
"""
DONATED = ", input_output_alias={ {}: (0, {}, may-alias) }"


def test_a_donated_parameter_is_updated_in_place_and_only_the_slice_moves():
    entry = UPDATE + "  ROOT %d = f32[100,8]{1,0} dynamic-update-slice(%p, %u, %i, %i)"
    assert uses(program_of(entry, header=DONATED)) == [
        ("d/in/p", 0, True),
        ("d/in/u", 32, False),
        ("d/out/d", 32, True),
    ]
    assert uses(program_of(entry)) == [
        ("d/in/p", 3200, False),
        ("d/in/u", 32, False),
        ("d/out/d", 3200, False),
    ]


def test_a_value_that_is_read_later_is_copied_and_not_updated_in_place():
    program = program_of(
        UPDATE
        + """
  %n = f32[100,8]{1,0} negate(%p)
  %d = f32[100,8]{1,0} dynamic-update-slice(%n, %u, %i, %i)
  ROOT %s = f32[100,8]{1,0} add(%d, %n)"""
    )
    assert uses(program)[2:5] == [("d/in/n", 3200, False), ("d/in/u", 32, False), ("d/out/d", 3200, False)]


FUSED_UPDATE = """
%body {
  %a = f32[100,8]{1,0} parameter(0)
  %b = f32[1,8]{1,0} parameter(1)
  %k = s32[] parameter(2)
  %old = f32[1,8]{1,0} dynamic-slice(%a, %k, %k), dynamic_slice_sizes={1,8}
  %new = f32[1,8]{1,0} add(%old, %b)
  %d = f32[100,8]{1,0} dynamic-update-slice(%a, %new, %k, %k)
  ROOT %r = f32[100,8]{1,0} bitcast(%d)
}
"""


def test_a_fusion_that_ends_in_an_update_is_one_in_place():
    program = program_of(
        UPDATE
        + """
  %n = f32[100,8]{1,0} negate(%p)
  ROOT %f = f32[100,8]{1,0} fusion(%n, %u, %i), kind=kLoop, calls=%body""",
        FUSED_UPDATE,
    )
    assert uses(program)[2:] == [("f/in/n", 32, True), ("f/in/u", 32, False), ("f/out/f", 32, True)]
    assert program.instructions[1].flops == 8


def loop(config: str = "", step: int = 1, start: str = "%zero") -> tuple[str, str]:
    """A loop of up to 7 trips over (counter, state, what is only read), and its computations."""
    state = "(s32[], f32[64]{0}, f32[7,64]{1,0})"
    others = f"""
%body {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[64]{{0}} get-tuple-element(%p), index=1
  %w = f32[7,64]{{1,0}} get-tuple-element(%p), index=2
  %one = s32[] constant({step})
  %zero = s32[] constant(0)
  %j = s32[] add(%i, %one)
  %row = f32[1,64]{{1,0}} dynamic-slice(%w, %i, %zero), dynamic_slice_sizes={{1,64}}
  %v = f32[64]{{0}} bitcast(%row)
  %y = f32[64]{{0}} add(%x, %v)
  ROOT %t = {state} tuple(%j, %y, %w)
}}
%condition {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] constant(7)
  ROOT %c = pred[] compare(%i, %n), direction=LT
}}
"""
    entry = f"""
  %a = f32[64]{{0}} parameter(0)
  %b = f32[7,64]{{1,0}} parameter(1)
  %k = s32[] parameter(2)
  %zero = s32[] constant(0)
  %x = f32[64]{{0}} copy(%a)
  %t = {state} tuple({start}, %x, %b)
  %l = {state} while(%t), condition=%condition, body=%body{config}
  ROOT %r = f32[64]{{0}} get-tuple-element(%l), index=1"""
    return entry, others


@pytest.mark.parametrize(
    ("given", "trips"),
    [
        (loop(', backend_config={"known_trip_count":{"n":"5"}}'), 5),
        (loop(), 7),
        (loop(step=2), 1),
        (loop(start="%k"), 1),
    ],
)
def test_a_loop_is_one_instruction_priced_with_its_trips(given, trips):
    program = program_of(*given)
    assert [i.opcode for i in program.instructions] == ["copy", "while"]
    assert uses(program)[2:] == [
        ("l/in/x", 256 * trips, True),
        ("l/in/b", 256 * trips, False),
        ("l/out/l#1", 256 * trips, True),
    ]
    assert program.instructions[1].slow_bytes == 2 * 256 * trips
    assert program.instructions[1].flops == (1 + 64 + 1) * trips
    assert bool(program.remarks) == (trips == 1)
    if program.remarks:
        assert program.remarks == ("loops without a known number of trips: l: counted as one trip",)


BRANCHES = """
%cheap {
  %p = (f32[64]{0}) parameter(0)
  %x = f32[64]{0} get-tuple-element(%p), index=0
  %n = f32[64]{0} negate(%x)
  ROOT %t = (f32[64]{0}) tuple(%n)
}
%dear {
  %p = (f32[64,64]{1,0}) parameter(0)
  %x = f32[64,64]{1,0} get-tuple-element(%p), index=0
  %zero = f32[] constant(0)
  %s = f32[64]{0} reduce(%x, %zero), dimensions={0}, to_apply=%sum
  %n = f32[64]{0} negate(%s)
  ROOT %t = (f32[64]{0}) tuple(%n)
}
"""


def test_a_choice_is_one_instruction_priced_by_its_dearest_branch():
    program = program_of(
        """
  %k = s32[] parameter(0)
  %a = f32[64]{0} parameter(1)
  %b = f32[64,64]{1,0} parameter(2)
  %ta = (f32[64]{0}) tuple(%a)
  %tb = (f32[64,64]{1,0}) tuple(%b)
  %c = (f32[64]{0}) conditional(%k, %ta, %tb), branch_computations={%cheap, %dear}
  ROOT %r = f32[64]{0} get-tuple-element(%c), index=0""",
        ADD + BRANCHES,
    )
    assert uses(program) == [("c/in/a", 0, False), ("c/in/b", 64 * 64 * 4, False), ("c/out/c#0", 256, False)]
    assert program.instructions[0].flops == 64 * 64 + 64
    assert program.instructions[0].slow_bytes == 512


def test_a_call_passes_on_what_its_body_does():
    body = """
%body {
  %p = f32[64]{0} parameter(0)
  %q = f32[64]{0} parameter(1)
  %n = f32[64]{0} negate(%p)
  ROOT %t = (f32[64]{0}, f32[64]{0}) tuple(%n, %q)
}
"""
    program = program_of(
        """
  %a = f32[64]{0} parameter(0)
  %b = f32[64]{0} parameter(1)
  %c = (f32[64]{0}, f32[64]{0}) call(%a, %b), to_apply=%body
  %x = f32[64]{0} get-tuple-element(%c), index=0
  %y = f32[64]{0} get-tuple-element(%c), index=1
  ROOT %s = f32[64]{0} add(%x, %y)""",
        body,
    )
    names = [name for name, traffic, _ in uses(program) if traffic]
    assert names == ["c/in/a", "c/out/c#0", "s/in/c#0", "s/in/b", "s/out/s"]


def test_asynchronous_pairs_are_one_instruction_that_keeps_its_operand():
    program = program_of(
        """
  %a = f32[64]{0} parameter(0)
  %n = f32[64]{0} negate(%a)
  %s = (f32[64]{0}, f32[64]{0}, u32[]) copy-start(%n)
  %m = f32[64]{0} negate(%a)
  %d = f32[64]{0} copy-done(%s)
  %h = f32[64]{0} all-reduce-start(%d), to_apply=%sum
  %e = f32[64]{0} all-reduce-done(%h)
  ROOT %r = f32[64]{0} add(%m, %e)""",
        ADD,
    )
    assert [(i.name, i.opcode) for i in program.instructions] == [
        ("n", "negate"),
        ("s", "copy"),
        ("m", "negate"),
        ("h", "all-reduce"),
        ("r", "add"),
    ]
    by_name = {t.name: t for t in program.tensors}
    assert by_name["n"].last_use == 2
    assert uses(program)[2:4] == [("s/in/n", 256, False), ("s/out/s", 256, False)]
    assert [i.flops for i in program.instructions] == [64, 0, 64, 64, 64]


def test_a_started_slice_moves_the_slice():
    program = program_of("""
  %a = f32[64]{0} parameter(0)
  %s = ((f32[64]{0}), f32[8]{0}, u32[]) slice-start(%a), slice={[0:8]}
  ROOT %d = f32[8]{0} slice-done(%s)""")
    assert uses(program) == [("s/in/a", 32, False), ("s/out/s", 32, False)]


def test_a_started_computation_is_priced_with_its_body():
    body = """
%body {
  %p = f32[64]{0} parameter(0)
  ROOT %n = f32[64]{0} negate(%p)
}
"""
    program = program_of(
        """
  %a = f32[64]{0} parameter(0)
  %s = ((f32[64]{0}), f32[64]{0}, u32[]) async-start(%a), calls=%body
  %u = ((f32[64]{0}), f32[64]{0}, u32[]) async-update(%s)
  ROOT %d = f32[64]{0} async-done(%u)""",
        body,
    )
    assert uses(program) == [("s/in/a", 256, False), ("s/out/s", 256, False)]
    assert program.tensors[1].leaves


def test_a_start_without_an_end_is_refused():
    with pytest.raises(InputError, match="s: expected an instruction that ends what it starts, found none"):
        program_of("""
  %a = f32[64]{0} parameter(0)
  %s = (f32[64]{0}, f32[64]{0}, u32[]) copy-start(%a)
  ROOT %r = f32[64]{0} negate(%a)""")


def test_an_unknown_opcode_is_one_remark_and_priced_by_its_size():
    entry = """
  %a = f32[64]{0} parameter(0)
  %b = f32[64]{0} frobnicate(%a)
  ROOT %c = f32[32]{0} frobnicate(%b), knob=3"""
    with pytest.raises(
        InputError, match=r"f: expected ops whose work is known, found 2 ops of 1 kind .*100%"
    ):
        program_of(entry)
    program = program_of(entry, allow_unknown=True)
    assert program.remarks == (
        "2 ops of 1 kind of unknown work (frobnicate x2): their time counts as memory traffic alone",
    )
    assert [i.flops for i in program.instructions] == [64, 32]


def test_a_call_of_unknown_work_on_two_matrices_is_refused():
    entry = """
  %a = f32[4,4]{1,0} parameter(0)
  %x = f32[999999]{0} parameter(1)
  %y = f32[999999]{0} negate(%x)
  %m = f32[4,4]{1,0} custom-call(%a, %a), custom_call_target="mystery"
  ROOT %r = (f32[4,4]{1,0}, f32[999999]{0}) tuple(%m, %y)"""
    with pytest.raises(InputError, match="that could multiply matrices: custom-call mystery"):
        program_of(entry)
    assert program_of(entry.replace("(%a, %a)", "(%a)")).remarks == (
        "1 op of 1 kind of unknown work (custom-call mystery): their time counts as memory traffic alone",
    )


def test_products_of_a_library_are_priced_by_their_shapes():
    program = program_of(
        """
  %a = f32[4,16,32]{2,1,0} parameter(0)
  %b = f32[4,32,8]{2,1,0} parameter(1)
  %x = f32[2,9,9,3]{3,2,1,0} parameter(2)
  %k = f32[3,3,3,5]{3,2,1,0} parameter(3)
  %m = f32[4,16,8]{2,1,0} custom-call(%a, %b), custom_call_target="__onednn$matmul"
  %c = f32[2,7,7,5]{3,2,1,0} custom-call(%x, %k), custom_call_target="__onednn$convolution"
  %o = f32[3]{0} custom-call(%x), custom_call_target="whatever"
  ROOT %r = (f32[4,16,8]{2,1,0}, f32[2,7,7,5]{3,2,1,0}, f32[3]{0}) tuple(%m, %c, %o)""",
        allow_unknown=True,
    )
    assert [i.flops for i in program.instructions] == [2 * 4 * 16 * 8 * 32, 2 * 2 * 49 * 5 * 27, 3]
    assert len(program.remarks) == 1
    assert "custom-call whatever" in program.remarks[0]


def test_a_library_call_says_itself_what_it_does_in_place():
    program = program_of(
        """
  %a = f32[64]{0} parameter(0)
  %n = f32[64]{0} negate(%a)
  ROOT %c = f32[64]{0} custom-call(%n), custom_call_target="x", output_to_operand_aliasing={{}: (0, {})}""",
        allow_unknown=True,
    )
    assert [aliased for _, _, aliased in uses(program)] == [False, False, True, True]


def test_donated_parameters_share_a_place_with_results_only_where_asked():
    entry = """
  %a = f32[64]{0} parameter(0)
  ROOT %n = f32[64]{0} negate(%a)"""
    assert [b.alias_id for b in program_of(entry, header=DONATED)] == [NO_ALIAS, NO_ALIAS]
    asked = program_of(entry, header=DONATED, boundary_aliases=True)
    assert asked.buffers[0].alias_id == asked.buffers[1].alias_id != NO_ALIAS
    later = """
  %a = f32[64]{0} parameter(0)
  %n = f32[64]{0} negate(%a)
  %m = f32[64]{0} add(%a, %n)
  ROOT %t = (f32[64]{0}, f32[64]{0}) tuple(%n, %m)"""
    header = ", input_output_alias={ {0}: (0, {}, may-alias) }"
    assert all(b.alias_id == NO_ALIAS for b in program_of(later, header=header, boundary_aliases=True))


def test_a_chain_of_updates_is_one_group_with_its_donated_parameter_where_asked():
    entry = """
  %p = f32[100,8]{1,0} parameter(0)
  %u = f32[1,8]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %d = f32[100,8]{1,0} dynamic-update-slice(%p, %u, %i, %i)
  ROOT %e = f32[100,8]{1,0} dynamic-update-slice(%d, %u, %i, %i)"""
    assert len({b.alias_id for b in program_of(entry, header=DONATED)} - {NO_ALIAS}) == 2
    asked = program_of(entry, header=DONATED, boundary_aliases=True)
    assert len({b.alias_id for b in asked} - {NO_ALIAS}) == 1
    assert sum(b.alias_id != NO_ALIAS for b in asked) == 4


def test_results_that_trade_places_with_parameters_are_no_group():
    entry = """
  %p = f32[100,8]{1,0} parameter(0)
  %q = f32[100,8]{1,0} parameter(1)
  %u = f32[1,8]{1,0} parameter(2)
  %i = s32[] parameter(3)
  %d = f32[100,8]{1,0} dynamic-update-slice(%p, %u, %i, %i)
  %e = f32[100,8]{1,0} dynamic-update-slice(%q, %u, %i, %i)
  ROOT %t = (f32[100,8]{1,0}, f32[100,8]{1,0}) tuple(%d, %e)"""
    header = ", input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, may-alias) }"
    asked = program_of(entry, header=header, boundary_aliases=True)
    assert asked.buffers == program_of(entry, header=header).buffers


def test_a_loop_lowered_by_xla_keeps_its_state_in_place():
    program = read(str(FIXTURES / "loop.hlo"))
    loops = [i for i, each in enumerate(program.instructions) if each.opcode == "while"]
    assert len(loops) == 2
    cell = 2 * 4 * 128 * (16 + 32)
    assert 10 * cell < program.instructions[loops[0]].flops < 1.2 * 10 * cell
    for at in loops:
        written = [b for b in program if b.instruction == at and b.is_output]
        assert written
        assert all(b.alias_id != NO_ALIAS for b in written)
    stacked = [
        program.tensors[b.tensor].size_bytes for b in program if b.instruction == loops[0] and b.is_output
    ]
    assert stacked.count(10 * 4 * 32 * 4) > 1


def test_a_cache_lowered_by_xla_is_updated_in_place():
    program = read(str(FIXTURES / "decode.hlo"))
    group = [b for b in program if b.alias_id != NO_ALIAS]
    assert program.tensors[group[0].tensor].name == "cache.1"
    assert [b.traffic_bytes for b in group] == [0, 4 * 32 * 4]
    table = next(b for b in program if program.tensors[b.tensor].name == "table.1")
    assert table.traffic_bytes == 4 * 32 * 4


def test_a_fusion_within_a_fusion_reads_of_an_array_what_it_slices():
    inner = """
%slices {
  %p = f32[8,256]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %z = s32[] constant(0)
  ROOT %s = f32[1,256]{1,0} dynamic-slice(%p, %i, %z), dynamic_slice_sizes={1,256}
}
%outer {
  %q = f32[8,256]{1,0} parameter(0)
  %j = s32[] parameter(1)
  %f = f32[1,256]{1,0} fusion(%q, %j), kind=kLoop, calls=%slices
  ROOT %n = f32[1,256]{1,0} negate(%f)
}
"""
    program = program_of(
        """
  %a = f32[8,256]{1,0} parameter(0)
  %k = s32[] parameter(1)
  ROOT %r = f32[1,256]{1,0} fusion(%a, %k), kind=kLoop, calls=%outer""",
        inner,
    )
    assert uses(program) == [("r/in/a", 1024, False), ("r/out/r", 1024, False)]


def test_a_call_that_selects_compares_each_element():
    program = program_of("""
  %a = f32[128,4096]{1,0} parameter(0)
  ROOT %t = (f32[128,8]{1,0}, s32[128,8]{1,0}) custom-call(%a), custom_call_target="TopK"
""")
    assert program.flops == 128 * 4096
