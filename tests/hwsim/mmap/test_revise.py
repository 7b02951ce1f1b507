"""Games that are revised: against plain Python, and against the game itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from mmap_programs import GRANULE, chips, playable, programs
from mmap_twin import COPY, DROP, NOCOPY, Twin

from hwsim.keys import bits, uniform
from hwsim.mmap import revise
from hwsim.mmap.chip import load_chip
from hwsim.mmap.cost import roofline_s
from hwsim.mmap.game import MmapGame
from hwsim.mmap.revise import (
    ENDED,
    Game,
    change,
    go_to,
    marks_for,
    play_from,
    uses_of,
    walk,
    write_marks,
)
from hwsim.mmap.rules.state import GameState, new_states, new_words, state_of
from hwsim.mmap.tables import build_tables
from hwsim.problem import Floats, Mapping16
from workloads.load import load_program


def share(key: np.uint64, number: int) -> float:
    return float(uniform(key, np.uint64(number)))


def key_of(key: np.uint64, number: int) -> np.uint64:
    return np.uint64(bits(key, np.uint64(number)))


class Plain:
    """The same walk: every game is played from its beginning to its end."""

    def __init__(self, program, chip, literal: bool, drop_backup: bool) -> None:
        self.make = lambda: Twin(program, chip, literal, drop_backup)
        self.decisions = [n for n in range(len(program)) if self.make().size(n) > 0]
        self.program, self.chip = program, chip
        self.tables = build_tables(program, chip, literal, drop_backup)

    def rooms(self, b: int) -> int:
        size, room = self.make().size(b), self.chip.cmem
        return -(-size // GRANULE) if size <= room.capacity_bytes else room.capacity_bytes // GRANULE + 1

    def distance(self, b: int) -> int:
        uses = self.program.buffers
        before = [c for c in self.decisions if c < b and uses[c].tensor == uses[b].tensor]
        if uses[b].is_output or not before:
            return self.program.live_range(uses[b].tensor)[1] - uses[b].instruction
        return uses[b].instruction - uses[before[-1]].instruction

    def saved(self, b: int) -> np.float32:
        buffer, tables = self.tables.buffer[b], self.tables
        step = tables.step[buffer["step"]]
        rates = (tables.hbm_Bps, tables.read_Bps, tables.write_Bps)
        seconds = [
            roofline_s(step["compute_s"], step["traffic_bytes"], read, write, *rates)
            for read, write in ((0, 0), (buffer["read_bytes"], buffer["write_bytes"]))
        ]
        return np.float32((seconds[0] - seconds[1]) / buffer["granules"])

    def role(self, b: int) -> str:
        buffers = self.program.buffers
        before = [c for c in self.decisions if c < b and buffers[c].tensor == buffers[b].tensor]
        if buffers[b].is_output:
            return "output"
        return "later input" if any(not buffers[c].is_output for c in before) else "first input"

    def change(self, wish: list[int], key: np.uint64) -> None:
        k = int(share(key, 0) * len(self.decisions))
        kind, action = share(key, 1), int(3 * share(key, 2))
        if kind < 0.3:
            wish[self.decisions[k]] = action
        elif kind < 0.6:
            run = self.decisions[k : k + int(min(1000, 1 / (1 - share(key, 4))))]
            alike = share(key, 3) < 0.5
            for j, b in enumerate(run):
                wish[b] = action if alike else int(3 * share(key, 6 + j))
        elif kind < 0.6 + 0.2:
            trait = (self.rooms, self.distance, self.saved)[int(share(key, 7) * 3)]
            ends = [trait(self.decisions[k])] * 2
            if share(key, 6) < 0.5:
                ends[1] = trait(self.decisions[int(share(key, 5) * len(self.decisions))])
            begins, most = 0, len(self.decisions)
            if share(key, 3) < 0.5:
                begins, most = k, int(min(1000, 1 / (1 - share(key, 4))))
            same = [b for b in self.decisions[begins:] if self.role(b) == self.role(self.decisions[k])]
            for b in [b for b in same if min(ends) <= trait(b) <= max(ends)][:most]:
                wish[b] = action
        else:
            tensor = self.program.buffers[self.decisions[k]].tensor
            uses = [b for b in self.decisions if self.program.buffers[b].tensor == tensor]
            if share(key, 6) < 0.5:
                begins = int(share(key, 3) * len(uses))
                uses = uses[begins : begins + 1 + int(share(key, 4) * (len(uses) - begins))]
            for b in uses:
                wish[b] = action
            if action == NOCOPY and share(key, 5) < 0.5:
                wish[uses[0]] = COPY

    def played(self, actions: dict[int, int], keep: int, wish: list[int]) -> Twin:
        """Played from the beginning: actions before `keep`, wishes from there."""
        twin = self.make()
        while not twin.over() and twin.state.at < keep:
            twin.step(actions[twin.state.at])
        twin.play(wish)
        return twin

    def walk(self, wish: list[int], key: np.uint64, tries: int, temperature: float):
        kept = self.played({}, 0, wish)
        best = kept
        for number in range(tries):
            own = key_of(key, number)
            changed = list(wish)
            self.change(changed, key_of(own, 2))
            if share(own, 1) < 0.4:
                self.change(changed, key_of(own, 3))
            differ = [b for b in range(len(wish)) if changed[b] != wish[b]]
            if not differ:
                continue
            trial = self.played(kept.state.actions, min(differ[0], kept.state.at), changed)
            if trial.state.total >= kept.state.total + temperature * math.log(1 - share(own, 0)):
                kept, wish = trial, changed
                best = max(best, kept, key=lambda twin: twin.state.total)
        return wish, kept, best


@pytest.mark.slow
@given(
    programs(), chips(), st.booleans(), st.booleans(), st.integers(0, 2**64 - 1), st.sampled_from((0.0, 0.1))
)
def test_a_walk_is_the_plain_ones(program, chip, literal, drop_backup, key, hot):
    assume(playable(program))
    tables = build_tables(program, chip, literal, drop_backup)
    plain = Plain(program, chip, literal, drop_backup)
    assume(len(plain.decisions) <= 60)  # more could be given up before their end
    start = np.full(len(program), NOCOPY, np.int16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(revise, "APART", 4)
        found = walk(tables, start, np.uint64(key), 12 * len(plain.decisions), hot, hot)
    wish, kept, best = plain.walk(start.tolist(), np.uint64(key), found.tried, hot * tables.most_s)
    event(f"{found.tried} tried, better {found.returned > 0}, lost {kept.state.lost}")
    assert found.proposal[:, 0].tolist() == wish
    assert found.present_returned * tables.most_s == pytest.approx(kept.state.total, rel=1e-12, abs=1e-18)
    assert found.returned * tables.most_s == pytest.approx(best.state.total, rel=1e-12, abs=1e-18)
    if not kept.state.lost:
        assert {b: a for b, a in enumerate(found.present[:, 0].tolist()) if a >= 0} == kept.state.actions
    if not best.state.lost:
        assert {b: a for b, a in enumerate(found.mapping[:, 0].tolist()) if a >= 0} == best.state.actions


@pytest.mark.slow
@given(programs(max_steps=12), chips(), st.booleans(), st.integers(0, 2**64 - 1))
def test_the_best_game_played_again_returns_what_was_said(program, chip, literal, key):
    assume(playable(program))
    game = MmapGame(build_tables(program, chip, literal, True), GRANULE)
    found = game.revised(np.full((len(program), 1), -1), np.uint64(key), 20 * len(program), 0.1, 0.0)
    again = game.play(found.mapping[None, :, 0])
    tables = game.tables
    assert (tables.none_s - again.cost_s[0]) / tables.most_s == pytest.approx(found.returned, abs=1e-12)
    assert np.array_equal(again.action[0], found.mapping[:, 0])
    assert again.resets[0] == 0


@given(programs(max_steps=12), chips(), st.booleans(), st.integers(0, 2**64 - 1), st.floats(0, 1))
def test_what_a_game_returned_so_far_is_known_where_it_went_back_too(program, chip, literal, key, cut):
    assume(playable(program))
    tables = build_tables(program, chip, literal, True)
    rng, number = np.random.default_rng(key), len(program)
    states, words, marks = new_states(tables, 3), new_words(tables), new_states(tables, 0)
    kept, trial, fresh = (state_of(states, b) for b in range(3))

    def play(state: GameState, keep: int, wish: Mapping16, so_far_s: Floats) -> int:
        go_to(tables, state, kept, marks, keep)
        own, other = Game(state, so_far_s), Game(fresh, so_far_s)
        how, moves = play_from(tables, own, wish, other, wish, keep, number + 1, -np.inf, words)
        assert how == ENDED
        return moves

    first, second, again = np.zeros((3, number))
    play(kept, 0, rng.integers(0, 3, number).astype(np.int16), first)
    keep = int(cut * number)
    second[:keep] = first[:keep]
    moves = play(trial, keep, rng.integers(0, 3, number).astype(np.int16), second)
    event(f"went back {moves > number - keep}")
    actions = trial.buffer["action"].astype(np.int16)
    other = state_of(new_states(tables, 1), 0)
    play(other, 0, actions, again)
    assert second[actions >= 0] == pytest.approx(again[actions >= 0], rel=1e-9, abs=1e-18)


def test_a_game_begins_at_any_mark_as_if_it_were_played_up_to_there():
    tables = build_tables(load_program("wavenet_coherent_batch32"), load_chip("tpuv4i"), False, True)
    number, words = len(tables.buffer), new_words(tables)
    states, marks = new_states(tables, 3), marks_for(tables)
    none, (kept, one, other) = new_states(tables, 0), (state_of(states, b) for b in range(3))
    wish, so_far_s = np.random.default_rng(0).integers(0, 3, number).astype(np.int16), np.zeros(number)
    for keep in (0, number // 3):  # a second game that shares a third with the first
        go_to(tables, one, kept, none, keep)
        own, fresh = Game(one, so_far_s), Game(other, so_far_s)
        play_from(tables, own, wish, fresh, wish, keep, number + 1, -np.inf, words)
        kept, one = one, kept
        write_marks(tables, one, kept, marks, 0 if kept.game["resets"] else keep)
        for at in range(0, number, 131):
            go_to(tables, one, kept, marks, at)
            go_to(tables, other, kept, none, at)
            for mine, its in zip(one, other, strict=True):
                assert np.array_equal(mine, its)
        wish = 2 - wish
    assert len(marks.game) > 5


@pytest.mark.exhaustive
def test_games_given_up_do_not_count_and_the_rest_is_worth_more_every_time():
    tables = build_tables(load_program("alexnet_train_batch_32"), load_chip("tpuv4i"), False, True)
    game = MmapGame(tables, 1)
    wish, values = np.full((len(tables.buffer), 1), DROP, np.int16), []
    for number in range(12):
        found = game.revised(wish, np.uint64(number), 40_000, 0.0, 0.0)
        assert 40_000 <= found.moves < 40_000 + len(tables.buffer)
        wish = found.proposal
        values.append(found.returned)
    assert values == sorted(values)
    assert values[-1] > 0.44
    again = game.play(found.mapping[None, :, 0])
    assert (tables.none_s - again.cost_s[0]) / tables.most_s == pytest.approx(values[-1], abs=1e-12)


def test_changes_touch_decisions_only_and_are_of_all_kinds():
    tables = build_tables(load_program("alexnet_train_batch_32"), load_chip("tpuv4i"), False, True)
    uses = uses_of(tables)
    dead = np.setdiff1d(np.arange(len(tables.buffer)), uses.decision)
    counts, sizes = np.zeros(3, np.int64), []
    for number in range(3000):
        wish = np.full(len(tables.buffer), -5, np.int16)
        first = change(uses, wish, key_of(np.uint64(7), number))
        changed = np.flatnonzero(wish != -5)
        assert changed[0] == first
        assert (wish[dead] == -5).all()
        sizes.append(len(changed))
        counts += np.bincount(wish[changed][:1], minlength=3)
    assert min(counts) / counts.sum() > 0.25
    assert max(sizes) > 50
    assert np.mean(np.array(sizes) == 1) > 0.3
