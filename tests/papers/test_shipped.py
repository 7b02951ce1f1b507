"""Reports in the lab log are those of the results that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from egrl.reproduction.shared import shipped
from papers.egrl import report as egrl
from papers.mcm import report as mcm
from papers.mmap import kept

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("report", "data", "page"),
    [
        (egrl.report, "egrl.json.xz", "egrl-results.md"),
        (mcm.report, "mcm.json.xz", "mcm.md"),
    ],
)
def test_every_table_of_the_page_is_made_of_the_results(report, data, page):
    rows = [
        line for line in report(shipped(DOCS / "results" / "data" / data)).splitlines() if line[:1] == "|"
    ]
    text = (DOCS / "log" / page).read_text(encoding="utf-8")
    assert len(rows) > 40
    for row in rows:
        assert row in text


def test_rewards_of_the_game_are_those_of_the_runs_that_ship():
    rows = list(kept.tables(DOCS / "results" / "data" / "mmap-runs.tar.xz"))
    page = (DOCS / "results" / "mmap.md").read_text(encoding="utf-8")
    rewards = rows[1:5]
    assert [row.split(" | ")[0] for row in rewards] == [
        "| full agent",
        "| no-revision",
        "| `es`",
        "| `random`",
    ]
    for row in rewards:
        assert row in page
    assert rows[-1] == (
        "24 programs: speedup 1.0449 in the geometric mean, of the logarithm +0.0439 [+0.0132, +0.0746]; 1.0475 in the"
        " arithmetic mean, above 1 on 19"
    )
