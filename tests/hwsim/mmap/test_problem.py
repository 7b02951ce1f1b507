"""The game as a problem: what proposals become, what they cost, and that every exit is taken."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs

from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm, load_chip
from hwsim.mmap.device import latency_s
from hwsim.mmap.game import MmapGame
from hwsim.mmap.problem import MmapConfig, MmapProblem
from hwsim.mmap.rules.state import FORCED
from hwsim.mmap.tables import build_tables
from hwsim.problem import Status
from workloads.errors import InputError
from workloads.load import load_program
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

DROP, COPY, NO_COPY = 0, 1, 2
KEY = np.zeros(1, np.uint64)


def chip(granules: int = 8) -> Chip:
    """A copy of 16 bytes takes 16 ns."""
    return Chip("c", Cmem(16 * granules, 16, 3e9, 2e9), Hbm(1e9), Compute(1e9))


def evaluate(problem: MmapProblem, wishes) -> tuple[list[int], object]:
    found = problem.evaluate(np.array(wishes, np.int16)[None, :, None], KEY)
    return found.repaired[0, :, 0].tolist(), found


def wishes_of(program: Program) -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from((0, 1, 1, 2, 2)), min_size=len(program), max_size=len(program))


@pytest.mark.slow
@given(programs(max_steps=12), chips(), st.booleans(), st.data())
def test_what_was_played_is_played_again_to_the_same_layout(program, chip, literal, data):
    assume(playable(program))
    problem = MmapProblem(program, chip, MmapConfig(literal_copies=literal))
    wishes = np.array(data.draw(wishes_of(program)), np.int16)[None, :, None]
    once = problem.evaluate(wishes, KEY)
    again = problem.evaluate(once.repaired, KEY)
    event(f"resets {problem.game.play(wishes[:, :, 0]).resets[0]}")
    assert problem.game.play(again.repaired[:, :, 0]).resets[0] == 0
    np.testing.assert_array_equal(again.repaired, once.repaired)
    assert (again.cost[0], again.epsilon[0]) == (once.cost[0], 0.0)
    for first, second in zip(
        vars(problem.layout(wishes[0])).values(), vars(problem.layout(once.repaired[0])).values(), strict=True
    ):
        np.testing.assert_array_equal(first, second)


@given(programs(max_steps=12), chips(), st.booleans(), st.data())
def test_the_return_is_what_the_program_saves(program, chip, drop_backup, data):
    assume(playable(program))
    tables = build_tables(program, chip, drop_backup=drop_backup)
    game = MmapGame(tables, GRANULE)
    state, total, moves = game.reset(1), 0.0, 0
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    while not game.done(state)[0]:
        action = rng.choice(np.flatnonzero(game.legal(state)[0]))
        state, reward, _ = game.step(state, np.array([action], np.int16))
        total, moves = total + reward[0], moves + 1
        assert moves <= game.max_moves
    event(f"resets {state.game['resets'][0]}")
    if state.game["lost"][0]:
        assert abs(total) <= 1e-12
    else:
        cost = game.play(state.buffer["action"].astype(np.int16)).cost_s[0]
        np.testing.assert_allclose(
            total * tables.most_s, tables.none_s - cost, rtol=1e-9, atol=1e-9 * tables.none_s
        )
    assert total <= 1 + 1e-9


@given(programs(max_steps=3), chips())
def test_the_best_proposal_is_the_best_legal_game(program, chip):
    assume(playable(program))
    decisions = [n for n, b in enumerate(program.buffers) if program.tensors[b.tensor].size_bytes]
    assume(len(decisions) <= 5)
    game = MmapGame(build_tables(program, chip), GRANULE)
    proposals = np.full((3 ** len(decisions), len(program)), -1, np.int16)
    proposals[:, decisions] = list(product(range(3), repeat=len(decisions)))
    found = game.play(proposals)

    def costs(state):
        if game.done(state)[0]:
            yield game.tables.none_s - state.game["total_s"][0]
        for action in np.flatnonzero(game.legal(state)[0]):
            yield from costs(game.step(state, np.array([action], np.int16))[0])

    best = min(costs(game.reset(1)))
    np.testing.assert_allclose(found.cost_s.min(), best, rtol=1e-9)


def chain(sizes, uses, groups=(), leaves=(), flops: int = 100) -> Program:
    """Steps of `flops` ns; uses are (tensor, step, is_output); what is never written is there at the start."""
    written = {t: i for t, i, out in uses if out}
    last = {t: max(i for u, i, _ in uses if u == t) for t, _, _ in uses}
    tensors = tuple(
        Tensor(f"t{t}", size, written.get(t, -1), last.get(t, 0), t in leaves) for t, size in enumerate(sizes)
    )
    steps = max(i for _, i, _ in uses) + 2
    buffers = tuple(
        Buffer(t, i, bool(out), sizes[t], groups[n] if n < len(groups) else NO_ALIAS)
        for n, (t, i, out) in enumerate(uses)
    )
    return Program("p", tuple(Instruction(f"i{k}", "dot", flops) for k in range(steps)), tensors, buffers)


def test_a_buffer_larger_than_fast_memory_is_dropped():
    problem = MmapProblem(chain([64, 16], [(0, 1, 0), (1, 1, 0)]), chip(granules=3))
    assert evaluate(problem, [COPY, COPY])[0] == [DROP, COPY]


def test_the_group_of_a_buffer_larger_than_fast_memory_is_dropped_from_the_start():
    program = chain([16, 64], [(0, 1, 0), (1, 2, 0)], groups=(5, 5))
    problem = MmapProblem(program, chip(granules=3))
    assert problem.game.reset(1).group["state"].tolist() == [[FORCED]]
    played, found = evaluate(problem, [COPY, COPY])
    assert played == [DROP, DROP]
    assert found.epsilon[0] == 1.0


def test_a_buffer_without_a_size_is_no_decision():
    problem = MmapProblem(chain([16, 0], [(1, 1, 0), (0, 1, 0)]), chip())
    assert problem.space.initial[:, 0].tolist() == [-1, DROP]
    assert evaluate(problem, [-1, COPY])[0] == [-1, COPY]


def test_a_dead_end_goes_back_and_drops_its_group():
    # The group's second member finds its place taken by t1, which was written there after its first one ended.
    program = chain(
        [32, 32, 32], [(0, 1, 0), (1, 2, 1), (2, 3, 0), (1, 4, 0)], groups=(0, NO_ALIAS, 0, NO_ALIAS)
    )
    kept = MmapProblem(program, chip(granules=2))
    played, found = evaluate(kept, [COPY, NO_COPY, COPY, NO_COPY])
    assert played == [DROP, NO_COPY, DROP, NO_COPY]
    assert kept.game.play(np.array([[COPY, NO_COPY, COPY, NO_COPY]], np.int16)).resets.tolist() == [1]
    assert found.status[0] == Status.OK

    lost = MmapProblem(program, chip(granules=2), MmapConfig(drop_backup=False))
    played, found = evaluate(lost, [COPY, NO_COPY, COPY, NO_COPY])
    assert (found.status[0], found.reward[0], found.speedup[0]) == (Status.INVALID, 0.0, 0.0)
    assert np.isnan(found.cost[0])


def test_games_of_a_batch_do_not_touch_each_other():
    problem = MmapProblem(chain([16, 16], [(0, 1, 0), (1, 1, 0), (0, 2, 0)]), chip())
    game = problem.game
    start = game.reset(2)
    twice = game.take(start, np.array([1, 1, 0]))
    after, _, _ = game.step(start, np.array([COPY, DROP], np.int16))
    copy = game.take(after, np.array([0]))
    game.step(after, np.array([NO_COPY if game.legal(after)[0, NO_COPY] else COPY, COPY], np.int16))
    for left, right in zip(game.take(after, np.array([0])), copy, strict=True):
        np.testing.assert_array_equal(left, right)
    assert after.buffer["action"][:, 0].tolist() == [COPY, DROP]
    assert twice.buffer["action"][:, 0].tolist() == [-1, -1, -1]


def test_an_illegal_action_of_the_game_is_refused():
    game = MmapProblem(chain([16], [(0, 1, 0)]), chip()).game
    with pytest.raises(ValueError, match=r"action\[0\]: expected a legal action, received 2"):
        game.step(game.reset(1), np.array([NO_COPY], np.int16))
    with pytest.raises(ValueError, match=r"action: expected shape \(1,\), received \(2,\)"):
        game.step(game.reset(1), np.array([DROP, DROP], np.int16))


@pytest.mark.parametrize(
    ("program", "match"),
    [
        (chain([0], [(0, 1, 0)]), "expected buffers to place .* found buffers without a size only"),
        (
            chain([16], [(0, 2, 1), (0, 1, 0)]),
            r"buffer i1/in/t0: expected a step after 2.* found step 1 after step 2",
        ),
    ],
)
def test_a_program_that_cannot_be_played_is_refused(program, match):
    with pytest.raises(InputError, match=match):
        MmapProblem(program, chip())


def test_a_layout_says_where_each_buffer_in_fast_memory_lies():
    problem = MmapProblem(chain([16, 32], [(0, 1, 0), (1, 1, 1), (0, 2, 0)]), chip())
    assert problem.placement(np.array([[COPY], [DROP], [NO_COPY]], np.int16)) == [
        {"offset_bytes": 0, "first": 0, "last": 1, "copy_first": 0, "copy_last": 0},
        None,
        {"offset_bytes": 0, "first": 2, "last": 2},
    ]


def test_a_shipped_chip_costs_what_its_bandwidths_say():
    program = chain([614_000, 614_000], [(0, 1, 0), (1, 1, 1)], flops=0)
    tables = build_tables(program, load_chip("tpuv4i"))
    np.testing.assert_allclose(tables.none_s, 2e-6)
    np.testing.assert_allclose(tables.all_s, 614_000 / 2000e9 + 614_000 / 1000e9)
    np.testing.assert_allclose(tables.buffer["demand_s"], [1e-6, 1e-6])


def test_cost_is_the_latency_of_the_device_and_speedups_are_over_the_heuristic():
    program = load_program("alexnet_train_batch_32")
    returns, latencies = (
        MmapProblem(program, load_chip("tpuv4i"), MmapConfig(reward=r)) for r in ("return", "latency")
    )
    assert returns.baseline.cost == latency_s(returns.tables, returns.own_layout)
    assert returns.judge(returns.baseline.mapping) == []
    mappings = np.stack([returns.space.initial, returns.baseline.mapping])
    found, squared = (each.evaluate(mappings, np.zeros(2, np.uint64)) for each in (returns, latencies))
    np.testing.assert_array_equal(found.repaired, mappings)
    for mapping, cost in zip(mappings, found.cost, strict=True):
        assert cost == latency_s(returns.tables, returns.layout(mapping))
    np.testing.assert_array_equal(found.speedup, returns.baseline.cost / found.cost)
    assert found.reward[0] == 0
    assert found.speedup[0] < 1, "a layout may be worse than the baseline"
    np.testing.assert_array_equal(squared.reward, found.speedup**2)
    assert returns.fingerprint() != latencies.fingerprint()


def test_an_unknown_reward_is_refused():
    with pytest.raises(InputError, match=r"problem\.reward: expected return or latency, found 'speed'"):
        MmapProblem(chain([16], [(0, 1, 0)]), chip(), MmapConfig(reward="speed"))
