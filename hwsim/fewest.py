"""The fewest changes of the baseline's mapping that keep a share of what a faster mapping gains.

Source: simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 1983) of cost + penalty * changes, several walks with
penalties on a ladder beside one another, as chains of parallel tempering are; what they visit is kept as a front
(changes, cost) that nothing dominates (Knowles, Corne, Pareto archived evolution, 2000).

Deviations: a third of the walks begins at the faster mapping, the others at the baseline, with a third of its changes
at most: between a few changes and many there is often nothing that gains. Walks exchange nothing but the front: after
each of `STAGES` they go on from the best there by their own penalty. Such searches are made at several heats, each by
itself. Costs are the problem's `evaluate`, so a step is one batch, and nothing depends on workers.

Moves of a walk between two mappings, the *base* and the *goal*. Kernels.

A move toward one of them picks a tensor that the target places differently, moves it there, and

    one       is all
    exchange  a tensor that lies there, mostly one of as many bytes, comes to where the first one was
    two       so does another tensor that lies elsewhere
    run       so do the next tensors in execution order, of the same head or of all
    room      so do tensors that lie where the first one goes, and do not belong there: often a few, at times all
    alike     so do all tensors of the same head, as many bytes and the same memory, of which repeated layers have many

All other moves are those of `hwsim.memory_moves`, which know neither.

Shapes: N ops, H heads, K tensors that exist, C walks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.keys import derive, uniform
from hwsim.memory_moves import PAIR, move_in_order
from hwsim.nearest import EQUAL, Costs, undone
from hwsim.problem import Floats, Keys, Mapping16, Problem

FROM_GOAL, FROM_BASE = 4, 8
"""Walks that begin at the faster mapping, and at the baseline."""
DEAR, DEAREST, CHEAP = 2.0, 4.0, 0.03
"""What a change costs in the first walk from the goal, in the first from the baseline, in the last of both, as a share
of what a change of the faster mapping gains on average."""
SHARE = 1 / 3
"""Walks from the baseline have at most this share of the faster mapping's changes."""
STAGES = 4
HEATS = ((0.25, 0.01, 0.02), (0.5, 0.005, 0.5), (1.0, 0.005, 1.0))
"""A search for each: temperatures at the beginning and the end of a stage, as shares of what a change costs, or of the
third number if that is more. Some networks need a cold search, where what is found is not lost, some a hot one."""
LEAST_SEARCH = 30_000
"""Evaluations of each search; with fewer in all there are fewer searches, the coldest first."""
WORK, MOST_EVALS, LEAST_EVALS = 100_000_000, 300_000, 12_000
"""Evaluations of all searches: WORK / nodes, within these limits; some seconds."""
MOST_SLOT_BYTES = 2**26
"""The most bytes of mappings that are kept while the walks go on."""
MOST_TIDIED, TIDYING = 64, 0.25
"""Mappings of the front whose changes are tried to be undone at the end; the share of the evaluations that come on top
of the others for it, at most."""


@dataclass(frozen=True)
class Front:
    """P mappings with ever more changes and ever lower costs. The first is the baseline.

    Attributes:
        changes: int64 [P], rising from 0.
        cost: float64 [P], falling, in the problem's unit.
        mapping: int16 [P, N, H].
        goal: number of changes and cost of the mapping that was given.
        evals: mappings that were evaluated.
    """

    changes: NDArray[np.int64]
    cost: Floats
    mapping: Mapping16
    goal: tuple[int, float]
    evals: int

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def kept(self) -> Floats:
        """float64 [P]: the share of the given mapping's gain, above 1 for faster ones; 0 where it gains nothing."""
        gain = self.cost[0] - self.goal[1]
        return (self.cost[0] - self.cost) / gain if gain > 0 else np.zeros(len(self))

    def fewest(self, share: float) -> int:
        """The number of the first mapping that keeps a share of the gain; the last if none does."""
        reached = np.flatnonzero(self.kept >= share - EQUAL)
        return int(reached[0]) if len(reached) else len(self) - 1


