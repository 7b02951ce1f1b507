"""The agent does what every method must do."""

from __future__ import annotations

from method_suite import *  # noqa: F403
from method_suite import Cases

from muzero_subjects import VARIANTS

WHOLE = [(variant, "toy-game") for variant in VARIANTS]
WHOLE += [("muzero", name) for name in ("mmap", "mmap-literal")]
CASES = Cases(WHOLE, ("muzero",), {("muzero", "toy-game")})
CASES.core.discard(
    ("muzero", "mmap")
)  # its game without prefetching is a real one, too, and takes half as long
