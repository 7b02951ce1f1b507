"""Local moves: legal, never idle, and each kind does what its name says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from population.moves import KINDS, TOLERANCE, Mix, Moves

NODES = 12
LIVE = np.ones((NODES, 2), np.bool_)
LIVE[[2, 5], [0, 1]] = False
COUNTS = np.full((NODES, 2), 3, np.int16)


SIZES = np.random.default_rng(7).choice([10, 20, 40], (NODES, 2))


def only(**shares) -> Mix:
    return Mix(**{**dict.fromkeys(KINDS, 0.0), "extra": 0.0, **shares})


def draw(rng: np.random.Generator, counts=COUNTS, live=LIVE) -> np.ndarray:
    return np.where(live, rng.integers(0, counts), -1).astype(np.int16)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([Mix(), *(only(**{kind: 1.0}) for kind in KINDS)]),
)
def test_a_proposal_is_legal_differs_and_leaves_its_argument_alone(seed, mix):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, (NODES, 2)).astype(np.int16)
    counts[0] = 2
    mapping = draw(rng, counts)
    before = mapping.copy()
    found = Moves(counts, LIVE, mix, SIZES).propose(mapping, rng)
    np.testing.assert_array_equal(mapping, before)
    assert (found[~LIVE] == -1).all()
    assert ((found >= 0) & (found < counts))[LIVE].all()
    assert (found[counts == 1] == before[counts == 1]).all()
    if mix.extra == 0:
        assert (found != before).any()


def test_a_flip_changes_one_decision_a_swap_exchanges_two_and_a_block_levels_a_run():
    rng = np.random.default_rng(0)
    for _ in range(200):
        mapping = draw(rng)
        assert (Moves(COUNTS, LIVE, only(flip=1.0)).propose(mapping, rng) != mapping).sum() == 1
        swapped = Moves(COUNTS, LIVE, only(swap=1.0)).propose(mapping, rng)
        changed = np.argwhere(swapped != mapping)
        assert len(changed) == 2
        assert changed[0, 1] == changed[1, 1]
        assert sorted(swapped[LIVE]) == sorted(mapping[LIVE])
        levelled = Moves(COUNTS, LIVE, only(block=1.0, length=3.0)).propose(mapping, rng)
        changed = np.argwhere(levelled != mapping)
        assert len({head for _, head in changed}) == 1
        assert len({levelled[n, h] for n, h in changed}) == 1


def bytes_of(mapping: np.ndarray, head: int) -> np.ndarray:
    """Bytes in each choice, of one head."""
    return np.array([SIZES[mapping[:, head] == c, head].sum() for c in range(3)])


def changes(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """A mapping, what one move of a kind (no flip in its place) made of it, the nodes that changed, and their head."""
    while True:
        mapping = draw(rng)
        moves = Moves(COUNTS, LIVE, only(**{kind: 1.0}, length=3.0), SIZES)
        moved = mapping.copy()
        if moves._move(moved, rng):
            at = np.argwhere(moved != mapping)
            assert len(set(at[:, 1])) == 1
            return mapping, moved, at[:, 0], int(at[0, 1])


def test_kin_moves_stay_among_decisions_about_tensors_of_one_size():
    rng = np.random.default_rng(3)
    for kind in ("kin_swap", "kin_block", "kin_shift"):
        for _ in range(150):
            mapping, moved, nodes, head = changes(kind, rng)
            assert len(set(SIZES[nodes, head])) == 1
            if kind == "kin_block":
                assert len(set(moved[nodes, head])) == 1
            else:
                np.testing.assert_array_equal(bytes_of(mapping, head), bytes_of(moved, head))
            if kind == "kin_swap":
                assert len(nodes) == 2


def test_a_repack_exchanges_one_tensor_with_several_of_at_most_its_bytes():
    rng = np.random.default_rng(4)
    several = 0
    for _ in range(200):
        mapping, moved, nodes, head = changes("repack", rng)
        pairs = {(int(mapping[n, head]), int(moved[n, head])) for n in nodes}
        assert len(pairs) == 2
        assert pairs == {(b, a) for a, b in pairs}
        ways = [[n for n in nodes if (mapping[n, head], moved[n, head]) == pair] for pair in pairs]
        one = max(ways, key=lambda way: max(SIZES[way, head]))
        one, other = (one, next(w for w in ways if w is not one))
        if len(one) > 1:  # equal sizes: either may be the one that was chosen
            one, other = other, one
        assert len(one) == 1
        assert TOLERANCE * SIZES[one[0], head] <= sum(SIZES[other, head]) <= SIZES[one[0], head]
        several += len(other) > 1
    assert several > 10


def test_without_sizes_all_decisions_of_a_head_are_kin():
    rng = np.random.default_rng(5)
    mapping = np.zeros((NODES, 2), np.int16)
    mapping[0] = 1
    swapped = Moves(COUNTS, np.ones((NODES, 2), np.bool_), only(kin_swap=1.0)).propose(mapping, rng)
    assert (swapped != mapping).sum() == 2


@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
def test_a_repeated_move_changes_all_that_are_alike_or_a_run_of_them(seed, kind):
    rng = np.random.default_rng(seed)
    layers = 8
    alike = np.tile(np.arange(NODES), layers)
    live, sizes = np.tile(LIVE, (layers, 1)), np.tile(SIZES, (layers, 1))
    counts = np.tile(rng.integers(2, 4, (NODES, 2)).astype(np.int16), (layers, 1))
    counts[-1] = 1
    mapping = np.tile(draw(rng, counts[:NODES]), (layers, 1))
    mapping[-1] = np.where(LIVE[-1], 0, -1)
    moves = Moves(counts, live, only(**{kind: 1.0, "alike": 1.0}), sizes, alike=alike)
    moved = moves.propose(mapping, rng)
    assert (moved != mapping).any()
    assert ((moved >= 0) == live).all()
    assert (moved < np.maximum(counts, 1)).all()


def test_a_repeated_flip_is_seen_at_1_2_4_and_8_of_8_layers():
    rng = np.random.default_rng(3)
    alike = np.tile(np.arange(3), 8)
    counts, live = np.full((24, 1), 2, np.int16), np.ones((24, 1), np.bool_)
    moves = Moves(counts, live, only(flip=1.0, alike=1.0), alike=alike)
    mapping = np.zeros((24, 1), np.int16)
    seen = set()
    for _ in range(300):
        nodes = np.flatnonzero(moves.propose(mapping, rng)[:, 0])
        assert len(set(alike[nodes])) == 1
        layers = np.unique(nodes // 3)
        seen.add(len(layers))
        gaps = np.diff(layers)
        assert (gaps > 1).sum() <= 1 + (len(layers) == 2)  # a run, and the op that was changed first
    assert {1, 8} <= seen
    assert seen <= {1, 2, 3, 4, 5, 8}


def test_the_number_of_moves_follows_its_mean():
    rng = np.random.default_rng(1)
    counts, live = np.full((500, 1), 4, np.int16), np.ones((500, 1), np.bool_)
    moves = Moves(counts, live, only(flip=1.0, extra=2.0))
    mapping = np.zeros((500, 1), np.int16)
    sizes = [(moves.propose(mapping, rng) != mapping).sum() for _ in range(400)]
    assert 2.7 < np.mean(sizes) < 3.3


def test_where_nothing_can_move_the_mapping_comes_back():
    mapping = np.zeros((3, 1), np.int16)
    moves = Moves(np.ones((3, 1), np.int16), np.ones((3, 1), np.bool_))
    np.testing.assert_array_equal(moves.propose(mapping, np.random.default_rng(0)), mapping)
