"""The evaluations of a run on disk: chunks of mappings and their scalars, written once and never changed.

A chunk is an .npz file `FIRST-END-pPROBLEM.npz`: the evaluations FIRST <= ticket < END of one problem. It has `parts`
float32 [M, P], too, if one of them has a profile; all NaN if a row has none.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egrl.core import atomic
from egrl.core.archive import PROFILE_BYTES, SCALARS, WINDOW_ROWS, Archive, Proposals
from hwsim.problem import Evaluation, Profiles
from workloads.errors import InputError
from workloads.files import read_bytes

_NAME = re.compile(r"(\d{9,})-(\d{9,})-p(\d+)\.npz")
_KINDS = {
    "mapping": "i",
    "evaluation": "i",
    **{name: np.dtype(dtype).kind for name, dtype in SCALARS.items()},
}
PARTS = "parts"
_DIMENSIONS = {"mapping": 3, PARTS: 2}
MOST_ROWS = WINDOW_ROWS
"""A chunk has the evaluations of an archive's window at most."""
MOST_WORD_BYTES = 1024
"""In a row of a column other than mapping and parts; the longest is the name of a source."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGED = (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged chunk raises."""
_FIELDS = ("reward", "cost", "speedup", "epsilon", "status", "partial")


class Chunk(NamedTuple):
    """A file and the half-open range of evaluations of a problem that it holds."""

    path: Path
    first: int
    end: int
    problem: int


def listing(folder: Path) -> list[Chunk]:
    """The chunks in a folder, in order; other files are left alone."""
    names = sorted(folder.glob("*.npz")) if folder.is_dir() else []
    found = [
        Chunk(path, int(m[1]), int(m[2]), int(m[3])) for path in names if (m := _NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda chunk: chunk.first)


def write(folder: Path, archive: Archive, first: int) -> list[tuple[Chunk, bytes]]:
    """Write the evaluations from ticket `first` on, one chunk per problem, and return these.

    RunFailure where the disk refuses.
    """
    end = len(archive)
    if end == first:
        return []
    written = []
    atomic.make_folder(folder)
    for problem in np.unique(archive.column("problem")[_in_window(archive, first, end)]).tolist():
        chunk = Chunk(folder / f"{first:09d}-{end:09d}-p{problem}.npz", first, end, problem)
        written.append((chunk, pack(chunk, archive)))
        atomic.write(chunk.path, written[-1][1])
    return written


def pack(chunk: Chunk, archive: Archive) -> bytes:
    """The content of a chunk, as far as the archive still has its mappings."""
    rows = _in_window(archive, chunk.first, chunk.end)
    rows = rows[archive.column("problem")[rows] == chunk.problem]
    columns = {name: archive.column(name)[rows] for name in SCALARS if name != "source"}
    parts = archive.parts(rows)
    if not np.isnan(parts).all():
        columns[PARTS] = parts
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, evaluation=rows, mapping=archive.mappings(rows), source=archive.sources(rows), **columns
    )
    return buffer.getvalue()


def _in_window(archive: Archive, first: int, end: int) -> NDArray[np.int64]:
    """The tickets first..end - 1 whose mappings an archive still has."""
    return np.arange(max(first, len(archive) - archive.window), end)


