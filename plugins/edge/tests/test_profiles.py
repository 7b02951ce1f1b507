"""Readers of what profilers write, on real files where there are some, and names as the ops of a workload.

The files are in plugins/edge/tests/profiles; its README.md says where each comes from.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egrl_edge import profiles
from workloads.errors import InputError
from workloads.importers.read import read

HERE = Path(__file__).parent / "profiles"
READERS = (
    profiles.onnx_runtime,
    profiles.tensorrt,
    profiles.executorch,
    profiles.openvino,
    profiles.pytorch,
)


def ops(model: str) -> list[str]:
    return [op.name for op in read(str(HERE / model)).workload]


# ---- real files


@pytest.mark.parametrize("name", ["onnx_runtime.json", "onnx_runtime_optimised.json"])
def test_every_op_of_an_onnx_model_gets_its_time_from_onnx_runtime(name):
    pytest.importorskip("onnx")
    model = HERE / "net.onnx"
    seconds = profiles.onnx_runtime(HERE / name)
    found = profiles.match(seconds, ops("net.onnx"), profiles.names_in_model(model))
    assert list(found.op_seconds) == ops("net.onnx") == ["conv1", "pool1", "conv2", "gap", "fc"]
    assert set(found.unmatched) <= {"flatten", "ReorderOutput"}
    events = json.loads((HERE / name).read_text())
    whole_s = sorted(1e-6 * event["dur"] for event in events if event["name"] == "model_run")
    assert sum(found.op_seconds.values()) + sum(found.unmatched.values()) == pytest.approx(
        sum(seconds.values())
    )
    assert 0.2 * whole_s[0] < sum(seconds.values()) < whole_s[-1]


def test_the_first_run_of_onnx_runtime_is_its_warm_up():
    events = json.loads((HERE / "onnx_runtime.json").read_text())
    took_us = [event["dur"] for event in events if event["name"] == "conv1_kernel_time"]
    assert len(took_us) == 3
    found = profiles.onnx_runtime(HERE / "onnx_runtime.json")
    assert found["conv1"] == pytest.approx(1e-6 * sum(took_us[1:]) / 2)  # of two, the median is the mean
    assert took_us[0] > sum(took_us[1:]) / 2


@pytest.mark.parametrize("name", ["pytorch.json", "pytorch_annotated.json"])
def test_every_op_of_an_exported_model_gets_its_time_from_pytorch(name):
    seconds = profiles.pytorch(HERE / name, runs=3)
    found = profiles.match(seconds, ops("net.pt2"), profiles.names_in_model(HERE / "net.pt2"))
    assert list(found.op_seconds) == ops("net.pt2") == ["conv2d", "conv2d_1", "mean", "linear"]
    assert all(1e-6 < took_s < 1e-2 for took_s in found.op_seconds.values())
    assert (found.unmatched == {}) == (name == "pytorch.json")


def test_of_runs_of_pytorch_the_median_counts_and_they_must_be_equal():
    events = json.loads((HERE / "pytorch.json").read_text())["traceEvents"]
    took_us = [event["dur"] for event in events if event.get("name") == "aten::linear"]
    assert profiles.pytorch(HERE / "pytorch.json", 3)["linear"] == pytest.approx(1e-6 * sorted(took_us)[1])
    with pytest.raises(InputError, match="expected ops of 4 equal runs, found 18 outermost ops"):
        profiles.pytorch(HERE / "pytorch.json", 4)


# ---- files written as the documentation has them


def test_layers_that_tensorrt_has_fused_are_one_time_of_several_ops():
    pytest.importorskip("onnx")
    model = HERE / "net.onnx"
    found = profiles.match(
        profiles.tensorrt(HERE / "tensorrt.json"), ops("net.onnx"), profiles.names_in_model(model)
    )
    want = {"conv1": 2e-5, "pool1": 3e-6, "conv2": 1.9e-5, "gap+fc": 6e-6}
    assert found.op_seconds == pytest.approx(want)
    assert list(found.unmatched.values()) == [pytest.approx(2e-6)]


def test_calls_of_one_operator_of_executorch_are_numbered():
    found = profiles.executorch(HERE / "executorch.tsv")
    assert found == pytest.approx({"convolution": 9.6e-4, "relu": 1e-5, "convolution_1": 4.6e-4})


def test_executorch_says_its_unit(tmp_path):
    text = (HERE / "executorch.tsv").read_text()
    file = tmp_path / "p.tsv"
    for unit, factor in (("us", 1e-3), ("ns", 1e-6), ("s", 1e3)):
        file.write_text(text.replace("(ms)", f"({unit})"))
        assert profiles.executorch(file)["relu"] == pytest.approx(1e-5 * factor)
    file.write_text(text.replace(" (ms)", ""))
    assert profiles.executorch(file)["relu"] == pytest.approx(1e-5)
    file.write_text(text.replace("(ms)", "(cycles)"))
    with pytest.raises(InputError, match=r"expected a unit of s, ms, us, ns, found avg \(cycles\)"):
        profiles.executorch(file)


def test_openvino_counts_what_was_executed():
    found = profiles.openvino(HERE / "openvino.csv")
    assert found == pytest.approx({"conv1": 3.6e-5, "pool1": 4e-6, "out_reorder": 2e-6, "fc": 3e-6})


def test_kernels_of_a_gpu_belong_to_the_op_that_started_them(tmp_path):
    def event(kind: str, name: str, at: float, took: float, number: int, thread: int = 1) -> dict:
        return {"ph": "X", "cat": kind, "name": name, "ts": at, "dur": took, "tid": thread,
                "args": {"External id": number}}  # fmt: skip

    events = [
        event("cpu_op", "aten::linear", 0, 9, 1),
        event("cpu_op", "aten::addmm", 1, 7, 2),
        event("cpu_op", "aten::relu", 10, 2, 3),
        event("kernel", "gemm", 20, 100, 2, 7),
        event("kernel", "bias", 120, 10, 1, 7),
        event("kernel", "clamp", 130, 5, 3, 7),
        event("kernel", "stray", 140, 1, 9, 7),
    ]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}))
    assert profiles.pytorch(file) == pytest.approx({"linear": 1.1e-4, "relu": 5e-6})


# ---- names


def test_names_are_those_of_ops_or_of_what_runtimes_make_of_them():
    known = ["conv1", "relu1", "a+b", "fc"]
    seconds = {
        "conv1": 1.0, "a+b": 2.0, "conv1+relu1": 3.0, "relu1 + conv1": 1.0, "fc_nchwc": 4.0, "fc_token_12": 5.0,
        "PWN(PWN(relu1 + x))": 6.0, "memcpy": 7.0, "x + y": 8.0, "Reformatting CopyNode for a+b + fc": 9.0,
    }  # fmt: skip
    found = profiles.match(seconds, known, {"last": "fc"})
    assert found.op_seconds == {
        "conv1": 1.0, "a+b": 2.0, "conv1+relu1": 3.0, "relu1+conv1": 1.0, "fc": 9.0, "relu1": 6.0,
    }  # fmt: skip
    assert found.unmatched == {"memcpy": 7.0, "x + y": 8.0, "Reformatting CopyNode for a+b + fc": 9.0}


# ---- damage


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "null", "[1, 2]", "{", "a;b\n1;2\n", "a\tb\n", '[{"name": "model_run"}]',
     '{"traceEvents": []}', '[{"name": "x", "averageMs": -1}]', "[" * 100_000, "\x00"],
)  # fmt: skip
def test_what_is_no_profile_is_refused_in_one_line(reader, content, tmp_path):
    file = tmp_path / "p"
    file.write_text(content)
    with pytest.raises(InputError) as refused:
        reader(file)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["Node", "X", "kernel"])
KEYS = st.sampled_from(
    ["name", "cat", "ph", "ts", "dur", "averageMs", "args", "tid", "traceEvents", "External id"]
)
NAMES = st.sampled_from(
    ["model_run", "conv1_kernel_time", "conv1", "aten::relu", "cpu_op", "user_annotation"]
)
DOCUMENTS = st.recursive(
    SCALARS | NAMES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=7),
    max_leaves=40,
)
CELLS = st.sampled_from(
    [
        "layerName",
        "execStatus",
        "realTime (ms)",
        "EXECUTED",
        "1",
        "-1",
        "",
        "event_name",
        "avg (ms)",
        "avg",
        "nan",
    ]
)
LINES = st.lists(st.lists(CELLS, max_size=5), max_size=5)


@given(DOCUMENTS, LINES)
def test_whatever_is_in_a_file_is_times_or_one_line(tmp_path_factory, document, lines):
    file = tmp_path_factory.mktemp("fuzz") / "p"
    texts = [json.dumps(document), *("\n".join(mark.join(line) for line in lines) for mark in ";\t")]
    for text in texts:
        file.write_text(text)
        for reader in READERS:
            with contextlib.suppress(InputError):
                found = reader(file)
                assert found
                assert all(math.isfinite(took_s) and took_s >= 0 for took_s in found.values())
