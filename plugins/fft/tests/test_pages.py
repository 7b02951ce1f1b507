"""What the plug-in's pages show is true: commands run, programs print their words, reports are of what ships."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import module_of
from pages import block, blocks, commands, words

from egrl.cli.main import main
from egrl.reproduction import shipped
from egrl_fft.paper import report

PLUGIN = Path(__file__).resolve().parents[1]
PAGE = (PLUGIN / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_and_programs_of_the_guide_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = commands(PAGE)
    assert shown
    for argv in shown:
        small = ["1" if before == "--gens" else word for before, word in zip(["", *argv], argv, strict=False)]
        assert main([word.replace("dft-1024", "dft-64") for word in small]) == 0
    capsys.readouterr()
    for program in blocks(PAGE, "python"):
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.startswith("[1024.+0.j")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
def test_the_example_prints_the_words_of_its_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EGRL_FFT_WISDOM", str(tmp_path / "wisdom.json"))
    assert module_of(PLUGIN / "example" / "convolve.py").main(["64", "42"]) == 0
    page = (PLUGIN / "example" / "README.md").read_text(encoding="utf-8")
    assert words(capsys.readouterr().out) == words(block(page, "text"))


def test_every_table_of_the_report_in_the_log_is_made_of_the_results_that_ship():
    text = report.report(shipped(PLUGIN / "docs" / "results" / "data" / "tag.json.xz"))
    rows = [line for line in text.splitlines() if line[:1] == "|"]
    page = (PLUGIN / "log" / "tag.md").read_text(encoding="utf-8")
    assert len(rows) > 40
    for row in rows:
        assert row in page
