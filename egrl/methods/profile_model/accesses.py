"""A problem as a model of op times sees it: which op reads and writes which tensor, and where tensors can lie.

No bandwidth, no rate of an engine, no overhead: those are learned. Bytes are in units of the median tensor.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hwsim.capabilities import HasLifetimes, HasObservation, HasParts
from hwsim.problem import Floats, Problem

Ints = NDArray[np.int64]
MOST_GROUPS = 32
"""With more different values, the first feature of a node does not say what kind of op it is."""
MOST_TERMS = 6000
"""The most terms of a block in a model of terms: inverting what is learned takes the cube of their number."""


class Accesses(NamedTuple):
    """N ops, H heads, L memories (slowest first), A accesses of R roles. Bytes are in units of the median tensor.

    A role is what a tensor is to the op: an input (one role per head) or its own tensor (one role per head).

    Attributes:
        start: int64 [N + 1]; the accesses of op i are start[i] .. start[i + 1] - 1, inputs first.
        node, head: int64 [A], the decision that places the tensor.
        role: int64 [A].
        size: float64 [A], bytes of the tensor.
        tensor: float64 [N, H], bytes of each tensor; 0 = dead.
        first, last: int64 [N, H], the steps at which a tensor is held (closed).
        capacity: float64 [L].
        group: int64 [N], the kind of each op.
        output: int64 [N], the access that is the op's own output; -1: none.
        end_start: int64 [N + 1], and
        end_node, end_head: int64 [E]; the tensors that are held last at step i, but for those that are held always.
        reader_start: int64 [N * H + 1], and
        reader: int64 [A]; the ops that access tensor (i, h) are reader_start[i * H + h] and on.
    """

    start: Ints
    node: Ints
    head: Ints
    role: Ints
    size: Floats
    tensor: Floats
    first: Ints
    last: Ints
    capacity: Floats
    group: Ints
    output: Ints
    end_start: Ints
    end_node: Ints
    end_head: Ints
    reader_start: Ints
    reader: Ints


class Readable(HasLifetimes, HasObservation, HasParts, Problem, Protocol):
    """A problem whose op times this package can learn."""


def readable(problem: Problem) -> TypeGuard[Readable]:
    """True if choices are memories that differ in speed, and the cost is the sum of the times of nodes."""
    if not isinstance(problem, HasLifetimes) or not isinstance(problem, HasObservation):
        return False
    if not isinstance(problem, HasParts) or problem.parts.whole != "sum":
        return False
    counts = problem.space.num_choices[problem.space.live]
    return bool((problem.parts.node >= 0).any()) and bool((counts == len(problem.memories())).all())


def learnable(problem: Problem) -> bool:
    """True if a profile model can learn the problem: its parts are times of ops, or sums of terms that are not many."""
    if readable(problem):
        return True
    terms = problem.parts.terms if isinstance(problem, HasParts) else None
    return terms is not None and bool(np.bincount(terms.block).max() <= MOST_TERMS)


def read_accesses(problem: Readable) -> Accesses:
    """The accesses of a `readable` problem."""
    space = problem.space
    nodes, heads = space.shape
    first, last = _held(problem)
    always = (first == 0) & (last == nodes - 1)
    passing = [bool((space.live[:, h] & ~always[:, h]).any()) for h in range(heads)]
    rows = _rows(problem, passing)
    table = np.array([row for own in rows for row in own], np.int64).reshape(-1, 3)
    start = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    node, head, role = (np.ascontiguousarray(column) for column in table.T)
    output = np.full(nodes, -1, np.int64)
    for a in range(len(node)):
        if role[a] >= heads and passing[head[a]]:
            output[node[a]] = a
    unit = float(np.median(space.size_bytes[space.live]))
    tensor = space.size_bytes / unit
    op = np.repeat(np.arange(nodes), np.diff(start))
    by_tensor = np.argsort(node * heads + head, kind="stable")
    ends = [(int(last[i, h]), i, h) for i, h in np.argwhere(space.live & ~always).tolist()]
    ends.sort()
    return Accesses(
        start=start,
        node=node,
        head=head,
        role=np.unique(role, return_inverse=True)[1].astype(np.int64).reshape(-1),
        size=np.ascontiguousarray(tensor[node, head]),
        tensor=np.ascontiguousarray(tensor),
        first=first,
        last=last,
        capacity=np.array([size for _, size in problem.memories()], np.float64) / unit,
        group=_groups(problem),
        output=output,
        end_start=np.searchsorted([end[0] for end in ends], np.arange(nodes + 1)).astype(np.int64),
        end_node=np.array([end[1] for end in ends], np.int64),
        end_head=np.array([end[2] for end in ends], np.int64),
        reader_start=np.searchsorted((node * heads + head)[by_tensor], np.arange(nodes * heads + 1)).astype(
            np.int64
        ),
        reader=op[by_tensor].astype(np.int64),
    )


def _held(problem: Readable) -> tuple[Ints, Ints]:
    """The first and the last step at which each tensor is held, int64 [N, H]."""
    space = problem.space
    first = np.zeros(space.shape, np.int64)
    last = np.full(space.shape, len(space.nodes) - 1, np.int64)
    number = {name: i for i, name in enumerate(space.nodes)}
    for held in problem.lifetimes(problem.baseline.mapping):
        at = number[held.node], space.heads.index(held.head)
        first[at], last[at] = held.first, held.last
    return first, last


def _rows(problem: Readable, passing: list[bool]) -> list[list[tuple[int, int, int]]]:
    """For each op the tensors that it accesses: node, head and role; inputs before its own."""
    live, heads = problem.space.live, range(len(problem.space.heads))
    rows: list[list[tuple[int, int, int]]] = [[] for _ in problem.space.nodes]
    for source, target in problem.observation.edge_index.T.tolist():
        rows[target] += [(source, h, h) for h in heads if passing[h] and live[source, h]]
    for i, own in enumerate(rows):
        own += [(i, h, len(heads) + h) for h in heads if live[i, h]]
    return rows


def _groups(problem: Readable) -> Ints:
    """The kind of each op, int64 [N], by the first feature; all alike if that has too many values."""
    kinds, number = np.unique(problem.observation.x[:, 0], return_inverse=True)
    return np.where(len(kinds) > MOST_GROUPS, 0, number).astype(np.int64).reshape(-1)


def node_features(problem: Readable, accesses: Accesses) -> Floats:
    """Features of the work of each op, float64 [N, F]: a constant, its kind, its other features standardized."""
    x = problem.observation.x[:, : -len(problem.space.heads)].astype(np.float64)
    kinds = np.eye(int(accesses.group.max()) + 1)[accesses.group]
    spread = x.std(axis=0)
    varies = spread > 1e-6
    scaled = (x - x.mean(axis=0))[:, varies] / spread[varies]
    return np.concatenate([np.ones((len(x), 1)), kinds, scaled], axis=1)
