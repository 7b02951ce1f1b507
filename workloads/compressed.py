"""Files that are gzip or xz: unpacked as a stream, refused before a small file becomes a large one.

A file may become `RATIO` times as large as it is, at any place in it, and `ALWAYS_BYTES` in any case. Real ones become
64 times as large at most (the graphs of a sharding contest, as JSON); zeros become 1,000 times (gzip) or 7,000 (xz).
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator

from workloads.errors import InputError

RATIO = 100
ALWAYS_BYTES = 4 << 20
"""Bytes that any file may have when unpacked."""
PIECE_BYTES = 1 << 16
"""Of the packed file, or of what comes out of it, between two looks at the size."""
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
