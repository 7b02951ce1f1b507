"""What the tables of docs/explanations/egrl.md and docs/explanations/muzero.md say of settings is what the code has."""

from __future__ import annotations

import csv
import re
from functools import reduce
from pathlib import Path

from egrl.core import typed_tables
from egrl.methods.hybrid.egrl import EgrlConfig
from egrl.methods.muzero.config import PlayConfig

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


def test_the_settings_of_the_agent_exist_and_have_the_defaults_in_brackets():
    page = (DOCS / "muzero.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    given = PlayConfig()
    defaults = {key: reduce(getattr, key.split("."), given) for key, _ in typed_tables.leaves(PlayConfig)}
    checked = 0
    for first, meaning in rows[1:]:
        keys = [part.split("=")[0] for part in re.findall(r"[\w.]+(?:=\S+)?", first.replace("`", ""))]
        assert set(keys) <= set(defaults), first
        given_as = [f"method.{part}" for part in first.replace("`", "").split() if "=" in part]
        typed_tables.build(PlayConfig, typed_tables.parse_set(given_as)["method"], first)
        said = re.findall(r"\[([\d.,]+)", meaning)
        for key, default in zip(keys, said, strict=False):
            assert defaults[key] == float(default.replace(",", "")), key
            checked += 1
    assert checked >= 5
