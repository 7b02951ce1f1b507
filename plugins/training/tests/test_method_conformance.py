"""Methods of egrl serve training steps."""

from __future__ import annotations

from method_suite import *  # noqa: F403
from method_suite import Cases

from training_subjects import PROBLEMS

WHOLE = [(variant, "training") for variant in ("annealing", "ea", "egrl", "random", "twin")]
WHOLE += [("annealing", "training-penalise")]
CASES = Cases(WHOLE, PROBLEMS, ())
