"""Files of a run, either wholly there or not at all; what the disk refuses is a `RunFailure` in one line."""

from __future__ import annotations

from pathlib import Path

from egrl.core.failure import RunFailure
from workloads.atomic import replace_file


def disk_failure(path: Path, error: OSError) -> RunFailure:
    """The one-line failure of a write that the disk refused."""
    return RunFailure(f"cannot write {path}: {error.strerror or error}; what was saved before is still good")


def write(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data`. A failure (disk full …) raises RunFailure and leaves the old file."""
    try:
        replace_file(path, data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise disk_failure(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they do not exist. RunFailure where the disk refuses."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_failure(path, error) from error
