"""Valid partitions from a policy's probabilities (SAMPLE) or from its proposal (FIX), and why there is none.

Source: MCM paper, section 4.2. What is done for a key, and how that departs from the paper:
`hwsim/mcm/solver/attempts.py`. Memory is a rule of this solver: the weights on a chip fit in its SRAM (the paper
leaves all of constraint 4 to the compiler). A `Repairer` puts the baseline's partition where FIX finds none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import TIMEOUT_MAX, Timer

import numpy as np
from numpy.typing import NDArray

from hwsim.keys import derive
from hwsim.mcm.graph import Graph
from hwsim.mcm.package import MAX_SRAM, Package
from hwsim.mcm.solver.attempts import attempt_keys
from hwsim.mcm.solver.relations import Positions, Relations, positions_of, relate
from hwsim.mcm.solver.search import BUDGET, INFEASIBLE, VALID, search_keys
from hwsim.problem import Keys
from workloads.errors import InputError


@contextmanager
def clock(seconds: float | None) -> Iterator[NDArray[np.int64]]:
    """A flag int64 [1], 0 until some seconds are over (None: for ever); for kernels that run without the GIL."""
    stop = np.zeros(1, np.int64)
    if seconds is None:
        yield stop
        return
    timer = Timer(min(seconds, TIMEOUT_MAX), stop.fill, (1,))
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        timer.join()


BACKTRACKS = 20_000
SECONDS = 60.0
"""Time for an explanation: assumption, what a person waits for."""


@dataclass(frozen=True)
class Answer:
    """The answers for B keys.

    Attributes:
        assignment: int16 [B, N], chips; a row of -1 if there is none.
        status: int64 [B], `VALID`, `INFEASIBLE` (proved) or `BUDGET`.
        backtracks: int64 [B], decisions that were taken back.
    """

    assignment: NDArray[np.int16]
    status: NDArray[np.int64]
    backtracks: NDArray[np.int64]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """bool [B], rows that hold a partition."""
        return self.status == VALID


@dataclass(frozen=True)
class Reason:
    """Why there is no partition: `demanded` > `available` (in `unit`) of a constraint at `where`, and what would help.

    `proved` is False if the budget ended first: then nothing is known but that. `suffices` says that `demanded` was
    found to be enough, and less might do.
    """

    constraint: str
    where: str
    demanded: int
    available: int
    unit: str
    helps: tuple[str, ...]
    proved: bool
    suffices: bool = False

    def __str__(self) -> str:
        how = "no partition" if self.proved else "no partition found within the budget"
        help_text = "; ".join(self.helps) or "nothing that was tried"
        demanded = f"at most {self.demanded}" if self.suffices else f"{self.demanded}"
        return (
            f"{how}: {self.constraint} at {self.where}: demanded {demanded} {self.unit},"
            f" available {self.available} {self.unit}; what would help: {help_text}"
        )


@dataclass(frozen=True)
class Solver:
    """The solver of one graph on one package. Immutable; an answer depends on its key alone."""

    graph: Graph
    package: Package
    relations: Relations
    positions: Positions

    def sample(
        self,
        probabilities: NDArray[np.float32],
        keys: NDArray[np.uint64],
        order: NDArray[np.int64] | None = None,
        backtracks: int = BACKTRACKS,
        seconds: float | None = None,
    ) -> Answer:
        """SAMPLE: each node drawn from its probabilities restricted to its domain.

        Args:
            probabilities: float32 [N, C] for all keys or [B, N, C]; weights from 0, any sum.
            keys: uint64 [B].
            order: int64 [N] or [B, N], in which nodes are visited; None: random, and anew at restarts.
            backtracks: decisions that may be taken back, a key.
            seconds: time for all keys together, after which those without an answer have status `BUDGET`; None: no
                limit. Only without one does an answer depend on its key alone.

        Raises:
            ValueError: a shape, a negative or infinite weight, an order that is none, or a budget below 0.
        """
        n, chips = len(self.graph), self.package.chips
        p = np.ascontiguousarray(probabilities, np.float32)
        p = p[None] if p.ndim == 2 else p
        if p.shape[1:] != (n, chips) or len(p) not in (1, len(keys)):
            raise ValueError(
                f"probabilities: expected [{n}, {chips}] or [{len(keys)}, {n}, {chips}], received"
                f" {list(np.shape(probabilities))}"
            )
        if not np.isfinite(p).all() or (p < 0).any():
            raise ValueError("probabilities: expected finite numbers from 0, received others")
        return self._run(p, np.zeros((0, 0), np.int16), keys, order, backtracks, seconds)

    def fix(
        self,
        proposed: NDArray[np.int16],
        keys: NDArray[np.uint64],
        order: NDArray[np.int64] | None = None,
        backtracks: int = BACKTRACKS,
        seconds: float | None = None,
    ) -> Answer:
        """FIX: a proposal int16 [B, N] (-1: none), each node left on its chip where its domain still has it.

        A proposal that is valid comes back unchanged. The other arguments are those of `sample`.

        Raises:
            ValueError: a shape, an order that is none, or a budget below 0.
        """
        proposed = np.ascontiguousarray(proposed, np.int16)
        if proposed.shape != (len(keys), len(self.graph)):
            raise ValueError(
                f"proposed: expected [{len(keys)}, {len(self.graph)}], received {list(proposed.shape)}"
            )
        proposed = np.where((proposed < 0) | (proposed >= self.package.chips), np.int16(-1), proposed)
        even = np.ones((1, 1, self.package.chips), np.float32)
        return self._run(even, proposed, keys, order, backtracks, seconds)

    def _run(
        self,
        p: NDArray[np.float32],
        proposed: NDArray[np.int16],
        keys: NDArray[np.uint64],
        order: NDArray[np.int64] | None,
        backtracks: int,
        seconds: float | None,
    ) -> Answer:
        if backtracks < 0 or (seconds is not None and not seconds >= 0):
            raise ValueError(
                f"backtracks, seconds: expected numbers from 0, received {backtracks}, {seconds}"
            )
        n = len(self.graph)
        orders = np.zeros((0, n), np.int64) if order is None else np.array(order, np.int64, ndmin=2)
        if order is not None and (
            orders.shape[1:] != (n,)
            or len(orders) not in (1, len(keys))
            or (np.sort(orders, axis=1) != np.arange(n)).any()
        ):
            raise ValueError(
                f"order: expected the numbers 0 to {n - 1}, once each, in one row or a row per key"
            )
        number = np.ascontiguousarray(keys, np.uint64)
        if seconds is not None:  # compile before the clock runs
            attempt_keys(self.positions, p, proposed[:0], orders, number[:0], 0, np.zeros(1, np.int64))
        with clock(seconds) as stop:
            assignment, found, failures = attempt_keys(
                self.positions, p, proposed, orders, number, backtracks, stop
            )
            status = np.where(found, VALID, BUDGET).astype(np.int64)
            rest = np.flatnonzero(~found)
            if len(rest) and not stop[0]:
                assignment[rest], status[rest], more = search_keys(
                    self.relations,
                    p[rest] if len(p) > 1 else p,
                    proposed[rest] if len(proposed) else proposed,
                    orders[rest] if len(orders) > 1 else orders,
                    number[rest],
                    np.maximum(backtracks - failures[rest], 1),
                    stop,
                )
                failures[rest] += more
        return Answer(assignment, status, failures)

    def explain(self, backtracks: int = BACKTRACKS, seconds: float = SECONDS) -> Reason | None:
        """Why the graph has no partition on this package, or None if one was found.

        Without the memory rule everything fits on one chip, so memory is what is demanded too much of. What would help
        is tried, within about `seconds` in all: more SRAM (the least that sufficed, to 1 %), and each of the other
        rules off.
        """
        until = time.monotonic() + seconds
        held, sram = self.graph.weight_bytes, self.package.chip.sram_bytes
        heaviest, total = int(held.argmax()), int(held.sum())
        too_heavy = held[heaviest] > sram or total > sram * self.package.chips
        proved = self.package.constraints.memory and too_heavy
        status = INFEASIBLE if proved else _status(self, backtracks, until)
        if status == VALID:
            return None
        least = self._sufficient(backtracks, until)
        helps = [f"sram_bytes of {least}"] if least <= MAX_SRAM else []
        suffices = False
        if held[heaviest] > sram:
            where, demanded = f"node {self.graph.nodes[heaviest]}", int(held[heaviest])
        elif total > sram * self.package.chips:
            where, demanded, sram = f"all {self.package.chips} chips", total, sram * self.package.chips
        else:
            where, demanded, suffices = "a chip, under the other rules", least, True
            for rules in (("triangle",), ("no_skip",), ("triangle", "no_skip"), ("acyclic", "triangle")):
                loose = replace(self.package.constraints, **dict.fromkeys(rules, False))
                if loose != self.package.constraints and (
                    _status(solver(self.graph, replace(self.package, constraints=loose)), backtracks, until)
                    == VALID
                ):
                    helps.append(" and ".join(f"{rule} = false" for rule in rules))
                    break
        return Reason("memory", where, demanded, sram, "bytes", tuple(helps), status == INFEASIBLE, suffices)

    def _sufficient(self, backtracks: int, until: float) -> int:
        """SRAM bytes per chip with which a partition was found, within 1 % of bytes with which none was, time allowing.

        With all weights on one chip there is one.
        """
        held = self.graph.weight_bytes
        high = int(held.sum())
        least = max(int(held.max()), -(-high // self.package.chips))
        low = max(self.package.chip.sram_bytes, least - 1)
        while high - low > max(high // 100, 1) and time.monotonic() < until:
            middle = (low + high) // 2
            if middle > MAX_SRAM:
                break
            chip = replace(self.package.chip, sram_bytes=middle)
            if _status(solver(self.graph, replace(self.package, chip=chip)), backtracks, until) == VALID:
                high = middle
            else:
                low = middle
        return high


def solver(graph: Graph, package: Package) -> Solver:
    """The solver of a graph on a package.

    Raises:
        InputError: no nodes, or a cycle while the acyclic rule is on.
    """
    if not len(graph):
        raise InputError(f"{graph.name}: expected at least one node, found none")
    rules = package.constraints
    relations = relate(graph, package.chips, package.chip.sram_bytes, rules)
    return Solver(graph, package, relations, positions_of(relations))


def _status(given: Solver, backtracks: int, until: float) -> int:
    """Whether partitions exist: in random orders first, then in the order of the graph."""
    even = np.ones((1, len(given.graph), given.package.chips), np.float32)
    key = np.zeros(1, np.uint64)
    status = BUDGET
    for order in (None, given.relations.order):
        left = until - time.monotonic()
        if status == BUDGET and left > 0:
            status = int(given.sample(even, key, order, backtracks, left).status[0])
    return status


__all__ = ["BACKTRACKS", "BUDGET", "INFEASIBLE", "VALID", "Answer", "Reason", "Solver", "solver"]


_FIX_STREAM = 0x666978


@dataclass(frozen=True)
class Repairer:
    """Repairs partitions by a solver, and takes the baseline where the solver finds none.

    Attributes:
        solver: of the package's rules.
        baseline: int16 [N], a valid partition.
        backtracks: decisions that the solver may take back for a partition.
    """

    solver: Solver
    baseline: NDArray[np.int16]
    backtracks: int

    def fix(
        self, place: NDArray[np.int16], key: Keys, valid: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        """Partitions [B, N], those that are not `valid` [B] repaired by FIX; and bool [B]: replaced by the baseline."""
        stands_in = np.zeros(len(place), np.bool_)
        if valid.all():
            return place, stands_in
        out = place.copy()
        broken = np.flatnonzero(~valid)
        answer = self.solver.fix(place[broken], derive(key[broken], _FIX_STREAM), None, self.backtracks)
        out[broken] = self.found(answer)
        stands_in[broken] = ~answer.valid
        return out, stands_in

    def found(self, answer: Answer) -> NDArray[np.int16]:
        """The partitions that the solver found; the baseline's if it found none within its limit."""
        partitions: NDArray[np.int16] = np.where(
            answer.valid[:, None], answer.assignment, self.baseline[None]
        )
        return partitions
