"""The chunks of mappings of a run that is open: which they are, and that each is still what the run wrote.

A checkpoint has the SHA-256 of each, so that a run goes on from its own chunks only. While it is open, a chunk that
somebody deletes or changes is written again, from memory.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from egrl.core.archive import Archive
from egrl.runs import chunks
from egrl.runs.chunks import Chunk
from workloads.errors import InputError, Notice
from workloads.files import read_bytes

_Stamp = tuple[int, int, int]


class KeptChunks:
    """The chunks in a folder, and the evaluations that they hold.

    Attributes:
        evaluations: written so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.evaluations = 0
        self._chunks: dict[str, Chunk] = {}
        self._digests: dict[str, str] = {}
        self._stamps: dict[str, _Stamp | None] = {}

    def digests(self) -> dict[str, str]:
        """Name -> SHA-256 in hex, for a checkpoint."""
        return dict(self._digests)

    def save(self, archive: Archive) -> None:
        """Write what is new in the archive, then what is no longer as it was. RunFailure where the disk refuses."""
        for chunk, content in chunks.write(self._folder, archive, self.evaluations):
            self._keep(chunk, content)
        self.evaluations = len(archive)
        self._mend(archive)  # last, so that what was deleted meanwhile is noticed

    def drop(self, end: int) -> None:
        """Delete the chunks whose evaluations all come before ticket `end`."""
        for name in [name for name, chunk in self._chunks.items() if chunk.end <= end]:
            self._chunks.pop(name).path.unlink(missing_ok=True)
            del self._digests[name], self._stamps[name]

    def check(
        self, digests: Mapping[str, str], evaluations: int, window: int
    ) -> tuple[list[Chunk], list[Chunk]]:
        """The chunks that a checkpoint counts, and those written after it.

        Raises:
            InputError: one of the last `window` evaluations' is missing, or one is not what the run wrote.
        """
        found = {chunk.path.name: chunk for chunk in chunks.listing(self._folder)}
        newer = [chunk for chunk in found.values() if chunk.first >= evaluations]
        for name, digest in digests.items():
            path = self._folder / name
            end = int(name.split("-")[1])
            if name not in found and end > evaluations - window:
                raise InputError(
                    f"{path}: expected a chunk of mappings that the checkpoint counts, found none"
                )
            if name in found and _digest(read_bytes(path, "a chunk of mappings")) != digest:
                raise InputError(
                    f"{path}: expected the chunk of mappings that this run wrote, found another or a damaged one"
                )
        for chunk in found.values():
            if chunk.first < evaluations and chunk.path.name not in digests:
                raise InputError(
                    f"{chunk.path}: expected chunks of mappings that this run wrote, found one of another run:"
                    " take it out of the folder to go on"
                )
        return [found[name] for name in digests if name in found], newer

    def go_on(self, kept: list[Chunk], digests: Mapping[str, str], evaluations: int) -> None:
        """Continue after chunks that `check` gave."""
        self.evaluations = evaluations
        for chunk in kept:
            self._chunks[chunk.path.name] = chunk
            self._digests[chunk.path.name] = digests[chunk.path.name]
            self._stamps[chunk.path.name] = _stamp(chunk.path)

    def _keep(self, chunk: Chunk, content: bytes) -> None:
        name = chunk.path.name
        self._chunks[name], self._digests[name] = chunk, _digest(content)
        self._stamps[name] = _stamp(chunk.path)

    def _mend(self, archive: Archive) -> None:
        """Write again what is no longer as it was; what the archive has let go is no longer counted."""
        lost = [name for name in self._chunks if not self._is_good(name)]
        if not lost:
            return
        warnings.warn(
            Notice(
                f"{self._folder}: {len(lost)} chunks of mappings deleted or changed while the run goes on"
                f" ({lost[0]} …); written again, nothing is lost"
            ),
            stacklevel=3,
        )
        for name in lost:
            chunk = self._chunks.pop(name)
            del self._digests[name], self._stamps[name]
            if chunk.end > len(archive) - archive.window:
                content = chunks.pack(chunk, archive)
                chunks.put(chunk.path, content)
                self._keep(chunk, content)

    def _is_good(self, name: str) -> bool:
        """Whether a chunk is as it was written; it is read only where its file is another or was written to."""
        path = self._chunks[name].path
        stamp = _stamp(path)
        if stamp is not None and stamp != self._stamps[name]:
            try:
                stamp = stamp if _digest(path.read_bytes()) == self._digests[name] else None
            except OSError:
                stamp = None
            self._stamps[name] = stamp
        return stamp is not None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _stamp(path: Path) -> _Stamp | None:
    """What changes with a file's content: its inode, its size, when it was written. None where there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
