"""What a shell offers: commands, options, and the names that flags take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from plugged import ROOT

from egrl.cli.main import main


@pytest.fixture
def offered(monkeypatch, capsys):
    """What bash is told for a line, the last word of which is not finished: (type, text) each."""

    def ask(line: str) -> list[tuple[str, str]]:
        monkeypatch.setenv("_EGRL_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit) as done:
            main([])
        assert done.value.code == 0
        said = capsys.readouterr()
        assert said.err == ""
        return [tuple(entry.split(",", 1)) for entry in said.out.splitlines() if entry]

    return ask


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("egrl ", ["run", "compare", "plot"]),
        ("egrl re", ["reproduce"]),
        ("egrl run --work", ["--workload", "--workers"]),
        ("egrl run --workload bert --met", ["--method"]),
        ("egrl run --workload be", ["bert"]),
        ("egrl run --workload mcm87:", ["mcm87:training", "mcm87:test"]),
        ("egrl run --problem mmap --workload alex", ["alexnet_train_batch_32"]),
        ("egrl run --method ann", ["annealing"]),
        ("egrl compare --methods egrl,ann", ["egrl,annealing"]),
        ("egrl run --problem m", ["mmap", "mcm"]),
        ("egrl run --chip ", ["nnpi", "edge"]),
        ("egrl bound --problem mcm --chip mcm", ["mcm36"]),
        ("egrl plot cu", ["curves"]),
        ("egrl list me", ["methods"]),
        ("egrl place be", ["bert"]),
        ("egrl place --chip ed", ["edge"]),
    ],
)
def test_a_shell_is_offered_names(offered, line, some):
    found = offered(line)
    begun = line.rpartition(" ")[2]
    assert {kind for kind, _ in found} == {"plain"}
    assert all(text.startswith(begun) for _, text in found)
    assert set(some) <= {text for _, text in found}


@pytest.mark.parametrize(
    "line",
    ["egrl run --workload ./my", "egrl run --chip mine.t", "egrl run --problem nonsense --chip e",
     "egrl run --problem evil:X --chip e"],
)  # fmt: skip
def test_where_no_name_fits_files_are_offered(offered, line):
    assert offered(line) == [("file", line.rpartition(" ")[2])]


def test_a_command_that_is_none_completes_to_nothing(offered):
    assert offered("egrl rnu --work") == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash")
def test_bash_takes_what_the_guide_says(tmp_path):
    line = 'eval "$(_EGRL_COMPLETE=bash_source egrl)"'
    assert f"\n{line}\n" in (ROOT / "docs" / "guides" / "searching.md").read_text(encoding="utf-8")
    program = tmp_path / "egrl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m egrl "$@"\n')
    program.chmod(0o755)
    words = "COMP_WORDS=(egrl run --method ann); COMP_CWORD=3; _egrl_completion egrl; echo ${COMPREPLY[@]}"
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", f"{line}\n{words}"],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "annealing\n"
