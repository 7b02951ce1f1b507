"""egrl reads HLO text wherever it takes a program: `egrl import`, `--workload`, and what it refuses."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refuse

import egrl_hlo
import onnx_models
from egrl.cli.main import main
from workloads.errors import InputError
from workloads.load import load, load_program, program_endings

TEXT = str(Path(__file__).parent / "texts" / "decode.hlo")


def test_its_endings_are_the_names_of_its_entry_points():
    assert set(egrl_hlo.ENDINGS) <= set(program_endings())


def test_import_writes_a_program_of_hlo_text(tmp_path, capsys):
    output = str(tmp_path / "step.json")
    assert main(["import", TEXT, "-o", output]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines()[0].startswith(
        "decode: 11 buffers of 7 tensors, 4 instructions, 0.000 GFLOP, "
    )
    assert captured.out.splitlines()[1] == f"program file: {output}"
    assert load_program(output) == load_program(TEXT) == egrl_hlo.read(TEXT)
    assert main(["import", TEXT, "-o", output, "--boundary-aliases", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["buffers"], document["program"]) == ("import", 11, output)
    assert load_program(output) == egrl_hlo.read(TEXT, boundary_aliases=True) != egrl_hlo.read(TEXT)


def test_a_search_takes_a_file_of_hlo_text(tmp_path, capsys):
    argv = ["--problem", "mmap", "--workload", TEXT, "--method", "random", "--evals", "3", "--json"]
    assert main(["run", *argv, "--out", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["workload"] == "decode"
    assert load_program(str(tmp_path / "run" / "program.json")) == load_program(TEXT)


def test_flags_of_models_are_refused_with_hlo_text_and_the_other_way_round(tmp_path, capsys):
    output = str(tmp_path / "step.json")
    said = refuse(capsys, ["import", TEXT, "-o", output, "--no-fuse"])
    assert said.strip() == (
        "egrl: error: --no-fuse: expected with a model, found with a program, whose sizes are as compiled"
    )
    model = onnx_models.tiny(tmp_path / "net.onnx")
    words = "--boundary-aliases: expected with a compiled program, found with a model"
    refuse(capsys, ["import", model, "-o", output, "--boundary-aliases"], words)
    words = "model.txt: expected HLO text (.hlo, .hlo.gz, .hlo.xz or .txt): No such file or directory"
    refuse(capsys, ["import", "model.txt", "-o", output], words)


@pytest.mark.parametrize("ending", [".hlo", ".HLO.gz", ".txt"])
def test_hlo_text_is_not_a_workload_whatever_its_ending(ending):
    with pytest.raises(InputError, match="a program, which --problem mmap takes"):
        load(f"step{ending}")
    with pytest.raises(InputError, match="expected HLO text"):
        load_program(f"none{ending}")


def test_a_small_file_of_a_large_one_is_refused_in_a_line(tmp_path):
    file = tmp_path / "a.hlo.gz"
    file.write_bytes(gzip.compress(bytes(1 << 24)) * 8)
    with pytest.raises(InputError, match=r"^.*a\.hlo\.gz: expected \d+ bytes of gzip to hold at most"):
        load_program(str(file))


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="the extra `jax`")
def test_lowering_a_program_that_ships_gives_the_same_file():
    tool = Path(__file__).parents[1] / "tools" / "lower_programs.py"
    found = subprocess.run(
        [sys.executable, tool, "--check", "alexnet_train_batch_32"], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
