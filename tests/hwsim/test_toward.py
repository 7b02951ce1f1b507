"""Moves between two mappings: each equals its plain form, and leads where it should."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hwsim import fewest
from hwsim.keys import derive, uniform
from hwsim.memory_moves import PAIR, move_in_order
from hwsim.nnpi.chip import load_chip
from hwsim.nnpi.problem import NnpiConfig, NnpiProblem
from hwsim.problem import Mapping16, Problem
from subjects import PROBLEMS
from workloads.load import load


def given(problem: Problem, walks: int, seed: int) -> tuple[Mapping16, Mapping16, Mapping16]:
    """Walks int16 [C, N, H] between a base and a goal [N, H], and these; all of live decisions' choices."""
    rng = np.random.default_rng(seed)
    space = problem.space
    drawn = rng.integers(0, np.maximum(space.num_choices, 1), (walks + 1, *space.shape)).astype(np.int16)
    maps = space.canonical(drawn)
    base = space.canonical(problem.baseline.mapping)
    near = rng.random(maps[:-1].shape) < 0.7
    return np.where(near, base, maps[:-1]).astype(np.int16), base, maps[-1]


def plain_move(before, base, goal, tensors, sizes, counts, draws):
    """What `propose` makes of one map, by lists and loops."""
    kind, u, v, w = draws
    out = before.copy()
    if kind >= fewest.FORTH:
        scaled = (kind - fewest.FORTH) / (1 - fewest.FORTH) * PAIR
        move_in_order(before, out, tensors, int(counts.max()), scaled, (u, v, w))
        return np.where(out >= counts, before, out)
    target = base if kind < fewest.BACK else goal
    part = kind / fewest.BACK if kind < fewest.BACK else (kind - fewest.BACK) / (fewest.FORTH - fewest.BACK)
    pairs = [(int(i), int(h)) for i, h in tensors]
    count = len(pairs)

    def circle(first):
        return [(first + s) % count for s in range(count)]

    def elsewhere(r):
        return before[pairs[r]] != target[pairs[r]]

    found = [r for r in circle(int(u * count)) if elsewhere(r)]
    if not found:
        return out
    q = found[0]
    first, head = pairs[q], pairs[q][1]
    out[first] = target[first]
    if part < fewest.ONE:
        others = []
    elif part < fewest.EXCHANGE:
        for r in circle(int(v * count)):
            size = w > fewest.SAME_SIZE or sizes[pairs[r]] == sizes[first]
            home = w < fewest.NOT_AT_HOME and not elsewhere(r)
            if r != q and before[pairs[r]] == target[first] and size and not home:
                out[pairs[r]] = before[first]
                break
        others = []
    elif part < fewest.TWO:
        others = [next(r for r in circle(int(v * count)) if elsewhere(r))]
    elif part < fewest.RUN:
        near = [(q + s) % count for s in range(1, 1 + int(v * fewest.LONGEST))]
        others = [r for r in near if w < 0.5 or pairs[r][1] == head]
    elif part < fewest.ROOM:
        leave = [
            r
            for r in circle(int(w * count))
            if r != q and before[pairs[r]] == target[first] and target[pairs[r]] != target[first]
        ]
        others = leave[: 1 + int(v * v * count)]
    else:
        alike = (head, sizes[first], before[first])
        others = [r for r, p in enumerate(pairs) if (p[1], sizes[p], before[p]) == alike]
    for r in others:
        out[pairs[r]] = target[pairs[r]]
    return np.where(out >= counts, before, out)


@pytest.mark.parametrize("name", ["nnpi", "nnpi-quad", "mcm-free", "toy-ragged"])
def test_a_step_equals_its_plain_form(name):
    problem = PROBLEMS[name]()
    state, base, goal = given(problem, 12, 0)
    keys = derive(np.arange(12, dtype=np.uint64), 1)
    tensors, sizes, counts = (
        np.argwhere(problem.space.live),
        np.ascontiguousarray(problem.space.size_bytes),
        np.ascontiguousarray(problem.space.num_choices),
    )
    moved = np.zeros(12, np.int64)
    for step in range(60):
        out = np.empty_like(state)
        fewest.propose(state, base, goal, out, (tensors, sizes, counts), keys, step)
        for walk in range(12):
            draw = np.uint64(step * fewest.DRAWS)
            draws = [uniform(keys[walk], draw + np.uint64(k)) for k in range(4)]
            assert np.array_equal(
                out[walk], plain_move(state[walk], base, goal, tensors, sizes, counts, draws)
            )
            moved[walk] += (out[walk] != state[walk]).any()
        problem.space.check(out, keys)
        assert np.array_equal(out, problem.space.canonical(out))
    assert (moved >= 15).all()


