"""Reports in the lab log are those of the results that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.egrl import report as egrl
from papers.shard import report as shard
from papers.shared import shipped


@pytest.mark.parametrize(
    ("report", "data", "page"),
    [(egrl.report, "egrl.json.xz", "egrl-results.md"), (shard.report, "shard.json.xz", "shard.md")],
)
def test_every_table_of_the_page_is_made_of_the_results(report, data, page):
    docs = Path(__file__).parents[2] / "docs"
    rows = [
        line for line in report(shipped(docs / "results" / "data" / data)).splitlines() if line[:1] == "|"
    ]
    text = (docs / "log" / page).read_text(encoding="utf-8")
    assert len(rows) > 40
    for row in rows:
        assert row in text
