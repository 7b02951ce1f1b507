"""The benchmark of the agent finds the parts that it times."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import module_of

from agents import agent, settings
from subjects import PROBLEMS


@pytest.mark.slow
def test_the_agents_clocks_find_the_parts_that_they_are_named_after():
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "muzero.py"
    benchmark = module_of(path)
    player = agent(PROBLEMS["mmap"](), settings(**{"revise.moves": 5.0}))
    player.work()
    found, seconds = {}, 0.5
    while len(found) < 6 and seconds < 500:  # every part is seldom reached at once on a busy machine
        seconds *= 2
        found = benchmark.shares(player, seconds)
    assert set(found) == {"game", "encoding", "search", "revisions", "reanalyse", "gradient steps"}
    assert min(found.values()) > 0
    assert sum(found.values()) < 1
