"""Plans that other compilers apply: `egrl export --to NAME` writes the best mapping of a run as one."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from egrl.core import plugins
from egrl.runs.past_run import PastRun

Export = Callable[[PastRun], str]
"""The text of a JSON file. InputError if the run is of another problem."""

EXPORTS: dict[str, tuple[str, str]] = {
    "pytorch": (
        "what PyTorch keeps for the backward pass, of a run of training",
        "egrl.integrations.pytorch.plan",
    ),
}
"""Name -> what it is, and the module with a function `export`."""

KIND = plugins.Kind(
    "export",
    "--to",
    tuple(EXPORTS),
    "a function of a run folder (PastRun) that returns the text of a JSON file",
)
"""What plug-ins of the group `egrl.exports` are."""


def find_export(name: str) -> Export:
    """The export called `name`: one of the package's, a plug-in's, or MODULE:NAME.

    InputError in one line where there is none, or its code cannot be imported.
    """
    if name in EXPORTS:
        plugins.installed(KIND)  # says which plug-ins cannot have their names
        found: Export = importlib.import_module(EXPORTS[name][1]).export
        return found
    return _export_of(plugins.find(KIND, name))


def _export_of(found: plugins.Outside) -> Export:
    if not callable(found.thing):
        raise found.refuse(plugins.described(found))
    export: Export = found.thing
    return export
