"""What the teams of the contest reached on the ten instances that are public, and for how long they could search.

Source: the results of the contest on intra-operator parallelism, ASPLOS / EuroSys 2025; team numbers of its table. A
score is the best cost of all teams / the cost, 0 where nothing valid was found.
"""

from __future__ import annotations

from dataclasses import dataclass

CORES = 8
"""On which the contest ran every entry."""


@dataclass(frozen=True)
class Published:
    """Minutes of searching, the best cost of the twenty teams, and what the first three in the final table reached."""

    minutes: int
    best: int
    teams: tuple[int, int, int]


RESULTS: dict[str, Published] = {
    "A": Published(1, 6548641531, (6569457676, 6548641531, 6569487080)),
    "B": Published(1, 532843, (532843, 532844, 570831)),
    "C": Published(1, 84102445260, (84102445260, 91709251064, 138148126682)),
    "G": Published(2, 217039, (217039, 217039, 362368)),
    "K": Published(3, 2274276676, (2274276676, 3221249613, 5630357808)),
    "M": Published(3, 49928460991, (49928460991, 66904362403, 115475720806)),
    "N": Published(3, 202739586553, (202739586553, 15015576615878, 718202487897)),
    "P": Published(4, 662197407330, (662197407330, 775827253421, 667347028482)),
    "R": Published(4, 371899551572, (371899551572, 24663673401643, 1182605914065)),
    "S": Published(4, 1534613444, (1534613444, 1956391668, 2464224563)),
}
"""By the instance's name."""
TEAMS = ("1st", "2nd", "3rd")
