"""The learner's actor enters the population.

Source: EGRL, Algorithm 2 line 32 and appendix C: its weights replace the weakest member.

Deviations:
- Only a GNN that is not an elite is replaced, so that the shares of the encodings stay and no elite is lost.
- The generation it enters is not measured yet: a child counts as fit as its fittest parent was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from population.genome import Individual


def weakest_gnn(members: Sequence[Individual], elites: int, scores: Mapping[int, float]) -> int | None:
    """Position of the weakest GNN behind the first `elites` members, or None where there is none.

    `scores` holds the fitness of the last generation by id; of equal ones the youngest is taken.
    """

    def fitness_of(position: int) -> tuple[float, int]:
        member = members[position]
        known = [scores[p] for p in (member.id, *member.parents) if p in scores]
        return max(known, default=float("-inf")), -member.id

    open_slots = [i for i in range(elites, len(members)) if members[i].encoding == "gnn"]
    return min(open_slots, key=fitness_of, default=None)
