"""Programs by name and from files, those that ship, and what the documents say of them."""

from __future__ import annotations

import csv
import json
import lzma
import re
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from workloads.errors import InputError
from workloads.load import describe, load, load_program, read_program
from workloads.programs import program_names
from workloads.programs.json_file import check, from_json, to_json
from workloads.programs.of_workload import program_of
from workloads.programs.program import Program
from workloads.serialize import to_json as workload_json

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
DOCS = (REFERENCE / "programs.md").read_text(encoding="utf-8")
NEAR = {
    "alexnet_train_batch_32": 300,
    "wavenet_coherent_batch32": 3020,
    "alphatensor": 9084,
    "tensor2tensor_transformer_bf16": 9888,
    "dlrm_inference": 169,
    "gpt_36_layers_train": 16490,
}
"""Buffers in the MMapGame paper, table 2, and its smallest and largest program."""


@pytest.fixture(scope="module")
def shipped() -> dict[str, Program]:
    return {name: load_program(name) for name in program_names()}


def test_shipped_programs_are_sound_and_sensible(shipped):
    assert len(shipped) >= 16
    for name, program in shipped.items():
        assert check(program) is program
        assert program.name == name
        sizes = describe(program)
        assert 100 <= sizes["buffers"] <= 20_000
        assert 1 < sizes["flops"] / sizes["bytes"] < 200, name
        largest = max(tensor.size_bytes for tensor in program.tensors)
        assert 2**21 <= largest < 2**29, name
        assert any(tensor.leaves for tensor in program.tensors)
        written = [b for b in program if b.is_output]
        assert {program.tensors[b.tensor].produced for b in written} <= set(range(len(program.instructions)))
        assert all(b.traffic_bytes > 0 or b.alias_id >= 0 for b in written), name


def test_what_the_live_tensors_of_shipped_programs_take_contends_for_a_fast_memory(shipped):
    contended = 0
    for program in shipped.values():
        change = [0] * (len(program.instructions) + 1)
        for i, tensor in enumerate(program.tensors):
            first, last = program.live_range(i)
            change[first] += tensor.size_bytes
            change[last + 1] -= tensor.size_bytes
        held = peak = 0
        for each in change:
            held += each
            peak = max(peak, held)
        contended += peak > 128 * 2**20
    assert contended >= len(shipped) - 1


@pytest.mark.parametrize("name", NEAR)
def test_programs_named_in_the_paper_are_near_its_sizes(name):
    assert abs(len(load_program(name)) - NEAR[name]) <= 0.1 * NEAR[name]


@pytest.mark.parametrize(
    ("name", "gmacs"),
    [
        ("inference_resnet", 32 * 4.09),
        ("bert_base_inference", 32 * 11.17),
        ("alexnet_train_batch_32", 32 * 0.71 * 3),
    ],
)
def test_known_networks_have_their_known_operations(name, gmacs):
    assert load_program(name).flops == pytest.approx(2e9 * gmacs, rel=0.07)