def read(paths: Sequence[Path], shapes: Sequence[tuple[int, ...]] | None = None) -> dict[str, list[Any]]:
    """The columns of some chunks of one run, sorted by evaluation; `mapping` is a list of [N, H] arrays, and `parts`
    one of float32 [P] arrays, with None for rows of a chunk without profiles.

    Raises InputError where a chunk is damaged, or its mappings have another shape than `shapes` has for their
    problem (None: any). Sizes are judged before anything is unpacked: a small file can hold gigabytes.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*_KINDS, PARTS)}
    for path in paths:
        data = read_bytes(path, "a chunk of mappings")
        try:
            _check_sizes(path, data, shapes)
            with np.load(io.BytesIO(data), allow_pickle=False) as chunk:
                arrays = {name: chunk[name] for name in columns if name != PARTS or name in chunk}
        except _DAMAGED as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: damaged chunk of mappings: {error}") from error
        rows = arrays["evaluation"].shape
        for name, array in arrays.items():
            fits = array.ndim == _DIMENSIONS.get(name, 1) and array.shape[:1] == rows
            if not fits or array.dtype.kind != _KINDS.get(name, "f"):
                raise InputError(
                    f"{path}: damaged chunk of mappings: {name}: found {array.dtype} {array.shape}"
                )
            columns[name].extend(array)
        if PARTS not in arrays:
            columns[PARTS].extend([None] * rows[0])
    tickets = np.array(columns["evaluation"], dtype=np.int64)
    order = np.argsort(tickets, kind="stable")
    if len(twice := np.flatnonzero(np.diff(tickets[order]) == 0)):
        raise InputError(
            f"{paths[0].parent}: expected the chunks of mappings of one run, found two with evaluation"
            f" {tickets[order[twice[0]]]}"
        )
    return {name: [parts[i] for i in order] for name, parts in columns.items()}


def scalars(folder: Path, ticket: int) -> dict[str, float] | None:
    """Cost, speedup and reward of one evaluation; None where no chunk in a folder has it, or that is damaged."""
    for path in (chunk.path for chunk in listing(folder) if chunk.first <= ticket < chunk.end):
        with contextlib.suppress(*_DAMAGED, IndexError):
            data = read_bytes(path, "a chunk of mappings")
            _check_sizes(path, data, None)
            with np.load(io.BytesIO(data), allow_pickle=False) as chunk:
                at = np.flatnonzero(chunk["evaluation"] == ticket)
                if len(at):
                    return {name: float(chunk[name][at[0]]) for name in ("cost", "speedup", "reward")}
    return None


def _check_sizes(path: Path, data: bytes, shapes: Sequence[tuple[int, ...]] | None) -> None:
    """InputError where a chunk says that it holds more than a run writes, or mappings of another shape."""
    with zipfile.ZipFile(io.BytesIO(data)) as chunk:
        found = {name.removesuffix(".npy"): _header(chunk, name) for name in chunk.namelist()}
    mapping, _ = found["mapping"]
    if shapes is not None and len(mapping) == 3:
        match = _NAME.fullmatch(path.name)
        problem = 0 if match is None else int(match[3])
        if problem >= len(shapes):
            raise InputError(f"{path}: expected mappings of {len(shapes)} problems, found problem {problem}")
        if mapping[1:] != shapes[problem]:
            expected, given = list(shapes[problem]), list(mapping[1:])
            raise InputError(f"{path.parent}: expected mappings of shape {expected}, found {given}")
    for name, (dimensions, item_bytes) in found.items():
        rows = dimensions[0] if dimensions else 0
        row_bytes = item_bytes * math.prod(dimensions[1:])
        if rows > MOST_ROWS or (name != "mapping" and rows * row_bytes > _most_bytes(name)):
            raise InputError(
                f"{path}: damaged chunk of mappings: {name}: expected at most {MOST_ROWS} rows of a run, found"
                f" {list(dimensions)}, {rows * row_bytes} bytes"
            )


def _most_bytes(name: str) -> int:
    return 2 * PROFILE_BYTES if name == PARTS else MOST_ROWS * MOST_WORD_BYTES


def _header(chunk: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], int]:
    """Shape and bytes of an item of an array in an .npz file. ValueError where it is none."""
    with chunk.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"an array of version {version}")
        shape, _, dtype = _HEADERS[version](stream)
    return shape, dtype.itemsize


def fill(archive: Archive, paths: Sequence[Path], evaluations: int, where: Path) -> None:
    """Put the evaluations before ticket `evaluations` into an empty archive; those too old leave blank rows.

    Raises InputError where one of the last `archive.window` is missing or a chunk is damaged.
    """
    columns = read(paths, archive.shapes)
    tickets = np.array(columns["evaluation"], dtype=np.int64)
    # A chunk that was written long after the one before it lacks what the archive had let go until then.
    begin = int(np.append(0, np.flatnonzero(np.diff(tickets) != 1) + 1)[-1])
    columns = {name: column[begin:] for name, column in columns.items()}
    tickets = tickets[begin:]
    first = int(tickets[0]) if len(tickets) else evaluations
    needed = max(0, evaluations - archive.window)
    if first > needed or not np.array_equal(tickets, np.arange(first, evaluations)):
        raise InputError(
            f"{where}: expected the evaluations {needed}..{evaluations - 1} without gaps, found {len(tickets)}"
        )
    archive.skip(first)
    if first == evaluations:
        return
    problem = np.array(columns["problem"], dtype=np.int16)
    starts = [0, *(np.flatnonzero(np.diff(problem)) + 1).tolist(), len(problem)]
    for start, end in pairwise(starts):
        run = {name: np.array(columns[name][start:end], dtype=SCALARS[name]) for name in SCALARS}
        try:
            mapping = np.array(columns["mapping"][start:end], dtype=np.int16)
            archive.append(
                Proposals(mapping, run["source"], int(problem[start]), tickets[start:end]),
                Evaluation(
                    **{name: run[name] for name in _FIELDS},
                    repaired=mapping,
                    parts=_known(profiles(columns[PARTS][start:end])),
                ),
            )
        except (ValueError, IndexError) as error:
            raise InputError(f"{where}: mappings of another problem: {error}") from error


def profiles(rows: Sequence[Profiles | None]) -> Profiles:
    """float32 [B, P] of rows [P], NaN where there is none; P is 0 where there is none at all.

    ValueError where they have different lengths.
    """
    parts = next((len(row) for row in rows if row is not None), 0)
    blank = np.full(parts, np.nan, np.float32)
    found = [blank if row is None else row for row in rows]
    return np.array(found, np.float32).reshape(len(rows), parts)


def _known(parts: Profiles) -> Profiles | None:
    return parts if parts.size else None


class KeptChunks:
    """The chunks of a run that is open, and that each is what the run wrote: a checkpoint has the SHA-256 of each.

    Attributes:
        evaluations: written so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.evaluations = 0
        self._chunks: dict[str, Chunk] = {}
        self._digests: dict[str, str] = {}

    def digests(self) -> dict[str, str]:
        """Name -> SHA-256 in hex, for a checkpoint."""
        return dict(self._digests)

    def save(self, archive: Archive) -> None:
        """Write what is new in the archive. RunFailure where the disk refuses."""
        for chunk, content in write(self._folder, archive, self.evaluations):
            self._chunks[chunk.path.name], self._digests[chunk.path.name] = chunk, _digest(content)
        self.evaluations = len(archive)

    def drop(self, end: int) -> None:
        """Delete the chunks whose evaluations all come before ticket `end`."""
        for name in [name for name, chunk in self._chunks.items() if chunk.end <= end]:
            self._chunks.pop(name).path.unlink(missing_ok=True)
            del self._digests[name]

    def check(
        self, digests: Mapping[str, str], evaluations: int, window: int
    ) -> tuple[list[Chunk], list[Chunk]]:
        """The chunks that a checkpoint counts, and those written after it.

        Raises:
            InputError: one of the last `window` evaluations' is missing, or one is not what the run wrote.
        """
        found = {chunk.path.name: chunk for chunk in listing(self._folder)}
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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
