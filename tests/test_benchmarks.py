"""Benchmarks that look into what they measure: what they name is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from players import agent, settings

from subjects import PROBLEMS


def test_the_agents_clocks_find_the_parts_that_they_are_named_after():
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "muzero.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_muzero", path)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    player = agent(PROBLEMS["mmap"](), settings(**{"revise.moves": 5.0}))
    player.work()
    found = benchmark.shares(player, 1.0)
    assert set(found) == {"game", "encoding", "search", "revisions", "reanalyse", "gradient steps"}
    assert min(found.values()) > 0
    assert sum(found.values()) < 1
