"""Whom the learner imitates, and how often it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egrl.core import typed_tables
from egrl.core.archive import Archive, proposals
from egrl.core.method import Context
from egrl.methods import find_method
from hwsim.keys import run_keys
from hwsim.mappings import sample_uniformly
from hwsim.problem import Status
from subjects import SMALL
from toys import ToyRagged


def test_the_elite_is_the_shares_of_choices_among_the_best_distinct_mappings_that_ran():
    problem = ToyRagged()
    archive = Archive([problem])
    definition = find_method("egrl")
    settings = {**SMALL["egrl"], "learner.elites": 2, "twin": "off"}
    method = definition.build(
        Context([problem], archive, 0, [None], None), typed_tables.build(definition.config, settings, "test")
    )
    mapping = sample_uniformly(problem, run_keys(0, np.arange(6), 0))
    rows = replace(proposals(mapping, ["test"] * 6), ticket=np.arange(6))
    evaluation = problem.evaluate(mapping, np.zeros(6, np.uint64))
    reward = np.array([0.1, 0.9, 0.5, 0.9, 7.0, np.nan])
    status = np.array([Status.OK] * 4 + [Status.FAILED, Status.OK], dtype=evaluation.status.dtype)
    evaluation = type(evaluation)(**{**vars(evaluation), "reward": reward, "status": status})
    archive.append(rows, evaluation)
    method._learner.observe(rows, evaluation)
    better = replace(evaluation, reward=np.full(6, 3.0))
    archive.append(replace(rows, ticket=np.arange(6, 12)), better)  # measured, and not told yet
    best = archive.mappings(np.array([1, 2]))  # equal rewards count once, and a failure not at all
    expected = (best[..., None] == np.arange(problem.space.most_choices)).mean(axis=0)
    np.testing.assert_allclose(method._learner._elite(), expected)


def steps_made(monkeypatch, method_name: str, settings: dict, rounds: int = 2) -> int:
    """Gradient steps of so many whole rounds of 21 evaluations."""
    problem = ToyRagged()
    definition = find_method(method_name)
    archive = Archive([problem])
    config = typed_tables.build(definition.config, settings, "test")
    method = definition.build(Context([problem], archive, 0, [None]), config)
    made = []
    monkeypatch.setattr(method._learner._sac, "update", lambda batch, rng: made.append(batch) or {})
    told = 0
    for _ in range(rounds):
        rows = method.ask()
        batch = rows.numbered(told)
        method.learn()
        evaluation = problem.evaluate(batch.mapping, run_keys(0, batch.tickets, 0))
        archive.append(batch, evaluation)
        method.tell(batch, evaluation)
        told += len(batch)
    method.learn()
    return len(made)


@pytest.mark.parametrize(("nodes", "expected"), [(1_000_000, 42), (2, 12), (1, 6)])
def test_a_larger_graph_gets_fewer_steps_in_proportion_and_none_is_lost(nodes, expected, monkeypatch):
    assert steps_made(monkeypatch, "pg", {**SMALL["pg"], "learner.nodes": nodes}) == expected


@pytest.mark.parametrize(("steps", "expected"), [(0, 0), (0.0625, 3), (0.25, 15), (1, 63), (1.5, 94)])
def test_parts_of_a_step_an_evaluation_add_up(steps, expected, monkeypatch):
    given = {**SMALL["pg"], "learner.gradient_steps": steps}
    assert steps_made(monkeypatch, "pg", given, rounds=3) == expected


@pytest.mark.parametrize("method", ["egrl", "pg"])
def test_the_paper_s_values_and_pg_have_a_step_an_evaluation(method):
    definition = find_method(method)
    paper = typed_tables.build(definition.config, definition.paper, "test").learner
    assert paper.gradient_steps == 1
    plain = typed_tables.build(definition.config, {}, "test").learner
    assert plain.gradient_steps == (1 if method == "pg" else 0.125)


def batches_of_a_run(monkeypatch, settings: dict) -> tuple[list, Archive, list]:
    """Minibatches of a learner in two rounds, the archive, and the weights that the population was given."""
    problem, archive, given = ToyRagged(), Archive([ToyRagged()]), []
    definition = find_method("egrl")
    config = typed_tables.build(definition.config, {**SMALL["egrl"], "twin": "off", **settings}, "test")
    method = definition.build(Context([problem], archive, 0, [None]), config)
    made = []
    monkeypatch.setattr(method._learner._sac, "update", lambda batch, rng: made.append(batch) or {})
    evolve = method._population.tell
    monkeypatch.setattr(
        method._population,
        "tell",
        lambda fit, weights, *a, **k: given.append(weights) or evolve(fit, weights, *a, **k),
    )
    told = 0
    for _ in range(3):
        batch = method.ask().numbered(told)
        method.learn()
        evaluation = problem.evaluate(batch.mapping, run_keys(0, batch.tickets, 0))
        archive.append(batch, evaluation)
        method.tell(batch, evaluation)
        told += len(batch)
    return made, archive, given


@pytest.mark.parametrize("shared", [True, False])
def test_a_learner_that_shares_no_replay_learns_from_its_own_rollouts_alone(shared, monkeypatch):
    settings = {"learner.gradient_steps": 1.0, "learner.shared": shared}
    made, archive, _ = batches_of_a_run(monkeypatch, settings)
    tickets = np.arange(len(archive))
    own = {row.tobytes() for row in archive.mappings(tickets[archive.sources(tickets) == "sac"])}
    learned = {row.tobytes() for batch in made for row in batch.action.astype(np.int16)}
    assert 0 < len(own) < len(archive) / 2
    assert learned
    assert (learned <= own) == (not shared)
    assert all(np.isfinite(batch.elite).all() for batch in made)


@pytest.mark.parametrize("migration", [True, False])
def test_the_actor_joins_the_population_only_with_migration(migration, monkeypatch):
    _, _, given = batches_of_a_run(monkeypatch, {"learner.migration": migration})
    assert given
    assert all((weights is not None) == migration for weights in given)
