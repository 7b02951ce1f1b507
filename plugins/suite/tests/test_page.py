"""The page of the suite: its leaderboard is what the shipped results say, and its numbers what the instances say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egrl_suite import files, library, table, tasks

HERE = Path(__file__).parents[1]
PAGE = (HERE.parents[1] / "docs/results/suite.md").read_text(encoding="utf-8")
ALL = library.all_instances()


@pytest.mark.slow
def test_the_leaderboard_is_what_the_shipped_results_say():
    shipped = sorted((HERE / "results").glob("*.json.gz"))
    assert len(shipped) >= 3
    assert table.markdown(table.boards(shipped)) in PAGE


def test_the_page_has_the_numbers_of_the_instances():
    assert len({one.family for one in ALL}) == 14
    gaps = [one.best_cost / one.bound - 1.0 for one in ALL if one.kind == "nnpi"]
    assert f"**with proven optima**: {len(ALL)} instances of fourteen families" in PAGE
    assert f"the {len(gaps)} on\nchip files {100 * np.mean(gaps):.2f} % on average" in PAGE
    for track in tasks.TRACKS:
        assert f"`{track}`" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "page"), [("measurements", "parts"), ("board-profiles", "boards")])
def test_pages_say_with_and_without_a_part_what_their_rows_say(rows, page):
    found = table.boards([HERE / f"results/parts/{rows}.json.gz"], "egrl")
    body = table.markdown(found, "egrl").split("\n\n", 1)[1]
    assert body in (HERE.parents[1] / f"docs/results/{page}.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_shipped_placement_is_below_its_bound():
    for path in (HERE / "results").rglob("*.json.gz"):
        for row in files.complete(files.read(path)):
            bound = library.find(row["instance"]).bound
            assert min(row["judged"].values()) >= bound * (1 - 1e-9), (path, row["method"], row["instance"])
