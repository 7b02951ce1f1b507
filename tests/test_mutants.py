"""The mutants of `tools/mutants.py` can be made: each text stands once in its file, and its tests exist."""

from __future__ import annotations

from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_made(mutant: mutants.Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    assert (ROOT / mutant.tests.split()[0]).exists()


def test_the_page_names_every_mutant_and_no_other() -> None:
    page = (ROOT / "benchmarks" / "log" / "reliability.md").read_text(encoding="utf-8")
    table = page.split("## What the tests withstand")[1].split("\n## ")[0]
    named = {line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")} - {
        "what is broken"
    }
    assert named == {mutant.name for mutant in mutants.MUTANTS}
