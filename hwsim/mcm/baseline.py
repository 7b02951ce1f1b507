"""The partition that speedups are over: a heuristic's cuts, valid on the package, and running on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from hwsim.mcm.cost import Tables
from hwsim.mcm.cuts import best_cuts, greedy, random_cuts
from hwsim.mcm.family.improve import MOST_CUT_WORK, ROOM
from hwsim.mcm.network import Network
from hwsim.mcm.rules import misplaced_nodes
from hwsim.mcm.solver.solver import Solver
from hwsim.problem import Mapping16
from workloads.errors import InputError

FILLS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of the memory that weights may take; the device needs the rest for activations."""
DRAWS = 8
"""Further partitions that are tried, each from a key of its own, if no cuts will do."""


def compile_baseline(
    network: Network,
    solver: Solver,
    heuristic: str,
    demand: Callable[[NDArray[np.int16]], tuple[int, int]],
    backtracks: int,
) -> NDArray[np.int16]:
    """Int16 [N], the first that runs of the heuristic's partitions with ever less memory, then of some draws.

    Args:
        network: what is split.
        solver: repairs what breaks a rule.
        heuristic: "greedy" or "random" (uniform cuts, the same each time).
        demand: the chip on which a valid partition [N] needs the most memory, and how many bytes; it runs where the
            chips have them.
        backtracks: decisions that the solver may take back for each.

    Raises:
        InputError: none was found, with what is lacking and what would help if that is known.
    """
    available = network.tables.capacity
    least: tuple[int, int] | None = None
    for place in _candidates(network, solver, heuristic, backtracks):
        chip, needed = demand(place)
        if available < 0 or needed <= available:
            return place
        if least is None or needed < least[1]:
            least = chip, needed
    where = f"{network.graph.name} on {solver.package.name}"
    if least is not None:
        raise InputError(
            f"{where}: expected a partition that runs on the device model, found none in"
            f" {len(FILLS) + DRAWS} tries: memory at chip {least[0]}: demanded {least[1]} bytes, available {available}"
            f" bytes; what would help: sram_bytes of {least[1]}, or --set problem.model=analytical"
        )
    reason = solver.explain(backtracks)
    if reason is None:
        raise InputError(
            f"{where}: no partition found with {backtracks} decisions taken back; what would help:"
            " a larger --set problem.backtracks"
        )
    own = " in a package file of your own (`egrl chip new FILE.toml --problem mcm` writes one to change)"
    raise InputError(f"{where}: {reason}{own if reason.helps else ''}, or another --chip")


def _candidates(
    network: Network, solver: Solver, heuristic: str, backtracks: int
) -> Iterator[NDArray[np.int16]]:
    tables, order = network.tables, np.arange(len(network.graph))
    rng = np.random.default_rng(0)
    key = np.zeros(1, np.uint64)
    for fill in FILLS:
        cut = greedy(tables, fill) if heuristic == "greedy" else random_cuts(tables, rng)
        if not misplaced_nodes(tables, cut[None]).any():
            yield cut
            continue
        answer = solver.fix(cut[None], key, order, backtracks)
        if answer.valid[0]:
            yield answer.assignment[0]
    even = np.ones((len(order), tables.chips), np.float32)
    for draw in range(DRAWS):
        answer = solver.sample(even, np.array([draw], np.uint64), None, backtracks)
        if answer.valid[0]:
            yield answer.assignment[0]


def partitions_of_rules(tables: Tables) -> dict[str, Mapping16]:
    """The greedy rule's partitions and the cheapest cuts, int16 [N, 1] each, with ever less memory for weights.

    Those that are valid, by name.
    """
    found = {f"greedy {fill:g}": greedy(tables, fill) for fill in FILLS}
    if tables.chips * len(tables.compute_s) ** 2 <= MOST_CUT_WORK:
        for room in ROOM if tables.capacity >= 0 else ():
            cut = best_cuts(tables._replace(capacity=int(room * tables.capacity)))
            if cut is None:
                break
            found[f"cuts {room:g}"] = cut
    return {
        name: place[:, None]
        for name, place in found.items()
        if not misplaced_nodes(tables, place[None]).any()
    }
