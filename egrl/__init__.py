"""egrl: map neural networks onto accelerators by evolution, reinforcement learning, search and proof.

import egrl
result = egrl.search(workload="resnet50", gens=20)
print(result.speedup, result.folder)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from egrl.core.version import VERSION as __version__

if TYPE_CHECKING:
    from egrl.api import Result

__all__ = ["__version__", "search"]


def search(workload: str = "", **options: Any) -> Result:
    """Run one search, as `egrl run` does; the options are its flags (see `egrl.api.search`)."""
    from egrl.api import search as run

    return run(workload, **options)
