"""The upper bound on the return: no play beats it, and it says something where fast memory or copies are short."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import chips, playable, programs

from gate import gate
from hwsim.linear_program import linear_bound
from hwsim.mmap.bound.upper import relaxation, spread, trivial_bound, upper_bound
from hwsim.mmap.bound.uses import ALL_SETS, cuts, uses_of
from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm, load_chip
from hwsim.mmap.problem import MmapConfig, MmapProblem
from workloads.load import load_program
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

MOST = 8
SECONDS = 600.0


def every_play(problem: MmapProblem) -> np.ndarray:
    """Rewards of all proposals, 3 to the number of decisions, and so of every legal play."""
    live = np.flatnonzero(problem.space.live[:, 0])
    mapping = np.repeat(problem.space.initial[None], 3 ** len(live), axis=0)
    mapping[:, live, 0] = list(product((0, 1, 2), repeat=len(live)))
    return problem.evaluate(mapping, np.zeros(len(mapping), np.uint64)).reward


def linear(problem: MmapProblem, checkpoints: int | None = None) -> float:
    """The bound of the linear relaxation alone, room counted at so many steps, or at all."""
    steps, uses = len(problem.tables.step), uses_of(problem.tables)
    return -linear_bound(relaxation(problem.tables, uses, spread(steps, checkpoints or steps)), SECONDS)


def cheapest(problem: MmapProblem) -> float:
    """The least latency of all proposals, seconds."""
    live = np.flatnonzero(problem.space.live[:, 0])
    mapping = np.repeat(problem.space.initial[None], 3 ** len(live), axis=0)
    mapping[:, live, 0] = list(product((0, 1, 2), repeat=len(live)))
    return float(np.nanmin(problem.evaluate(mapping, np.zeros(len(mapping), np.uint64)).cost))


def decisions(program: Program) -> int:
    return sum(program.tensors[use.tensor].size_bytes > 0 for use in program)


def problem_of(
    granules: int,
    tensors: list[tuple[int, int, bool]],
    steps: list[tuple[int, list[tuple[int, int]]]],
    **settings: bool,
) -> MmapProblem:
    """Tensors of 16-byte granules (how many, produced, leaves); steps of flops and uses (tensor, alias).

    Slow memory moves a granule in 16 ns, fast memory three (reading) and two (writing); a flop takes 1 ns.
    """
    uses = [
        Buffer(tensor, t, tensors[tensor][1] == t, 16 * tensors[tensor][0], alias)
        for t, (_, row) in enumerate(steps)
        for tensor, alias in row
    ]
    last = {use.tensor: use.instruction for use in uses}
    program = Program(
        "made",
        tuple(Instruction(f"i{t}", "fusion", flops) for t, (flops, _) in enumerate(steps)),
        tuple(
            Tensor(f"t{k}", 16 * size, produced, last[k], leaves)
            for k, (size, produced, leaves) in enumerate(tensors)
        ),
        tuple(uses),
    )
    chip = Chip("made", Cmem(16 * granules, 16, 3e9, 2e9), Hbm(1e9), Compute(1e9))
    return MmapProblem(program, chip, MmapConfig(**settings))


@pytest.mark.slow
@given(programs(max_steps=8), chips(), st.booleans(), st.booleans(), st.sampled_from((0, 1, 10)), st.data())
def test_no_play_of_a_small_program_returns_more(program, chip, literal, drop_backup, tenths, data):
    less = tuple(replace(step, flops=step.flops * tenths // 10) for step in program.instructions)
    program = replace(program, instructions=less)
    assume(playable(program) and 0 < decisions(program) <= MOST)
    problem = MmapProblem(program, chip, MmapConfig(literal, drop_backup))
    best, bound = every_play(problem).max(), problem.bound(SECONDS).reward
    least = problem.bound(SECONDS)
    assert 0 <= least.cost <= cheapest(problem)
    event("the bound is the best return" if bound - best < 1e-3 else "the bound is above the best return")
    slack = 1e-8 * max(problem.tables.none_s / problem.tables.most_s, 1.0)
    assert best <= bound <= trivial_bound(problem.tables, uses_of(problem.tables)) + slack
    assert best <= slack + linear(problem, data.draw(st.integers(1, len(less))))


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8), st.floats(0.05, 3.0))
def test_the_rows_of_an_instruction_give_what_each_set_of_its_buffers_saves(saved, most):
    d = np.minimum(np.array(saved), most)
    found = cuts(d, most)
    for chosen in product((0.0, 1.0), repeat=len(d)):
        saves = min(most, float(d @ chosen))
        least = min(most, *(side + float(values @ np.array(chosen)) for values, side in found))
        assert least >= saves - 1e-12
        if len(d) <= ALL_SETS:
            assert least == pytest.approx(saves, abs=1e-12)


def test_where_room_is_for_one_of_two_tensors_the_bound_is_one_of_them():
    steps = [(0, [(0, NO_ALIAS)]), (0, [(1, NO_ALIAS)]), (0, [(0, NO_ALIAS)]), (0, [(1, NO_ALIAS)])]
    tight, wide = (problem_of(room, [(4, 0, False), (4, 1, False)], steps) for room in (4, 8))
    assert wide.bound(SECONDS).reward == pytest.approx(1.0)
    assert tight.bound(SECONDS).reward == pytest.approx(every_play(tight).max(), abs=1e-3)
    assert tight.bound(SECONDS).reward < 0.6


def test_where_steps_give_no_time_for_copies_the_bound_counts_what_they_give():
    def read_after(flops: int) -> MmapProblem:
        steps = [(flops, []), *((0, [(k, NO_ALIAS)]) for k in range(2))]
        return problem_of(64, [(6, -1, False), (6, -1, False)], steps)

    idle, short, long = (linear(read_after(flops)) for flops in (0, 96, 200))
    assert idle == pytest.approx(0.0, abs=1e-6)
    assert short == pytest.approx((96 + 32) / 192)
    assert long == pytest.approx(1.0)


def test_rows_of_an_instruction_tell_halves_from_wholes():
    whole_and_half = np.array([1.0, 0.5])
    found = cuts(np.array([0.6, 0.6]), 1.0)
    assert min(side + float(values @ whole_and_half) for values, side in found) == pytest.approx(0.8)


@pytest.mark.parametrize("size", [2, 3])
def test_what_is_copied_early_takes_room_meanwhile(size):
    """Two parameters of 3 granules are read at the end and only one can be copied just before; a tensor of 6 granules
    lies in the way of the other, which of 8 granules leaves 2."""
    state, steps = (6, 1, False), [(500, []), (0, [(2, NO_ALIAS)]), (0, [(2, NO_ALIAS)])]
    steps += [(16 * size, []), (0, [(0, NO_ALIAS), (1, NO_ALIAS)])]
    problem = problem_of(8, [(size, -1, False), (size, -1, False), state], steps)
    _the_second_fits_in_part_or_wholly(problem, size)


@pytest.mark.parametrize("size", [2, 3])
def test_what_is_copied_late_takes_room_meanwhile(size):
    """The same with two results that are written at the beginning."""
    state, steps = (6, 2, False), [(0, [(0, NO_ALIAS), (1, NO_ALIAS)]), (16 * size, [])]
    steps += [(0, [(2, NO_ALIAS)]), (0, [(2, NO_ALIAS)]), (500, [])]
    problem = problem_of(8, [(size, 0, True), (size, 0, True), state], steps)
    _the_second_fits_in_part_or_wholly(problem, size)


def _the_second_fits_in_part_or_wholly(problem: MmapProblem, size: int) -> None:
    best, bound = every_play(problem).max(), problem.bound(SECONDS).reward
    least = problem.bound(SECONDS)
    assert 0 <= least.cost <= cheapest(problem)
    assert best <= bound
    if size == 2:
        assert bound == pytest.approx(1.0)
    else:
        assert best < bound < 0.99


def test_outputs_are_copied_out_within_the_program():
    short, enough = (problem_of(8, [(3, 0, True)], [(0, [(0, NO_ALIAS)]), (flops, [])]) for flops in (47, 48))
    assert enough.bound(SECONDS).reward == pytest.approx(1.0) == every_play(enough).max()
    assert short.bound(SECONDS).reward == pytest.approx(0.0, abs=1e-6)


def test_members_of_an_alias_group_take_their_room_once():
    chain = [
        (0, [(0, 3)]),
        (0, [(0, 3), (1, 3)]),
        (0, [(1, 3), (2, 3)]),
        (0, [(2, 3)]),
    ]  # fmt: skip
    problem = problem_of(4, [(4, 0, False), (4, 1, False), (4, 2, False)], chain)
    assert every_play(problem).max() == pytest.approx(1.0)
    assert problem.bound(SECONDS).reward == pytest.approx(1.0)


def test_a_group_with_a_member_that_cannot_be_placed_counts_for_nothing():
    steps = [(100, [(0, NO_ALIAS)]), (0, [(0, 3), (1, 3)])]
    problem = problem_of(4, [(4, 0, False), (5, -1, False)], steps)
    assert problem.bound(SECONDS).reward == pytest.approx(every_play(problem).max(), abs=1e-6)


def test_what_a_dropped_group_would_have_written_is_not_held_for_others():
    """The first step reads a parameter, which nothing could have copied before, in one group with what it writes."""
    steps = [(0, [(1, 3), (0, 3)]), (0, [(0, NO_ALIAS)])]
    tied = problem_of(8, [(3, 0, False), (3, -1, False)], steps)
    loose = problem_of(8, [(3, 0, False), (3, -1, False)], [(0, [(1, NO_ALIAS), (0, NO_ALIAS)]), steps[1]])
    assert every_play(tied).max() == linear(tied) == 0.0
    assert every_play(loose).max() == pytest.approx(linear(loose))
    assert linear(loose) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    gate(
        ["alexnet_train_batch_32", "dlrm_inference", "inference_lstm", "rnn_2"], ("dlrm_inference", "rnn_2")
    ),
)
def test_no_play_of_a_program_that_ships_returns_more(name):
    problem = MmapProblem(load_program(name), load_chip("tpuv4i"))
    rng = np.random.default_rng(0)
    mapping = rng.integers(0, 3, (50, *problem.space.initial.shape)).astype(np.int16)
    mapping[0], mapping[1] = 1, 2
    rewards = problem.evaluate(mapping, np.zeros(50, np.uint64)).reward
    bound = upper_bound(problem.tables, SECONDS)
    assert rewards.max() <= bound.reward < trivial_bound(problem.tables, uses_of(problem.tables))
    assert " of the game (" in bound.proof


def test_whole_decisions_are_bounded_lower_than_halves():
    """Of three tensors of 3 granules, room for 5 has place for one; the linear relaxation places 5/3 of them."""
    steps = [(0, [(k, NO_ALIAS)]) for _ in range(2) for k in range(3)]
    problem = problem_of(5, [(3, k, False) for k in range(3)], steps)
    bound = problem.bound(SECONDS)
    best = every_play(problem).max()
    assert best <= bound.reward <= best * 1.001 < linear(problem) - 0.1
    assert bound.proof.startswith("HiGHS's branch and cut on a relaxation of the game (6 of 6 steps; ")


def test_without_time_the_bound_is_the_trivial_one():
    problem = MmapProblem(load_program("dlrm_train"), load_chip("tpuv4i"))
    bound = upper_bound(problem.tables, 1e-9)
    assert bound.reward == pytest.approx(trivial_bound(problem.tables, uses_of(problem.tables)), abs=1e-6)
    assert bound.proof == "each instruction by itself at its best"


def test_a_limit_of_no_time_is_refused():
    problem = problem_of(4, [(4, 0, False)], [(0, [(0, NO_ALIAS)])])
    with pytest.raises(ValueError, match="time_limit_s: expected a positive number, received 0"):
        upper_bound(problem.tables, 0)


def test_rewards_that_are_latencies_are_not_bounded():
    program = load_program("dlrm_inference")
    played, timed = (
        MmapProblem(program, load_chip("tpuv4i"), MmapConfig(reward=reward))
        for reward in ("return", "latency")
    )
    assert (timed.bound(0).reward, timed.bound(0).cost) == (np.inf, played.bound(0).cost)
    assert played.bound(0).reward == pytest.approx(1.0)
    assert played.bound(0).proof == "everything in fast memory"
