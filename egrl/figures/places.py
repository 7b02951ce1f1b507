"""Which problems can be drawn by where things lie: those whose choices are places, memories or chips."""

from __future__ import annotations

from hwsim.capabilities import HasPlacement
from hwsim.problem import Problem
from workloads.errors import InputError


def check_alike(figure: str, problem: Problem) -> None:
    """InputError where two mappings are not alike by their numbers: where they are the rules of plans."""
    if not problem.about.alike:
        raise _refusal(
            figure, problem, "mean another thing in each mapping; `egrl plot curves` draws its runs"
        )


def check_places(figure: str, problem: Problem) -> None:
    """InputError where the choices of a problem are no places, but the rules of a plan or the actions of a game."""
    check_alike(figure, problem)
    if not problem.about.place:
        what = "are no places; `egrl plot layout` draws where they lead"
        raise _refusal(figure, problem, what if isinstance(problem, HasPlacement) else "are no places")


def _refusal(figure: str, problem: Problem, what: str) -> InputError:
    return InputError(
        f"plot {figure}: expected a problem whose mappings say where things lie, found {problem.about.name!r}, whose"
        f" choices {what}"
    )
