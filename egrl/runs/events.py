"""TensorBoard event files, written synchronously, so that a full disk is found where it happens.

Sources: TensorFlow's `lib/io/record_writer.cc` for the records (length, data, checksums of both) and its
`event.proto` and `summary.proto` for what is in them; the CRC is Castagnoli's (RFC 3720, appendix B.4).

The format is written here because every run leaves the file, while tensorboard is an extra, and because the packages
that write it import torch first.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from io import BufferedWriter
from pathlib import Path

from egrl.core.atomic import disk_failure

VERSION = b"brain.Event:2"
"""What the first event of a file says, so that readers know the format."""
GREATEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
"""The greatest float32: an event holds no greater number."""
_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, its bits in reverse."""
_MASK = 0xA282EAD8
"""Added to a turned checksum, so that data with checksums in it are not mistaken for them (the source's value)."""


class EventFile:
    """An event file of scalars; readers forget what earlier files of the folder hold from step `first` on."""

    def __init__(self, folder: Path, first: int) -> None:
        """Raises RunFailure where the disk refuses."""
        self._folder = folder
        try:
            self._stream = _new_file(folder)
            self._write(_bytes(3, VERSION))
            self._write(_number(2, first) + _bytes(7, _number(1, 1)))  # a session log: START
        except OSError as error:
            raise disk_failure(folder / "events", error) from error

    def append(self, step: int, scalars: Mapping[str, float]) -> None:
        """The scalars of a step, without those that no float32 can hold. Raises RunFailure where the disk refuses."""
        values = [
            _bytes(1, _bytes(1, tag.encode()) + _float(2, value))
            for tag, value in scalars.items()
            if math.isfinite(value) and abs(value) <= GREATEST
        ]
        try:
            self._write(_number(2, step) + _bytes(5, b"".join(values)))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise disk_failure(self._folder / "events", error) from error

    def close(self) -> None:
        """Close the file; what a full disk refuses now was reported by `append`."""
        try:
            self._stream.close()
        except OSError:
            return

    def _write(self, event: bytes) -> None:
        """A record of an event that happens now."""
        data = struct.pack("<Bd", 1 << 3 | 1, time.time()) + event
        length = struct.pack("<Q", len(data))
        self._stream.write(b"".join([length, _checksum(length), data, _checksum(data)]))


def _new_file(folder: Path) -> BufferedWriter:
    """Opened under the name that readers look for; they read the files of a folder in the order of their names."""
    name, number = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}", 0
    while True:
        try:
            return open(folder / (f"{name}.{number}" if number else name), "xb")
        except FileExistsError:  # of a run that ended within this second
            number += 1


def _number(field: int, value: int) -> bytes:
    """Field with a whole number from 0, seven bits a byte, the lowest first; zero is left out."""
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, content: bytes) -> bytes:
    """Field with a text or a message."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, value: float) -> bytes:
    """Field with a float32."""
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]
"""Byte -> what it does to a checksum."""


def _checksum(data: bytes) -> bytes:
    """CRC-32C of data, turned by 15 bits and masked, as a record holds it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)
