"""Reports in the lab log are those of the results that ship."""

from __future__ import annotations

from pathlib import Path

from egrl.reproduction import shipped
from egrl_shard.paper import report

PLUGIN = Path(__file__).resolve().parents[1]


def test_every_table_of_the_report_in_the_log_is_made_of_the_results_that_ship():
    text = report.report(shipped(PLUGIN / "docs" / "results" / "data" / "shard.json.xz"))
    rows = [line for line in text.splitlines() if line[:1] == "|"]
    page = (PLUGIN / "log" / "shard.md").read_text(encoding="utf-8")
    assert len(rows) > 40
    for row in rows:
        assert row in page
