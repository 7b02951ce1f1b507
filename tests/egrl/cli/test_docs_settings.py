"""What docs/explanations/egrl.md and docs/explanations/muzero.md say of settings is what the code has."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

from egrl.core import typed_tables
from egrl.methods.hybrid.egrl import EgrlConfig
from egrl.methods.muzero.config import PlayConfig

DOCS = Path(__file__).parents[3] / "docs" / "explanations" / "egrl.md"


def test_the_table_of_settings_is_the_code_s():
    rows = [line.strip("|").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    documented = {key.strip().strip("`"): default.strip() for key, default, *_ in rows}
    defaults = EgrlConfig()
    coded = {
        key: str(reduce(getattr, key.split("."), defaults)) for key, _ in typed_tables.leaves(EgrlConfig)
    }
    assert documented == coded


def test_every_setting_has_a_source():
    rows = [line.strip("|").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    assert all(source.strip() for _, _, _, source, _ in rows)


def test_the_settings_of_the_agent_exist_and_have_the_defaults_in_brackets():
    page = (DOCS.parent / "muzero.md").read_text(encoding="utf-8")
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
