"""Which problems can be drawn by where things lie: those whose choices are places, memories or chips."""

from __future__ import annotations

from hwsim.problem import Problem
from hwsim.views import HasPlanText
from workloads.errors import InputError


def check_places(figure: str, problem: Problem) -> None:
    """InputError where the choices of a problem are the rules of a plan: their numbers say nothing by themselves."""
    if isinstance(problem, HasPlanText):
        raise InputError(
            f"plot {figure}: expected a problem whose mappings say where things lie, found {problem.name!r}, whose"
            " mappings are plans; `egrl plot curves` draws its runs"
        )
