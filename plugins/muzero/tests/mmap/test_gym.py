"""The game as an environment of Gymnasium."""

from __future__ import annotations

import importlib.util
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from mmap_programs import GRANULE

import egrl_muzero.mmap.gym
from egrl_muzero.mmap.gym import MmapEnv
from egrl_muzero.mmap.observer import SeenGame
from egrl_muzero.mmap.parts import View
from hwsim.mmap.chip import Chip, Cmem, Compute, Hbm
from hwsim.mmap.problem import MmapConfig, MmapProblem
from workloads.errors import InputError
from workloads.load import load_program
from workloads.programs.json_file import to_json
from workloads.programs.program import NO_ALIAS, Buffer, Instruction, Program, Tensor

NAME = "egrl_muzero.mmap.gym:egrl/MMapGame-v0"
DROP, COPY, NO_COPY = range(3)
SMALL = View(map_cells=16, map_steps=32, profile_cells=16, supply_steps=16, offsets=16)


def dead_end() -> tuple[Program, Chip]:
    """t0 and t2 share a place, and the room of t2 is taken while it would have to be copied in: by t1."""
    sizes, uses = (16, 32, 32), ((0, 2, 5), (1, 4, NO_ALIAS), (2, 5, 5))
    tensors = tuple(Tensor(f"t{k}", size, -1, 5) for k, size in enumerate(sizes))
    buffers = tuple(Buffer(k, step, False, 200, alias) for k, step, alias in uses)
    program = Program("p", tuple(Instruction(f"i{k}", "dot", 100) for k in range(7)), tensors, buffers)
    chip = Chip("c", Cmem(GRANULE * 2, GRANULE, 3e9, 2e9), Hbm(1e9), Compute(1e9))
    return program, chip


