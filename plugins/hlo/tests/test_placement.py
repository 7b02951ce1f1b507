"""XLA's placement, read from texts that the TPU compiler printed (cut to a few instructions), and handed back to it."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import pytest
from commands import refuse
from test_lower import program_of

from egrl.cli.main import main
from egrl_hlo import read
from egrl_hlo.tpu.overrides import Override, options, overrides
from hwsim.mmap.chip import load_chip
from hwsim.mmap.problem import MmapConfig, MmapProblem
from workloads.programs.compiled import Placed

FIXTURES = Path(__file__).parent / "texts"
BOARD = Path(__file__).parents[1] / "examples" / "tpu" / "board.py"
T, F = "{1,0:T(8,128)}", "{1,0:T(8,128)S(1)}"


def placed(program):
    """By the name of each buffer: what XLA does with it."""
    return {program.buffer_name(n): each for n, each in enumerate(program.compiled.buffers)}


def test_a_prefetch_and_what_stays_and_what_goes_out():
    program = program_of(f"""
  %p = f32[8,128]{T} parameter(0)
  %q = f32[8,128]{T} parameter(1)
  %a = f32[8,128]{F} negate(%p), backend_config={{"window_config":{{"estimated_cycles":"7"}}}}
  %qs = (f32[8,128]{F}, f32[8,128]{T}, u32[]{{:S(2)}}) copy-start(%q)
  %b = f32[8,128]{F} negate(%a)
  %as = (f32[8,128]{T}, f32[8,128]{F}, u32[]{{:S(2)}}) copy-start(%a)
  %c = f32[8,128]{T} add(%a, %b)
  %qd = f32[8,128]{F} copy-done(%qs)
  %d = f32[8,128]{F} add(%c, %qd)
  %ad = f32[8,128]{T} copy-done(%as)
  %e = f32[8,128]{T} add(%qd, %ad)
  ROOT %r = f32[8,128]{T} add(%e, %d)""")
    assert placed(program) == {
        "a/in/p": Placed(0),
        "a/out/a": Placed(1, 2, 3),
        "b/in/a": Placed(2),
        "b/out/b": Placed(2),
        "c/in/a": Placed(2),
        "c/in/b": Placed(2),
        "c/out/c": Placed(0),
        "d/in/c": Placed(0),
        "d/in/q": Placed(1, 1, 2),
        "d/out/d": Placed(2),
        "e/in/q": Placed(2),
        "e/in/a": Placed(0),
        "e/out/e": Placed(0),
        "r/in/e": Placed(0),
        "r/in/d": Placed(2),
        "r/out/r": Placed(0),
    }
    assert [each.cycles for each in program.compiled.instructions] == [7, 0, 0, 0, 0, 0]


def test_a_text_without_memory_spaces_and_estimates_has_no_placement():
    assert read(str(FIXTURES / "decode.hlo")).compiled is None


def test_slices_are_one_copy_from_the_first_ones_begin():
    program = read(str(FIXTURES / "tpu_attention.hlo"))
    found = placed(program)
    # The slices of `param` begin before the first fusion and after the second one, and are joined before `fusion.122`.
    assert found["fusion.122/in/param"] == Placed(1, 0, 3)
    assert found["convert_reduce_fusion.13/in/param"] == Placed(2)
    assert found["convert_reduce_fusion.15/in/param"] == Placed(0)
    names = [each.name for each in program.instructions]
    said = dict(zip(names, program.compiled.instructions, strict=True))
    assert (said["fusion.122"].cycles, said["fusion.122"].scratch_bytes) == (14860, 4554752)


def test_a_loop_takes_the_cycles_of_its_body_so_often():
    program = read(str(FIXTURES / "tpu_lstm.hlo"))
    assert program.compiled.instructions[1].cycles == 64 * (16_340 + 25_058 + 3_250)
    assert program.compiled.instructions[1].scratch_bytes == 8_912_896


def test_a_tensor_that_is_written_out_and_stays_is_copied_once():
    found = placed(read(str(FIXTURES / "tpu_evict.hlo")))
    assert found["fusion.642/out/fusion.642"] == Placed(1, 3, 3)
    assert found["fusion.643/in/fusion.642"] == Placed(2)


@pytest.mark.parametrize("name", ["tpu_attention", "tpu_lstm", "tpu_evict"])
def test_xlas_placement_is_played_and_searched(name):
    program = read(str(FIXTURES / f"{name}.hlo"))
    problem = MmapProblem(program, load_chip("tpuv5e"), MmapConfig(price="compiler"))
    assert problem.baseline.name == "xla"
    assert not problem.judge(problem.baseline.mapping)
    # What was cut off would have read the last one.
    assert {each.what for each in problem.baseline_broken()} <= {"a result is kept in fast memory only"}
    # No layout takes less than the compiler's cycles.
    assert problem.baseline.cost >= program.compiled.cycles / 1.5e9 * (1 - 1e-9)


def test_the_fewest_overrides_that_matter_come_first():
    program = read(str(FIXTURES / "tpu_attention.hlo"))
    before = [each.action for each in program.compiled.buffers]
    after = list(before)
    names = [program.buffer_name(n) for n in range(len(program))]
    after[names.index("fusion.122/in/param.1")] = 0
    after[names.index("convert_reduce_fusion.15/in/param")] = 2
    after[names.index("fusion.122/out/fusion.122")] = 0
    out, weight = 8 * 128 * 768 * 2, 768 * 768 * 2
    assert overrides(program, before, after, share=1.0) == [
        Override("param", -1, True, out),
        Override("fusion.122", -1, False, out),
        Override("param.1", -1, False, weight),
    ]
    assert len(overrides(program, before, after, share=0.5)) == 2
    assert len(overrides(program, before, after, most=1)) == 1
    assert overrides(program, before, before) == []
    assert options([]) == {}
    assert Override("fusion.216", 1, True, 5).text == (
        'overrides { hlo_position_matcher { instruction_name_regex: "fusion\\\\.216" tuple_index { index: 1 } }'
        " override_options { assign_first: true } }"
    )


def test_a_run_is_exported_as_compiler_options(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = str(FIXTURES / "tpu_evict.hlo")
    run = ["run", "--problem", "mmap", "--workload", text, "--method", "random", "--evals", "30", "--quiet"]
    assert main([*run, "--chip", "tpuv5e", "--baseline", "xla", "--out", "r"]) == 0
    assert main(["export", "r", "--to", "xla", "-o", "options.json"]) == 0
    document = json.loads(Path("options.json").read_text())
    assert document["kind"] == "xla-options"
    assert (document["compiler_options"] == {}) == (document["overrides"] == [])
    assert main([*run, "--chip", "tpuv5e", "--baseline", "heuristic", "--out", "h"]) == 0
    refuse(capsys, ["export", "h", "--to", "xla", "-o", "o.json"], "expected a run over XLA's placement")
    assert main([*run[:4], str(FIXTURES / "decode.hlo"), *run[5:], "--out", "d"]) == 0
    refuse(
        capsys,
        ["export", "d", "--to", "xla", "-o", "o.json"],
        "expected a run of problem mmap on a text of XLA's",
    )
    refuse(capsys, [*run[:4], str(FIXTURES / "decode.hlo"), "--baseline", "xla"], "found 'decode' without")


STEP = """
from pathlib import Path

