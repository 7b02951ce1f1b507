"""`egrl reproduce` finds the papers beside the package, and says what to do where they are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import refuse

from egrl import reproduction
from egrl.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def test_every_folder_of_papers_is_a_name_of_the_command():
    folders = {path.parent.name for path in (ROOT / "papers").glob("*/run.py")}
    assert folders == set(reproduction.PAPERS)


@pytest.mark.parametrize("paper", reproduction.PAPERS)
def test_every_paper_has_a_plan_and_a_template(paper):
    found = reproduction.find_paper(paper)
    assert found.plan(True) != found.plan(False)
    assert callable(found.reproduce)
    assert (ROOT / "papers" / paper / "report.md.j2").is_file()


def test_the_installed_package_says_that_a_clone_is_needed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(reproduction, "ROOT", tmp_path)
    line = refuse(capsys, ["reproduce", "egrl", "--quick"], "expected a clone of the repository")
    assert "the installed package, which does not include the papers' experiments" in line


def test_the_papers_are_found_when_the_clone_is_not_on_the_path(capsys, monkeypatch, tmp_path):
    """As where the console script starts Python: only the packages of the wheel are on its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "path", [entry for entry in sys.path if entry and not Path(entry).is_relative_to(ROOT)]
    )
    for name in [name for name in sys.modules if name.split(".")[0] == "papers"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError):
        __import__("papers")
    reproduction.find_paper("egrl")
    assert sys.modules["papers.egrl.run"].__file__ == str(ROOT / "papers" / "egrl" / "run.py")


def test_the_help_names_every_paper(capsys):
    assert main(["reproduce", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(paper in shown for paper in (*reproduction.PAPERS, "mmap", "tag", "shard"))
