"""Plans that other compilers apply: `egrl export --to NAME` writes the best mapping of a run as one."""

from __future__ import annotations

from collections.abc import Callable

from egrl.core import plugins
from egrl.runs.past_run import PastRun

Export = Callable[[PastRun], str]
"""The text of a JSON file. InputError if the run is of another problem."""

KIND = plugins.Kind(
    "export", "--to", (), "a function of a run folder (PastRun) that returns the text of a JSON file"
)
"""What plug-ins of the group `egrl.exports` are; the package has none of its own."""


def find_export(name: str) -> Export:
    """The export called `name`: a plug-in's, or MODULE:NAME. InputError in one line if its code cannot be imported."""
    found = plugins.find(KIND, name)
    if not callable(found.thing):
        raise found.refuse(plugins.described(found))
    export: Export = found.thing
    return export
