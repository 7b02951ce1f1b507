"""Agents with small settings."""

from __future__ import annotations

from typing import Any

from egrl.core import typed_tables
from egrl.core.archive import Archive
from egrl.core.method import Context
from egrl_muzero.agent import Agent
from egrl_muzero.config import PlayConfig
from muzero_subjects import SMALL


def settings(**changes: Any) -> PlayConfig:
    return typed_tables.build(PlayConfig, {**SMALL, **changes}, "test")


def agent(problem: Any, given: PlayConfig, threads: int = 1, seed: int = 0, shown: bool = False) -> Agent:
    context = Context([problem], Archive([problem]), seed, [None], None, threads)
    return Agent([problem.game], given, context, [problem.baseline.mapping] if shown else [])


def games(played: Agent, slices: int) -> list[tuple[int, ...]]:
    found = []
    for _ in range(slices):
        played.work()
        found += [game.actions for game in played.finished]
        played.finished.clear()
    return found
