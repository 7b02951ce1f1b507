"""egrl list settings: what `--set` can change, as the types describe it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from commands import refuse

from egrl.cli.main import main
from egrl.core import typed_tables
from egrl.methods import METHODS
from egrl.problems import PROBLEMS
from egrl.runs import config

KINDS = {
    **{name: ("method", entry.load().config) for name, entry in METHODS.items()},
    **{name: ("problem", entry.load().config) for name, entry in PROBLEMS.items()},
    "evaluator": ("evaluator", config.EvaluatorConfig),
}


def listed(capsys, name: str) -> dict:
    assert main(["list", "settings", name, "--json"]) == 0
    return {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["entries"]}


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_is_listed_with_its_default_and_a_meaning(name, capsys):
    table, kind = KINDS[name]
    found = listed(capsys, name)
    assert list(found) == [f"{table}.{key}" for key, _ in typed_tables.leaves(kind)]
    assert all(len(entry["meaning"]) > 3 for entry in found.values())
    defaults = [f"{key}={json.dumps(entry['default'])}" for key, entry in found.items()]
    given = [setting for setting in defaults if not setting.endswith("=null")]
    assert typed_tables.build(kind, typed_tables.parse_set(given)[table], "--set") == kind()


def test_what_is_allowed_is_what_is_refused_beyond(capsys):
    found = listed(capsys, "annealing")
    assert found["method.chains"]["allowed"] == ">= 1, <= 10,000"
    assert found["method.space"]["allowed"] == "mappings | distributions"
    assert found["method.t0"] == {
        "name": "method.t0",
        "summary": found["method.t0"]["summary"],
        "default": 0.005,
        "allowed": "> 0, <= 1000",
        "meaning": "first temperature, in units of log cost (half a log reward)",
    }
    refuse(
        capsys,
        ["run", "--workload", "alexnet", "--method", "annealing", "--set", "method.chains=10001"],
        "chains",
        "10001",
    )


def test_settings_are_aligned_for_people(capsys):
    assert main(["list", "settings", "mmap"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "problem.literal_copies  false     true | false           if true, the window of a copy must touch"
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_setting_is_described_by_its_type_and_nowhere_else(name):
    kind = KINDS[name][1]
    kinds = [kind] + [type(v) for v in vars(kind()).values() if dataclasses.is_dataclass(v)]
    assert not [each for each in kinds if "Attributes:" in (each.__doc__ or "")]


def test_a_name_that_is_missing_wrong_or_too_much_is_refused_in_a_line(capsys):
    refuse(capsys, ["list", "settings"], "expected one of nnpi, mmap", "evaluator", "found nothing")
    refuse(capsys, ["list", "settings", "frobs"], "list settings: expected one of nnpi", "found 'frobs'")
    refuse(capsys, ["list", "chips", "nnpi"], "list chips: expected nothing after it, found 'nnpi'")


def test_what_has_no_settings_says_so(capsys):
    assert main(["list", "settings", "random"]) == 0
    assert capsys.readouterr() == ("", "egrl list: random has no settings\n")


def test_a_setting_of_the_other_learner_is_named_with_the_one_that_is_meant(tmp_path, capsys):
    given = ["--set", "method.alpha=0.1", "--set", "method.sac.noise_sigma=0.1"]
    argv = ["run", "--workload", "alexnet", "--gens", "1", *given, "--out", str(tmp_path / "r")]
    assert main(argv) == 0
    err = capsys.readouterr().err
    assert "method.learner.sac.alpha=0.1 has no effect: method.learner.ranking.entropy is meant" in err
    assert "method.learner.sac.noise_sigma=0.1 has no effect: method.learner.ranking has what there is" in err
