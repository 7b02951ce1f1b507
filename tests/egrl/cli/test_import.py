"""egrl import: what it writes, says and refuses; and models named directly by --workload."""

from __future__ import annotations

import json

import pytest
from commands import refuse

import onnx_models
from egrl.cli.main import main
from onnx_models import Net
from workloads.load import load


def imported(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["import", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_import_writes_a_workload_that_can_be_run(tmp_path, capsys):
    model, output = onnx_models.tiny(tmp_path / "net.onnx"), str(tmp_path / "net.json")
    code, out, err = imported(capsys, model, "-o", output)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "net: 4 ops, 7.55 k products, 762 parameters",
        "from 6 nodes: 0.00 MB of weights at 4 bytes an element, 0.00 MB of activations at 4; on a chip its"
        " element_bytes count",
        f"workload file: {output}",
    ]
    assert load(output) == load(model)
    assert main(["evaluate", "--workload", output]) == 0
    one = capsys.readouterr().out
    assert main(["evaluate", "--workload", model]) == 0
    assert capsys.readouterr().out == one


def test_a_run_on_a_model_keeps_its_workload(tmp_path, capsys):
    model, folder = onnx_models.tiny(tmp_path / "net.onnx"), tmp_path / "run"
    argv = [
        "run",
        "--workload",
        model,
        "--method",
        "random",
        "--evals",
        "42",
        "--out",
        str(folder),
        "--quiet",
    ]
    assert main(argv) == 0
    assert load(str(folder / "workload.json")) == load(model)
    rows = json.loads((folder / "best_mapping.json").read_text())["mapping"]
    assert [row["node"] for row in rows] == [op.name for op in load(model)]


def test_the_document_says_which_nodes_an_op_runs(tmp_path, capsys):
    model = onnx_models.tiny(tmp_path / "net.onnx")
    code, out, _ = imported(capsys, model, "-o", str(tmp_path / "net.json"), "--json")
    document = json.loads(out)
    net = load(model)
    assert code == 0
    assert document["nodes"]["conv0"] == ["conv0", "batchnormalization1", "relu2"]
    assert (document["ops"], document["parameters"], document["macs"]) == (len(net), net.parameters, net.macs)
    code, out, _ = imported(capsys, model, "-o", str(tmp_path / "net.json"), "--json", "--no-fuse")
    assert json.loads(out)["nodes"]["conv0"] == ["conv0"]


def test_open_dimensions_and_widths_are_given_by_flags(tmp_path, capsys):
    model, output = onnx_models.tiny(tmp_path / "net.onnx", x=["batch", 3, 8, 8]), str(tmp_path / "net.json")
    code, _, err = imported(capsys, model, "-o", output)
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith("; add --dim batch=NUMBER\n")
    line = refuse(capsys, ["import", model, "-o", output, "--dim", "batch=0"])
    assert (
        line == "egrl: error: --dim batch=0: expected a size with which the model has results, found none\n"
    )
    assert imported(capsys, model, "-o", output, "--dim", "batch=3", "--bytes", "1")[0] == 0
    net = load(output)
    assert (net.ops[0].batch, net.element_bytes.weight, net.ops[0].output_bytes) == (3, 1.0, 3 * 256)
    assert main(["evaluate", "--workload", model]) == 2
    assert "egrl import" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["net.bin", "-o", "net.json"], "expected a file ending in .onnx, .onnx.gz or .pt2"),
        (["net.onnx", "-o", "net.onnx"], "--output net.onnx: expected a file ending in .json"),
        (["net.onnx", "-o", "net.json", "--bytes", "0"], "--bytes 0: expected a number of bytes"),
        (["net.onnx", "-o", "net.json", "--bytes", "100"], "--bytes 100: expected a number of bytes"),
        (["net.onnx", "-o", "no/net.json"], "--output no/net.json: expected a file in a folder that exists"),
        (["net.onnx", "-o", "net.json", "--dim", "batch"], "--dim batch: expected NAME=NUMBER"),
        (["net.onnx", "-o", "net.json", "--dim", "batch=-1"], "--dim batch=-1: expected NAME=NUMBER"),
        (["net.onnx", "-o", "net.json", "--dim", "b=1", "--dim", "b=2"], "found b twice"),
        (
            ["net.onnx", "-o", "net.json", "--dim", "other=1"],
            "expected one of the open dimensions of net.onnx (it has none: leave --dim out)",
        ),
        (["missing.onnx", "-o", "net.json"], "missing.onnx: expected a model"),
        (["net.onnx"], "egrl import: expected -o, workload or program file to write"),
    ],
)
def test_wrong_input_is_one_line(tmp_path, capsys, monkeypatch, argv, message):
    monkeypatch.chdir(tmp_path)
    onnx_models.tiny(tmp_path / "net.onnx")
    code, out, err = imported(capsys, *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "net.json").exists()