def evaluations(problem: Problem) -> int:
    """How many evaluations a search of `front` takes if nothing else is said."""
    return max(min(WORK // len(problem.space.nodes), MOST_EVALS), LEAST_EVALS)


def front(problem: Problem, mapping: Mapping16, evals: int) -> Front:
    """The front between the baseline and a valid mapping int16 [N, H] in about so many evaluations of the model.

    Equal arguments give equal fronts. Every mapping of it runs as it stands. Call `hwsim.nearest.unsuitable` first.
    """
    costs = Costs(problem)
    base, goal = problem.baseline.mapping, problem.space.canonical(mapping)
    ends = np.stack([base, goal])
    runs, cost = costs(ends)
    most = int((goal != base).sum())
    if not most or not cost[1] < cost[0] or not (runs == ends).all():
        return Front(np.zeros(1, np.int64), cost[:1], ends[:1], (most, float(cost[1])), costs.calls)
    searches = max(min(len(HEATS), evals // LEAST_SEARCH), 1)
    steps = max(evals // (searches * (FROM_GOAL + FROM_BASE)), STAGES)
    fronts = [_Walks(costs, ends, cost, most, number).go(steps) for number in range(searches)]
    costs.limit = costs.calls + int(evals * TIDYING)
    found = _tidied(costs, *_undominated(*(np.concatenate(parts) for parts in zip(*fronts, strict=True))))
    return Front(*found, (most, float(cost[1])), costs.calls)


class _Walks:
    """Walks from both ends, and the fastest mapping that they have seen of each number of changes."""

    def __init__(self, costs: Costs, ends: Mapping16, cost: Floats, most: int, number: int) -> None:
        self._costs, self._base, self._goal = costs, ends[0], ends[1]
        of_goal = np.arange(FROM_GOAL + FROM_BASE) < FROM_GOAL
        each = (cost[0] - cost[1]) / most
        ladder = [np.geomspace(DEAR, CHEAP, FROM_GOAL), np.geomspace(DEAREST, CHEAP, FROM_BASE)]
        self._penalty = np.concatenate(ladder) * each
        self._hot, self._cold, least = HEATS[number]
        self._scale = np.maximum(self._penalty, least * each)
        self._most = np.where(of_goal, most, max(int(most * SHARE), 1))
        self.state = np.where(of_goal[:, None, None], self._goal, self._base).astype(np.int16)
        self.cost, self._count = np.where(of_goal, cost[1], cost[0]), np.where(of_goal, most, 0)
        slots = min(most + 1, max(MOST_SLOT_BYTES // self._base.nbytes, 2))
        self._kept = np.zeros((slots, *self._base.shape), np.int16)
        self._kept[[0, -1]] = ends
        self._kept_cost, self._kept_count = np.full(slots, math.inf), np.zeros(slots, np.int64)
        self._kept_cost[[0, -1]], self._kept_count[-1] = cost, most
        self._keys: Keys = derive(np.arange(len(of_goal), dtype=np.uint64), number)
        space = costs.problem.space
        self._tensors = np.argwhere(space.live)
        self._sizes = np.ascontiguousarray(space.size_bytes)
        self._counts = np.ascontiguousarray(space.num_choices)

    def go(self, steps: int) -> tuple[NDArray[np.int64], Floats, Mapping16]:
        """Take so many steps, in stages that begin hot and end cold.

        Returns changes int64 [P], costs float64 [P] and mappings int16 [P, N, H] that nothing seen dominates.
        """
        bounds = [steps * stage // STAGES for stage in range(STAGES + 1)]
        for stage, (begin, end) in enumerate(pairwise(bounds)):
            if stage:
                self._begin_anew()
            for step in range(begin, end):
                heat = self._hot * (self._cold / self._hot) ** ((step - begin) / (end - begin))
                self._step(step, heat * self._scale)
        return _undominated(self._kept_count, self._kept_cost, self._kept)

    def _step(self, step: int, hot: Floats) -> None:
        out = np.empty_like(self.state)
        space = (self._tensors, self._sizes, self._counts)
        propose(self.state, self._base, self._goal, out, space, self._keys, step)
        limits = (self._penalty, self._most, hot)
        seen = (self._kept, self._kept_cost, self._kept_count)
        walks = (self.state, self.cost, self._count)
        accept(walks, self._costs(out), self._base, limits, seen, self._keys, step)

    def _begin_anew(self) -> None:
        """Every walk goes on from the mapping of the front that is best by its penalty, within its limit."""
        for walk, (penalty, most) in enumerate(zip(self._penalty, self._most, strict=True)):
            value = np.where(self._kept_count <= most, self._kept_cost + penalty * self._kept_count, math.inf)
            best = int(np.argmin(value))
            self.state[walk] = self._kept[best]
            self.cost[walk], self._count[walk] = self._kept_cost[best], self._kept_count[best]


def _undominated(
    count: NDArray[np.int64], cost: Floats, mapping: Mapping16
) -> tuple[NDArray[np.int64], Floats, Mapping16]:
    """The mappings that are cheaper than all with as many changes or fewer, by rising changes."""
    order = np.lexsort((cost, count))
    best = np.minimum.accumulate(np.concatenate([[math.inf], cost[order][:-1]]))
    chosen = order[cost[order] < best * (1 - EQUAL)]
    return count[chosen], cost[chosen], mapping[chosen]


def _tidied(
    costs: Costs, count: NDArray[np.int64], cost: Floats, mapping: Mapping16
) -> tuple[NDArray[np.int64], Floats, Mapping16]:
    """A front after undoing what its mappings do not need; of a long one only of some, evenly spread."""
    some = np.unique(np.linspace(0, len(count) - 1, min(len(count), MOST_TIDIED)).astype(np.int64))
    rows = np.stack([undone(costs, mapping[k], 0.0, cost[k] * (1 + EQUAL)) for k in some])
    runs, anew = costs(rows)
    maps = np.concatenate([mapping, runs])
    counts = (maps != costs.problem.baseline.mapping).sum(axis=(1, 2))
    return _undominated(counts, np.concatenate([cost, anew]), maps)


DRAWS = 8
"""Random numbers set apart for a step; a move uses the first four."""
CHANCE = 5
"""The number of the draw that decides whether a move is taken."""
BACK, FORTH = 0.25, 0.4
"""A step moves toward the base if its first random number is below BACK, toward the goal if below FORTH."""
ONE, EXCHANGE, TWO, RUN, ROOM = 0.3, 0.55, 0.7, 0.8, 0.9
"""What such a move is, likewise; beyond ROOM: alike."""
LONGEST = 16
"""Tensors of a run at most."""
SAME_SIZE, NOT_AT_HOME = 0.66, 0.33
"""How often an exchange asks for as many bytes, and how often for a tensor that belongs elsewhere."""


@kernel
def _differing(mapping: Mapping16, target: Mapping16, tensors: NDArray[np.int64], first: int) -> int:
    """The first tensor from number `first` on, in a circle, that two maps int16 [N, H] place otherwise; -1: none."""
    for s in range(len(tensors)):
        q = (first + s) % len(tensors)
        i, h = tensors[q, 0], tensors[q, 1]
        if mapping[i, h] != target[i, h]:
            return q
    return -1


@kernel
def _exchange(
    before: Mapping16,
    target: Mapping16,
    out: Mapping16,
    tensors: NDArray[np.int64],
    sizes: NDArray[np.int64],
    q: int,
    draws: tuple[float, float],
) -> None:
    """Move a tensor from where tensor `q` goes in `out` to where that one was `before`, if there is one."""
    i, h = tensors[q, 0], tensors[q, 1]
    first, w = int(draws[0] * len(tensors)), draws[1]
    for s in range(len(tensors)):
        r = (first + s) % len(tensors)
        j, g = tensors[r, 0], tensors[r, 1]
        if r == q or before[j, g] != target[i, h]:
            continue
        if (w >= NOT_AT_HOME or target[j, g] != before[j, g]) and (
            w > SAME_SIZE or sizes[j, g] == sizes[i, h]
        ):
            out[j, g] = before[i, h]
            return


@kernel
def _make_room(
    before: Mapping16,
    target: Mapping16,
    out: Mapping16,
    tensors: NDArray[np.int64],
    q: int,
    draws: tuple[float, float],
) -> None:
    """Move tensors of `out` that lie where tensor `q` goes and belong elsewhere to where they belong."""
    count, there = len(tensors), target[tensors[q, 0], tensors[q, 1]]
    # As many as the square of a random number says: often a few.
    left, first = 1 + int(draws[0] * draws[0] * count), int(draws[1] * count)
    for s in range(count):
        r = (first + s) % count
        j, g = tensors[r, 0], tensors[r, 1]
        if r != q and before[j, g] == there and target[j, g] != there:
            out[j, g] = target[j, g]
            left -= 1
            if left == 0:
                return


@kernel
def _toward(
    before: Mapping16,
    target: Mapping16,
    out: Mapping16,
    tensors: NDArray[np.int64],
    sizes: NDArray[np.int64],
    kind: float,
    draws: tuple[float, float, float],
) -> None:
    """Change `out` int16 [N, H], equal to `before`, by a move toward `target`; nothing if they are equal."""
    u, v, w = draws
    count = len(tensors)
    q = _differing(before, target, tensors, int(u * count))
    if q < 0:
        return
    i, h = tensors[q, 0], tensors[q, 1]
    out[i, h] = target[i, h]
    if kind < ONE:
        return
    if kind < EXCHANGE:
        _exchange(before, target, out, tensors, sizes, q, (v, w))
    elif kind < TWO:
        r = _differing(before, target, tensors, int(v * count))
        out[tensors[r, 0], tensors[r, 1]] = target[tensors[r, 0], tensors[r, 1]]
    elif kind < RUN:
        for s in range(1, 1 + int(v * LONGEST)):
            r = (q + s) % count
            if w < 0.5 or tensors[r, 1] == h:
                out[tensors[r, 0], tensors[r, 1]] = target[tensors[r, 0], tensors[r, 1]]
    elif kind < ROOM:
        _make_room(before, target, out, tensors, q, (v, w))
    else:
        for r in range(count):
            j = tensors[r, 0]
            if tensors[r, 1] == h and sizes[j, h] == sizes[i, h] and before[j, h] == before[i, h]:
                out[j, h] = target[j, h]


@kernel
def propose(
    state: Mapping16,
    base: Mapping16,
    goal: Mapping16,
    out: Mapping16,
    space: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int16]],
    keys: Keys,
    step: int,
) -> None:
    """Fill `out` int16 [C, N, H] with what one move makes of each of the maps `state` int16 [C, N, H].

    Args:
        state: where the walks are.
        base, goal: int16 [N, H].
        out: see above.
        space: op and head of each tensor int64 [K, 2]; of each decision its bytes int64 [N, H] and its number of
            choices int16 [N, H].
        keys: uint64 [C]; the draws depend on them and the step's number alone.
        step: number of the step.
    """
    tensors, sizes, counts = space
    levels = counts.max()
    for c in range(len(state)):
        out[c] = state[c]
        draw = np.uint64(step) * np.uint64(DRAWS)
        kind = uniform(keys[c], draw)
        u = uniform(keys[c], draw + np.uint64(1))
        v = uniform(keys[c], draw + np.uint64(2))
        w = uniform(keys[c], draw + np.uint64(3))
        if kind < BACK:
            _toward(state[c], base, out[c], tensors, sizes, kind / BACK, (u, v, w))
        elif kind < FORTH:
            _toward(state[c], goal, out[c], tensors, sizes, (kind - BACK) / (FORTH - BACK), (u, v, w))
        else:
            move_in_order(state[c], out[c], tensors, levels, (kind - FORTH) / (1 - FORTH) * PAIR, (u, v, w))
        # Moves know one number of choices; a tensor that has fewer stays where it was.
        for i, h in tensors:
            if out[c, i, h] >= counts[i, h]:
                out[c, i, h] = state[c, i, h]


@kernel
def changes(mapping: Mapping16, base: Mapping16) -> int:
    """How many decisions of a map int16 [N, H] differ from the base."""
    count = 0
    for i in range(len(base)):
        for h in range(base.shape[1]):
            if mapping[i, h] != base[i, h]:
                count += 1
    return count


@kernel
def accept(
    walks: tuple[Mapping16, Floats, NDArray[np.int64]],
    proposed: tuple[Mapping16, Floats],
    base: Mapping16,
    limits: tuple[Floats, NDArray[np.int64], Floats],
    seen: tuple[Mapping16, Floats, NDArray[np.int64]],
    keys: Keys,
    step: int,
) -> None:
    """Take proposals of C walks by the Metropolis rule, and keep the fastest map of each number of changes.

    Args:
        walks: where they are: maps int16 [C, N, H], costs float64 [C], changes int64 [C].
        proposed: maps and costs; infinite for one that does not run.
        limits: what a change costs float64 [C], the most changes int64 [C], temperatures float64 [C].
        seen: of S slots maps int16 [S, N, H], costs float64 [S], changes int64 [S]; numbers of changes up to the most
            of all share them evenly.
    """
    state, cost, count = walks
    maps, costs = proposed
    penalty, most, hot = limits
    kept, kept_cost, kept_count = seen
    for c in range(len(state)):
        new = changes(maps[c], base)
        slot = new * (len(kept) - 1) // max(most.max(), 1)
        if slot < len(kept) and (
            costs[c] < kept_cost[slot] or (costs[c] == kept_cost[slot] and new < kept_count[slot])
        ):
            kept[slot], kept_cost[slot], kept_count[slot] = maps[c], costs[c], new
        if costs[c] == np.inf or (new > most[c] and new > count[c]):
            continue
        rise = costs[c] - cost[c] + penalty[c] * (new - count[c])
        chance = uniform(keys[c], np.uint64(step) * np.uint64(DRAWS) + np.uint64(CHANCE))
        if rise <= 0 or chance < math.exp(-rise / hot[c]):
            state[c], cost[c], count[c] = maps[c], costs[c], new