def play(env: gymnasium.Env, wishes=None, seed: int = 0):
    """The last info, and all rewards, of legal moves: wishes in order, or random ones."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    rewards, over = [], False
    while not over:
        action = env.action_space.sample(mask=info["action_mask"]) if wishes is None else wishes[len(rewards)]
        seen, reward, over, cut, info = env.step(action)
        assert seen in env.observation_space
        assert not cut
        rewards.append(reward)
    return info, rewards


@pytest.mark.parametrize("illegal", ["lose", "truncate"])
def test_gymnasiums_own_checks_pass(illegal):
    env = gymnasium.make(NAME, program="rnn_2", chip="tpuv4i", illegal=illegal, render_mode="rgb_array")
    check_env(env.unwrapped)


def test_rewards_sum_to_what_the_mapping_is_worth():
    env = gymnasium.make(NAME, program="alexnet_train_batch_32", view=SMALL)
    info, rewards = play(env, seed=3)
    problem = MmapProblem(load_program("alexnet_train_batch_32"), env.unwrapped.problem._chip)
    found = problem.evaluate(info["mapping"][None], np.zeros(1, np.uint64))
    assert found.epsilon[0] == 0
    np.testing.assert_allclose(sum(rewards), found.reward[0], rtol=1e-9)
    np.testing.assert_allclose(info["return"], found.reward[0], rtol=1e-9)
    assert (info["cost_s"], info["speedup"]) == (found.cost[0], found.speedup[0])
    assert info["speedup"] > 0.5
    assert not info["action_mask"].any()


def test_a_program_may_be_a_name_a_file_or_an_object_and_is_the_same(tmp_path):
    program = load_program("rnn_2")
    (tmp_path / "p.json").write_text(to_json(program), encoding="utf-8")
    results = [
        play(gymnasium.make(NAME, program=given, view=SMALL), seed=1)
        for given in ("rnn_2", tmp_path / "p.json", program)
    ]
    for info, rewards in results[1:]:
        assert rewards == results[0][1]
        np.testing.assert_array_equal(info["mapping"], results[0][0]["mapping"])


def test_what_is_seen_is_what_the_game_shows():
    env = MmapEnv("rnn_2", view=SMALL)
    seen, info = env.reset()
    game = SeenGame(env.problem.game, SMALL)
    state = game.reset(1)
    for _ in range(20):
        for name, array in game.observe(state).items():
            np.testing.assert_array_equal(seen[name], array[0])
        np.testing.assert_array_equal(info["action_mask"], game.legal(state)[0])
        action = int(np.flatnonzero(info["action_mask"])[-1])
        seen, _, _, _, info = env.step(action)
        state, _, _ = game.step(state, np.array([action], np.int16))


def test_a_dead_end_goes_back_within_the_step_and_says_so():
    program, chip = dead_end()
    env = MmapEnv(program, chip, view=SMALL)
    env.reset()
    _, first, _, _, info = env.step(COPY)
    assert first > 0
    assert not info["went_back"]
    _, second, over, _, info = env.step(COPY)
    assert info["went_back"]
    assert (info["resets"], info["buffer"], over) == (1, 0, False)
    assert second == -first
    assert info["action_mask"].tolist() == [1, 0, 0]


def test_without_drop_backup_a_dead_end_loses_the_return():
    program, chip = dead_end()
    env = MmapEnv(program, chip, config=MmapConfig(drop_backup=False), view=SMALL)
    info, rewards = play(env, [COPY, COPY])
    assert sum(rewards) == info["return"] == 0
    assert "mapping" not in info


@pytest.mark.parametrize(("illegal", "ends"), [("lose", (True, False)), ("truncate", (False, True))])
def test_an_illegal_action_ends_the_episode_as_the_setting_says(illegal, ends):
    program, chip = dead_end()
    env = MmapEnv(program, chip, view=SMALL, illegal=illegal)
    env.reset()
    _, gained, _, _, _ = env.step(COPY)
    _, reward, terminated, truncated, info = env.step(NO_COPY)
    assert (terminated, truncated, info["illegal"]) == (*ends, True)
    assert reward == (-gained if illegal == "lose" else 0)
    assert info["return"] == (0 if illegal == "lose" else gained)
    with pytest.raises(gymnasium.error.ResetNeeded, match="a game that goes on"):
        env.step(DROP)


def test_an_illegal_action_can_be_an_error_that_says_what_is_legal():
    program, chip = dead_end()
    env = MmapEnv(program, chip, view=SMALL, illegal="error")
    env.reset()
    with pytest.raises(
        InputError, match=r"buffer i2/in/t0: expected a legal one \(drop, copy\), found nocopy"
    ):
        env.step(NO_COPY)
    _, reward, _, _, _ = env.step(COPY)
    assert reward > 0


def test_the_picture_has_the_layout_and_the_present_step():
    program, chip = dead_end()
    env = MmapEnv(program, chip, view=SMALL, render_mode="rgb_array")
    assert MmapEnv(program, chip).render() is None
    env.reset()
    before = env.render()
    assert before.shape == (360, 640, 3)
    red = (before == (200, 0, 0)).all(axis=2)
    assert np.flatnonzero(red.all(axis=0)).tolist() == [2 * 640 // 7]
    assert red.sum() == 360
    assert (before[~red] == 255).all()
    env.step(COPY)
    shown = env.game.layout(env._state, 0)
    after = env.render()
    painted = (after != 255).any(axis=2)
    painted[:, 4 * 640 // 7] = False
    expected = (shown.last[0] + 1) * 640 // 7 - shown.first[0] * 640 // 7
    assert painted[270].sum() == expected
    assert not painted[90].any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"program": "alexnett"}, "program 'alexnett': expected the name of a program"),
        ({"chip": "tpu"}, "'tpu'"),
        ({"illegal": "ignore"}, "illegal: expected one of lose, truncate, error, found 'ignore'"),
        (
            {"config": {"drop_backup": False}},
            "config: expected a MmapConfig or None, found {'drop_backup': False}",
        ),
        ({"view": 5}, "view: expected a View or None, found 5"),
        ({"render_mode": "human"}, "render_mode: expected rgb_array or None, found 'human'"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_line(wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        MmapEnv(**wrong)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_done_is_refused_in_a_line():
    env = MmapEnv(*dead_end(), view=SMALL)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(DROP)
    with pytest.raises(InputError, match="reset: expected no options, found fast"):
        env.reset(options={"fast": True})
    env.reset()
    with pytest.raises(InputError, match=r"action: expected 0 \(drop\), 1 \(copy\) or 2 \(nocopy\), found 7"):
        env.step(7)


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    spec = importlib.util.spec_from_file_location("again", egrl_muzero.mmap.gym.__file__)
    with pytest.raises(InputError, match=r"expected the extra: pip install 'egrl-muzero\[gym\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
