"""The placement that speedups are over, and why there may be none.

Source: `BankedGreedy` of ExecuTorch (`exir/banked_memory_planning.py`): the largest first, each in the fastest bank
that has room.

Deviations: room is counted by what lives at a step, not by objects that tensors share. Where the rule finds no
room, the placement that branch and bound finds first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egrl_edge.banks.cost import costs, fit
from egrl_edge.banks.solve import solve
from egrl_edge.banks.tables import Place, Tables
from hwsim.problem import Baseline, Mapping16
from workloads.errors import InputError

RULE = "largest-first"
SOLVED = "solved"
SECONDS = 10.0
"""Time limit of the search where the rule finds no room."""
NAMED = 4
"""Tensors that an error names, the largest first."""


def baseline(tables: Tables, places: Sequence[Place], memories: Sequence[str], where: str) -> Baseline:
    """The rule's placement, or else one that was searched for.

    Raises:
        InputError: no placement fits, by proof, or none was found.
    """
    found, name = largest_first(tables), RULE
    if found is None:
        solved = solve(tables, SECONDS)
        if solved.mapping is None:
            said = "impossible, by proof" if solved.impossible else f"not found within {SECONDS:g} s"
            raise InputError(
                f"{where}: a placement that fits is {said}: {shortage(tables, places, memories)}"
            )
        found, name = solved.mapping, SOLVED
    return Baseline(found, float(costs(tables, found[None])[0]), name)


def largest_first(tables: Tables) -> Mapping16 | None:
    """int16 [N, 1], each place in the fastest memory with room, the largest first; None if one finds none."""
    wanted = np.where(tables.size_bytes.any(axis=1), len(tables.capacity_bytes) - 1, -1)
    fitted, moved = fit(tables, wanted.astype(np.int16)[None, :, None])
    found: Mapping16 = fitted[0]
    return found if moved[0] >= 0 else None


def shortage(tables: Tables, places: Sequence[Place], memories: Sequence[str]) -> str:
    """What is short where: a tensor that no memory holds, or the step at which most must be held, with its tensors."""
    banks = ", ".join(
        f"{name} {room}" for name, room in zip(memories, tables.capacity_bytes.tolist(), strict=True) if room
    )
    least = np.where(tables.size_bytes > 0, tables.size_bytes, np.iinfo(np.int64).max).min(axis=1)
    least[~tables.size_bytes.any(axis=1)] = 0
    largest = int(least.argmax())
    if least[largest] > tables.capacity_bytes.max(initial=0):
        return f"{places[largest].name} needs {int(least[largest])} bytes, the banks have {banks}"
    for pinned, memory in np.argwhere(tables.held_bytes > tables.capacity_bytes):
        held = int(tables.held_bytes[pinned, memory])
        return (
            f"what is pinned in {memories[memory]} needs {held} bytes of {int(tables.capacity_bytes[memory])}"
        )
    demand = tables.held_bytes.sum(axis=1)
    for place in range(len(places)):
        demand[tables.first[place] : tables.last[place] + 1] += least[place]
    step = int(demand.argmax())
    here = [n for n in range(len(places)) if least[n] and tables.first[n] <= step <= tables.last[n]]
    here.sort(key=lambda n: -int(least[n]))
    names = ", ".join(f"{places[n].name} ({int(least[n])})" for n in here[:NAMED])
    more = f" and {len(here) - NAMED} more" if len(here) > NAMED else ""
    together = f"at instruction {step} {names}{more} need {int(demand[step])} bytes together"
    if demand[step] <= tables.capacity_bytes.sum():
        return f"{together}, which no way to share them out over the banks fits: they have {banks}"
    return f"{together}, the banks have {banks}"
