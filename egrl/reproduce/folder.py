"""The folder of a reproduction: which plan it belongs to, and its figures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egrl.core import atomic
from workloads.errors import InputError
from workloads.files import read_text
from workloads.json_text import parse_document

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def remember(plan: Any, out: Path) -> None:
    """Write a plan (a dataclass) into its folder; InputError where that belongs to another, whose runs would be mixed
    with these.
    """
    path = out / "plan.json"
    document = {"kind": "plan", "version": 1, **json.loads(json.dumps(asdict(plan)))}
    if path.is_file():
        if parse_document(read_text(path, "a plan"), str(path), "plan", 1) != document:
            raise InputError(
                f"--out {out}: expected a new folder or one of the same plan, found another (--quick or not?)"
            )
        return
    atomic.write(path, json.dumps(document, indent=1) + "\n")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure. RunFailure where the disk refuses."""
    from analysis import style

    try:
        style.save(figure, path)
    except OSError as error:
        raise atomic.disk_failure(path, error) from error


def images(text: str) -> Sequence[str]:
    """The files that a report shows, in order."""
    return re.findall(r"\]\((figures/[^)]+)\)", text)