def test_the_table_in_the_docs_states_what_ships(shipped):
    with (REFERENCE / "data" / "programs.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    found = {row[0].strip("`"): row for row in rows}
    assert set(found) == set(shipped)
    for name, program in shipped.items():
        sizes = describe(program)
        paper = f"{NEAR[name]:,}" if name in NEAR and NEAR[name] not in (169, 16490) else ""
        assert found[name] == [
            f"`{name}`",
            f"{sizes['buffers']:,}",
            paper,
            f"{sizes['tensors']:,}",
            f"{sizes['instructions']:,}",
            f"{sizes['flops'] / 1e9:,.1f}",
            f"{sizes['bytes'] / 1e6:,.0f}",
            str(sizes["alias_groups"]),
            program.source.split(";")[0],
        ]


def test_the_example_in_the_docs_is_a_program():
    example = re.search(r"```json\n(.*?)```", DOCS, flags=re.DOTALL)
    assert example is not None
    program = from_json(example[1], "docs/reference/programs.md")
    assert from_json(to_json(program), "again") == program


@pytest.mark.slow
def test_a_large_program_is_loaded_quickly():
    data = lzma.compress(to_json(load_program("gpt_36_layers_train")).encode())
    began = time.process_time()
    from_json(lzma.decompress(data).decode(), "there")
    assert time.process_time() - began < 3  # a tenth


def test_names_are_found_however_they_are_spelled():
    assert load_program("RNN-2") is load_program("rnn_2")


def test_a_workload_is_its_forward_program_and_with_backward_both(tmp_path, chain):
    assert load_program("resnet50") == program_of(load("resnet50"))
    assert load_program("ResNet-18:backward=1") == program_of(load("resnet18"), backward=True)
    assert load_program("bert:layers=2:backward=0") == program_of(load("bert:layers=2"))
    (tmp_path / "net.json").write_text(workload_json(chain))
    assert load_program(str(tmp_path / "net.json")) == program_of(chain)


def test_files_of_programs_are_loaded(tmp_path):
    program = load_program("rnn_2")
    (tmp_path / "a.json").write_text(to_json(program))
    (tmp_path / "a.json.xz").write_bytes(lzma.compress(to_json(program).encode()))
    assert load_program(str(tmp_path / "a.json")) == program == load_program(str(tmp_path / "a.json.xz"))


def test_a_program_is_known_by_its_kind_wherever_that_stands(tmp_path, chain):
    file = tmp_path / "sorted.json"
    document = json.loads(to_json(load_program("rnn_2")))
    file.write_text(json.dumps(document, sort_keys=True, indent=2))
    assert file.read_text().index('"program"') > 4096
    assert load_program(str(file)) == load_program("rnn_2")
    document = json.loads(workload_json(chain))
    document["ops"][0]["kind"] = "program"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"ops\[0\].*kind: expected one of"):
        load_program(str(file))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("rnn_22", "program 'rnn_22': expected the name of a program or of a workload, or a"),
        ("rnn_22", "did you mean rnn_2"),
        ("resnet5", "did you mean resnet50"),
        ("resnet50:backward=2", "expected backward=0 or backward=1 at most once, found backward=2"),
        ("resnet50:frob=2", "found 'frob=2'"),
        ("none.json", "none.json: expected a program file"),
        ("none.json.xz", "none.json.xz: expected a program file"),
        ("there/none", "there/none: expected a workload file (.json): No such file"),
        ("", "program '': expected the name"),
    ],
)
def test_what_is_no_program_is_refused_in_one_line(name, says):
    with pytest.raises(InputError) as caught:
        load_program(name)
    assert says in str(caught.value)


def test_damaged_packed_files_are_refused_in_one_line(tmp_path):
    data = lzma.compress(to_json(load_program("rnn_2")).encode())
    for name, content, says in (
        ("a", b"no xz, whatever its name says", "expected xz, found"),
        ("b", data[:-20], "expected a whole xz file, found its end cut off"),
        ("c", data + b"more", "expected one xz stream, found 4 bytes after it"),
        ("d", lzma.compress(b"\xff"), "expected JSON in UTF-8, found other bytes at offset 0"),
        ("e", lzma.compress(b"{}"), 'kind: expected "program", found nothing'),
    ):
        file = tmp_path / f"{name}.json.xz"
        file.write_bytes(content)
        with pytest.raises(InputError, match=says):
            load_program(str(file))


def test_a_program_is_not_a_workload_and_the_refusal_says_what_it_is_for():
    with pytest.raises(InputError, match="a program, which --problem mmap takes"):
        load("rnn_2")


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    """The only plug-ins that read programs: none at first."""
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr("workloads.plugins.installed", lambda kind: found)
    return found


@pytest.mark.parametrize("ending", [".hlo", ".HLO.gz", ".txt", ".json.xz"])
def test_a_program_file_is_not_a_workload_whatever_its_ending_and_who_could_read_it(ending, readers):
    with pytest.raises(InputError, match="a program, which --problem mmap takes"):
        load(f"step{ending}")


def test_a_file_of_another_format_is_read_by_the_plug_in_of_its_longest_ending(
    tmp_path, readers, monkeypatch
):
    given = []

    def read(*arguments):
        given.append(arguments)
        return load_program("rnn_2")

    things = {"a:b": 3, "a:c": read, "a:d": lambda *arguments: "nothing"}
    monkeypatch.setattr("workloads.plugins.imported", lambda reference, where: things[reference])
    for name, value in {"toy": "a:b", "new.toy": "a:c", "old": "a:d"}.items():
        readers[name] = EntryPoint(name, value, "egrl.programs")
    assert load_program("step.new.TOY") is load_program("rnn_2")
    assert read_program("step.new.toy", True, allow_unknown=True) is load_program("rnn_2")
    assert given == [("step.new.TOY", False, False), ("step.new.toy", True, True)]
    with pytest.raises(
        InputError, match=r"^step\.toy: ending toy \(.*\): expected a function of .*, found int toy$"
    ):
        load_program("step.toy")
    with pytest.raises(InputError, match=r"^step\.old: ending old .*, found one that gives str$"):
        read_program("step.old")


def test_a_file_that_only_a_plug_in_reads_says_which_to_install(readers):
    line = r"^a/step\.hlo\.gz: ending hlo\.gz: expected the plug-in egrl-hlo .*: pip install \./plugins/hlo$"
    with pytest.raises(InputError, match=line):
        load_program("a/step.hlo.gz")
