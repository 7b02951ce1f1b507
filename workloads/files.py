"""Reading what users hand in: regular files of a sane size, and TOML, refused in one line otherwise; cache folder.

Files that are gzip or xz: unpacked as a stream, refused before a small file becomes a large one.

A file may become `RATIO` times as large as it is, at any place in it, and `ALWAYS_BYTES` in any case. Real ones become
64 times as large at most (the graphs of a sharding contest, as JSON); zeros become 1,000 times (gzip) or 7,000 (xz).
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import lzma
import os
import stat
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads.errors import InputError

MAX_BYTES = 1 << 31
MODELS = (".onnx", ".onnx.gz", ".pt2")
"""Endings of files of models."""


def cache_folder() -> Path:
    """The user's folder for what can be made again: EGRL_CACHE_DIR, else `egrl` in XDG_CACHE_HOME or ~/.cache.

    Raises:
        FileNotFoundError: there is no home folder.
    """
    named = os.environ.get("EGRL_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "egrl"
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from error


def read_bytes(path: str | Path, what: str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file. `what` names what was expected ("a chip file").

    Raises:
        InputError: missing, a folder, a pipe or device, unreadable, or larger than `limit` bytes.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a special file"
            raise InputError(f"{path}: expected {what}, found {kind}")
        if status.st_size > limit:
            raise InputError(f"{path}: expected {what} of at most {limit} bytes, found {status.st_size}")
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: expected {what}: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r}: expected a path: {error}") from error


def read_text(path: str | Path, what: str, limit: int = MAX_BYTES) -> str:
    """The text of a regular file in UTF-8 (a byte order mark is skipped). Raises InputError as `read_bytes` does."""
    data = read_bytes(path, what, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected {what} in UTF-8, found other bytes at offset {error.start}"
        ) from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The table in TOML text; InputError naming `where` and what is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: expected TOML, found: {error}") from error
    except RecursionError as error:
        raise InputError(f"{where}: expected TOML, found it nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{where}: expected numbers of few digits, found one of thousands") from error


PACKED = ".json.xz"
"""A program's own JSON, packed; unpacked it ends like a workload's."""


TEMPORARY = ".tmp"
"""Suffix of files not yet complete; whatever carries it after a crash may be deleted."""


def no_link(path: str, flags: int) -> int:
    """The `opener` of a regular file itself, never of what a link of its name leads to. OSError of anything else."""
    handle = at_once(path, flags | getattr(os, "O_NOFOLLOW", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return handle


def at_once(path: str, flags: int) -> int:
    """The `opener` of a file that does not wait: a pipe that nobody reads is an OSError."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    os.set_blocking(handle, True)
    return handle


def write_to(path: Path, data: bytes) -> None:
    """Write what a user named: what is there is replaced as a whole, but a device or pipe is written to. OSError."""
    if not path.exists() or path.is_file():
        replace_file(path, data)
        return
    with open(path, "wb", opener=at_once) as stream:
        stream.write(data)


def replace_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, or make it. OSError where the disk refuses: the old file is then as it was."""
    # The name carries the process, so that two processes that write one file do not write into each other's.
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, "wb", opener=no_link) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make renames and deletions in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


RATIO = 100
ALWAYS_BYTES = 4 << 20
"""Bytes that any file may have when unpacked."""
PIECE_BYTES = 1 << 16
"""Bytes read or unpacked between two checks of the size."""
XZ_BYTES = 96 << 20
"""Memory that an xz file may ask for; `xz -9` asks for 65 MiB."""
VALUES_A_BYTE, ALWAYS_VALUES = 8, 1_000_000
"""JSON values, names and brackets a packed byte, and in any case; each takes about 100 bytes of memory."""
ENDINGS = (".gz", ".xz")
GZIP_SYSTEM, UNIX = 9, b"\x03"
"""The byte of a gzip file that says which system wrote it."""


def pack(content: bytes, level: int = 9) -> bytes:
    """The content as a gzip file, without a time.

    It names Unix as every Python before 3.13 does (3.13: unknown), since problems are known by these bytes.
    """
    data = gzip.compress(content, level, mtime=0)
    return data[:GZIP_SYSTEM] + UNIX + data[GZIP_SYSTEM + 1 :]


def unpack(data: bytes, file: str, limit: int) -> bytes:
    """The content of a file, out of its gzip or xz where its name ends in .gz or .xz.

    Raises:
        InputError: damaged, more than `limit` bytes, or far larger than the file; one line.
    """
    if not file.lower().endswith(ENDINGS):
        return data
    is_gzip = file.lower().endswith(".gz")
    kind = "gzip" if is_gzip else "xz"
    pieces, size = [], 0
    try:
        for piece, taken in _gzip(data) if is_gzip else _xz(data, file):
            pieces.append(piece)
            size += len(piece)
            most = min(max(RATIO * taken, ALWAYS_BYTES), limit)
            if size > most:
                raise InputError(
                    f"{file}: expected {taken} bytes of {kind} to hold at most {most} bytes, found more"
                )
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{file}: expected {kind}, found: {error}") from None
    return b"".join(pieces)


def check_values(plain: bytes, packed_bytes: int, file: str) -> bytes:
    """The JSON text, if a packed file of that size may hold as many values. InputError otherwise.

    Values are counted in the text, where each has a comma, a colon or an opening bracket before it.
    """
    most = max(VALUES_A_BYTE * packed_bytes, ALWAYS_VALUES)
    found = sum(plain.count(mark) for mark in (b",", b":", b"[", b"{"))
    if found > most:
        raise InputError(
            f"{file}: expected at most {most} values in {packed_bytes} packed bytes, found about {found}"
        )
    return plain


def _gzip(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Pieces of the content, each with the bytes of the file that were taken by then."""
    packed = io.BytesIO(data)
    with gzip.GzipFile(fileobj=packed) as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece, packed.tell()


def _xz(data: bytes, file: str) -> Iterator[tuple[bytes, int]]:
    """The same of one xz stream; InputError where it is cut off or something follows."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_BYTES)
    taken = 0
    while not unpacker.eof:
        more = b""
        if unpacker.needs_input:
            if taken == len(data):
                raise InputError(f"{file}: expected a whole xz file, found its end cut off")
            more = data[taken : taken + PIECE_BYTES]
            taken += len(more)
        yield unpacker.decompress(more, PIECE_BYTES), taken
    rest = len(unpacker.unused_data) + len(data) - taken
    if rest:
        raise InputError(f"{file}: expected one xz stream, found {rest} bytes after it")
