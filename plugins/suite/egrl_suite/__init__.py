"""Placements with proven optima: instances, judges, tracks and scores. Needs numpy alone."""

from egrl_suite.judge import Judge, Wrong
from egrl_suite.library import Instance, SuiteError, find, instances, version
from egrl_suite.tasks import TRACKS, OutOfBudget, Task

__all__ = [
    "TRACKS",
    "Instance",
    "Judge",
    "OutOfBudget",
    "SuiteError",
    "Task",
    "Wrong",
    "find",
    "instances",
    "version",
]
