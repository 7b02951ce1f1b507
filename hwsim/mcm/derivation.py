"""Partitions as a derivation: node after node, and the chips of a node are those that the solver's domains leave.

Source: the loop of SAMPLE (MCM paper, section 4.2, algorithm 1), every outcome of a decision being a vertex instead of
one being drawn; domains are those of `hwsim/mcm/solver/domains.py` with the consequences of
`hwsim/mcm/solver/propagate.py`.

A vertex is the chips decided so far, a byte each, in the order of the graph; nodes that have one chip left are decided
with it. Propagation does not see everything: where a domain turns out to be empty further down, that is a dead end.

Completions are draws of SAMPLE (`hwsim/mcm/solver/solver.py`) in which each decided node has its chip alone; where
the solver has to move one of these after all, the complete search (`hwsim/mcm/solver/search.py`) draws below the
vertex, the consequences of its decisions being its root. Where that finds nothing within its limit of decisions
taken back, there is no completion, as if the vertex were a dead end, although nothing is proved.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hwsim.jit import kernel
from hwsim.mcm.solver.domains import State, mark_of, restrict, undo
from hwsim.mcm.solver.propagate import propagate
from hwsim.mcm.solver.relations import Relations
from hwsim.mcm.solver.search import VALID, propagate_root, search
from hwsim.mcm.solver.solver import Solver
from hwsim.problem import Mapping16
from hwsim.stepwise import OrderedDerivation


@kernel
def follow(r: Relations, s: State, order: NDArray[np.int64], made: NDArray[np.int64]) -> bool:
    """Decide the first nodes of the order as in `made`, with all consequences; False if that is not possible."""
    # All consequences of a decision come before the next: only then does a failure show at the first possible one.
    for at in range(len(made)):
        if not restrict(r, s, order[at], 1 << int(made[at])) or not propagate(r, s):
            return False
    return True


class Chips(OrderedDerivation):
    """The partitions of a solver's graph (`OrderedDerivation` of hwsim/stepwise.py).

    Attributes:
        root: the vertex in which nothing is decided.
        counts: int64 [N], chips of the package, for each node in the order of decisions.
    """

    by_domains = True

    def __init__(self, solver: Solver, backtracks: int) -> None:
        """`backtracks`: decisions that a completion may take back."""
        self._solver, self._relations, self._backtracks = solver, solver.relations, backtracks
        self._order = solver.relations.order
        self.root: Hashable = b""
        self.counts: NDArray[np.int64] = np.full(len(self._order), solver.package.chips, np.int64)

    @cached_property
    def _root(self) -> tuple[State, bool, tuple[int, int, int]]:
        """The state of the root, whether it has a partition, and where its trail ends; made when it is first needed."""
        state, alive = propagate_root(self._relations)
        return state, alive, mark_of(state)

    @property
    def _state(self) -> State:
        return self._root[0]

    def _at(self, vertex: Hashable) -> bool:
        """Bring the state to a vertex; False if it is a dead end. `_back` must follow."""
        assert isinstance(vertex, bytes)
        made = np.frombuffer(vertex, np.uint8).astype(np.int64)
        return self._root[1] and bool(follow(self._relations, self._state, self._order, made))

    def _back(self) -> None:
        """Bring the state back to the root."""
        undo(self._relations, self._state, *self._root[2])

    def successors(self, vertex: Hashable) -> Sequence[bytes]:
        """A vertex for each chip that is left for the next node with a choice; none at a dead end or at the end."""
        assert isinstance(vertex, bytes)
        alive = self._at(vertex)
        domains = self._state.domain[self._order].tolist()
        self._back()
        if not alive:
            return ()
        made = bytearray(vertex)
        while len(made) < len(domains) and not domains[len(made)] & (domains[len(made)] - 1):
            made.append(domains[len(made)].bit_length() - 1)
        if len(made) == len(domains):
            return ()
        left = domains[len(made)]
        return [bytes([*made, chip]) for chip in range(left.bit_length()) if left >> chip & 1]

    def mapping(self, vertex: Hashable) -> Mapping16 | None:
        """int16 [N, 1] where every node has one chip left; None before, and at a dead end."""
        alive = self._at(vertex)
        domains, chips = self._state.domain.copy(), self._state.lo.astype(np.int16)
        self._back()
        return chips[:, None] if alive and not (domains & (domains - 1)).any() else None

    def completion(self, vertex: Hashable, rng: np.random.Generator) -> Mapping16 | None:
        """As `drawn`, all chips that are left being equally likely."""
        return self.drawn(vertex, np.ones((len(self.counts), int(self.counts[0]))), rng)

    def drawn(
        self, vertex: Hashable, probabilities: NDArray[np.float64], rng: np.random.Generator
    ) -> Mapping16 | None:
        """int16 [N, 1] of a valid partition below a vertex, chips drawn from float64 [N, C] within the domains.

        None at a dead end, and where none was found within the limit.
        """
        assert isinstance(vertex, bytes)
        made = np.frombuffer(vertex, np.uint8)
        weights = np.empty(probabilities.shape, np.float32)
        weights[self._order] = probabilities
        decided = self._order[: len(made)]
        weights[decided] = np.equal.outer(made, np.arange(len(weights[0])))
        key = rng.integers(2**63, size=2, dtype=np.uint64)
        answer = self._solver.sample(weights, key[:1], None, self._backtracks)
        if answer.valid[0] and (answer.assignment[0, decided] == made).all():
            return answer.assignment[0].reshape(-1, 1)
        return self._search(vertex, weights, key[1])

    def _search(self, vertex: bytes, weights: NDArray[np.float32], key: np.uint64) -> Mapping16 | None:
        """As `drawn`, by the complete search alone; weights float32 [N, C] by node."""
        found = None
        if self._at(vertex):
            order, no_proposal, go_on = (
                np.arange(len(self._order)),
                np.zeros(0, np.int16),
                np.zeros(1, np.int64),
            )
            status, _ = search(
                self._relations, self._state, weights, no_proposal, order, True, key, self._backtracks, go_on
            )
            if status == VALID:
                found = self._state.lo.astype(np.int16)[:, None]
        self._back()
        return found

    def chosen(self, mapping: Mapping16) -> NDArray[np.int64]:
        """int64 [N], the chips of one partition [N, 1] in the order of decisions."""
        return mapping[self._order, 0].astype(np.int64)
