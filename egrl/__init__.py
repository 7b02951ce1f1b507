"""egrl: map neural networks onto accelerators by evolution, reinforcement learning, search and proof.

import egrl
result = egrl.search("resnet50", gens=20)
print(result.speedup)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egrl.core.version import VERSION as __version__

if TYPE_CHECKING:
    from egrl.api import search
    from egrl.ask_tell import Batch, Search
    from egrl.core.method import Context, Method
    from egrl.core.proposals import Proposals, proposals
    from egrl.report.display import show, show_mapping
    from egrl.runs.config import RunOptions
    from egrl.runs.result import Result

__all__ = [
    "Batch",
    "Context",
    "Method",
    "Proposals",
    "Result",
    "RunOptions",
    "Search",
    "__version__",
    "proposals",
    "search",
    "show",
    "show_mapping",
]

_HOMES = {
    "Batch": "egrl.ask_tell",
    "Context": "egrl.core.method",
    "Method": "egrl.core.method",
    "Proposals": "egrl.core.proposals",
    "Result": "egrl.runs.result",
    "RunOptions": "egrl.runs.config",
    "Search": "egrl.ask_tell",
    "proposals": "egrl.core.proposals",
    "search": "egrl.api",
    "show": "egrl.report.display",
    "show_mapping": "egrl.report.display",
}
"""Where the public names live: imported when they are used, so that `import egrl` takes no time."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egrl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
