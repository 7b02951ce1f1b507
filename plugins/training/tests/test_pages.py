"""What the plug-in's pages show is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import module_of
from pages import block, words

from egrl.problems import find_problem
from egrl_training.steps import json_file

PLUGIN = Path(__file__).resolve().parents[1]
DOCS = PLUGIN / "docs"


def test_the_example_of_a_training_step_is_one():
    page = (DOCS / "explanations" / "training.md").read_text(encoding="utf-8")
    step = json_file.from_json(re.findall(r"```json\n(.*?)```", page, flags=re.DOTALL)[0], "training.md")
    assert [op.phase for op in step.ops] == ["forward", "backward"]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::workloads.errors.Notice")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
def test_the_example_prints_the_words_of_its_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert module_of(PLUGIN / "example" / "train.py").main([]) == 0
    page = (PLUGIN / "example" / "README.md").read_text(encoding="utf-8")
    assert words(capsys.readouterr().out) == words(block(page, "text"))


def test_exact_is_taken_where_nothing_is_asked_for_and_the_twin_where_steps_are_measured():
    entry = find_problem("training")
    assert (entry.choose(False).method, entry.choose(True).method) == ("exact", "twin")
