"""What of this plug-in takes part in egrl's suites."""

from __future__ import annotations

from collections.abc import Callable

import subjects
from contest_instances import made
from hwsim.problem import Problem
from mlsys2026.problem import Mlsys2026

PROBLEMS: dict[str, Callable[[], Problem]] = {"mlsys2026": lambda: Mlsys2026(made(2, ops=9))}
subjects.take_part(PROBLEMS, {})
