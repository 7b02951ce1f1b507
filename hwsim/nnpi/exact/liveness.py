"""Which activations are held together: what the capacity rows of the relaxation are about."""

from __future__ import annotations

from hwsim.nnpi.tables import Tables


def live_sets(tables: Tables) -> list[list[int]]:
    """For each step the activations held in it."""
    live: list[list[int]] = []
    held: set[int] = set()
    for i in range(len(tables.weight_bytes)):
        if tables.activation_bytes[i] > 0:
            held.add(i)
        live.append(sorted(held))
        held.difference_update(
            int(j) for j in tables.free_op[tables.free_start[i] : tables.free_start[i + 1]]
        )
    return live


def largest(live: list[list[int]]) -> list[bool]:
    """Whether a step's live set is in none of its neighbours' (one of several equal ones stays)."""
    out = []
    for i, held in enumerate(live):
        mine = set(held)
        after = set(live[i + 1]) if i + 1 < len(live) else None
        before = set(live[i - 1]) if i else None
        inside = (after is not None and mine <= after) or (before is not None and mine < before)
        out.append(not inside)
    return out
