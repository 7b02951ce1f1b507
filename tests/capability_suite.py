"""What a problem must do that has a capability. A file of tests takes all this, with its own `problem`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from hwsim import capabilities, family, sections, stepwise
from hwsim.capabilities import (
    CanMove,
    CanRepair,
    CanSample,
    HasBestKnown,
    HasLifetimes,
    HasModel,
    HasOccupancy,
    HasParts,
    HasPlacement,
    HasPlacer,
    HasPlanText,
    HasRace,
    HasSolving,
    explainer,
)
from hwsim.explanation import Breakdown, OpTimes, Partition
from hwsim.mappings import repair, sample, sample_uniformly
from hwsim.placing import Placer, Scores
from hwsim.problem import Mapping16, Problem, Status
from hwsim.sections import HasSections
from hwsim.stepwise import (
    HasDerivation,
    HasGame,
    RevisableGame,
    RuledDerivation,
)
from toys import ABLE
from workloads.errors import InputError

CAPABILITIES = {
    name: kind
    for module in (capabilities, family, sections, stepwise)
    for name, kind in vars(module).items()
    if inspect.isclass(kind)
    and getattr(kind, "_is_runtime_protocol", False)
    and kind.__module__ == module.__name__
}


def scores_of(placer: Placer, mapping: Mapping16) -> Scores:
    """Scores float32 [B, T, L] that place as valid mappings int16 [B, N, H] do: 1 in the tensor's memory, else -inf.

    Memory 0 has 0, so that nothing but the mapping's own memory comes before it.
    """
    memories = np.arange(placer.features.shape[1]) - placer.offset
    chosen = mapping[:, placer.node, placer.head][..., None] == memories
    scores = np.where(chosen, np.float32(1), np.float32(-np.inf))
    scores[:, :, 0] = 0
    return scores


def keys(rows: int, first: int = 0) -> np.ndarray:
    return np.arange(first, first + rows, dtype=np.uint64)


def draws(problem: Problem, rows: int, first: int = 0) -> Mapping16:
    return sample_uniformly(problem, keys(rows, first))


def ran(problem: Problem, rows: int) -> Mapping16:
    """The baseline, and those of the drawn mappings that ran."""
    found = problem.evaluate(draws(problem, rows), keys(rows))
    return np.concatenate([problem.baseline.mapping[None], found.repaired[found.status == Status.OK]])


def test_a_capability_is_there_or_absent_and_never_none(problem):
    for kind in CAPABILITIES.values():
        for name in [
            name for name in (*vars(kind), *vars(kind).get("__annotations__", {})) if name[0] != "_"
        ]:
            assert not hasattr(problem, name) or getattr(problem, name) is not None, name


@pytest.mark.slow
def test_its_own_draws_are_equal_ones_where_all_choices_are_equally_likely(problem):
    if isinstance(problem, CanSample):
        even = np.ones((2, *problem.space.shape, problem.space.most_choices), np.float32)
        np.testing.assert_array_equal(problem.sample(None, keys(2)), problem.sample(even, keys(2)))
        np.testing.assert_array_equal(problem.sample(even, keys(2)), sample(problem, even, keys(2)))
        with pytest.raises(ValueError, match="expected"):
            problem.sample(even[:, :-1], keys(2))


def test_what_it_places_is_valid_and_runs_as_it_is_and_any_mapping_that_ran_can_be_placed(problem):
    if not isinstance(problem, HasPlacer):
        return
    placer, space = problem.placer, problem.space
    tensors, memories, features = placer.features.shape
    assert (features, tensors) == (len(placer.feature_names), len(placer.node))
    assert np.argwhere(space.live).tolist() == np.stack([placer.node, placer.head], axis=1).tolist()
    assert memories == space.most_choices + placer.offset
    scores = np.random.default_rng(0).normal(size=(5, tensors, memories)).astype(np.float32)
    placed = placer.place(scores, np.zeros(5))
    np.testing.assert_array_equal(placed, space.canonical(placed))
    assert all(problem.judge(mapping) == [] for mapping in placed)
    found = problem.evaluate(placed, keys(5))
    np.testing.assert_array_equal(found.repaired, placed)
    before = ran(problem, 8)
    again = placer.place(scores_of(placer, before), np.zeros(len(before)))
    np.testing.assert_array_equal(again, before)


def test_its_own_repair_leaves_what_ran_alone(problem):
    if isinstance(problem, CanRepair):
        mapping = ran(problem, 8)
        np.testing.assert_array_equal(problem.repair(mapping, keys(len(mapping))), mapping)
        np.testing.assert_array_equal(repair(problem, mapping, keys(len(mapping))), mapping)


@pytest.mark.slow
def test_its_own_move_follows_from_the_key_and_changes_something_now_and_then(problem):
    if not isinstance(problem, CanMove):
        return
    mapping = problem.baseline.mapping
    moved = [problem.move(mapping, key) for key in keys(20)]
    for key, after in zip(keys(20), moved, strict=True):
        np.testing.assert_array_equal(problem.move(mapping, key), after)
        problem.space.check(after[None], key[None])
    assert any((after != mapping).any() for after in moved)


@pytest.mark.slow
def test_its_model_is_solved_by_a_valid_mapping_between_bound_and_baseline(problem):
    if not isinstance(problem, HasModel):
        return
    solved = problem.solve(2.0, 0)
    assert problem.judge(solved.mapping) == []
    assert problem.model_cost(solved.mapping) == pytest.approx(solved.cost)
    assert 0 <= solved.bound.cost <= solved.cost * (1 + 1e-9)
    assert solved.cost <= problem.baseline.cost * (1 + 1e-9)


def test_its_solve_only_improves_and_its_bound_only_rises(problem):
    if not isinstance(problem, HasSolving):
        return
    solving = problem.solving(0, 1, problem.baseline.mapping)
    before, proved = math.inf, 0.0
    for _ in range(5):
        solving.work(0.1)
        if solving.best is not None:
            assert problem.judge(solving.best) == []
            assert problem.model_cost(solving.best) == pytest.approx(solving.cost)
        assert proved <= solving.bound.cost <= solving.cost * (1 + 1e-9)
        assert solving.cost <= before
        before, proved = solving.cost, solving.bound.cost
    problem.prove(solving.bound)
    assert problem.bound(0).cost >= proved


def test_its_parts_make_the_cost(problem):
    found = problem.evaluate(draws(problem, 12), keys(12))
    if not isinstance(problem, HasParts):
        assert found.parts is None
        return
    parts = problem.parts
    assert len(set(parts.names)) == len(parts)
    assert parts.node.dtype == np.int32
    for name, node in zip(parts.names, parts.node, strict=True):
        assert node == -1 or name == problem.space.nodes[node]
    assert found.parts.dtype == np.float32
    assert found.parts.shape == (12, len(parts))
    ok = found.status == Status.OK
    assert np.isnan(found.parts[~ok]).all()
    assert (found.parts[ok] >= 0).all()
    makes = {"sum": np.sum, "max": np.max}[parts.whole]
    np.testing.assert_allclose(makes(found.parts[ok].astype(float), axis=1), found.cost[ok], rtol=1e-5)


def test_its_breakdown_adds_up(problem):
    if not (explain := explainer(problem, Breakdown)):
        return
    for mapping in ran(problem, 3):
        found = explain(mapping)
        assert sum(found.parts.values()) == found.cost
        assert {payer.node for payer in found.payers} <= set(problem.space.nodes)
        assert sum(holder.used for holder in found.holders) <= found.peak <= found.limit
        assert json.loads(json.dumps(dataclasses.asdict(found)))["cost"] == found.cost


def test_the_best_known_mapping_is_valid(problem):
    if isinstance(problem, HasBestKnown):
        mapping, remark = problem.best_known()
        assert isinstance(remark, str)
        assert mapping is None or problem.judge(mapping) == []


def test_its_stages_are_in_order_and_heat_is_1_for_the_fullest(problem):
    nodes, heads = problem.space.shape
    pipeline, stages = problem.space.pipeline, problem.space.most_choices
    if pipeline is None:
        return
    assert pipeline.load.shape == (nodes,)
    assert (pipeline.edges[0] < pipeline.edges[1]).all()
    mapping = ran(problem, 6)
    heat = pipeline.heat(mapping, stages)
    assert heat.shape == (len(mapping), heads, stages)
    assert ((heat >= 0) & (heat <= 1)).all()
    assert (heat.max(axis=2) == 1).all()


def test_its_partition_counts_every_node_and_says_what_is_slowest(problem):
    if not (explain := explainer(problem, Partition)):
        return
    for mapping in ran(problem, 4):
        found = explain(mapping)
        assert sum(chip.nodes for chip in found.chips) == len(problem.space.nodes)
        assert found.cost_s > 0
        assert found.bottleneck.split()[1] in {chip.name for chip in found.chips}
        assert json.loads(json.dumps(dataclasses.asdict(found)))["stages"] == found.stages


def test_its_explanation_adds_up_op_by_op(problem):
    if not (explain := explainer(problem, OpTimes)):
        return
    for mapping in ran(problem, 3):
        found = explain(mapping)
        seconds = [op.duration_s for op in found.ops]
        assert [op.name for op in found.ops] == list(problem.space.nodes)
        assert math.fsum(seconds) == pytest.approx(found.latency_s)
        assert math.fsum(found.seconds_bound_by.values()) == pytest.approx(found.latency_s)
        assert {op.bound_by for op in found.ops} == set(found.seconds_bound_by)
        assert json.loads(json.dumps(dataclasses.asdict(found)))["ops"][0]["name"] == found.ops[0].name


def test_its_lifetimes_are_of_live_decisions_and_add_up_to_what_is_held(problem):
    if not isinstance(problem, HasLifetimes):
        return
    memories = problem.memories()
    for mapping in ran(problem, 3):
        found = problem.lifetimes(mapping)
        at = {name: n for n, name in enumerate(problem.space.nodes)}
        for tensor in found:
            node, head = at[tensor.node], problem.space.heads.index(tensor.head)
            assert problem.space.live[node, head]
            assert 0 <= tensor.first <= tensor.last < len(at)
            assert 0 <= tensor.memory < len(memories)
            assert tensor.size_bytes > 0
        if isinstance(problem, HasOccupancy):
            occupied = problem.occupancy(mapping).occupied_bytes
            held = np.zeros_like(occupied)
            for tensor in found:
                held[tensor.first : tensor.last + 1, tensor.memory] += tensor.size_bytes
            np.testing.assert_array_equal(occupied, held)


def test_a_plan_is_read_back_as_it_is_written(problem):
    if not isinstance(problem, HasPlanText):
        return
    for mapping in ran(problem, 5):
        np.testing.assert_array_equal(problem.read_plan(problem.plan_text(mapping), "f"), mapping)
    with pytest.raises(InputError, match=r"^f"):
        problem.read_plan("nothing", "f")


def test_its_plans_are_made_of_plans_for_parts(problem):
    if not isinstance(problem, HasDerivation) or not isinstance(problem.derivation, RuledDerivation):
        return
    kept: dict[int, list[Mapping16]] = {}
    graph = problem.derivation
    for part in graph.order:
        plans = graph.composed(part, kept)
        assert len({plan.tobytes() for plan in plans}) == len(plans)
        if len(plans):
            found = problem.evaluate(np.stack(plans), keys(len(plans)))
            assert (found.partial == (part != graph.order[-1])).all()
            np.testing.assert_array_equal(found.repaired, np.stack(plans))
            kept[part] = [plans[row] for row in np.argsort(found.cost)[:2]]
    assert kept[graph.order[-1]]


def test_a_race_has_a_cost_a_mapping_and_remembers_its_winner(problem):
    if not isinstance(problem, HasRace):
        return
    assert problem.about.measured
    mapping = draws(problem, 3)
    costs = problem.race.costs(mapping)
    assert costs.shape == (3,)
    assert isinstance(problem.race.remember(mapping[1], float(costs[1])), str)
    np.testing.assert_array_equal(problem.race.known(), mapping[1])


def test_its_derivation_completes_to_valid_plans(problem):
    if not isinstance(problem, HasDerivation):
        return
    graph, rng = problem.derivation, np.random.default_rng(0)
    found = [graph.completion(graph.root, rng) for _ in range(5)]
    found.append(graph.completion(graph.successors(graph.root)[-1], rng))
    if isinstance(graph, RuledDerivation):
        found += [graph.guided(graph.root, lambda goal, rules: int(rng.integers(rules))) for _ in range(5)]
    plans = [plan for plan in found if plan is not None]
    assert plans
    for plan in plans:
        assert problem.judge(plan) == []
        if isinstance(graph, RuledDerivation):
            _check_rules(graph, plan)


def _check_rules(graph: Any, plan: Mapping16) -> None:
    """The rules of a plan, taken again, make that plan; rules that close a goal are among its rules."""
    steps: list[tuple[Hashable, int, int]] = list(graph.chosen(plan))
    assert all(0 <= rule < rules for _, rules, rule in steps)
    assert all(0 <= rule < rules for goal, rules, _ in steps for rule in graph.closing(goal))
    taken: dict[Hashable, list[int]] = {}
    for goal, _, rule in steps:
        taken.setdefault(goal, []).append(rule)
    again = graph.guided(graph.root, lambda goal, rules: taken[goal].pop(0))
    np.testing.assert_array_equal(again, plan)


def test_a_view_of_its_game_is_the_same_game(problem):
    if isinstance(problem, HasGame) and isinstance(problem, ABLE["coins"]):
        seen = problem.game.seen_by(("coins",))
        assert list(seen.observe(seen.reset(2))) == ["coins"]
        assert (seen.num_actions, seen.max_moves) == (problem.game.num_actions, problem.game.max_moves)


@pytest.mark.slow
def test_a_move_in_place_is_a_step(problem):
    if not isinstance(problem, HasGame):
        return
    game = problem.game
    state = game.reset(3)
    for _ in range(3):
        action = game.legal(state).argmax(axis=1).astype(np.int16)
        after, reward, done = game.step(state, action)
        state, moved, over = game.advance(state, action)
        np.testing.assert_array_equal(moved, reward)
        np.testing.assert_array_equal(over, done)
        np.testing.assert_array_equal(game.mapping(state), game.mapping(after))


@pytest.mark.slow
def test_a_revised_game_is_no_worse_than_its_best(problem):
    if not isinstance(problem, HasGame) or not isinstance(problem.game, RevisableGame):
        return
    wish = problem.baseline.mapping
    found = problem.game.revised(wish, np.uint64(1), 3 * problem.game.max_moves, 1e-3, 1e-6)
    assert found.proposal.shape == found.mapping.shape == found.present.shape == wish.shape
    assert found.returned >= found.present_returned
    assert found.tried > 0
    assert found.moves >= found.tried


@pytest.mark.slow
def test_greedy_play_is_a_game_of_choices_that_exist_and_plays_again_as_it_was(problem):
    greedy = getattr(getattr(problem, "game", None), "greedy", None)
    if greedy is None:
        return
    mapping, games = greedy()
    assert mapping.shape == problem.space.shape
    assert mapping.dtype == np.int16
    assert games > 0
    np.testing.assert_array_equal(mapping, greedy()[0])
    if (mapping[problem.space.live] >= 0).all():
        np.testing.assert_array_equal(problem.evaluate(mapping[None], keys(1)).repaired[0], mapping)


def test_what_its_memories_hold_under_what_ran_is_never_more_than_they_can(problem):
    if not isinstance(problem, HasOccupancy):
        return
    heads, ran = len(problem.space.heads), problem.evaluate(draws(problem, 6), keys(6))
    for mapping in [problem.baseline.mapping, *ran.repaired[ran.status == Status.OK]]:
        found = problem.occupancy(mapping)
        assert found.by_head.dtype == found.capacity_bytes.dtype == np.int64
        assert found.by_head.shape[1:] == (len(found.memories), heads)
        assert found.capacity_bytes.shape == (len(found.memories),)
        assert (found.by_head >= 0).all()
        assert (found.occupied_bytes <= found.capacity_bytes).all()


def test_its_places_are_json_a_node_each(problem):
    if not isinstance(problem, HasPlacement):
        return
    for mapping in problem.evaluate(draws(problem, 3), keys(3)).repaired:
        places = problem.placement(mapping)
        assert len(places) == len(problem.space.nodes)
        assert any(place is not None for place in places)
        assert json.loads(json.dumps(places)) == places
    own = problem.baseline_placement()
    assert own is None or (len(own) == len(problem.space.nodes) and json.loads(json.dumps(own)) == own)


def test_its_sections_are_data_that_can_be_told_apart(problem):
    if not isinstance(problem, HasSections):
        return
    for mapping in ran(problem, 2)[:2]:
        found = problem.sections(mapping)
        titles = [section.title for section in found]
        assert titles
        assert len(set(titles)) == len(titles)
        for section in found:
            assert dataclasses.is_dataclass(section)
            assert "<" not in section.title + section.says


@pytest.mark.slow
def test_its_game_is_pure_and_ends(problem):
    if not isinstance(problem, HasGame):
        return
    game, rng = problem.game, np.random.default_rng(0)
    state = game.reset(2)
    moves = 0
    done = np.zeros(2, np.bool_)
    while not done.all():
        legal = game.legal(state)
        assert legal.shape == (2, game.num_actions)
        assert (legal.any(axis=1) == ~done).all()
        action = np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in legal], np.int16)
        before = {k: v.copy() for k, v in game.observe(state).items()}
        after, reward, done = game.step(state, action)
        again, reward_again, _ = game.step(game.take(state, np.arange(2)), action)
        for name, value in game.observe(state).items():
            np.testing.assert_array_equal(value, before[name])
        for name, value in game.observe(after).items():
            np.testing.assert_array_equal(value, game.observe(again)[name])
        np.testing.assert_array_equal(reward, reward_again)
        assert (reward[~legal.any(axis=1)] == 0).all(), "a game that is over goes on"
        state, moves = after, moves + 1
        assert moves <= game.max_moves
    assert not game.legal(state).any()


MOST_EDGES = 20_000
"""Of a derivation that are walked."""


def test_its_derivation_shares_vertices_and_its_plans_are_valid(problem):
    if not isinstance(problem, HasDerivation):
        return
    graph = problem.derivation
    seen, edges, dead = {graph.root}, 0, 0
    plans: list[np.ndarray] = []
    frontier = [graph.root]
    while frontier and edges < MOST_EDGES:
        vertex = frontier.pop()
        plan, following = graph.mapping(vertex), graph.successors(vertex)
        if plan is not None:
            plans.append(plan)
        elif not following:
            dead += 1
        for successor in following:
            edges += 1
            if successor not in seen:
                seen.add(successor)
                frontier.append(successor)
    assert edges > len(seen) - 1
    assert len(plans) > 1
    for plan in plans[:: 1 + len(plans) // 200]:
        assert problem.judge(plan) == []
        assert problem.evaluate(plan[None], keys(1)).status[0] == Status.OK
    # Some grammars have a rule for everything.
    assert dead > 0 or not problem.about.name.startswith("toy")
