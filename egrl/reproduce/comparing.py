"""Comparisons of a reproduction: run as far as they are missing, or ended by the first that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from egrl.compare import report as comparison_report
from egrl.core.stopping import Interrupted

DEFAULTS = {"evals": None, "chip": "", "start": "", "settings": (), "preset": ""}


def run_comparison(
    workloads: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    folder: Path,
    jobs: int,
    say: Callable[[str], None],
    **options: Any,
) -> dict[str, Any]:
    """The comparison in a folder, as `egrl.compare.report.compare` makes it; `options` not given are `DEFAULTS`.

    Raises:
        InputError: the folder holds something else.
        Interrupted: the user stopped it; the same call goes on.
        RunFailure: a run failed.
    """
    found = comparison_report.compare(workloads, methods, seeds, folder, {**DEFAULTS, **options}, jobs, say)
    if found is None:
        raise Interrupted(folder, None, again="the same command goes on")
    comparison_report.check(found)
    return found
