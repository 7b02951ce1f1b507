"""Benchmarks that look into what they measure: what they name is there."""

from __future__ import annotations

from pathlib import Path

from commands import module_of
from players import agent, settings

from subjects import PROBLEMS


def test_the_agents_clocks_find_the_parts_that_they_are_named_after():
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "muzero.py"
    benchmark = module_of(path)
    player = agent(PROBLEMS["mmap"](), settings(**{"revise.moves": 5.0}))
    player.work()
    found = benchmark.shares(player, 1.0)
    assert set(found) == {"game", "encoding", "search", "revisions", "reanalyse", "gradient steps"}
    assert min(found.values()) > 0
    assert sum(found.values()) < 1
