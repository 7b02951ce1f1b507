"""Reports in the lab log are those of the results that ship."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from egrl.core.typed_tables import flattened
from egrl.methods import find_method
from egrl.reproduction import shipped
from papers.egrl import report as egrl
from papers.egrl.plan import digest, ours
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


def test_the_page_says_which_composition_was_run_and_whether_it_is_todays():
    """What is run as the paper may change on purpose; then the page says that its data are of another composition."""
    results = shipped(ROOT / "docs" / "results" / "data" / "egrl.json.xz")
    ran = results["plan"].get("composition", "unknown")
    page = (ROOT / "docs" / "results" / "egrl.md").read_text(encoding="utf-8")
    assert f"composition `{ran}`" in page
    assert ("of another composition" in page) == (ran != digest())


def test_what_is_run_as_ours_states_every_setting():
    """A setting that it left out would have the package's default, which may change."""
    for method in ("egrl", "ea", "pg", "greedy-dp", "annealing"):
        stated = {setting.partition("=")[0] for setting in ours((method,))}
        config = find_method(method).config()
        assert stated == {f"{method}.{key}" for key in flattened(asdict(config))}


def test_ours_is_population_and_sac_begun_with_nothing_trained():
    settings = ours(("egrl",))
    for expected in (
        "egrl.network.name=graph_unet",
        "egrl.shipped=false",
        "egrl.profile_model.use=off",
        "egrl.twin=off",
        "egrl.learner.migration=true",
        "egrl.learner.shared=true",
        "egrl.evolution.boltzmann_fraction=0.5",
        "egrl.readout=place",
    ):
        assert expected in settings
