"""What of this plug-in takes part in egrl's suites."""

from __future__ import annotations

from collections.abc import Callable

import subjects
from egrl_edge.banks.problem import BanksProblem
from hwsim.nnpi.chip import load_chip
from hwsim.problem import Problem
from workloads.load import load_program

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "banks": lambda: BanksProblem(load_program("alexnet:backward=1"), load_chip("edge")),
}
subjects.take_part(PROBLEMS, {})
