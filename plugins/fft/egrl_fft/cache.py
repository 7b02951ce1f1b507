"""The folder of what is known of this machine: wisdom, measured costs and compiled codelets.

Plans differ by processor, SIMD registers and features; these name the machine. The folder is the one of the file that
the environment variable EGRL_FFT_WISDOM names. If that is not set, it is one per kind of machine (machines may share a
home) in the user's cache folder (`workloads.files.cache_folder`). Everything but wisdom is there to save time only: if
it cannot be read it is made again, if it cannot be written it is not kept, and the folder may be deleted at any time.

Codelets are object files of this machine's own code, as numba's cache has them: who can write into the folder can run
code as its user. A file is named by the digest of what it was compiled from (text, processor, features, LLVM), and
begins with the digest of the rest, so that a damaged one is compiled anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

from hwsim.kernel_cache import machine_name
from workloads.files import cache_folder, replace_file


def file_name() -> str:
    """The machine's name as that of a file or folder: "znver5-8-lanes-1a2b3c4d"."""
    return re.sub(r"[^\w.]+", "-", machine_name())


VARIABLE = "EGRL_FFT_WISDOM"
DIGEST_BYTES = 32


def wisdom_path() -> Path:
    """Where the user's wisdom lies. FileNotFoundError if there is no home folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    try:
        folder = cache_folder()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {VARIABLE} may name a file") from error
    return folder / file_name() / "fft-wisdom.json"


def costs_path(size: int) -> Path:
    """Where the measured costs of searches for N points lie."""
    return wisdom_path().parent / "fft-costs" / f"dft-{size}.jsonl"


def _codelet_path(name: str) -> Path:
    return wisdom_path().parent / "fft-codelets" / f"{name}.o"


def codelet(name: str) -> bytes | None:
    """The object file that is kept under a digest; None if there is none that is whole."""
    try:
        data = _codelet_path(name).read_bytes()
    except OSError:
        return None
    digest, found = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    return found if hashlib.sha256(found).digest() == digest else None


def keep_codelet(name: str, data: bytes) -> None:
    """Keep an object file; if that is not possible nothing happens."""
    with contextlib.suppress(OSError):
        write(_codelet_path(name), hashlib.sha256(data).digest() + data)


def set_aside(file: Path) -> Path:
    """Give a file another name beside it, which none has: "wisdom.json.unusable-1". OSError if the disk refuses."""
    number = 0
    while True:
        number += 1
        aside = file.with_name(f"{file.name}.unusable-{number}")
        try:
            aside.touch(exist_ok=False)
        except FileExistsError:
            continue
        try:
            os.replace(file, aside)
        except OSError:
            aside.unlink()
            raise
        return aside


def write(file: Path, data: bytes) -> None:
    """All of it or nothing, its folder made if it is missing. OSError if the disk refuses."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, data)
