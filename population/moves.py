"""Local moves on a mapping.

Along the execution order: a *flip* gives one decision another of its choices; a *swap* exchanges the choices of two
decisions of one head; a *block* gives a run of neighbouring decisions of one head the same choice (neighbouring
tensors like the same memory: EGRL, section 5, on contiguity).

Among *kin*, the decisions of one head about tensors of one size, in execution order (a network repeats its layers):
a *kin swap* exchanges the choices of two of them, a *kin block* gives a run of them the same choice, a *kin shift*
moves the choices of a run along it. A *repack* exchanges one tensor with several smaller ones that together need
about its bytes. Kin swaps, shifts and repacks leave the bytes in each memory about as they were: in a full memory,
after most other moves the compiler evicts a tensor.

In a large network whole layers repeat, and a move in one of them gains next to nothing. There half of the moves are
*repeated*: a change at an op is made at all ops that are alike (`workloads.colour_refinement.alike`), or at
a half, a quarter, … of them in one run, where they had the same choice.

If choices are stages of a pipeline, most moves are those of `population.stage_moves`. If a problem has a local move of
its own, most moves are that one.

Decisions with a single choice never move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import CanMove, HasObservation
from hwsim.problem import Mapping16, Problem
from workloads.colour_refinement import LARGE, alike

if TYPE_CHECKING:
    from hwsim.stages import Pipeline

TRIES = 20
KINDS = ("flip", "swap", "block", "kin_swap", "kin_block", "kin_shift", "repack")
TOLERANCE = 0.05
"""A repack leaves tensors below this share of the bytes that are to be exchanged alone, and stops that close."""


@dataclass(frozen=True)
class Mix:
    """How often each move is drawn (own choices; papers/egrl/log/egrl.md has the experiments).

    Attributes:
        flip, swap, block, kin_swap, kin_block, kin_shift, repack: relative to one another.
        near: share of swaps and repacks with a partner close by in execution order (swaps: geometric distance, mean 4).
        length: mean number of decisions in a block or a shift.
        extra: mean number of further moves after the first one of a child (Poisson).
        staged: share of the moves that shift borders of stages, if choices are stages.
        hot: share of the staged moves that take a decision out of one of the fullest stages.
        alike: share of moves that are repeated at ops that are alike, in a large network.
        own: share of moves that are the problem's own, if it has some.
    """

    flip: float = 0.15
    swap: float = 0.3
    block: float = 0.05
    kin_swap: float = 0.2
    kin_block: float = 0.1
    kin_shift: float = 0.05
    repack: float = 0.15
    near: float = 0.5
    length: float = 5.0
    extra: float = 1.0
    staged: float = 0.9
    hot: float = 0.5
    alike: float = 0.5
    own: float = 0.9

    @property
    def shares(self) -> dict[str, float]:
        """The relative frequencies by name."""
        return {name: getattr(self, name) for name in KINDS}


class _Classes:
    """Which nodes are alike and have a decision that is free, by head."""

    def __init__(
        self, alike: NDArray[np.int64], free: NDArray[np.bool_], num_choices: NDArray[np.int16]
    ) -> None:
        self._alike, self._num_choices = alike, num_choices
        self._members: list[list[NDArray[np.int64]]] = []
        for own in free.T:
            nodes = np.flatnonzero(own)
            order = nodes[np.argsort(alike[nodes], kind="stable")]
            ends = np.cumsum(np.bincount(alike[nodes], minlength=int(alike.max(initial=0)) + 1))
            self._members.append(np.split(order, ends[:-1]))
        most = max((len(own) for members in self._members for own in members), default=1)
        self._halvings = max(1, most.bit_length())

    def repeat(self, before: Mapping16, mapping: Mapping16, rng: np.random.Generator) -> None:
        """Repeat in place what has changed at nodes alike that had the same choice: at all, or a half, a quarter, …"""
        # Shares of 1, 1/2, 1/4, …: a change may pay in some of the layers only.
        begin, share = rng.random(), 0.5 ** float(rng.integers(self._halvings))
        for node, head in zip(*np.nonzero(mapping != before), strict=True):
            members = self._members[head][self._alike[node]]
            first = int(begin * (1.0 - share) * len(members))
            run = members[first : first + max(1, round(share * len(members)))]
            choice = mapping[node, head]
            run = run[(before[run, head] == before[node, head]) & (self._num_choices[run, head] > choice)]
            mapping[run, head] = choice


class Moves:
    """Random moves for one problem."""

    def __init__(
        self,
        num_choices: NDArray[np.int16],
        live: NDArray[np.bool_],
        mix: Mix | None = None,
        size_bytes: NDArray[np.int64] | None = None,
        pipeline: Pipeline | None = None,
        own: Callable[[Mapping16, np.uint64], Mapping16] | None = None,
        alike: NDArray[np.int64] | None = None,
    ) -> None:
        """For decisions int16 [N, H], which exist, bool [N, H], and their sizes int64 [N, H] (None: all equal).

        `pipeline` is that whose stages the choices are, if they are; `own` the problem's own move, if it has one: of a
        mapping [N, H] and a random number; `alike` int64 [N] the classes of its nodes, in a large network.
        """
        self.mix = mix or Mix()
        free = live & (num_choices > 1)
        self._num_choices, self._free, self._pipeline, self._own = num_choices, free, pipeline, own
        self._size = np.ones(free.shape, np.int64) if size_bytes is None else size_bytes
        heads = range(free.shape[1])
        self._peers: list[NDArray[np.int64]] = [np.flatnonzero(free[:, h]) for h in heads]
        self._nodes, self._heads = np.nonzero(free)
        self._kin: list[dict[int, NDArray[np.int64]]] = [
            {int(size): own[self._size[own, h] == size] for size in np.unique(self._size[own, h])}
            for h, own in enumerate(self._peers)
        ]
        self._alike = None if alike is None else _Classes(alike, free, num_choices)
        shares = np.array(list(self.mix.shares.values()))
        self._below = (np.cumsum(shares) / shares.sum()).tolist()
        self._kinds = [getattr(self, f"_{kind}") for kind in KINDS]

    def propose(self, mapping: Mapping16, rng: np.random.Generator) -> Mapping16:
        """A copy of int16 [N, H] after 1 + Poisson(extra) moves."""
        changed = mapping.copy()
        if len(self._nodes) == 0:
            return changed
        for _ in range(1 + int(rng.poisson(self.mix.extra))):
            # Where mappings are uniform most moves change nothing; a flip always does.
            if not any(self._move(changed, rng) for _ in range(TRIES)):
                self._flip(changed, *self._any(rng), rng)
        return changed

    def _any(self, rng: np.random.Generator) -> tuple[int, int]:
        at = int(rng.integers(len(self._nodes)))
        return int(self._nodes[at]), int(self._heads[at])

    def _move(self, mapping: Mapping16, rng: np.random.Generator) -> bool:
        """One move in place; False where it would change nothing or is not possible."""
        if self._own is not None and rng.random() < self.mix.own:
            before = mapping.copy()
            mapping[:] = self._own(before, rng.integers(2**64, dtype=np.uint64))
            return bool((mapping != before).any())
        if self._pipeline is not None and rng.random() < self.mix.staged:
            return self._move_stages(mapping, self._any(rng)[1], rng)
        if self._alike is None or rng.random() >= self.mix.alike:
            return self._plain(mapping, rng)
        before = mapping.copy()
        if not self._plain(mapping, rng):
            return False
        self._alike.repeat(before, mapping, rng)
        return True

    def _plain(self, mapping: Mapping16, rng: np.random.Generator) -> bool:
        """One move of `KINDS` in place; False where it would change nothing or is not possible."""
        draw = rng.random()
        kind = next((k for k, below in enumerate(self._below) if draw < below), len(KINDS) - 1)
        done: bool = self._kinds[kind](mapping, *self._any(rng), rng)
        return done

    def _move_stages(self, mapping: Mapping16, head: int, rng: np.random.Generator) -> bool:
        """One move of `population.stage_moves` in place; False where it would change nothing or is not possible."""
        from population.stage_moves import relieve, stage_move  # choices are seldom stages

        peers, pipeline = self._peers[head], self._pipeline
        assert pipeline is not None
        stage = mapping[peers, head]
        if stage.min() < 0:
            return False
        if rng.random() < self.mix.hot:
            return relieve(mapping[:, head], self._num_choices[:, head], pipeline, rng)
        moved = stage_move(stage, self._num_choices[peers, head], self.mix.length, rng)
        mapping[peers, head] = stage
        return bool(moved)

    def _flip(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        choices, old = int(self._num_choices[node, head]), int(mapping[node, head])
        if old < 0:
            mapping[node, head] = rng.integers(choices)
        else:
            mapping[node, head] = (old + rng.integers(1, choices)) % choices
        return True

    def _swap(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        peers = self._peers[head]
        if rng.random() < self.mix.near:
            # Neighbours in execution order live at about the same time, so their exchange keeps memories about as full.
            step = int(rng.geometric(0.25)) * (1 if rng.random() < 0.5 else -1)
            place = int(np.searchsorted(peers, node)) + step
            if not 0 <= place < len(peers):
                return False
            other = int(peers[place])
        else:
            other = int(peers[rng.integers(len(peers))])
        return self._exchange(mapping, node, other, head)

    def _exchange(self, mapping: Mapping16, node: int, other: int, head: int) -> bool:
        """Exchange two decisions' choices, where they differ and each may have the other's."""
        a, b = int(mapping[node, head]), int(mapping[other, head])
        limits = self._num_choices
        if a == b or min(a, b) < 0 or a >= limits[other, head] or b >= limits[node, head]:
            return False
        mapping[node, head], mapping[other, head] = b, a
        return True

    def _block(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        return self._level(mapping, self._run(self._peers[head], node, rng), node, head, rng)

    def _run(self, among: NDArray[np.int64], node: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Some of `among` (ascending) from `node` on."""
        place = int(np.searchsorted(among, node))
        return among[place : place + int(rng.geometric(1 / self.mix.length))]

    def _level(
        self, mapping: Mapping16, run: NDArray[np.int64], node: int, head: int, rng: np.random.Generator
    ) -> bool:
        """Give a run one of the node's choices, as far as it is legal there."""
        choice = int(rng.integers(self._num_choices[node, head]))
        run = run[(self._num_choices[run, head] > choice) & (mapping[run, head] >= 0)]
        if (mapping[run, head] == choice).all():
            return False
        mapping[run, head] = choice
        return True

    def _own_kin(self, node: int, head: int) -> NDArray[np.int64]:
        return self._kin[head][int(self._size[node, head])]

    def _kin_swap(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        kin = self._own_kin(node, head)
        others = kin[mapping[kin, head] != mapping[node, head]]
        if not len(others):
            return False
        if rng.random() < self.mix.near:
            other = int(others[np.argmin(np.abs(others - node))])
        else:
            other = int(others[rng.integers(len(others))])
        return self._exchange(mapping, node, other, head)

    def _kin_block(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        run = self._run(self._own_kin(node, head), node, rng)
        if rng.random() < 0.5:
            run = run[mapping[run, head] == mapping[node, head]]
        return self._level(mapping, run, node, head, rng)

    def _kin_shift(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        run = self._run(self._own_kin(node, head), node, rng)
        old = mapping[run, head]
        # At most three places: layers repeat with short periods.
        new = np.roll(old, int(rng.integers(1, 4)))
        if (new == old).all() or (new >= self._num_choices[run, head]).any() or old.min() < 0:
            return False
        mapping[run, head] = new
        return True

    def _repack(self, mapping: Mapping16, node: int, head: int, rng: np.random.Generator) -> bool:
        here, room = int(mapping[node, head]), int(self._size[node, head])
        choices = int(self._num_choices[node, head])
        if here < 0:
            return False
        there = (here + int(rng.integers(1, choices))) % choices
        size, column = self._size[:, head], mapping[:, head]
        fits = self._free[:, head] & (column == there) & (self._num_choices[:, head] > here) & (size <= room)
        partners = np.flatnonzero(fits & (size >= TOLERANCE * room))
        if not len(partners):
            return False
        if rng.random() < self.mix.near:
            order = np.argsort(np.abs(partners - node) + 8.0 * rng.random(len(partners)), kind="stable")
        else:
            order = rng.permutation(len(partners))
        mapping[node, head] = there
        # Fill the room that the tensor leaves with smaller ones, so that no memory overflows by the exchange.
        left = room
        for partner in partners[order].tolist():
            if size[partner] <= left:
                mapping[partner, head] = here
                left -= int(size[partner])
            if left <= TOLERANCE * room:
                break
        return True


def moves_of(problem: Problem, mix: Mix | None = None) -> Moves:
    """The moves on a problem's mappings.

    Whoever searches from mapping to mapping (annealing, the population's chromosomes, greedy-DP, TAG) draws from these,
    so that methods differ in what they do with a neighbour and not in which neighbours they know.

    They know its sizes; its pipeline, if choices are stages; its own move, if it has one; and which ops of a large
    network are alike.
    """
    space, own = problem.space, problem.move if isinstance(problem, CanMove) else None
    classes = classes_of(problem) if len(space.nodes) > LARGE else None
    return Moves(space.num_choices, space.live, mix, space.size_bytes, problem.space.pipeline, own, classes)


def classes_of(problem: Problem) -> NDArray[np.int64] | None:
    """Numbers int64 [N] of the classes of nodes that are alike; None of a problem that shows no graph."""
    if not isinstance(problem, HasObservation):
        return None
    seen = problem.observation
    return alike(seen.x, seen.edge_index, LARGE)
