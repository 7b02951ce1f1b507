"""egrl: map neural networks onto accelerators by evolution, reinforcement learning, search and proof.

import egrl
result = egrl.search("resnet50", gens=20)
print(result.speedup)
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from egrl.core import VERSION as __version__

if TYPE_CHECKING:
    from egrl.api import search
    from egrl.ask_tell import Batch, Search
    from egrl.core.archive import Proposals, proposals
    from egrl.core.mapping_file import mapping_of, names_of
    from egrl.core.method import Context, Method
    from egrl.exploration.explore import Exploration, explore
    from egrl.report.page import show, show_mapping
    from egrl.runs.config import RunOptions
    from egrl.runs.past_run import Result

__all__ = [
    "Batch",
    "Context",
    "Exploration",
    "Method",
    "Proposals",
    "Result",
    "RunOptions",
    "Search",
    "__version__",
    "explore",
    "mapping_of",
    "names_of",
    "proposals",
    "search",
    "show",
    "show_mapping",
]

_HOMES = {
    "Batch": "egrl.ask_tell",
    "Context": "egrl.core.method",
    "Exploration": "egrl.exploration.explore",
    "Method": "egrl.core.method",
    "Proposals": "egrl.core.archive",
    "Result": "egrl.runs.past_run",
    "RunOptions": "egrl.runs.config",
    "Search": "egrl.ask_tell",
    "explore": "egrl.exploration.explore",
    "mapping_of": "egrl.core.mapping_file",
    "names_of": "egrl.core.mapping_file",
    "proposals": "egrl.core.archive",
    "search": "egrl.api",
    "show": "egrl.report.page",
    "show_mapping": "egrl.report.page",
}
"""Where the public names live: imported when they are used, so that `import egrl` takes no time."""


def _check_packages() -> None:
    """ImportError, one line, if something else hides a package that egrl installs beside itself.

    A file `policies.py` beside a script is found before the installed package of that name.
    """
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in ("analysis", "hwsim", "policies", "population", "workloads"):
        own = os.path.join(beside, name, "__init__.py")
        loaded = sys.modules.get(name)
        spec = find_spec(name) if loaded is None else loaded.__spec__
        found: str | None = getattr(loaded, "__file__", None)
        if found is None and spec is not None:  # a folder without __init__.py has no origin
            found = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        if found is None:
            raise ImportError(f"egrl: expected its package {name!r} at {own}, found none: install egrl again")
        if os.path.realpath(found) != os.path.realpath(own):
            raise ImportError(
                f"egrl: {found} hides egrl's own package {name!r} ({own}): rename it, or start Python elsewhere"
            )


_check_packages()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egrl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