def test_remarks_go_to_stderr_and_to_the_log(tmp_path, capsys, caplog):
    net = Net(x=[4, 8])
    model = net.save(tmp_path / "net.onnx", net.add("Softmax", net.add("Strange", "x", domain="acme")))
    output = str(tmp_path / "net.json")
    code, _, err = imported(capsys, model, "-o", output)
    assert (code, err.count("\n")) == (2, 1)
    assert (
        "found 1 op of 1 kind of unknown work (acme.Strange), with 50% of all bytes; --allow-unknown" in err
    )
    code, out, err = imported(capsys, model, "-o", output, "--allow-unknown")
    remark = "1 op of 1 kind of unknown work (acme.Strange): their time counts as memory traffic alone"
    assert code == 0
    assert f"egrl import: {remark}\n" in err
    assert out.startswith(f"net: 2 ops, 0 products, 0 parameters; {remark}; ")
    load(output)
    assert remark in caplog.text


def test_a_run_and_its_page_say_what_was_not_counted(tmp_path, capsys):
    net, folder = Net(x=[4, 8]), tmp_path / "run"
    model = net.save(tmp_path / "net.onnx", net.add("Softmax", net.add("Strange", "x", domain="acme")))
    output, remark = str(tmp_path / "net.json"), "1 op of 1 kind of unknown work (acme.Strange)"
    assert imported(capsys, model, "-o", output, "--allow-unknown")[0] == 0
    argv = ["run", "--workload", output, "--method", "random", "--evals", "21", "--out", str(folder)]
    assert main([*argv, "--report"]) == 0
    captured = capsys.readouterr()
    assert (captured.err.count(remark), captured.out.count(remark)) == (1, 0)
    assert remark in (folder / "report.html").read_text()


@pytest.mark.exhaustive
def test_programs_are_listed_among_the_workloads(capsys):
    assert main(["list", "workloads"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("rnn_2 "))
    assert (
        line.split(maxsplit=1)[1] == "program for --problem mmap: 291 buffers, 57.6 GFLOP, 4910 MB of traffic"
    )


def test_names_of_a_model_cannot_write_to_a_terminal(tmp_path, capsys):
    """Lines quote what a file calls its ops and dimensions, without control characters and at a sane length."""
    model, output = str(tmp_path / "net.onnx"), str(tmp_path / "net.json")
    net = onnx_models.Net(x=[1, 4])
    net.save(tmp_path / "net.onnx", net.add("Own\x1b[31m\u202e\n" + "x" * 1000, "x"))
    assert main(["import", model, "-o", output, "--allow-unknown"]) == 0
    said = capsys.readouterr().err
    assert "unknown work (Own\\x1b[31m\\u202e" in said
    assert all(line.isprintable() and len(line) < 500 for line in said.splitlines())
    net = onnx_models.Net(x=["\x1b[31mred", 4])
    net.save(tmp_path / "net.onnx", net.add("Relu", "x"))
    assert refuse(capsys, ["import", model, "-o", output], "--dim \\x1b[31mred=NUMBER").strip().isprintable()


def test_an_output_that_cannot_be_written_is_refused_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    refuse(capsys, ["import", "missing.onnx", "-o", str(tmp_path / "net.json")], "permission denied")
    refuse(capsys, ["bound", "--workload", "alexnet", "-o", str(tmp_path / "b.json")], "permission denied")


def test_weights_that_are_read_in_every_step_are_named_and_count_once_where_the_user_says_so(
    tmp_path, capsys
):
    net, output, run = Net(x=[50, 1, 8]), str(tmp_path / "net.json"), str(tmp_path / "run")
    net.add("LSTM", "x", net.weight(1, 16, 8), net.weight(1, 16, 4), outputs=1, hidden_size=4)
    model = str(net.save(tmp_path / "net.onnx", "t0"))
    code, out, _ = imported(capsys, model, "-o", output)
    assert code == 0
    assert "1 op reads its weights in every step (lstm0: 50 steps), from where these lie" in out
    (op,) = load(output).ops
    assert op.steps == 50
    code, out, _ = imported(capsys, model, "-o", output, "--weights-once")
    assert "every step" not in out
    assert (load(output).ops[0].steps, load(output).ops[0].gemm.rows) == (1, 50)
    assert main(["run", "--workload", output, "--evals", "21", "--method", "random", "--out", run]) == 0
    assert main(["export", run, "--model", model, "-o", str(tmp_path / "placed.onnx")]) == 0
