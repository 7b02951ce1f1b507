"""What the tables of docs/explanations/egrl.md say of settings is what the code has."""

from __future__ import annotations

import csv
from functools import reduce
from pathlib import Path

from egrl.core import typed_tables
from egrl.methods.named import EgrlConfig

DOCS = Path(__file__).parents[3] / "docs" / "explanations"


def _rows() -> list[list[str]]:
    with (DOCS / "data" / "egrl-settings.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [[cell.strip("`") for cell in row] for row in rows]


def test_the_table_of_settings_has_the_code_s_defaults():
    defaults = EgrlConfig()
    coded = {
        key: str(reduce(getattr, key.split("."), defaults)) for key, _ in typed_tables.leaves(EgrlConfig)
    }
    rows = _rows()
    assert len(rows) >= 20
    assert [row[:2] for row in rows] == [[row[0], coded[row[0]]] for row in rows]


def test_every_setting_in_the_table_has_a_source_or_leaves_the_paper_s_value():
    assert all(source not in ("", "-") for _, _, _, source, _ in _rows())
    assert all(paper != "-" for _, _, paper, source, _ in _rows() if source == "own")
