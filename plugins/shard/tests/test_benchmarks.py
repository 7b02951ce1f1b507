"""The benchmark of the solver's parts takes them out and puts them back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import module_of

from egrl_shard.exact.reduce import reduce
from egrl_shard.exact.solve import Solver
from egrl_shard.load import load_sharding
from make_sharding import make

shard_steps = module_of(Path(__file__).resolve().parents[1] / "benchmarks" / "shard_steps.py")


class Patient(Solver):
    """Works on until something valid is found, however long that takes."""

    def work(self, seconds: float) -> None:
        super().work(seconds)
        while self.best_cost is None and not self.done:
            super().work(seconds)


@pytest.mark.exhaustive
def test_the_ablation_of_exact_on_sharding_takes_the_parts_out_and_puts_them_back(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_steps, "Solver", Patient)
    file = tmp_path / "made.json"
    file.write_text(json.dumps(make(2, 120, 5, alike=0.4)))
    sharding = load_sharding(str(file))
    with shard_steps.without("all"):
        merged = reduce(sharding).graph.nodes
    with shard_steps.without("nor merging"):
        assert reduce(sharding).graph.nodes > merged
    assert reduce(sharding).graph.nodes == merged
    rows = [row.split() for row in shard_steps.rows(str(file), 0.1, 2)]
    assert len(rows) == len(shard_steps.VARIANTS)
    ratios = [[float(word) for word in row[-3:]] for row in rows]
    assert min(cost for *costs, _ in ratios for cost in costs) == 1.0
    assert all(bound <= 1.0 for *_, bound in ratios)
