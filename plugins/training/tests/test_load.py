"""Training steps are read as they are written; what is wrong with a file is said in one line."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from egrl_training.steps import step_names
from egrl_training.steps.check import check
from egrl_training.steps.json_file import from_json, to_json
from egrl_training.steps.load import load_training, packed
from egrl_training.steps.step import Op, TrainingStep, Value
from make_training import decoder, random_step, unet
from workloads.errors import InputError

VALUES = (
    Value("w", 8, role="parameter"),
    Value("x", 4, role="input"),
    Value("w.t", 0, view_of=0),
    Value("h", 16),
    Value("y", 4),
    Value("dy", 4, role="tangent"),
    Value("dw", 8),
)
OPS = (
    Op("t", "aten.t", "forward", (0,), (2,), 0.0),
    Op("mm", "aten.mm", "forward", (1, 2), (3,), 2e-6),
    Op("tanh", "aten.tanh", "forward", (3,), (4,), 1e-6, 32, recomputable=False),
    Op("back", "aten.back", "backward", (5, 3), (6,), 3e-6),
)
STEP = TrainingStep("small", VALUES, OPS, (4,), (6,), "by hand")


def changed(**values: Any) -> dict[str, Any]:
    """The document of the small step; `ops_seconds=[…]` sets a column, another name a field."""
    document = json.loads(to_json(STEP))
    for name, value in values.items():
        table, _, column = name.partition("_")
        if table in ("ops", "values") and column:
            document[table][column] = value
        else:
            document[name] = value
    return document


def column(table: str, name: str, at: int, value: Any) -> list[Any]:
    found = list(json.loads(to_json(STEP))[table][name])
    found[at] = value
    return found


@pytest.mark.parametrize("step", [STEP, decoder(1), unet(1), *map(random_step, range(20))])
def test_a_step_is_read_as_it_was_written(step):
    assert from_json(to_json(step), "f") == step
    assert '"module"' not in to_json(step)  # as files were before ops had modules


def test_ops_may_say_which_module_they_belong_to():
    step = replace(STEP, ops=(*OPS[:1], replace(OPS[1], module="blocks.0.up"), *OPS[2:]))
    assert from_json(to_json(step), "f") == step
    assert [step.label(number) for number in (1, 3)] == ["x", "h of blocks.0.up"]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.xz"])
def test_it_is_read_from_packed_files(tmp_path, name):
    text = to_json(STEP).encode()
    pack = {"gz": gzip.compress, "xz": lzma.compress}.get(name.rpartition(".")[2], bytes)
    (tmp_path / name).write_bytes(pack(text))
    assert load_training(str(tmp_path / name)) == STEP


def test_its_packed_file_is_the_same_each_time_and_gives_it_back(tmp_path):
    (tmp_path / "s.json.gz").write_bytes(packed(STEP))
    assert packed(STEP) == packed(STEP)
    assert load_training(str(tmp_path / "s.json.gz")) == STEP


@pytest.mark.parametrize("name", step_names())
def test_each_shipped_step_is_called_like_its_file_and_has_something_to_decide(name):
    step = load_training(name)
    assert step.name == name
    assert step.candidates
    assert step.source


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"kind": "program"}, 'kind: expected "training-step", found "program"'),
        (changed(version=2), "version: expected 1, found 2"),
        (changed(more=1), "expected one of the fields .*, found \"more\""),
        (changed(name="a/b"), "name: expected a printable name"),
        (changed(source=3), "source: expected a string, found 3"),
        (changed(outputs=None), "outputs: expected a list of integers, found nothing"),
        (changed(outputs=[9]), r"outputs: expected positions of values in 0\.\.6, found 9"),
        (changed(outputs=[6]), "outputs: expected values of the forward pass, found 'dw'"),
        (changed(gradients=[-1]), r"gradients: expected positions of values in 0\.\.6, found -1"),
        (changed(ops_more=[]), "ops: expected one of the columns"),
        (changed(ops_seconds=[0, 1]), "ops.seconds: expected 4 values as in name, found 2"),
        (changed(ops_seconds=column("ops", "seconds", 1, "1")), r"ops.seconds\[1\]: expected a number"),
        (changed(ops_seconds=column("ops", "seconds", 1, -1.0)), "op mm: seconds: expected 0 to below"),
        (changed(ops_seconds=column("ops", "seconds", 0, 1.0)), "op t: seconds and scratch_bytes: expected 0"),
        (changed(ops_seconds=[0, 0, 0, 0]), "ops.seconds: expected a sum above 0"),
        (changed(ops_phase=column("ops", "phase", 1, "late")), "op mm: phase: expected one of forward"),
        (changed(ops_phase=["forward"] * 4), "op back: inputs: expected no value of the backward pass"),
        (changed(ops_phase=column("ops", "phase", 0, "backward")), "op mm: phase: expected backward"),
        (changed(ops_inputs=column("ops", "inputs", 1, [1, 1])), "op mm: inputs: expected each value once"),
        (changed(ops_inputs=column("ops", "inputs", 1, [1, 4])), "op mm: inputs: expected values that are made"),
        (changed(ops_inputs=column("ops", "inputs", 1, 3)), r"ops.inputs\[1\]: expected a list of integers"),
        (changed(ops_inputs=column("ops", "inputs", 1, [True])), r"ops.inputs\[1\]\[0\]: expected an integer"),
        (changed(ops_inputs=column("ops", "inputs", 0, [1])), "op t: inputs: expected w or a view of it"),
        (changed(ops_outputs=column("ops", "outputs", 1, [3, 2])), "op mm: outputs: expected views only"),
        (changed(ops_outputs=column("ops", "outputs", 2, [3])), "op tanh: outputs: expected values that no other"),
        (changed(ops_outputs=column("ops", "outputs", 2, [1])), "op tanh: outputs: expected no input"),
        (changed(ops_outputs=column("ops", "outputs", 2, [])), "value y: expected a role or an op that makes it"),
        (changed(ops_name=column("ops", "name", 1, "t")), "ops.name: expected different names, found 't'"),
        (changed(values_name=column("values", "name", 1, "")), "values.name: expected printable text"),
        (changed(values_role=column("values", "role", 1, "guest")), "value x: role: expected one of"),
        (changed(values_view_of=column("values", "view_of", 2, 3)), "value w.t: view_of: expected -1 or an earlier"),
        (changed(values_size_bytes=column("values", "size_bytes", 2, 3)), "value w.t: size_bytes: expected 0"),
        (changed(values_size_bytes=column("values", "size_bytes", 0, -3)), "value w: size_bytes: expected 0 to"),
        (changed(values_size_bytes=column("values", "size_bytes", 0, 2**51)), "value w: size_bytes: expected 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path, document, said):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=said) as caught:
        load_training(str(file))
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_step_without_a_backward_pass_is_refused():
    with pytest.raises(InputError, match=r"ops\.phase: expected an op of the backward pass, found 'none'"):
        check(replace(STEP, ops=OPS[:3], gradients=(), values=VALUES[:6]))


def test_an_unknown_name_is_refused_with_what_is_meant():
    with pytest.raises(InputError, match=r"--workload: expected one of .*; did you mean made-unet"):
        load_training("made-unat")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="expected JSON in UTF-8"):
        load_training(str(tmp_path / "a.json"))


def test_what_a_gradient_is_made_from_is_a_candidate_too():
    """A value that the backward pass only returns may be computed again, and so may what that takes."""
    values = (*VALUES, Value("g", 4))
    ops = (*OPS[:3], Op("g", "aten.g", "either", (4,), (7,), 1e-6), OPS[3])
    ops = (ops[0], ops[1], replace(ops[2], recomputable=True), *ops[3:])
    step = check(TrainingStep("g", values, ops, (4,), (6, 7)))
    assert [values[number].name for number in step.candidates] == ["h", "y", "g"]
