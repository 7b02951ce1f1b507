"""A problem may name a file for the plan of the best mapping, which a run writes beside best_mapping.json."""

from __future__ import annotations

import json
from functools import partial

import pytest

import egrl
from hwsim.problem import About
from make_sharding import make


@pytest.mark.parametrize("name", ["", "answer.txt"])
def test_a_run_writes_the_plan_of_the_best_mapping_if_the_problem_names_a_file(name, tmp_path, monkeypatch):
    monkeypatch.setattr("egrl_shard.problem.About", partial(About, plan_file=name))
    (tmp_path / "made.json").write_text(json.dumps(make(7, 7)), encoding="utf-8")
    run = tmp_path / "run"
    given = {"problem": "shard", "method": "random", "evals": 10, "out": str(run)}
    result = egrl.search(str(tmp_path / "made.json"), **given)
    assert (run / "best_mapping.json").is_file()
    assert (run / "answer.txt").is_file() == bool(name)
    if name:
        assert json.loads((run / name).read_text(encoding="utf-8")) == result.mapping[:, 0].tolist()