def test_a_map_that_is_the_base_has_no_way_back():
    problem = NnpiProblem(load("alexnet"), load_chip("nnpi"), NnpiConfig())
    base = problem.baseline.mapping
    tensors = np.argwhere(problem.space.live)
    space = (tensors, problem.space.size_bytes.copy(), problem.space.num_choices.copy())
    state, keys = np.repeat(base[None], 64, axis=0), derive(np.arange(64, dtype=np.uint64), 2)
    out = np.empty_like(state)
    fewest.propose(state, base, base, out, space, keys, 0)
    chosen = np.array([uniform(key, np.uint64(0)) for key in keys]) < fewest.FORTH
    assert chosen.any()
    assert np.array_equal(out[chosen], state[chosen])


def test_steps_are_taken_by_the_metropolis_rule_and_the_fastest_of_each_number_is_kept():
    rng = np.random.default_rng(1)
    base = np.zeros((6, 1), np.int16)
    walks, slots = 8, 5
    keys = derive(np.arange(walks, dtype=np.uint64), 3)
    state = rng.integers(0, 2, (walks, 6, 1)).astype(np.int16)
    cost, count = rng.random(walks), (state != 0).sum(axis=(1, 2))
    limits = (rng.random(walks) * 0.2, np.full(walks, 6), np.full(walks, 0.1))
    kept = np.zeros((slots, 6, 1), np.int16), np.full(slots, math.inf), np.zeros(slots, np.int64)
    plain = {}
    for step in range(40):
        maps = rng.integers(0, 2, state.shape).astype(np.int16)
        costs = np.where(rng.random(walks) < 0.1, math.inf, rng.random(walks))
        expected = []
        for c in range(walks):
            new = int((maps[c] != 0).sum())
            slot = new * (slots - 1) // 6
            if costs[c] < plain.get(slot, (math.inf,))[0]:
                plain[slot] = (costs[c], new, maps[c].copy())
            rise = costs[c] - cost[c] + limits[0][c] * (new - count[c])
            draw = uniform(keys[c], np.uint64(step * fewest.DRAWS + fewest.CHANCE))
            taken = math.isfinite(costs[c]) and (rise <= 0 or draw < math.exp(-rise / limits[2][c]))
            expected.append(
                (maps[c].copy(), costs[c], new) if taken else (state[c].copy(), cost[c], count[c])
            )
        fewest.accept((state, cost, count), (maps, costs), base, limits, kept, keys, step)
        for c, (where, at, many) in enumerate(expected):
            assert np.array_equal(state[c], where)
            assert (cost[c], count[c]) == (at, many)
    for slot, (at, many, where) in plain.items():
        assert (kept[1][slot], kept[2][slot]) == (at, many)
        assert np.array_equal(kept[0][slot], where)


def test_a_walk_never_gets_more_changes_than_its_limit():
    base, goal = np.zeros((4, 1), np.int16), np.ones((4, 1), np.int16)
    walks = base[None].copy(), np.ones(1), np.zeros(1, np.int64)
    limits = (np.zeros(1), np.array([3]), np.ones(1))
    kept = np.zeros((5, 4, 1), np.int16), np.full(5, math.inf), np.zeros(5, np.int64)
    keys = np.zeros(1, np.uint64)
    fewest.accept(walks, (goal[None], np.zeros(1)), base, limits, kept, keys, 0)
    assert walks[2].tolist() == [0]
    fewer = goal.copy()
    fewer[0] = 0
    fewest.accept(walks, (fewer[None], np.full(1, 0.5)), base, limits, kept, keys, 0)
    assert walks[2].tolist() == [3]
