"""The papers of `egrl reproduce`: those of a clone, a folder of `papers/` each, and those of plug-ins."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core import plugins
from egrl.core.known_plugins import offered
from workloads.errors import InputError

if TYPE_CHECKING:
    from egrl.reproduction.shared import Say

PAPERS = ("egrl", "mcm")
"""The papers of a clone."""
ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds `egrl` and, in a clone, `papers`."""
KIND = plugins.Kind("paper", "reproduce", PAPERS, "a Paper")
"""What plug-ins of the group `egrl.papers` are."""


@dataclass(frozen=True)
class Paper:
    """A paper's experiments.

    Attributes:
        plan: makes the plan of what is run, a dataclass; called with True for the quick one. If the plan has fields
            `instances` and `share`, the flags of these names set them.
        seconds: (plan, jobs) -> about how long it takes.
        reproduce: (plan, folder, jobs, say, workers) -> path of the report. Runs what is missing in the folder, `jobs`
            runs at once with so many `workers` each, and writes results.json and the report. InputError if the folder
            holds something else, Interrupted if the user stops it, RunFailure if a run fails.
    """

    plan: Callable[[bool], Any]
    seconds: Callable[[Any, int], float]
    reproduce: Callable[[Any, Path, int, Say, int], Path]


def list_papers() -> dict[str, str]:
    """Name of every paper, and where it is: in a clone, in a plug-in, or in one that is not installed."""
    return {**dict.fromkeys(PAPERS, "in a clone"), **offered(KIND.word), **plugins.origins(KIND)}


def find_paper(name: str) -> Paper:
    """The paper called `name`: one of a clone, a plug-in's, or MODULE:NAME.

    Raises:
        InputError: there is none; its code cannot be imported; the package is installed without its repository.
    """
    if name not in PAPERS:
        found = plugins.find(KIND, name)
        if not isinstance(found.thing, Paper):
            raise found.refuse(plugins.described(found))
        return found.thing
    if not (ROOT / "papers" / name / "run.py").is_file():
        raise InputError(
            "egrl reproduce: expected a clone of the repository, found the installed package, which does not include"
            " the papers' experiments; clone the repository and run `pip install -e .` there"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    paper: Paper = importlib.import_module(f"papers.{name}.run").PAPER
    return paper
