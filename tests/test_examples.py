"""Each example is a folder with a story: what its page shows is what its program prints, but for numbers."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import module_of
from pages import block, words

import onnx_models
from egrl.cli.main import main
from egrl.runs.past_run import PastRun
from gate import gate
from workloads.load import load

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
PROGRAMS = {
    "quickstart/search.py": ["bert", "1"],
    "own_chip/own_chip.py": ["resnet18", "edge", "42"],
    "twin/save_measurements.py": ["alexnet", "30"],
    "network/own_network.py": ["alexnet", "42"],
    "operators/operators.py": ["alexnet", "42"],
    "transfer/transfer.py": ["resnet50", "resnet18,resnet34,vgg16", "1"],
}
"""Program -> arguments with which it is brief and prints the words of its page."""
MOST_LINES = 60
TO_PASTE = {"rule.py": 320}
"""Lines of what is no story, but code to paste."""


def page(folder: str) -> str:
    return (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")


def test_the_index_has_every_folder_and_every_folder_its_page():
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(\w+)\]", index, flags=re.MULTILINE)) == [path.name for path in FOLDERS]
    for folder in FOLDERS:
        if folder.name != "notebook":
            text = page(folder.name)
            assert block(text, "text").strip()
            title = text.splitlines()[0].removeprefix("# ")
            assert f"| {title} |" in index
            for command in block(text, "sh").splitlines():
                script = [word for word in shlex.split(command) if word.startswith("examples/")]
                assert all((EXAMPLES.parent / name).exists() for name in script)
    for path in EXAMPLES.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= TO_PASTE.get(path.name, MOST_LINES)


@pytest.mark.slow
@pytest.mark.parametrize("program", gate(PROGRAMS, {*PROGRAMS} - {"twin/save_measurements.py"}))
@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script:DeprecationWarning"
)  # torch-geometric, when it is imported
def test_a_program_prints_the_words_of_its_page(program, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EGRL_FFT_WISDOM", str(tmp_path / "wisdom.json"))
    assert module_of(EXAMPLES / program).main(PROGRAMS[program]) == 0
    shown, printed = words(block(page(program.split("/")[0]), "text")), words(capsys.readouterr().out)
    assert printed == shown


def test_the_board_of_the_page_is_measured(tmp_path, monkeypatch, capsys):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    text = page("board")
    assert main(shlex.split(block(text, "sh"))[1:]) == 0
    assert words(capsys.readouterr().out) == words(block(text, "text"))


def test_the_quickstart_shows_where_all_the_weights_went(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert module_of(EXAMPLES / "quickstart/search.py").main(["alexnet", "1"]) == 0
    _, folder, _, _, *rows = capsys.readouterr().out.splitlines()
    assert (tmp_path / folder.removeprefix("run folder: ") / "best_mapping.json").is_file()
    net, cells = load("alexnet"), [row.split() for row in rows]
    assert sum(int(row[1]) for row in cells) == sum(op.weight_bytes > 0 for op in net)
    held = sum(op.weight_bytes for op in net) / 2**20
    for column in (2, 3):
        assert sum(float(row[column]) for row in cells) == pytest.approx(held, abs=0.02)


def test_a_larger_memory_never_makes_the_best_slower(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx_models.tiny(tmp_path / "model.onnx", x=[1, 3, 8, 8])
    assert module_of(EXAMPLES / "own_chip/own_chip.py").main(["model.onnx", "quad", "42"]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head[0] == "scratchpad,"
    assert [float(row[0]) / float(rows[0][0]) for row in rows] == [1, 2, 4]
    assert all(float(best) <= float(compiler) for _, compiler, best in rows)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_python_and_c_read_the_same_mapping_and_addresses(tmp_path, monkeypatch, capsys):
    """The whole page is followed; each row of either program is also a tensor of the run's best mapping."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    text = page("handover")
    run, allocate, _, compile_c, _ = block(text, "sh").splitlines()
    assert main(shlex.split(run)[1:]) == 0
    assert main(shlex.split(allocate)[1:]) == 0
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*shlex.split(compile_c), *warnings], check=True)
    past = PastRun.read(tmp_path / "runs/handed")
    capsys.readouterr()
    for name in ("best_mapping", "allocation"):
        file = f"runs/handed/{name}.json"
        in_c = subprocess.run(["./places", file], check=True, capture_output=True, text=True).stdout
        assert module_of(EXAMPLES / "handover/places.py").main([file]) == 0
        assert capsys.readouterr().out == in_c
        placed = {tuple(row.split(" ")[:3]) for row in in_c.splitlines()}
        assert placed == {
            (node, head, past.problem.space.labels[h][past.best_mapping()[n, h]])
            for n, node in enumerate(past.problem.space.nodes)
            for h, head in enumerate(past.problem.space.heads)
            if past.best_mapping()[n, h] >= 0
        }
    shown = block(text, "text")
    assert words(shown) == words("\n".join(in_c.splitlines()[-len(shown.splitlines()) :]))
    program = [sys.executable, str(EXAMPLES / "handover/places.py")]
    (tmp_path / "other.json").write_text('{"kind": "other"}\n')
    for given in ([], ["missing"], ["runs"], ["other.json"], ["a", "b"]):
        refused = [
            subprocess.run([*argv, *given], check=False, capture_output=True, text=True)
            for argv in (["./places"], program)
        ]
        name = given[0] if len(given) == 1 else "FILE"
        expected = f"places: {name}: expected best_mapping.json or allocation.json, found "
        for one in refused:
            assert (one.returncode, one.stdout, one.stderr.count("\n")) == (2, "", 1)
            assert one.stderr.startswith(expected)
        assert refused[0].stderr == refused[1].stderr


def test_the_transfer_example_draws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert module_of(EXAMPLES / "transfer/transfer.py").main(["alexnet", "resnet18,vgg16", "1"]) == 0
    assert (tmp_path / "transfer.png").stat().st_size > 10_000


def test_the_board_of_onnx_runtime_answers_with_the_time_of_every_op(monkeypatch, capsys):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = str(EXAMPLES.parent / "plugins/edge/tests/profiles/net.onnx")
    ops = [op.name for op in load(model)]
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"id": 7, "mapping": []}) + "\n"))
    module_of(EXAMPLES / "onnx_runtime/board.py").main(model)
    answer = json.loads(capsys.readouterr().out)
    shown = json.loads(block(page("onnx_runtime"), "text"))
    assert list(answer) == list(shown)
    assert list(answer["op_seconds"]) == list(shown["op_seconds"]) == ops
    assert all(took_s > 0 for took_s in answer["op_seconds"].values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
def test_a_run_on_the_board_of_onnx_runtime_keeps_its_profiles(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    shutil.copy(EXAMPLES.parent / "plugins/edge/tests/profiles/net.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    assert main(shlex.split(block(page("onnx_runtime"), "sh"))[1:]) == 0
    found = PastRun.read(tmp_path / "profiled").evaluations()
    ran = np.isfinite(found.cost)
    assert ran.sum() >= 39
    assert np.isfinite(found.parts[ran]).all(axis=1).mean() > 0.8  # on a busy machine one may be dropped
