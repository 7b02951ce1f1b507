"""Networks of torch-geometric in the methods that have graph policies: searches, resumed runs, transfer."""

from __future__ import annotations

import csv
import tomllib

import numpy as np
import pytest

import egrl
from egrl.methods.players import Policies
from egrl.runs.past_run import PastRun
from workloads.errors import InputError

SMALL = ["method.network.width=8", "method.network.depth=2", "method.network.attention_heads=2"]
QUICK = ("method.profile_model.steps=2", "method.profile_model.most=16")
"""The profile model, small enough for tests."""


def search(method: str, network: str, *settings: str, **options):
    given = [f"method.network={network}", *SMALL, *settings]
    options = {"quiet": True, "bound_seconds": 0.0, **options}
    return egrl.search("alexnet", method=method, settings=given, **options)


def rows(folder):
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        pytest.param("egrl", QUICK, marks=pytest.mark.exhaustive),
        ("ea", ("method.survival=generational", "method.readout=sample")),
        pytest.param("pg", (), marks=pytest.mark.exhaustive),
        ("es", ()),
    ],
)
def test_a_resumed_run_with_a_network_of_torch_geometric_equals_a_longer_one(tmp_path, method, settings):
    search(method, "gat", *settings, gens=4, out=tmp_path / "whole")
    search(method, "gat", *settings, gens=2, out=tmp_path / "part")
    egrl.search(resume=tmp_path / "part", gens=4, quiet=True)
    assert rows(tmp_path / "whole") == rows(tmp_path / "part")
    config = tomllib.loads((tmp_path / "whole" / "config.toml").read_text(encoding="utf-8"))
    assert config["method"]["network"]["name"] == "gat"


def test_networks_of_other_kinds_propose_other_mappings(tmp_path):
    found = {}
    for name in ("graph_unet", "gat", "gin"):
        search("es", name, evals=21, start="cold", out=tmp_path / name)
        found[name] = rows(tmp_path / name)[0]["perturbed_reward"]
    assert len(set(found.values())) == 3


@pytest.mark.exhaustive
def test_a_saved_policy_places_another_workload_and_begins_a_search(tmp_path):
    search("egrl", "sage", *QUICK, gens=2, out=tmp_path / "run")
    policy = max((tmp_path / "run" / "policies").iterdir())
    problem = PastRun.read(tmp_path / "run").problem
    placed = Policies([policy]).greedy(problem)
    assert placed.shape == (1, *problem.space.shape)
    assert np.isfinite(problem.evaluate(placed, np.zeros(1, np.uint64)).reward).all()
    assert search("egrl", "sage", *QUICK, evals=21, init=str(policy)).summary["evaluations"] == 21
    with pytest.raises(
        InputError, match=r"--init: network\.name: expected 'gin' as it is set here, found 'sage'"
    ):
        search("egrl", "gin", evals=21, init=str(policy))


def test_a_network_that_is_none_is_refused_before_a_folder_is_made(tmp_path):
    for name, words in (
        ("gta", "expected one of linear, context, mlp, graph_unet, .* found 'gta'; did you mean gat"),
        ("nonesuch_nets:A", "--set method.network.name=nonesuch_nets:A: expected a module nonesuch_nets"),
    ):
        with pytest.raises(InputError, match=words):
            search("egrl", name, evals=21, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