class Compiled:
    def __init__(self, text):
        self.text = text
    def as_text(self):
        return self.text

class Lowered:
    asked = []
    def compile(self, compiler_options):
        self.asked.append(compiler_options)
        if any("boom" in text for text in compiler_options.values()):
            raise RuntimeError("RESOURCE_EXHAUSTED: vmem\\nmore")
        text = Path({file!r}).read_text()
        return Compiled(text.replace('"14860"', '"999"') if compiler_options else text)

def lowered():
    return Lowered()
"""


def test_the_board_tells_the_compiler_and_simulates_what_it_then_schedules(tmp_path, monkeypatch, capsys):
    file = tmp_path / "step.py"
    file.write_text(STEP.format(file=str(FIXTURES / "tpu_attention.hlo")))
    spec = importlib.util.spec_from_file_location("board", BOARD)
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    problem = MmapProblem(
        read(str(FIXTURES / "tpu_attention.hlo")), load_chip("tpuv5e"), MmapConfig(price="compiler")
    )
    rows = [
        {"node": n, "action": ("drop", "copy", "nocopy")[a]}
        for n, a in zip(problem.space.nodes, problem.baseline.mapping[:, 0].tolist(), strict=True)
    ]
    changed = [dict(row, action="drop") if "fusion.121/out" in row["node"] else row for row in rows]
    asked = [{"id": 1, "mapping": rows}, {"id": 2, "mapping": changed}, {"id": 3, "mapping": rows[1:]}]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(each) + "\n" for each in asked)))
    board.main(str(file))
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["id"], first["latency_s"]) == (1, problem.baseline.cost)
    assert first["op_seconds"]["fusion.122"] >= 14_860 / 1.5e9 * (1 - 1e-6)
    assert sum(first["op_seconds"].values()) == pytest.approx(first["latency_s"], rel=1e-5)
    assert second["latency_s"] < first["latency_s"]
    assert third == {
        "id": 3,
        "error": f"expected the {len(rows)} buffers of this function, found {len(rows) - 1} others",
    }


def test_a_compiler_that_fails_is_an_error_of_one_line(tmp_path):
    file = tmp_path / "step.py"
    file.write_text(STEP.format(file=str(FIXTURES / "tpu_attention.hlo")))
    spec = importlib.util.spec_from_file_location("board", BOARD)
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        board.Board(str(file), "tpuv5e").answer({"x": "boom"})
