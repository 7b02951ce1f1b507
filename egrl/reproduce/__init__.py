"""`egrl reproduce`: a paper's experiments again, and a report that holds the published numbers against ours."""

from __future__ import annotations

REPORTS: dict[str, tuple[str, str]] = {
    "mmap": ("Table 2 and Figure 5 of the MMapGame, with heuristic and bound", "egrl.reproduce.mmap_paper"),
    "tag": ("search time and quality of TAG on FFT plans, beside its rivals", "egrl.reproduce.tag_paper"),
    "egrl": ("Figures 3 to 6 and F.2 of EGRL, and pre-training", "egrl.reproduce.egrl_paper"),
}
"""Name -> what is reproduced, in one line, and the module whose `reproduce` does it."""
