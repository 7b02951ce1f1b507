"""docs/egrl.md lists every setting of egrl with the default that the code has."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from egrl import config
from egrl.methods.egrl import EgrlConfig

DOCS = Path(__file__).parents[2] / "docs" / "egrl.md"


def test_the_table_of_settings_is_the_code_s():
    rows = [line.strip("|").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    documented = {key.strip().strip("`"): default.strip() for key, default, *_ in rows}
    defaults = EgrlConfig()
    coded = {key: str(reduce(getattr, key.split("."), defaults)) for key, _ in config.leaves(EgrlConfig)}
    assert documented == coded


def test_every_setting_has_a_source():
    rows = [line.strip("|").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    assert all(source.strip() for _, _, _, source, _ in rows)
