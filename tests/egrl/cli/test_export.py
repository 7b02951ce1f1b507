"""The best mapping for other tools: what is written names the user's own ops and nodes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from commands import refuse
from onnx import helper

from egrl.cli.main import main
from egrl.problems import build_problem
from egrl.runs import export
from egrl.runs.past_run import PastRun
from onnx_models import Net
from workloads.load import load
from workloads.serialize import to_json
from workloads.text import csv_cell


def model(path: Path, batch: int | str = 1) -> str:
    """Two convolutions with a ReLU between, a reshape and a product; weights lie in a file that is not there."""
    net = Net(image=[batch, 3, 16, 16])
    x = net.add("Relu", net.conv("image", 3, 8, 3))
    x = net.add("Flatten", net.conv(x, 8, 8, 3))
    return net.save(path, net.add("Gemm", x, net.weight(10, 2048), net.weight(10), transB=1))


@pytest.fixture
def run(tmp_path) -> Path:
    given, out = model(tmp_path / "m.onnx"), tmp_path / "r"
    argv = ["run", "--workload", given, "--method", "annealing", "--gens", "2", "--out", str(out), "--quiet"]
    assert main([*argv, "--bound-seconds", "0"]) == 0
    return out


def test_every_node_of_the_copy_says_its_op_and_where_its_tensors_live(run, tmp_path, capsys):
    out = tmp_path / "mapped.onnx"
    assert main(["export", str(run), "--model", str(tmp_path / "m.onnx"), "-o", str(out)]) == 0
    assert "without a place, being views or constants: 1" in capsys.readouterr().err
    copy = onnx.load(str(out), load_external_data=False)
    past = PastRun.read(run)
    mapping, labels = past.best_mapping(), past.problem.space.labels[0]
    assert main(["allocate", str(run)]) == 0
    tensors = json.loads((run / "allocation.json").read_text())["tensors"]
    offsets = {(row["op"], row["head"]): str(row["offset_bytes"]) for row in tensors}
    found = {node.name: {p.key: p.value for p in node.metadata_props} for node in copy.graph.node}
    assert found["flatten3"] == {}
    for n, name in enumerate(past.problem.space.nodes):
        own = [entry for entry in found.values() if entry.get("egrl.op") == name]
        assert own
        for entry in own:
            assert entry["egrl.activation"] == labels[mapping[n, 1]]
            assert entry.get("egrl.weight") == (labels[mapping[n, 0]] if mapping[n, 0] >= 0 else None)
            for head in ("weight", "activation"):
                assert entry.get(f"egrl.{head}.offset_bytes") == offsets.get((name, head))
    assert {p.key: p.value for p in copy.metadata_props}["egrl.chip"] == "nnpi"
    for node in copy.graph.node:
        if node.name in {each for each, entry in found.items() if entry}:
            weight = (
                f"weight in {found[node.name]['egrl.weight']}, " if "egrl.weight" in found[node.name] else ""
            )
            words = f"{weight}activation in {found[node.name]['egrl.activation']}"
            assert node.doc_string == f"egrl: runs in {found[node.name]['egrl.op']}; {words}", (
                "as viewers show it"
            )
        node.ClearField("doc_string")
        del node.metadata_props[:]
    del copy.metadata_props[:]
    assert copy == onnx.load(str(tmp_path / "m.onnx"), load_external_data=False)


def exported_again(folder: Path, net: Net, *outputs: str, **options: Any) -> onnx.ModelProto:
    """The copy of a network with the best mapping of a run, which is a baseline, too."""
    given, out, run = (str(folder / name) for name in ("n.onnx", "mapped.onnx", "r"))
    net.save(folder / "n.onnx", *outputs, **options)
    argv = ["run", "--workload", given, "--method", "random", "--evals", "21", "--out", run, "--quiet"]
    assert main([*argv, "--bound-seconds", "0"]) == 0
    assert main(["export", run, "--model", given, "-o", out]) == 0
    assert main(["evaluate", "--workload", given, "--baseline", out]) == 0
    return onnx.load(out, load_external_data=False)


def test_nodes_of_one_name_each_say_their_own_op(tmp_path):
    net = Net(x=[1, 64])
    for name in ("a", "b"):
        net.nodes.append(
            helper.make_node(
                "MatMul", ["x" if name == "a" else "ta", net.weight(64, 64)], [f"t{name}"], name="same"
            )
        )
    copy = exported_again(tmp_path, net, "tb")
    assert [{p.key: p.value for p in node.metadata_props}["egrl.op"] for node in copy.graph.node] == [
        "same",
        "same_2",
    ]


def test_ops_that_are_no_node_of_the_graph_are_in_the_copy_too(tmp_path):
    net = Net(x=[1, 16, 64])
    y = net.add("Attention", "x", net.weight(64, 192), net.weight(192), num_heads=4, domain="com.microsoft")
    copy = exported_again(tmp_path, net, y)
    assert {p.key: p.value for p in copy.graph.node[0].metadata_props}["egrl.op"] == "attention0_2"
    assert '"attention0"' in {p.key: p.value for p in copy.metadata_props}["egrl.others"]


def test_a_copy_in_another_folder_names_the_files_with_its_weights(run, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    out = str(tmp_path / "other" / "mapped.onnx")
    assert main(["export", str(run), "--model", str(tmp_path / "m.onnx"), "-o", out]) == 0
    said = f"weights of the copy are in 'missing.bin': copy that from {tmp_path} to {tmp_path / 'other'}"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mapped.onnx", "mapped.csv", "mapped.json"])
def test_what_is_exported_can_be_the_baseline(name, run, tmp_path, capsys):
    given = str(tmp_path / "m.onnx")
    model = ["--model", given] if name.endswith(".onnx") else []
    assert main(["export", str(run), *model, "-o", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert main(["evaluate", "--workload", given, "--baseline", str(tmp_path / name), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    best = json.loads((run / "summary.json").read_text())["best"]
    assert (document["baseline"], document["speedup"]) == ({"cost": best["cost"], "rule": name}, 1.0)


def test_a_node_that_joined_an_op_is_refused_by_the_name_of_that_op(tmp_path, capsys):
    given, table = model(tmp_path / "m.onnx"), tmp_path / "b.csv"
    table.write_text("node,weight,activation\nrelu1,sram,sram\n")
    argv = ["evaluate", "--baseline", str(table), "--workload"]
    said = "expected a node of m, found 'relu1', which runs in the op 'conv0': name that alone"
    refuse(capsys, [*argv, given], said)
    assert main(["import", given, "-o", str(tmp_path / "m.json")]) == 0
    refuse(capsys, [*argv, str(tmp_path / "m.json")], said)


def test_a_model_without_a_mapping_is_no_baseline(tmp_path, capsys):
    given = model(tmp_path / "m.onnx")
    argv = ["evaluate", "--workload", given, "--baseline", given]
    refuse(capsys, argv, f"--baseline {given}: expected nodes with the metadata egrl.op")


def test_the_table_has_a_row_a_tensor(run, tmp_path):
    out = tmp_path / "m.csv"
    assert main(["export", str(run), "-o", str(out)]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    problem = PastRun.read(run).problem
    assert len(rows) == int(problem.space.live.sum())
    assert {row["op"] for row in rows} == set(problem.space.nodes)
    assert sum(int(row["size_bytes"]) for row in rows) == problem.space.size_bytes.sum()
    assert main(["allocate", str(run), "--align", "16", "--format", "csv"]) == 0
    assert main(["export", str(run), "-o", str(out), "--align", "16"]) == 0
    keys = ("op", "head", "offset_bytes")
    ours, theirs = (
        [[row[key] for key in keys] for row in csv.DictReader(io.StringIO(file.read_text()))]
        for file in (out, run / "allocation.csv")
    )
    assert ours == theirs


def test_tensors_of_a_memory_that_cannot_be_packed_have_no_address(run, tmp_path, capsys, monkeypatch):
    """A run's own mapping is packed easily, so the packing of one memory is said to stick out."""
    whole = export.allocate

    def sticking_out(*args):
        return [
            replace(memory, packing=replace(memory.packing, verdict="impossible", height_bytes=5_000_000))
            if memory.name == "sram"
            else memory
            for memory in whole(*args)
        ]

    monkeypatch.setattr(export, "allocate", sticking_out)
    out = tmp_path / "m.csv"
    assert main(["export", str(run), "-o", str(out)]) == 0
    said = capsys.readouterr().err
    assert f"sram does not fit by {5_000_000 - 4_194_304:,} bytes" in said
    assert f"next: egrl allocate {run}" in said
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert {row["choice"] for row in rows if row["offset_bytes"] == ""} == {"sram"}


