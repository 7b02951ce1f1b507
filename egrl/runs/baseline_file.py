"""`--baseline FILE`: speedups over the mapping in a file, and the copy of it in a run folder."""

from __future__ import annotations

from pathlib import Path

from egrl.runs import mapping_file
from hwsim.baseline import with_baseline
from hwsim.problem import Problem
from workloads.errors import InputError


def over(problem: Problem, file: str) -> Problem:
    """The problem with speedups over the mapping in `file`; the problem as it is where `file` is "".

    Texts call the baseline as the file names it, else by the name of the file. InputError where the file cannot be
    read, does not fit the problem, or its mapping is not valid.
    """
    if not file:
        return problem
    try:
        mapping, name = mapping_file.read_named(file, problem)
    except InputError as error:
        raise InputError(f"--baseline {error}") from error
    return with_baseline(problem, mapping, name or Path(file).name, f"--baseline {file}")


def copy_of(problem: Problem) -> bytes:
    """The baseline as a mapping file that keeps its name."""
    return mapping_file.dumps(problem, problem.baseline.mapping, problem.about.rival).encode()
