"""Where a run that names no folder goes, and why a folder cannot be made."""

from __future__ import annotations

import errno
from pathlib import Path

from egrl.core import atomic
from egrl.core.failure import RunFailure
from workloads.errors import InputError


def default_folder(workload: str, method: str, seed: int) -> Path:
    """Make runs/<workload>-<method>-s<seed>-<n> for the first n that is free. InputError where that fails."""
    stem = f"{workload}-{method}-s{seed}".replace(":", "-")
    n = 1
    while True:
        path = Path("runs") / f"{stem}-{n}"
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            if not path.is_dir():
                raise InputError(f"--out: expected that {path} can be made: {error.strerror}") from error
            n += 1
        except OSError as error:
            raise unwritable(f"--out {path}", path, error) from error
        else:
            return path


def unwritable(what: str, path: Path, error: OSError) -> InputError | RunFailure:
    """A full disk is a failure; anything else that keeps a folder from being made is the user's to mend."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return atomic.disk_failure(path, error)
    return InputError(f"{what}: expected a folder that can be written: {error.strerror}")
