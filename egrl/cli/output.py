"""Files that commands write to."""

from __future__ import annotations

from pathlib import Path

from workloads.errors import InputError


def output_file(output: str, *endings: str) -> Path:
    """The path of `--output`. InputError where it ends in none of `endings`, or lies in no folder that exists: before
    any work is done.
    """
    path = Path(output)
    if endings and not path.name.lower().endswith(endings):
        raise InputError(f"--output {output}: expected a file ending in {', '.join(endings)}")
    if not path.parent.is_dir():
        raise InputError(
            f"--output {output}: expected a file in a folder that exists, found no {path.parent}"
        )
    if path.is_dir():
        raise InputError(f"--output {output}: expected a file, found a folder")
    return path
