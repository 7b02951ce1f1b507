"""Reports in the lab log are those of the results that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from egrl.reproduction import shipped
from papers.egrl import report as egrl
from papers.mcm import report as mcm

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("report", "data", "page"),
    [
        (egrl.report, "egrl.json.xz", "papers/egrl/log/egrl-results.md"),
        (mcm.report, "mcm.json.xz", "papers/mcm/log/mcm.md"),
    ],
)
def test_every_table_of_the_page_is_made_of_the_results(report, data, page):
    rows = [
        line
        for line in report(shipped(ROOT / "docs" / "results" / "data" / data)).splitlines()
        if line[:1] == "|"
    ]
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(rows) > 40
    for row in rows:
        assert row in text