def test_the_json_is_a_mapping_file_that_can_be_evaluated(run, tmp_path, capsys):
    out = tmp_path / "m.json"
    assert main(["export", str(run), "-o", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads((run / "best_mapping.json").read_text())
    argv = ["evaluate", "--workload", str(tmp_path / "m.onnx"), "--mapping", str(out)]
    assert main(argv) == 0


def test_what_an_open_dimension_lacks_is_said_of_the_command_that_was_typed(run, tmp_path, capsys):
    given, out = model(tmp_path / "open.onnx", "batch"), str(tmp_path / "o.onnx")
    argv = ["export", str(run), "-o", out, "--model", given]
    said = refuse(capsys, argv, "found open: 'batch' (of input 'image'); add --dim batch=NUMBER\n")
    assert "egrl import" not in said
    assert main([*argv, "--dim", "batch=1"]) == 0


def resized(path: Path, channels: int = 8, skip: bool = False) -> str:
    """`model` with other channels, or with another edge, its nodes called the same."""
    net = Net(image=[1, 3, 16, 16])
    x = net.add("Relu", net.conv("image", 3, channels, 3))
    y = net.conv(x, channels, channels, 3)
    z = net.add("Flatten", x if skip else y)
    z = net.add("Gemm", z, net.weight(10, 256 * channels), net.weight(10), transB=1)
    return net.save(path, z, *([y] if skip else []))


OTHERS: dict[str, tuple[Callable[[Path], str], list[str], str]] = {
    "batch": (lambda path: model(path, "batch"), ["--dim", "batch=8"], "batch of 'conv0' to be 1, found 8"),
    "channels": (lambda path: resized(path, 16), [], "ofm of 'conv0' to be (16, 16, 8), found (16, 16, 16)"),
    "edge": (
        lambda path: resized(path, skip=True),
        [],
        "inputs of 'gemm4' to be 8192 bytes of 'conv2', found 8192 bytes of 'conv0'",
    ),
    "flags": (model, ["--no-fuse"], "'conv2' as op 1, found 'relu1'"),
}
"""What differs: the model, flags of the export, what the line names."""


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_of_the_same_names_with_other_sizes_is_refused_by_the_op_that_differs(
    name, run, tmp_path, capsys
):
    build, flags, said = OTHERS[name]
    argv = [
        "export",
        str(run),
        "-o",
        str(tmp_path / "o.onnx"),
        "--model",
        build(tmp_path / "other.onnx"),
        *flags,
    ]
    refuse(capsys, argv, f"expected the model that the run's workload was made of: expected {said}")
    assert not (tmp_path / "o.onnx").exists()


def test_a_model_that_was_imported_in_another_width_is_the_same_model(tmp_path, capsys):
    given, net, out = model(tmp_path / "m.onnx"), str(tmp_path / "m.json"), str(tmp_path / "r")
    assert main(["import", given, "-o", net, "--bytes", "1"]) == 0
    argv = ["run", "--workload", net, "--method", "random", "--evals", "2", "--out", out, "--quiet"]
    assert main([*argv, "--bound-seconds", "0"]) == 0
    assert main(["export", out, "--model", given, "-o", str(tmp_path / "o.onnx")]) == 0


@pytest.mark.parametrize("name", ["mapped.onnx", "mapped.csv"])
def test_a_baseline_with_addresses_of_another_size_is_refused(name, run, tmp_path, capsys):
    given, mapped = str(tmp_path / "m.onnx"), str(tmp_path / name)
    assert (
        main(["export", str(run), *(["--model", given] if name.endswith(".onnx") else []), "-o", mapped]) == 0
    )
    larger = model(tmp_path / "m8.onnx", 8)
    (tmp_path / "eight").mkdir()
    (tmp_path / "eight" / "m.onnx").write_bytes(Path(larger).read_bytes())
    argv = ["evaluate", "--workload", str(tmp_path / "eight" / "m.onnx"), "--baseline", mapped]
    refuse(capsys, argv, "size_bytes of the activation of 'conv0': expected 16384, found 2048")


def test_what_is_wrong_with_an_export_is_said_in_one_line(run, tmp_path, capsys):
    given, out = str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx")
    refuse(capsys, ["export", str(run), "-o", out], "--model: expected with --format onnx the model")
    there = tmp_path / "there.onnx"
    there.write_bytes(b"")
    refuse(capsys, ["export", str(run), "-o", str(there), "--model", "missing.onnx"], "missing.onnx")
    refuse(
        capsys,
        ["export", str(run), "-o", str(tmp_path / "o.csv"), "--model", given],
        "expected --format onnx",
    )
    refuse(capsys, ["export", str(run), "-o", str(tmp_path / "o.csv"), "--align", "0"], "--align")
    refuse(capsys, ["export", str(run), "-o", str(tmp_path / "o.txt")], "ending in .json, .csv or .onnx")
    refuse(capsys, ["export", str(run), "-o", given, "--model", given], "another file than --model")
    refuse(capsys, ["export", str(run), "-o", str(tmp_path / "no" / "o.csv")], "a folder that exists")
    refuse(capsys, ["export", str(tmp_path / "nowhere"), "-o", out, "--model", given], "no such folder")
    refuse(capsys, ["export", str(run), "-o", out, "--model", given, "--no-fuse"], "expected the model that")
    net = Net(image=[1, 3, 16, 16])
    other = net.save(tmp_path / "other.onnx", net.add("Relu", net.conv("image", 3, 8, 3)))
    refuse(
        capsys,
        ["export", str(run), "-o", out, "--model", other],
        "other.onnx: expected the model that",
        "ops",
    )
    assert not Path(out).exists()


def test_no_name_is_a_formula_in_a_table(tmp_path):
    """Spreadsheets run text that begins so; numbers stay numbers."""
    document = json.loads(to_json(load("alexnet")))
    strange = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1"]
    names = dict(zip([op["name"] for op in document["ops"]], strange, strict=False))
    for op in document["ops"]:
        op["name"] = names.get(op["name"], op["name"])
        op["inputs"] = [names.get(source, source) for source in op["inputs"]]
    (tmp_path / "strange.json").write_text(json.dumps(document))
    problem = build_problem("nnpi", str(tmp_path / "strange.json"), "", ())
    mapping = problem.baseline.mapping
    packed = export.allocate(problem, mapping, 64, 1.0, 0)
    report = export.document(problem, "strange", packed, 64)
    for text in (export.to_csv(problem, mapping), export.csv_of(report)):
        rows = list(csv.reader(text.splitlines()))
        cells = {cell for row in rows for cell in row}
        assert {"'" + name for name in names.values()} <= cells
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    kept = [-1.5, -2, None, "", "a=b"]
    assert [csv_cell(value) for value in (*kept, "\t=1")] == [*kept, "'\t=1"]


def test_model_explorer_gets_a_file_a_column_by_the_names_of_the_files_nodes(run, tmp_path, capsys):
    out = tmp_path / "shown"
    assert main(["export", str(run), "--to", "model-explorer", "-o", str(out)]) == 0
    past = PastRun.read(run)
    mapping, space = past.best_mapping(), past.problem.space
    names = {
        "weight.json",
        "weight_bytes.json",
        "activation.json",
        "activation_bytes.json",
        "microseconds.json",
    }
    assert {file.name for file in out.iterdir()} == names
    files = {file.stem: json.loads(file.read_text()) for file in out.iterdir()}
    nodes = {node.name for node in onnx.load(str(tmp_path / "m.onnx"), load_external_data=False).graph.node}
    for document in files.values():
        assert set(document) <= {"results", "gradient", "showExpandedSummaryOnGroupNode"}
        assert document["results"].keys() <= nodes
    at = {name: number for number, name in enumerate(space.nodes)}
    for name, shown in files["weight"]["results"].items():
        if name in at:
            assert shown["value"] == space.labels[0][mapping[at[name], 0]]
    assert "relu1" in files["activation"]["results"], "nodes that run in an op are shown, too"
    assert (
        sum(each["value"] for each in files["weight_bytes"]["results"].values())
        == space.size_bytes[:, 0].sum()
    )
    total = sum(each["value"] for each in files["microseconds"]["results"].values())
    assert total == pytest.approx(past.problem.explain(mapping).latency_s * 1e6, rel=1e-3)
    assert main(["export", str(run), "--to", "model-explorer", "-o", str(out)]) == 0, "again"
    to = ["export", str(run), "--to", "model-explorer", "-o"]
    refuse(capsys, [*to, str(tmp_path / "x.json")], "expected a folder for the files")
    refuse(capsys, [*to, str(tmp_path / "none" / "there")], "expected a folder that can be made")
